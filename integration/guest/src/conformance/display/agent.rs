// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the guest's agent makes of its monitors.

use super::lab::Lab;
use crate::agent::{Layout, Screens, ScreensError};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::Scene;
use bellhop_guest_umd::agent::WantedTopology;
use bellhop_guest_umd::display::{Constraint, DisplayError, Path, Topology};

impl From<ScreensError> for Mismatch {
    fn from(error: ScreensError) -> Self {
        match error {
            ScreensError::Display(error) => error.into(),
            ScreensError::Device(error) => error.into(),
            error => Self::Seen(error.to_string()),
        }
    }
}

pub(super) fn layouts(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let monitors = lab.monitors(2)?;
    let mut screens = Screens::open(scene.adapter().open_process()?, Layout::Extend)?;
    screens.apply()?;
    // Another process sees which monitors are in use. There is no source 15, which is checked later.
    let is_used = |child: u32| -> Result<bool, Mismatch> {
        let topology = Topology::new().path(Path::new(15, child));
        match lab.display.check(&topology) {
            Err(DisplayError::Topology(refusal)) => Ok(refusal.constraint == Constraint::IN_USE),
            Err(error) => Err(error.into()),
            Ok(()) => Ok(false),
        }
    };
    let [first, second] = [monitors[0], monitors[1]];
    require!(is_used(first)? && is_used(second)?, "extended, a monitor shows nothing");
    let cloned = screens.show(WantedTopology::Clone)?;
    require!(is_used(first)? && is_used(second)?, "cloned, a monitor shows nothing");
    require!(cloned.matches("source 0").count() >= 2, "cloned: {cloned}");
    screens.show(WantedTopology::Single)?;
    require!(is_used(first)? && !is_used(second)?, "single: not the first monitor alone");
    let mode = lab.display.monitor_modes(first)?.last().copied();
    let mode = mode.ok_or(Mismatch::Seen("the monitor has no mode".into()))?;
    let refresh = u64::from(mode.refresh_numerator) * 1000 / u64::from(mode.refresh_denominator);
    let wanted = WantedTopology::Mode {
        connector: first,
        width: mode.width,
        height: mode.height,
        refresh: refresh as u32,
    };
    let shown = screens.show(wanted)?;
    require!(
        shown.contains(&format!("{}x{}@", mode.width, mode.height)),
        "asked for {mode:?}: {shown}"
    );
    let impossible =
        WantedTopology::Mode { connector: first, width: 1, height: 1, refresh: 60_000 };
    require!(screens.show(impossible).is_err(), "a mode that there is not was set");
    require!(screens.apply()? == shown, "a refusal changed what is shown");
    screens.show(WantedTopology::Off)?;
    require!(!is_used(first)? && !is_used(second)?, "off, a monitor shows something");
    screens.show(WantedTopology::Enumerate)?;
    require!(is_used(first)? && is_used(second)?, "the policy is not what it was");
    Ok(())
}
