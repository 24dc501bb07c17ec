// SPDX-License-Identifier: MIT OR Apache-2.0

//! Connectors and monitors that tests give the model.

use bellhop_host_kmd::hardware::{ConnectorCaps, DisplayCaps, Monitor};
use bellhop_protocol::control::display::{
    ConnectorKind, Pinned, Rotation, Scaling, SourceMode, TargetMode, VidPnPath,
};
use bellhop_protocol::pixel_format::PixelFormat;

/// 60 Hz, with a tenth of blanking in each direction.
pub fn target_mode(width: u32, height: u32) -> TargetMode {
    TargetMode {
        width,
        height,
        total_width: width + width / 10,
        total_height: height + height / 10,
        refresh_numerator: 60,
        refresh_denominator: 1,
        flags: 0,
        min_refresh: 0,
    }
}

pub fn source_mode(width: u32, height: u32) -> SourceMode {
    SourceMode { width, height, format: PixelFormat::X8R8G8B8, reserved: 0 }
}

/// Two connectors for a display that tests can hold in memory.
pub fn caps() -> DisplayCaps {
    let connector = ConnectorCaps { kind: ConnectorKind::VIRTUAL, max_pixel_rate: 1_000_000 };
    DisplayCaps {
        sources: 2,
        connectors: vec![connector; 2],
        total_pixel_rate: 2_000_000,
        max_width: 256,
        max_height: 256,
    }
}

/// A monitor of two modes: 64 x 32, and 32 x 32.
pub fn monitor() -> Monitor {
    Monitor { edid: vec![7; 256], modes: vec![target_mode(64, 32), target_mode(32, 32)] }
}

/// A path with everything pinned: 64 x 32, neither scaled nor turned.
pub fn path(source: u32, target: u32) -> VidPnPath {
    VidPnPath {
        source,
        target,
        flags: Pinned::all().bits(),
        scaling: Scaling::IDENTITY,
        rotation: Rotation::IDENTITY,
        reserved: 0,
        source_mode: source_mode(64, 32),
        target_mode: target_mode(64, 32),
    }
}
