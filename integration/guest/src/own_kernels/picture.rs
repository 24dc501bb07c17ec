// SPDX-License-Identifier: MIT OR Apache-2.0

//! A picture that a kernel renders, beside the processor's.

#[path = "scene.rs"]
mod scene;

use super::bench::Bench;
use crate::output::wrapped;
use crate::units;
use anyhow::Context as _;
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{Arguments, Kernel, PlacementPolicy};
use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SCENE: &str = include_str!("scene.wgsl");

/// Of 255, how much a channel of a pixel may differ from the processor's.
const TOLERANCE: u8 = 2;
/// Of how many pixels one may differ by more: where a ray just hits or just misses, rounding decides.
const ONE_IN: usize = 1000;

/// A picture to draw.
#[derive(Debug, Clone, Copy)]
pub struct Picture {
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// What was drawn.
#[derive(Debug)]
pub struct Rendered {
    picture: Picture,
    pixels: Vec<u8>,
    device: String,
    kernel: Duration,
    processor: Duration,
    /// The greatest difference of a channel.
    greatest: u8,
    /// Pixels that differ by more than [`TOLERANCE`].
    beyond: usize,
}

/// Draws the picture with a kernel and with the processor, and compares both.
///
/// # Errors
/// When the device runs no kernels, or the kernel fails.
pub fn draw(
    transport: Arc<dyn Transport>,
    placement: PlacementPolicy,
    picture: Picture,
) -> anyhow::Result<Rendered> {
    let Picture { width, height } = picture;
    let bytes = width as usize * height as usize * 4;
    let mut bench = Bench::new(transport, placement)?;
    let kernel = Kernel::from_wgsl(&bench.device, SCENE).name("picture").create()?;
    let memory = bench.memory(&vec![0; bytes])?;
    let mut arguments = Arguments::new();
    arguments.u32(width).u32(height).descriptor(memory.gpu_va(), bytes as u64);
    let groups = [width.div_ceil(8), height.div_ceil(8), 1];
    let elapsed = bench.run(&kernel, groups, &arguments)?;
    let mut pixels = vec![0; bytes];
    memory.allocation().read(0, &mut pixels)?;
    let start = Instant::now();
    let expected = on_the_processor(picture);
    let processor = start.elapsed();
    let (greatest, beyond) = compare(&pixels, &expected);
    let device = bench.device_name()?;
    Ok(Rendered { picture, pixels, device, kernel: elapsed, processor, greatest, beyond })
}

fn on_the_processor(Picture { width, height }: Picture) -> Vec<u8> {
    let places = (0..height).flat_map(|row| (0..width).map(move |column| [column, row]));
    places.flat_map(|place| scene::pixel(place, [width, height])).collect()
}

/// The greatest difference of a channel, and how many pixels differ by more than the tolerance.
fn compare(made: &[u8], expected: &[u8]) -> (u8, usize) {
    let pixel = |(made, expected): (&[u8], &[u8])| {
        made.iter().zip(expected).map(|(made, expected)| made.abs_diff(*expected)).max()
    };
    let differences = made.chunks(4).zip(expected.chunks(4)).filter_map(pixel);
    differences.fold((0, 0), |(greatest, beyond), difference| {
        (greatest.max(difference), beyond + usize::from(difference > TOLERANCE))
    })
}

impl Rendered {
    /// Whether the kernel's picture is the processor's, within the tolerance.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.beyond <= self.pixels.len() / 4 / ONE_IN
    }

    /// Writes the kernel's picture as PNG.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_png(&self, to: impl Write) -> anyhow::Result<()> {
        let mut encoder = png::Encoder::new(to, self.picture.width, self.picture.height);
        encoder.set_color(png::ColorType::Rgba);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().context("cannot write the picture")?;
        writer.write_image_data(&self.pixels).context("cannot write the picture")?;
        writer.finish().context("cannot write the picture")
    }
}

impl fmt::Display for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { picture: Picture { width, height }, device, greatest, beyond, .. } = self;
        let time = |time: Duration| units::time(time.as_nanos() as f64);
        let text = format!(
            "{width} x {height} pixels: {} by the kernel on {device}, {} on one processor of the guest",
            time(self.kernel),
            time(self.processor)
        );
        f.write_str(&wrapped("", &text))?;
        let verdict = if self.is_right() { "both are the same picture" } else { "they DIFFER" };
        let text = format!(
            "{verdict}: the greatest difference of a channel is {greatest} of 255, and {} beyond \
             the tolerance of {TOLERANCE}, of which one in {ONE_IN} may be",
            match beyond {
                1 => "1 pixel is".to_owned(),
                count => format!("{} pixels are", units::grouped(*count as u64)),
            }
        );
        f.write_str(&wrapped("  ", &text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Picture = Picture { width: 64, height: 36 };

    #[test]
    fn the_processor_s_picture_shows_sky_balls_and_floor() {
        let pixels = on_the_processor(SMALL);
        let at = |column: usize, row: usize| &pixels[4 * (row * 64 + column)..][..4];
        let [sky, ball, floor] = [at(2, 2), at(24, 17), at(32, 33)];
        // Blue above, reddish on the left ball, grey below, and nothing transparent.
        assert!(sky[2] > sky[0] && sky[2] > 150, "{sky:?}");
        assert!(ball[0] > ball[2], "{ball:?}");
        assert!(floor[0].abs_diff(floor[2]) < 60, "{floor:?}");
        assert!(pixels.chunks(4).all(|pixel| pixel[3] == 255));
    }

    #[test]
    fn a_picture_is_right_while_few_pixels_differ() {
        let expected = on_the_processor(SMALL);
        let rendered = |change: &dyn Fn(&mut [u8])| {
            let mut pixels = expected.clone();
            change(&mut pixels);
            let (greatest, beyond) = compare(&pixels, &expected);
            let device = "a device".to_owned();
            let [kernel, processor] = [Duration::ZERO; 2];
            Rendered { picture: SMALL, pixels, device, kernel, processor, greatest, beyond }
        };
        let equal = rendered(&|_| {});
        assert!(equal.is_right() && equal.greatest == 0);
        let rounded = rendered(&|pixels| pixels.iter_mut().for_each(|byte| *byte ^= 1));
        assert!(rounded.is_right() && rounded.greatest == 1 && rounded.beyond == 0);
        // 2,304 pixels: two may differ.
        for (wrong, is_right) in [(2, true), (3, false)] {
            let some = rendered(&|pixels| {
                pixels.chunks_mut(4).take(wrong).for_each(|pixel| pixel[1] ^= 0x80);
            });
            assert_eq!((some.is_right(), some.beyond), (is_right, wrong));
        }
    }

    #[test]
    fn it_is_written_as_png() {
        let pixels = on_the_processor(SMALL);
        let device = String::new();
        let [kernel, processor] = [Duration::ZERO; 2];
        let rendered =
            Rendered { picture: SMALL, pixels, device, kernel, processor, greatest: 0, beyond: 0 };
        let mut file = Vec::new();
        rendered.write_png(&mut file).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(&file)).read_info().unwrap();
        let mut back = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut back).unwrap();
        assert_eq!((info.width, info.height), (64, 36));
        assert!(back == rendered.pixels);
    }
}
