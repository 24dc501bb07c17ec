// SPDX-License-Identifier: MIT OR Apache-2.0

mod composing;
mod input;
mod scan_out;
mod viewers;

use super::*;
use crate::gpu::display::config::ConnectorConfig;
use crate::gpu::display::viewer::Update;
use bellhop_host_kmd::hardware::{Monitor, PhysicalAddress, Segment, SourceAddress};
use bellhop_protocol::control::display::{
    ConnectorKind, Rotation, Scaling, SourceMode, TargetMode,
};
use bellhop_protocol::pixel_format::PixelFormat;

const GUEST: GuestId = GuestId(7);
const MS: u64 = 1_000_000;

/// Two connectors, the first of them plugged.
fn state() -> State {
    let connector = |plugged| ConnectorConfig {
        name: String::new(),
        kind: ConnectorKind::VIRTUAL,
        max_pixel_rate: u64::MAX,
        monitor: Monitor { edid: vec![0; 128], modes: Vec::new() },
        plugged,
    };
    let connectors = vec![connector(true), connector(false)];
    State::new(GUEST, &DisplayConfig { connectors, total_pixel_rate: u64::MAX })
}

/// 100 Hz: a VSYNC every 10 ms, of which the blank takes 2 ms.
fn path(source: u32, target: u32) -> DisplayPath {
    DisplayPath {
        source,
        target,
        scaling: Scaling::IDENTITY,
        rotation: Rotation::IDENTITY,
        source_mode: SourceMode { width: 4, height: 8, format: PixelFormat::X8R8G8B8, reserved: 0 },
        target_mode: TargetMode {
            width: 4,
            height: 8,
            total_width: 5,
            total_height: 10,
            refresh_numerator: 100,
            refresh_denominator: 1,
            flags: 0,
            min_refresh: 0,
        },
    }
}

fn flip(number: u64, immediate: bool) -> Option<SourceAddress> {
    let base = PhysicalAddress { segment: Segment::Local, address: number * 0x1000 };
    Some(SourceAddress { flip: number, number: 100 + number, base, pitch: 16, immediate })
}

fn vsync(source: u32, target: u32, flip: u64, count: u64) -> Interrupt {
    Interrupt::CrtcVsync { guest: GUEST, source, target, flip, count, time: count * 10 * MS }
}

fn reports(state: &mut State) -> Vec<Interrupt> {
    state.reports.take().collect()
}

/// A step has done what it says.
fn finish(state: &mut State, step: Step, now: u64) {
    state.flipped(step.after);
    state.composed(step.work, (now, now));
}

/// The VSYNCs that process 9 is told of in a step: their counts, and the flips that are shown, by the driver's numbers.
fn told(state: &mut State, now: u64) -> Vec<(u64, u64)> {
    let step = state.step(now);
    let told = step.events.iter().map(|event| {
        assert_eq!((event.kind, event.process, event.object), (EventKind::VSYNC, 9, 0));
        assert_eq!(event.time, event.cookie * 10 * MS);
        (event.cookie, event.value)
    });
    let told = told.collect();
    finish(state, step, now);
    told
}

/// A step whose frames are composed at once. Returns when the next one is.
fn step(state: &mut State, now: u64) -> Option<u64> {
    let step = state.step(now);
    let wakes_at = step.wakes_at;
    finish(state, step, now);
    wakes_at
}

fn view(state: &mut State, target: u32) -> ViewerId {
    state.add_viewer(target, Arc::new(Signal::new().unwrap())).unwrap()
}

/// What a viewer was told: `B` new buffers, `-` no signal, or the flip of a frame. Frames are given back.
fn seen(state: &mut State, viewer: ViewerId) -> String {
    let viewer = state.viewer(viewer).unwrap();
    let mut seen = String::new();
    for update in viewer.take() {
        match update {
            Update::Buffers(_) => seen += "B",
            Update::NoSignal => seen += "-",
            Update::Frame(frame) => {
                viewer.give_back(frame.buffer);
                seen += &format!("{}", frame.flip);
                if frame.torn_at > 0 {
                    seen += &format!("t{}", frame.torn_at);
                }
            }
        }
    }
    seen
}

/// When somebody looks whether a picture has changed that was first seen at a time.
fn look_after(time: u64) -> Option<u64> {
    Some(time + 200 * MS)
}
