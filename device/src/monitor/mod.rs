// SPDX-License-Identifier: MIT OR Apache-2.0

//! Monitors as an administrator describes them: modes, their signals, and the EDID that tells a guest of them.
//!
//! Sources: VESA E-EDID 1.4 (EDID), CTA-861 (video formats, extension block), VESA CVT 1.2 (reduced blanking, version 2),
//! VESA DisplayID 1.3 (type I timings).

pub mod edid;
mod mode;
mod signal;

pub use mode::Mode;
pub use signal::Signal;

use bellhop_host_kmd::hardware::Monitor;
use bellhop_protocol::control::display::{
    ConnectorKind, TARGET_MODE_PREFERRED, TARGET_MODE_VARIABLE_REFRESH, TargetMode,
};
use edid::content::Edid;

/// A monitor to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Its name, of which 13 letters are shown.
    pub name: String,
    /// What it is plugged into.
    pub connector: ConnectorKind,
    /// Its modes, the preferred one first; at least one.
    pub modes: Vec<Mode>,
    /// Width and height in millimetres; 0 if unknown, as those of a projector.
    pub size_mm: (u32, u32),
    /// The lowest rate in Hz that it can wait for a frame with; 0 if it cannot wait.
    pub variable_refresh: u32,
}

/// Why there can be no such monitor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MonitorError {
    /// A mode has no signal.
    #[error("{0} is not possible: its rate leaves no time for the blank of its lines")]
    NoSignal(Mode),
    /// An EDID that was given.
    #[error(transparent)]
    Edid(#[from] edid::EdidError),
}

impl Description {
    /// The monitor with its EDID.
    ///
    /// # Errors
    /// If a mode is impossible, or there are too many.
    pub fn make(&self) -> Result<Monitor, MonitorError> {
        let mut modes = self.modes.clone();
        modes.push(Mode::FAIL_SAFE);
        let mut seen = Vec::new();
        modes.retain(|mode| {
            !seen.contains(mode) && {
                seen.push(*mode);
                true
            }
        });
        let signals: Vec<_> = modes
            .iter()
            .map(|mode| Signal::of(mode).ok_or(MonitorError::NoSignal(*mode)))
            .collect::<Result<_, _>>()?;
        let edid = Edid {
            name: &self.name,
            connector: self.connector,
            signals: &signals,
            size_mm: self.size_mm,
            min_refresh: self.variable_refresh,
        };
        let edid = edid.encode()?;
        Ok(Monitor { edid, modes: target_modes(&signals, self.variable_refresh) })
    }
}

/// The monitor that an EDID describes.
///
/// # Errors
/// If it is none, or has no mode that could be scanned.
pub fn of_edid(bytes: &[u8], variable_refresh: u32) -> Result<Monitor, MonitorError> {
    let signals = edid::parse(bytes)?;
    Ok(Monitor { edid: bytes.to_vec(), modes: target_modes(&signals, variable_refresh) })
}

fn target_modes(signals: &[Signal], min_refresh: u32) -> Vec<TargetMode> {
    let mode = |(place, signal): (usize, &Signal)| {
        let (total_width, total_height) = signal.total();
        let (numerator, denominator) = signal.refresh;
        // Faster than the lowest rate, so that there is something to vary.
        let is_variable = min_refresh > 0
            && u64::from(numerator) > u64::from(min_refresh) * u64::from(denominator);
        let preferred = if place == 0 { TARGET_MODE_PREFERRED } else { 0 };
        TargetMode {
            width: signal.horizontal.active,
            height: signal.vertical.active,
            total_width,
            total_height,
            refresh_numerator: numerator,
            refresh_denominator: denominator,
            flags: preferred | if is_variable { TARGET_MODE_VARIABLE_REFRESH } else { 0 },
            min_refresh: if is_variable { min_refresh * 1000 } else { 0 },
        }
    };
    signals.iter().enumerate().map(mode).collect()
}

#[cfg(test)]
mod tests;
