// SPDX-License-Identifier: MIT OR Apache-2.0

//! `screen.*`: what monitors show, pixel by pixel, as somebody beside the host sees it.

use super::lab::Lab;
use super::picture::{Pointer, black, colours, on_monitor, with_pointer};
use crate::conformance::behaviour::{Behaviour, Mismatch};
use crate::conformance::scene::Scene;
use crate::conformance::source::{KMD_DISPLAY, KMD_FLIP};
use bellhop_guest_umd::display::{Flip, FlipOutcome, Path, PixelFormat, PointerShape, Topology};

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("screen.flips", KMD_FLIP, flips).shows(
        "a monitor shows each picture that is flipped, at a VSYNC or at once, in each pixel format",
    ),
    Behaviour::new("screen.paths", KMD_DISPLAY, paths).shows(
        "a monitor shows its source turned, centred, stretched and as large as fits, each as the \
         committed path says",
    ),
    Behaviour::new("screen.several", KMD_DISPLAY, several)
        .shows("the monitors of a clone show one picture, and those of several sources their own"),
    Behaviour::new("screen.pointer", KMD_DISPLAY, pointer).shows(
        "the pointer lies over the picture where it was moved to, mixed by its alpha, and turns \
         with the picture",
    ),
    Behaviour::new("screen.blanked", KMD_DISPLAY, blanked)
        .shows("a blanked source is black, and shows its last flip when it is visible again"),
    Behaviour::new("screen.ended", KMD_FLIP, ended).shows(
        "a monitor is black when what it showed is destroyed, and shows nothing of a process that \
         ended",
    ),
];

const FORMATS: [PixelFormat; 4] =
    [PixelFormat::X8R8G8B8, PixelFormat::A8R8G8B8, PixelFormat::R5G6B5, PixelFormat::X2R10G10B10];

fn one(path: Path) -> Topology {
    Topology::new().path(path)
}

/// A path from source 0 to the first monitor in its smallest mode.
fn first(lab: &Lab) -> Result<(u32, Path), Mismatch> {
    let child = lab.monitors(1)?.first().copied().unwrap_or(0);
    Ok((child, lab.small_path(0, child)?))
}

fn flips(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::looked_at(scene)?;
    let (child, path) = first(&lab)?;
    let mode = path.get().target_mode;
    for format in FORMATS {
        let surface = lab.commit(&one(path.source_mode(mode.width, mode.height, format)))?[0];
        lab.expect_seen(child, &black(mode.width, mode.height))?;
        let pictures = lab.pictures(surface, 2)?;
        for turn in 0..4 {
            let picture = &pictures[turn % 2];
            let flip = Flip::to(picture);
            let flip = lab.display.flip(0, if turn < 2 { flip } else { flip.immediate() })?;
            lab.expect(flip, FlipOutcome::SHOWN)?;
            lab.expect_picture_on(child, picture, turn as u64 % 2)?;
        }
    }
    Ok(())
}

fn paths(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::looked_at(scene)?;
    let (child, path) = first(&lab)?;
    let mode = path.get().target_mode;
    // Smaller than the monitor whichever way it is turned, and of another proportion.
    let (width, height) = (mode.width.min(mode.height) * 5 / 6, mode.height.min(mode.width) / 3);
    let small = path.source_mode(width, height, PixelFormat::X8R8G8B8);
    let source = lab.commit(&one(small))?[0];
    let picture = lab.picture(source, 1)?;
    lab.flip_to(&picture)?;
    let expected = colours(source, 1)?;
    let mut seen = 0;
    for rotation in lab.display.rotations(&one(small), 0)? {
        let turned = small.rotation(rotation);
        for scaling in lab.display.scalings(&one(turned), 0)? {
            // The source's mode stays, and with it what is shown.
            let scaled = turned.scaling(scaling);
            lab.commit(&one(scaled))?;
            lab.expect_seen(child, &on_monitor(&expected, &scaled))
                .map_err(|seen| Mismatch::Seen(format!("{rotation}, {scaling}: {seen}")))?;
            seen += 1;
        }
    }
    scene.show(format!("{seen} ways"));
    Ok(())
}

fn several(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::looked_at(scene)?;
    let monitors = lab.monitors(2)?;
    let paths = monitors.iter().take(2).map(|child| Path::new(0, *child));
    let clone = lab.display.complete(&paths.fold(Topology::new(), Topology::path))?;
    let source = lab.commit(&clone)?[0];
    let picture = lab.picture(source, 3)?;
    lab.flip_to(&picture)?;
    for path in clone.paths() {
        lab.expect_seen(path.get().target, &on_monitor(&colours(source, 3)?, path))?;
    }
    let mut extended = Topology::new();
    for (source, child) in (0..2).zip(&monitors) {
        extended = extended.path(lab.small_path(source, *child)?);
    }
    lab.commit(&Topology::new())?;
    let extended = lab.display.complete(&extended)?;
    let surfaces = lab.commit(&extended)?;
    let mut pictures = Vec::new();
    for (source, surface) in (0..2).zip(&surfaces) {
        pictures.push(lab.picture(*surface, u64::from(source))?);
        lab.flip_on(source, &pictures[source as usize])?;
    }
    // Each shows its own, also after the other's flip.
    let paths = || extended.paths().iter().zip(&surfaces);
    for (path, surface) in paths() {
        let expected = colours(*surface, path.get().source.into())?;
        lab.expect_seen(path.get().target, &on_monitor(&expected, path))?;
    }
    Ok(())
}

fn pointer(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::looked_at(scene)?;
    let (child, path) = first(&lab)?;
    let mode = path.get().target_mode;
    let (width, height) = (9, 7);
    // Each pixel has another alpha and other colours.
    let pixels: Vec<u32> =
        (0..width * height).map(|at: u32| at.wrapping_mul(0x9E37_79B1)).collect();
    let hot_spot = (2, 3);
    for rotation in lab.display.rotations(&one(path), 0)? {
        let (across, down) = if rotation.swaps_sides() {
            (mode.height, mode.width)
        } else {
            (mode.width, mode.height)
        };
        let path = path.source_mode(across, down, PixelFormat::X8R8G8B8).rotation(rotation);
        let complete = lab.display.complete(&one(path))?;
        let [path] = complete.paths() else {
            return Err(Mismatch::Seen("a topology lost its path".into()));
        };
        let source = lab.commit(&complete)?[0];
        let picture = lab.picture(source, 1)?;
        lab.flip_to(&picture)?;
        let shape = PointerShape { width, height, hot_spot, pixels: &pixels };
        lab.display.set_pointer(0, &lab.device, &shape)?;
        let bare = colours(source, 1)?;
        for (x, y) in [(40, 50), (0, 0), (across as i32 - 1, down as i32 - 1)] {
            lab.display.move_pointer(0, (x, y), true)?;
            let at = (x - hot_spot.0 as i32, y - hot_spot.1 as i32);
            let over = with_pointer(&bare, Pointer { width, height, pixels: &pixels, at });
            lab.expect_seen(child, &on_monitor(&over, path))?;
        }
        lab.display.move_pointer(0, (40, 50), false)?;
        lab.expect_seen(child, &on_monitor(&bare, path))?;
        lab.display.remove_pointer(0)?;
        // Another source begins for the next one.
        lab.commit(&Topology::new())?;
    }
    Ok(())
}

fn blanked(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::looked_at(scene)?;
    let (child, path) = first(&lab)?;
    let surface = lab.commit(&one(path))?[0];
    let pictures = lab.pictures(surface, 2)?;
    lab.flip_to(&pictures[0])?;
    lab.expect_picture_on(child, &pictures[0], 0)?;
    lab.display.set_visible(0, false)?;
    let dark = black(surface.width, surface.height);
    lab.expect_seen(child, &dark)?;
    lab.flip_to(&pictures[1])?;
    lab.expect_seen(child, &dark)?;
    lab.display.set_visible(0, true)?;
    lab.expect_picture_on(child, &pictures[1], 1)
}

fn ended(scene: &Scene) -> Result<(), Mismatch> {
    let next = Lab::looked_at(scene)?;
    for is_abnormal in [false, true] {
        let lab = Lab::looked_at(scene)?;
        let (child, path) = first(&lab)?;
        let shown = lab.commit(&one(path))?[0];
        next.expect_seen(child, &black(shown.width, shown.height))?;
        let pictures = [lab.picture(shown, 0)?, lab.picture(shown, 1)?];
        lab.flip_to(&pictures[0])?;
        let [destroyed, kept] = pictures;
        drop(destroyed);
        next.expect_seen(child, &black(shown.width, shown.height))?;
        lab.flip_to(&kept)?;
        next.expect_picture_on(child, &kept, 1)?;
        if is_abnormal {
            lab.process.terminate_abnormally()?;
        }
        drop((kept, lab));
        next.expect_nothing_seen(child)?;
    }
    Ok(())
}
