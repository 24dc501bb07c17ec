// SPDX-License-Identifier: MIT OR Apache-2.0

//! A behaviour.

use crate::lab::{Failure, Lab};

/// A behaviour.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its name: an area, and what it is about.
    pub id: &'static str,
    /// What it shows, in one sentence.
    pub shows: &'static str,
    pub(crate) check: fn(&Lab) -> Result<(), Failure>,
}

impl Case {
    /// Tries it.
    ///
    /// # Errors
    /// What was seen instead, or what the device does not offer.
    pub fn try_with(&self, lab: &Lab) -> Result<(), Failure> {
        (self.check)(lab)
    }
}

/// A behaviour.
pub(crate) const fn case(
    id: &'static str,
    shows: &'static str,
    check: fn(&Lab) -> Result<(), Failure>,
) -> Case {
    Case { id, shows, check }
}
