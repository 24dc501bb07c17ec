// SPDX-License-Identifier: MIT OR Apache-2.0

//! Connectors, and what monitors say about themselves.

use super::lab::Lab;
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::raw;
use crate::conformance::scene::Scene;
use bellhop_protocol::control::display::{
    CHILD_HOT_PLUG_AWARE, QueryChildStatus, QueryDeviceDescriptor, TARGET_MODE_PREFERRED,
    TARGET_MODE_VARIABLE_REFRESH,
};
use bellhop_protocol::status::Status;

pub(super) fn children(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let children = lab.display.children();
    require!(!children.is_empty() && children.len() <= 16, "{} connectors", children.len());
    let sources = lab.display.sources();
    require!(sources as usize == children.len(), "{sources} sources for {children:?}");
    for (child, about) in (0..).zip(children) {
        require!(about.kind.name().is_some(), "connector {child} is {}", about.kind);
        let own = about.on_gpu(0).flags;
        require!(own & !CHILD_HOT_PLUG_AWARE == 0, "connector {child}: {about:?}");
        let status = lab.display.child_status(child)?;
        require!(status.connected <= 1, "connector {child}: {status:?}");
    }
    let past = QueryChildStatus { child: children.len() as u32, reserved: 0 };
    let (status, _) = raw::status(scene.transport(), 0, &past)?;
    require!(status == Status::INVALID_PARAMETER, "a connector that there is not: {status}");
    scene.show(format!("{} connectors", children.len()));
    Ok(())
}

pub(super) fn descriptor(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    for child in lab.monitors(1)? {
        let edid = lab.display.edid(child)?;
        // VESA E-EDID 1.4: the header of a base block; byte 126 counts the blocks that follow it.
        let header = [0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0];
        require!(edid.starts_with(&header), "connector {child}: no EDID begins like this");
        let blocks = usize::from(edid.get(126).copied().unwrap_or(0)) + 1;
        require!(edid.len() == 128 * blocks, "{} bytes, {blocks} blocks", edid.len());
        for (number, block) in edid.chunks(128).enumerate() {
            let sum = block.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
            require!(sum == 0, "block {number} of connector {child} adds up to {sum}");
        }
        for offset in [1, 64, edid.len() as u32, u32::MAX - 127] {
            let request = QueryDeviceDescriptor { child, offset };
            let (status, _) = raw::status(scene.transport(), 0, &request)?;
            require!(status == Status::INVALID_PARAMETER, "offset {offset} ended with {status}");
        }
    }
    Ok(())
}

pub(super) fn modes(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let mut counted = 0;
    for child in lab.monitors(1)? {
        let modes = lab.display.monitor_modes(child)?;
        counted += modes.len();
        for (place, mode) in modes.iter().enumerate() {
            let known = TARGET_MODE_PREFERRED | TARGET_MODE_VARIABLE_REFRESH;
            let is_right = mode.width > 0
                && mode.height > 0
                && mode.total_width > mode.width
                && mode.total_height > mode.height
                && mode.refresh_numerator > 0
                && mode.refresh_denominator > 0
                && mode.flags & !known == 0;
            require!(is_right, "mode {place} of connector {child}: {mode:?}");
            let is_preferred = mode.flags & TARGET_MODE_PREFERRED != 0;
            require!(is_preferred == (place == 0), "mode {place} of connector {child}: {mode:?}");
            let varies = mode.flags & TARGET_MODE_VARIABLE_REFRESH != 0;
            require!(varies == (mode.min_refresh > 0), "connector {child}: {mode:?}");
            require!(!modes[..place].contains(mode), "mode {place} is there twice: {mode:?}");
        }
        // VESA E-EDID 1.4, 3.10.2: the first detailed timing is the preferred one. Its width and height have 12 bits,
        // the upper four of them in the upper halves of bytes 4 and 7.
        let edid = lab.display.edid(child)?;
        let byte = |at: usize| u32::from(edid.get(54 + at).copied().unwrap_or(0));
        let size = [(2, 4), (5, 7)].map(|(low, high)| byte(low) | (byte(high) & 0xF0) << 4);
        let first = modes.first().map(|mode| [mode.width, mode.height]);
        // A timing without a pixel clock is another descriptor: such a monitor's timings are in a later block.
        let has_timing = byte(0) | byte(1) << 8 != 0;
        require!(
            !has_timing || first == Some(size),
            "connector {child} prefers {first:?}, its EDID {size:?}"
        );
    }
    scene.show(format!("{counted} modes"));
    Ok(())
}
