//! What was measured: figures and ratios by name.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Figures, and what they are to each other.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// How the guest reaches the device.
    pub place: String,
    /// By name, which ends in the unit.
    pub figures: BTreeMap<String, f64>,
    /// By name: one figure over another of the same run.
    pub ratios: BTreeMap<String, f64>,
}

impl Report {
    pub(super) fn new(place: String) -> Self {
        Self { place, figures: BTreeMap::new(), ratios: BTreeMap::new() }
    }

    pub(super) fn figure(&mut self, name: impl Into<String>, value: f64) {
        self.figures.insert(name.into(), value);
    }

    pub(super) fn ratio(&mut self, name: impl Into<String>, over: f64, under: f64) {
        self.ratios.insert(name.into(), over / under);
    }
}

/// A number with as many digits as say something.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        small if small < 1.0 => 4,
        small if small < 100.0 => 2,
        _ => 0,
    };
    format!("{value:.digits$}")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.place)?;
        for (name, value) in self.figures.iter().chain(&self.ratios) {
            writeln!(f, "  {name:<52} {:>14}", number(*value))?;
        }
        Ok(())
    }
}
