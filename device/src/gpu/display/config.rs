// SPDX-License-Identifier: MIT OR Apache-2.0

//! The configuration of an adapter's displays.

use bellhop_host_kmd::hardware::Monitor;
use bellhop_protocol::control::display::ConnectorKind;

/// The displays that each guest of an adapter has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DisplayConfig {
    /// The connectors, by number.
    pub connectors: Vec<ConnectorConfig>,
    /// Most pixels in a second, blanks included, that all connectors of a guest transmit together.
    pub total_pixel_rate: u64,
}

/// A connector, with the monitor that can be plugged into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectorConfig {
    /// Its name among the adapter's connectors.
    pub name: String,
    /// What it is.
    pub kind: ConnectorKind,
    /// Most pixels in a second, blanks included, that it transmits.
    pub max_pixel_rate: u64,
    /// The monitor.
    pub monitor: Monitor,
    /// Whether the monitor is plugged in when a guest is attached.
    pub plugged: bool,
}
