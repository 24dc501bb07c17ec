// SPDX-License-Identifier: MIT OR Apache-2.0

//! Flips: when, in which order, and which are refused.

use super::lab::Lab;
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::raw;
use crate::conformance::scene::{Scene, TIMEOUT};
use bellhop_guest_umd::display::{DisplayError, Flip, FlipOutcome, PresentMode, SwapChain};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::flip::{FlipFlags, MAX_FLIPS, SetVidPnSourceAddress};
use bellhop_protocol::status::Status;
use std::time::Duration;
use zerocopy::IntoBytes;

const SHOWN: FlipOutcome = FlipOutcome::SHOWN;

pub(super) fn at_vsync(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let pictures = lab.pictures(lab.show()?, 3)?;
    lab.display.set_vsync_events(0, true)?;
    let mut last = 0;
    for turn in 0..20u64 {
        let picture = (turn % 3) as usize;
        let ended = lab.flip_to(&pictures[picture])?;
        require!(ended.count > last, "VSYNC {} after VSYNC {last}", ended.count);
        last = ended.count;
        lab.expect_picture(&pictures[picture], turn % 3)?;
        // The VSYNC that showed it says so.
        let vsync = loop {
            let vsync = lab.display.wait_for_vsync(0, TIMEOUT)?;
            if vsync.count >= ended.count {
                break vsync;
            }
        };
        require!(vsync.flip == ended.flip, "VSYNC {} shows flip {}", vsync.count, vsync.flip);
    }
    Ok(())
}

pub(super) fn immediate(scene: &Scene) -> Result<(), Mismatch> {
    const FLIPS: u64 = 60;
    let lab = Lab::new(scene)?;
    let pictures = lab.pictures(lab.show()?, 2)?;
    let first = lab.flip_to(&pictures[0])?;
    let mut last = first;
    let mut between = 0;
    for turn in 0..FLIPS {
        let primary = &pictures[(turn % 2) as usize];
        let flip = lab.display.flip(0, Flip::to(primary).immediate())?;
        // It has happened when the request is answered.
        let ended = lab.display.wait_for_flip(0, flip, TIMEOUT)?;
        require!(ended.outcome == SHOWN, "flip {flip} ended {}", ended.outcome);
        require!(ended.time >= last.time, "time went back from {} to {}", last.time, ended.time);
        between += u64::from(ended.count == last.count);
        last = ended;
    }
    // However slow the guest is: of flips that wait for VSYNC, no two happen at the same one.
    let vsyncs = last.count - first.count;
    require!(between > 0, "each of {FLIPS} immediate flips had a VSYNC of its own, of {vsyncs}");
    scene.show(format!("{FLIPS} flips in {vsyncs} frames, {between} of them between two VSYNCs"));
    Ok(())
}

pub(super) fn after_its_fence(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let pictures = lab.pictures(lab.show()?, 2)?;
    let before = lab.flip_to(&pictures[0])?;
    let [one, other] = [lab.device.create_fence(0)?, lab.device.create_fence(0)?];
    let fences = [(&one, 1), (&other, 2)];
    let flip = lab.display.flip(0, Flip::to(&pictures[1]).after(&fences))?;
    for fence in [&one, &other] {
        let shown = lab.pass_vsyncs(3)?;
        require!(shown == before.flip, "flip {shown} is shown before its fences are signaled");
        fence.signal(2)?;
    }
    let ended = lab.expect(flip, SHOWN)?;
    require!(ended.count > before.count + 5, "it was shown at VSYNC {}", ended.count);
    Ok(())
}

pub(super) fn after_drawing(scene: &Scene) -> Result<(), Mismatch> {
    const FRAMES: u32 = 30;
    let lab = Lab::new(scene)?;
    let surface = lab.show()?;
    let bench = scene.node(bellhop_protocol::control::adapter::EngineType::THREE_D)?;
    let mut queue = lab.device.create_context(bench)?.create_user_mode_queue(4096)?;
    let mut chain = SwapChain::new(&lab.display, &lab.device, 0, surface, 3)?;
    let mut commands = bellhop_guest_umd::CommandBuffer::many(&lab.device, 4096, 3)?;
    for frame in 0..FRAMES {
        let image = chain.acquire(TIMEOUT)?;
        let commands = &mut commands[image.index()];
        commands.reset();
        commands.fill(chain.primary(&image).gpu_va(), surface.size()?, frame)?;
        let value = queue.submit(commands)?;
        chain.present(image, PresentMode::Vsync, &[(queue.progress_fence(), value)])?;
    }
    chain.finish(TIMEOUT)?;
    let totals = chain.statistics()?;
    require!(totals.shown == u64::from(FRAMES) && totals.lost == 0, "{totals:?}");
    let mut seen = Vec::new();
    for primary in chain.primaries() {
        let pixels = primary.pixels()?;
        let frame: u8 = pixels.first().copied().unwrap_or(0);
        let whole = u32::from(frame).to_le_bytes();
        let is_whole = pixels.chunks(4).all(|pixel| *pixel == whole);
        require!(is_whole, "an image is not wholly of frame {frame}");
        seen.push(u32::from(frame));
    }
    seen.sort_unstable();
    seen.dedup();
    let is_right = seen.len() == 3 && seen.last() == Some(&(FRAMES - 1));
    require!(is_right, "the images hold frames {seen:?}");
    Ok(())
}

pub(super) fn in_order(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let pictures = lab.pictures(lab.show()?, 3)?;
    let before = lab.flip_to(&pictures[0])?;
    let fence = lab.device.create_fence(0)?;
    let fences = [(&fence, 1)];
    let held = lab.display.flip(0, Flip::to(&pictures[1]).after(&fences))?;
    let behind = lab.display.flip(0, Flip::to(&pictures[2]))?;
    let shown = lab.pass_vsyncs(3)?;
    require!(shown == before.flip, "flip {shown} overtook the one before it");
    fence.signal(1)?;
    let (first, second) = (lab.expect(held, SHOWN)?, lab.expect(behind, SHOWN)?);
    require!(first.count < second.count, "both were shown at VSYNC {}", first.count);
    Ok(())
}

pub(super) fn replaced(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let pictures = lab.pictures(lab.show()?, 3)?;
    lab.flip_to(&pictures[0])?;
    let fence = lab.device.create_fence(0)?;
    let fences = [(&fence, 1)];
    let held = lab.display.flip(0, Flip::to(&pictures[1]).after(&fences))?;
    let behind = lab.display.flip(0, Flip::to(&pictures[1]))?;
    let newest = lab.display.flip(0, Flip::to(&pictures[2]).replace())?;
    for flip in [held, behind] {
        lab.expect(flip, FlipOutcome::DROPPED)?;
    }
    lab.expect(newest, SHOWN)?;
    fence.signal(1)?;
    let shown = lab.pass_vsyncs(2)?;
    require!(shown == newest, "flip {shown} is shown after it was dropped");
    Ok(())
}

pub(super) fn bounded(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let pictures = lab.pictures(lab.show()?, 2)?;
    let fence = lab.device.create_fence(0)?;
    let fences = [(&fence, 1)];
    let mut flips = Vec::new();
    for turn in 0..MAX_FLIPS as usize {
        flips.push(lab.display.flip(0, Flip::to(&pictures[turn % 2]).after(&fences))?);
    }
    let one_more = lab.display.flip(0, Flip::to(&pictures[0]));
    require!(
        matches!(one_more, Err(DisplayError::QueueFull { .. })),
        "flip {} of a source ended with {one_more:?}",
        MAX_FLIPS + 1
    );
    fence.signal(1)?;
    let mut last = 0;
    for flip in flips {
        let ended = lab.expect(flip, SHOWN)?;
        require!(ended.count > last, "VSYNC {} after VSYNC {last}", ended.count);
        last = ended.count;
    }
    lab.flip_to(&pictures[0]).map(|_| ())
}

pub(super) fn refused(scene: &Scene) -> Result<(), Mismatch> {
    let (lab, other) = (Lab::new(scene)?, Lab::new(scene)?);
    let surface = lab.show()?;
    let picture = lab.picture(surface, 0)?;
    let foreign = other.picture(surface, 1)?;
    let plain = lab.device.allocation(surface.size()?).create()?;
    let system = lab.device.create_allocation(AllocationKind::SYSTEM, surface.size()?)?;
    let short = lab.device.allocation(surface.size()? - 4096).primary().create()?;
    let right = SetVidPnSourceAddress {
        source: 0,
        flags: 0,
        allocation: picture.allocation().handle(),
        offset: 0,
        pitch: picture.pitch()?,
        fences: 0,
        flip: 1 << 40,
    };
    let of = |allocation: Handle| SetVidPnSourceAddress { allocation, ..right };
    let wrong = [
        ("flip 0", SetVidPnSourceAddress { flip: 0, ..right }),
        ("an unknown flag", SetVidPnSourceAddress { flags: 1 << 7, ..right }),
        ("a source that there is not", SetVidPnSourceAddress { source: 99, ..right }),
        ("a pitch of no lines' length", SetVidPnSourceAddress { pitch: 64, ..right }),
        ("a pitch of half a step", SetVidPnSourceAddress { pitch: right.pitch + 32, ..right }),
        ("an offset of half a step", SetVidPnSourceAddress { offset: 128, ..right }),
        (
            "an offset behind which there is no room",
            SetVidPnSourceAddress { offset: surface.size()?, ..right },
        ),
        ("an offset that wraps", SetVidPnSourceAddress { offset: u64::MAX - 255, ..right }),
        ("a pitch that ends outside", SetVidPnSourceAddress { pitch: u32::MAX - 63, ..right }),
        ("an allocation that is no primary", of(plain.handle())),
        ("memory of the guest's own", of(system.handle())),
        ("a primary that is too small", of(short.handle())),
        ("no allocation", of(Handle(0))),
        ("another process's allocation", of(foreign.allocation().handle())),
        ("an unknown fence", SetVidPnSourceAddress { fences: 1, ..right }),
    ];
    for (what, request) in wrong {
        // Where one follows: a fence that nobody has.
        let list: &[u64] = if request.fences == 1 { &[u64::MAX, 1] } else { &[] };
        let process = lab.process.process();
        let (status, _) =
            raw::status_with_list(scene.transport(), process, &request, list.as_bytes())?;
        // A handle may name something of the process's own by chance.
        let is_own = request.allocation == right.allocation && what.contains("another process");
        require!(!status.is_success() || is_own, "{what} was flipped to");
    }
    let twice = SetVidPnSourceAddress { flags: FlipFlags::IMMEDIATE.bits(), ..right };
    let ended = raw::status(scene.transport(), lab.process.process(), &twice)?.0;
    require!(ended == Status::SUCCESS, "the right request ended with {ended}");
    require!(
        lab.display.wait_for_flip(0, 1 << 40, TIMEOUT)?.outcome == SHOWN,
        "the right flip was not shown"
    );
    Ok(())
}

pub(super) fn mailbox(scene: &Scene) -> Result<(), Mismatch> {
    const FRAMES: u64 = 200;
    let lab = Lab::new(scene)?;
    let surface = lab.show()?;
    let mut chain = SwapChain::new(&lab.display, &lab.device, 0, surface, 3)?;
    for _ in 0..FRAMES {
        let image = chain.acquire(TIMEOUT)?;
        chain.present(image, PresentMode::Mailbox, &[])?;
    }
    chain.finish(TIMEOUT)?;
    let frames = chain.take_frames()?;
    let totals = chain.statistics()?;
    require!(totals.presented == FRAMES && totals.lost == 0, "{totals:?}");
    require!(totals.shown + totals.dropped == FRAMES, "{totals:?}");
    let mut shown = frames.iter().filter(|frame| frame.outcome == SHOWN).peekable();
    let (mut flip, mut vsync) = (0, 0);
    while let Some(frame) = shown.next() {
        require!(frame.flip > flip && frame.vsync > vsync, "{frame:?} after flip {flip}");
        (flip, vsync) = (frame.flip, frame.vsync);
        let is_last = shown.peek().is_none();
        let newest = frames.iter().map(|frame| frame.flip).max();
        require!(!is_last || newest == Some(flip), "the newest frame is not the one shown");
    }
    scene.show(format!("{} shown, {} dropped", totals.shown, totals.dropped));
    let none = lab.display.wait_for_flip(0, flip, Duration::ZERO);
    require!(none.is_err(), "a flip ended twice");
    Ok(())
}
