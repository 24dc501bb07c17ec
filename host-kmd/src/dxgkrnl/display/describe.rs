// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest's displays, as tools see them.

use crate::dxgkrnl::display::counts::FlipCounts;
use crate::dxgkrnl::display::source::Source;
use crate::dxgkrnl::display::state::Display;
use crate::hardware::DisplayPath;
use bellhop_protocol::control::display::{ConnectorKind, Rotation, Scaling};
use bellhop_protocol::snapshot;

impl Display {
    /// The path to a connector, if one is committed.
    pub(crate) fn describe_path(&self, connector: u32) -> Option<snapshot::DisplayPath> {
        let (process, path) = self.paths().to(connector)?;
        let source = self.source(path.source)?;
        Some(describe(process, path, source, self.counts(path.source)))
    }
}

fn describe(
    process: u32,
    path: &DisplayPath,
    source: &Source,
    counts: FlipCounts,
) -> snapshot::DisplayPath {
    let DisplayPath { source: index, scaling, rotation, source_mode, target_mode, .. } = *path;
    let FlipCounts { shown, missed, dropped, lost, .. } = counts;
    snapshot::DisplayPath {
        process,
        lent_to: source.granted(),
        source: index,
        width: source_mode.width,
        height: source_mode.height,
        format: source_mode.format.to_string(),
        monitor_width: target_mode.width,
        monitor_height: target_mode.height,
        refresh_numerator: target_mode.refresh_numerator,
        refresh_denominator: target_mode.refresh_denominator,
        scaling: scaling_name(scaling).into(),
        rotation: degrees(rotation),
        visible: source.is_visible(),
        flip: source.shown_number(),
        pending: source.pending().collect(),
        vsyncs: source.vsyncs(),
        shown,
        missed,
        dropped,
        lost,
    }
}

/// The name of a kind of connector.
pub(crate) fn kind_name(kind: ConnectorKind) -> &'static str {
    match kind {
        ConnectorKind::HDMI => "hdmi",
        ConnectorKind::DISPLAYPORT => "displayport",
        _ => "virtual",
    }
}

// A committed path has no other values.
fn scaling_name(scaling: Scaling) -> &'static str {
    match scaling {
        Scaling::CENTERED => "centered",
        Scaling::STRETCHED => "stretched",
        Scaling::ASPECT_RATIO_CENTERED_MAX => "aspect-ratio-centered-max",
        _ => "identity",
    }
}

fn degrees(rotation: Rotation) -> u32 {
    match rotation {
        Rotation::ROTATE_90 => 90,
        Rotation::ROTATE_180 => 180,
        Rotation::ROTATE_270 => 270,
        _ => 0,
    }
}
