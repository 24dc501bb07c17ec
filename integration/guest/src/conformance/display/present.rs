// SPDX-License-Identifier: MIT OR Apache-2.0

//! `PRESENT`: what it draws, beside a rendering that the guest's processor makes from the definition.

use super::lab::{Lab, pixels, surface};
use super::picture::in_colours;
use crate::canvas::{Canvas, bilinear, nearest};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::{Scene, TIMEOUT};
use bellhop_guest_umd::display::{Flip, FlipOutcome, PixelFormat, Primary, Surface};
use bellhop_guest_umd::{BasicContext, Error};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::present::{self, Present, PresentKind, Rect};
use bellhop_protocol::packet::surface::StretchFilter;
use zerocopy::FromZeros;

fn is_in(rect: &Rect, x: u32, y: u32) -> bool {
    rect.left <= x && x < rect.right && rect.top <= y && y < rect.bottom
}

/// Draws what `pixel` says, for columns and rows of the destination's rectangle, where a dirty rectangle has them.
fn draw(on: &mut Canvas, to: Rect, dirty: &[Rect], pixel: impl Fn(u32, u32) -> u32) {
    for y in to.top..to.bottom {
        for x in to.left..to.right {
            if dirty.is_empty() || dirty.iter().any(|part| is_in(part, x, y)) {
                on.set(x, y, pixel(x - to.left, y - to.top));
            }
        }
    }
}

/// A process that presents by a context of the basic model.
struct Painter {
    context: BasicContext,
    lab: Lab,
}

impl Painter {
    fn new(scene: &Scene) -> Result<Self, Mismatch> {
        let lab = Lab::new(scene)?;
        let context = lab.device.create_basic_context(scene.node(EngineType::THREE_D)?)?;
        Ok(Self { context, lab })
    }

    fn present(
        &mut self,
        request: Present,
        dirty: &[Rect],
        all: &[&Primary],
    ) -> Result<u64, Error> {
        let allocations: Vec<_> = all.iter().map(|primary| primary.allocation().clone()).collect();
        self.context.present(request, dirty, &allocations)
    }

    /// Presents and waits, and asserts that the destination is as this draws it.
    fn expect(
        &mut self,
        request: Present,
        dirty: &[Rect],
        (from, to): (&Primary, &Primary),
        pixel: impl Fn(&Canvas, u32, u32) -> u32,
    ) -> Result<(), Mismatch> {
        let (source, mut expected) = (Canvas::of(from)?, Canvas::of(to)?);
        draw(&mut expected, request.destination_rect, dirty, |x, y| pixel(&source, x, y));
        let value = self.present(request, dirty, &[from, to])?;
        self.context.progress_fence().wait(value, TIMEOUT)?;
        let drawn = Canvas::of(to)?;
        let wrong = drawn.pixels.iter().zip(&expected.pixels).position(|(one, other)| one != other);
        if let Some(index) = wrong {
            let width = to.surface().width as usize;
            return Err(Mismatch::Seen(format!(
                "{} {}: pixel {}, {} is {:#x}, not {:#x}",
                request.kind,
                to.surface().format,
                index % width,
                index / width,
                drawn.pixels[index],
                expected.pixels[index]
            )));
        }
        Ok(())
    }
}

fn described(primary: &Primary) -> Result<present::Surface, Mismatch> {
    let Surface { width, height, format } = primary.surface();
    let allocation = primary.allocation().handle();
    Ok(present::Surface { allocation, offset: 0, pitch: primary.pitch()?, width, height, format })
}

fn request(
    kind: PresentKind,
    (from, source_rect): (&Primary, Rect),
    (to, destination_rect): (&Primary, Rect),
) -> Result<Present, Mismatch> {
    let (source, destination) = (described(from)?, described(to)?);
    let empty = Present::new_zeroed();
    Ok(Present { kind, source, destination, source_rect, destination_rect, ..empty })
}

const FORMATS: [PixelFormat; 4] =
    [PixelFormat::X8R8G8B8, PixelFormat::A8R8G8B8, PixelFormat::R5G6B5, PixelFormat::X2R10G10B10];

/// Two surfaces with pictures, of which the first is 90 by 70.
fn pair(lab: &Lab, format: PixelFormat) -> Result<[Primary; 2], Mismatch> {
    let sized = |width, height| Surface { format, ..surface(width, height) };
    Ok([lab.picture(sized(90, 70), 1)?, lab.picture(sized(200, 130), 2)?])
}

const DIRTY: [Rect; 3] =
    [Rect::new(20, 20, 40, 31), Rect::new(35, 25, 60, 50), Rect::new(90, 70, 91, 71)];

pub(super) fn fill(scene: &Scene) -> Result<(), Mismatch> {
    let mut painter = Painter::new(scene)?;
    for format in FORMATS {
        let [from, to] = pair(&painter.lab, format)?;
        let rect = Rect::new(13, 7, 101, 99);
        let made = request(PresentKind::COLOR_FILL, (&from, rect), (&to, rect))?;
        let color = if format == PixelFormat::R5G6B5 { 0xC0DE } else { 0xC0DE_F00D };
        let empty = Present::new_zeroed();
        let (source, source_rect) = (empty.source, empty.source_rect);
        let made = Present { source, source_rect, color, ..made };
        painter.expect(made, &[], (&from, &to), |_, _, _| color)?;
        let other = Present { color: color ^ 0xFF, ..made };
        painter.expect(other, &DIRTY, (&from, &to), |_, _, _| color ^ 0xFF)?;
    }
    Ok(())
}

pub(super) fn copy(scene: &Scene) -> Result<(), Mismatch> {
    let mut painter = Painter::new(scene)?;
    for format in FORMATS {
        let [from, to] = pair(&painter.lab, format)?;
        let (rect, place) = (Rect::new(3, 1, 84, 68), Rect::new(17, 15, 98, 82));
        let made = request(PresentKind::BLT, (&from, rect), (&to, place))?;
        let pixel = |from: &Canvas, x, y| from.at(rect.left + x, rect.top + y);
        painter.expect(made, &DIRTY, (&from, &to), pixel)?;
        painter.expect(made, &[], (&from, &to), pixel)?;
    }
    Ok(())
}

fn stretch(
    scene: &Scene,
    filter: StretchFilter,
    pixel: fn(&Canvas, Rect, Rect, u32, u32) -> u32,
) -> Result<(), Mismatch> {
    let mut painter = Painter::new(scene)?;
    for format in FORMATS {
        let [small, large] = pair(&painter.lab, format)?;
        let enlarged = (Rect::new(3, 1, 84, 68), Rect::new(11, 9, 198, 127));
        let reduced = (Rect::new(0, 0, 200, 130), Rect::new(5, 5, 36, 64));
        let one_pixel = (Rect::new(7, 7, 8, 8), Rect::new(1, 2, 77, 60));
        for (from, to, (rect, place), dirty) in [
            (&small, &large, enlarged, &DIRTY[..]),
            (&small, &large, enlarged, &[]),
            (&large, &small, reduced, &[]),
            (&large, &small, one_pixel, &[]),
        ] {
            let made = request(PresentKind::STRETCH, (from, rect), (to, place))?;
            let made = Present { filter, ..made };
            painter.expect(made, dirty, (from, to), |from, x, y| pixel(from, rect, place, x, y))?;
        }
    }
    Ok(())
}

pub(super) fn stretch_nearest(scene: &Scene) -> Result<(), Mismatch> {
    stretch(scene, StretchFilter::NEAREST, nearest)
}

pub(super) fn stretch_bilinear(scene: &Scene) -> Result<(), Mismatch> {
    stretch(scene, StretchFilter::BILINEAR, bilinear)
}

pub(super) fn refused(scene: &Scene) -> Result<(), Mismatch> {
    let mut painter = Painter::new(scene)?;
    let [from, to] = pair(&painter.lab, PixelFormat::X8R8G8B8)?;
    let other =
        painter.lab.picture(Surface { format: PixelFormat::R5G6B5, ..surface(90, 70) }, 3)?;
    let before = to.pixels()?;
    let rect = Rect::new(0, 0, 50, 50);
    let right = request(PresentKind::BLT, (&from, rect), (&to, rect))?;
    let wrong = [
        ("another size", Present { destination_rect: Rect::new(0, 0, 51, 50), ..right }),
        ("no columns", Present { source_rect: Rect::new(50, 0, 50, 50), ..right }),
        ("a rectangle outside", Present { source_rect: Rect::new(41, 0, 91, 50), ..right }),
        ("an unknown kind", Present { kind: PresentKind(9), ..right }),
        ("a colour that nothing needs", Present { color: 1, ..right }),
        ("two formats", Present { source: described(&other)?, ..right }),
        (
            "no allocation",
            Present { source: present::Surface { allocation: Handle(0), ..right.source }, ..right },
        ),
        (
            "a surface outside",
            Present { source: present::Surface { offset: 1 << 40, ..right.source }, ..right },
        ),
        (
            "a pitch of too little",
            Present { source: present::Surface { pitch: 64, ..right.source }, ..right },
        ),
    ];
    for (what, request) in wrong {
        let ended = painter.present(request, &[], &[&from, &to, &other]);
        require!(matches!(ended, Err(Error::Refused { .. })), "{what} ended with {ended:?}");
    }
    let outside = painter.present(right, &[Rect::new(49, 0, 51, 9)], &[&from, &to]);
    require!(outside.is_err(), "a dirty rectangle outside was drawn");
    require!(to.pixels()? == before, "a refused PRESENT drew something");
    painter.expect(right, &[], (&from, &to), |from, x, y| from.at(x, y))
}

/// Classic windowed: the compositor draws a program's window into its own frame.
pub(super) fn windowed(scene: &Scene) -> Result<(), Mismatch> {
    let (program, mut painter) = (Lab::new(scene)?, Painter::new(scene)?);
    let screen = painter.lab.show()?;
    let window = surface(200, 120);
    // The program draws on a surface of its own, which the compositor opens.
    let drawn = program.device.create_shared_primary(window)?;
    let opened = painter.lab.device.open_shared_primary(drawn.allocation().share()?, window)?;
    let back = [painter.lab.picture(screen, 7)?, painter.lab.picture(screen, 7)?];
    let (whole, place) = (Rect::new(0, 0, 200, 120), Rect::new(37, 21, 237, 141));
    for frame in 0..4u64 {
        drawn.set_pixels(&pixels(window, 100 + frame)?)?;
        let to = &back[(frame % 2) as usize];
        let made = request(PresentKind::BLT, (&opened, whole), (to, place))?;
        let mut expected = Canvas::new(screen, &pixels(screen, 7)?)?;
        let contents = Canvas::new(window, &pixels(window, 100 + frame)?)?;
        draw(&mut expected, place, &[], |x, y| contents.at(x, y));
        let value = painter.present(made, &[], &[&opened, to])?;
        let fences = [(painter.context.progress_fence(), value)];
        let flip = painter.lab.display.flip(0, Flip::to(to).after(&fences))?;
        painter.lab.expect(flip, FlipOutcome::SHOWN)?;
        require!(Canvas::of(to)? == expected, "frame {frame} is not the desktop with its window");
        let child = painter.lab.monitors(1)?.first().copied().unwrap_or(0);
        painter.lab.expect_seen(child, &in_colours(&expected))?;
    }
    Ok(())
}
