// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the guest's operating system says of its surroundings, and what follows from it for monitors and power.

use super::config::{AwayPolicy, LidPolicy, PowerChoice};
use super::screens::Curtain;
use bellhop_guest_umd::agent::PowerPolicy;

/// What the system says. `None` where it has said nothing so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Situation {
    /// Whether the lid is closed.
    pub is_lid_closed: Option<bool>,
    /// Whether power comes from a battery.
    pub is_on_battery: Option<bool>,
    /// Whether nobody looks: there are sessions at seats, and each is locked or inactive.
    pub is_away: Option<bool>,
    /// Whether the system is about to sleep, or sleeps.
    pub is_asleep: bool,
}

/// What has become different. Each has a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The lid was closed.
    LidClosed,
    /// The lid was opened.
    LidOpened,
    /// Power comes from a battery.
    OnBattery,
    /// Power comes from the mains.
    OnAc,
    /// Nobody looks any more.
    SessionLocked,
    /// Somebody looks again.
    SessionUnlocked,
    /// The system is about to sleep.
    PrepareForSleep,
    /// The system has slept.
    AfterSleep,
}

impl Change {
    /// The hook's name.
    #[must_use]
    pub fn hook(self) -> &'static str {
        match self {
            Self::LidClosed => "lid-closed",
            Self::LidOpened => "lid-opened",
            Self::OnBattery => "on-battery",
            Self::OnAc => "on-ac",
            Self::SessionLocked => "session-locked",
            Self::SessionUnlocked => "session-unlocked",
            Self::PrepareForSleep => "prepare-for-sleep",
            Self::AfterSleep => "after-sleep",
        }
    }

    /// The change, for people.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::LidClosed => "the lid is closed",
            Self::LidOpened => "the lid is open",
            Self::OnBattery => "power comes from a battery",
            Self::OnAc => "power comes from the mains",
            Self::SessionLocked => "every session is locked or inactive",
            Self::SessionUnlocked => "a session is active",
            Self::PrepareForSleep => "the system is about to sleep",
            Self::AfterSleep => "the system is awake again",
        }
    }
}

impl Situation {
    /// What is different in `next`. Of what is said for the first time, only what is unusual counts: an open lid changes
    /// nothing. Both sources of power count, since there may be a policy for each.
    #[must_use]
    pub fn changes(&self, next: &Self) -> Vec<Change> {
        // What is no longer said stays as it was.
        let flipped = |before: Option<bool>, now: Option<bool>| now.filter(|_| now != before);
        let unusual = |before: Option<bool>, now| flipped(Some(before.unwrap_or(false)), now);
        let named = |now: Option<bool>, yes, no| now.map(|now| if now { yes } else { no });
        let lid = unusual(self.is_lid_closed, next.is_lid_closed);
        let power = flipped(self.is_on_battery, next.is_on_battery);
        let away = unusual(self.is_away, next.is_away);
        let asleep = unusual(Some(self.is_asleep), Some(next.is_asleep));
        let changes = [
            named(power, Change::OnBattery, Change::OnAc),
            named(lid, Change::LidClosed, Change::LidOpened),
            named(away, Change::SessionLocked, Change::SessionUnlocked),
            named(asleep, Change::PrepareForSleep, Change::AfterSleep),
        ];
        changes.into_iter().flatten().collect()
    }

    /// This, with what `other` says in the place of what it says too.
    #[must_use]
    pub fn updated(self, other: Self) -> Self {
        Self {
            is_lid_closed: other.is_lid_closed.or(self.is_lid_closed),
            is_on_battery: other.is_on_battery.or(self.is_on_battery),
            is_away: other.is_away.or(self.is_away),
            is_asleep: other.is_asleep,
        }
    }

    /// What is said, as variables of hooks.
    #[must_use]
    pub fn variables(&self) -> [(&'static str, String); 3] {
        let word = |said: Option<bool>, yes: &str, no: &str| {
            said.map(|said| if said { yes } else { no }.to_owned()).unwrap_or_default()
        };
        [
            ("BELLHOP_LID", word(self.is_lid_closed, "closed", "open")),
            ("BELLHOP_POWER_SOURCE", word(self.is_on_battery, "battery", "ac")),
            ("BELLHOP_SESSION", word(self.is_away, "locked", "active")),
        ]
    }
}

/// What an administrator of the guest wants to follow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Policies {
    /// What happens to monitors under a closed lid.
    pub lid: LidPolicy,
    /// The connector of the monitor that the lid covers.
    pub lid_connector: u32,
    /// The power policy on a battery.
    pub on_battery: PowerChoice,
    /// The power policy on mains.
    pub on_ac: PowerChoice,
    /// What happens to monitors while nobody looks.
    pub away: AwayPolicy,
}

impl Policies {
    /// What hides monitors.
    #[must_use]
    pub fn curtain(&self, situation: &Situation) -> Curtain {
        let is_away = situation.is_away == Some(true);
        let is_lid_closed = situation.is_lid_closed == Some(true);
        match (self.away, self.lid) {
            (AwayPolicy::Off, _) if is_away => Curtain::All("every session is locked or inactive"),
            (_, LidPolicy::Off) if is_lid_closed => Curtain::All("the lid is closed"),
            (_, LidPolicy::Others) if is_lid_closed => Curtain::One(self.lid_connector),
            _ => Curtain::None,
        }
    }

    /// The power policy that a change sets, if it sets one.
    #[must_use]
    pub fn power(&self, change: Change) -> Option<PowerPolicy> {
        match change {
            Change::OnBattery => self.on_battery.policy(),
            Change::OnAc => self.on_ac.policy(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Change::{
        AfterSleep, LidClosed, LidOpened, OnAc, OnBattery, PrepareForSleep, SessionLocked,
        SessionUnlocked,
    };

    /// Lid closed, on battery, away: `None` for nothing said.
    fn said(lid: Option<bool>, battery: Option<bool>, away: Option<bool>) -> Situation {
        Situation { is_lid_closed: lid, is_on_battery: battery, is_away: away, is_asleep: false }
    }

    #[test]
    fn changes_are_what_is_different_and_at_first_what_is_unusual() {
        let (yes, no) = (Some(true), Some(false));
        let asleep = Situation { is_asleep: true, ..Situation::default() };
        let nothing = Situation::default();
        for (before, now, expected) in [
            (nothing, nothing, &[][..]),
            (nothing, said(no, no, no), &[OnAc]),
            (nothing, said(yes, yes, yes), &[OnBattery, LidClosed, SessionLocked]),
            (said(no, no, no), said(yes, no, no), &[LidClosed]),
            (said(yes, no, no), said(no, no, no), &[LidOpened]),
            (said(no, no, no), said(no, yes, no), &[OnBattery]),
            (said(no, yes, no), said(no, no, no), &[OnAc]),
            (said(no, no, no), said(no, no, yes), &[SessionLocked]),
            (said(no, no, yes), said(no, no, no), &[SessionUnlocked]),
            (said(yes, yes, yes), said(yes, yes, yes), &[]),
            (said(yes, yes, yes), nothing, &[]),
            (nothing, asleep, &[PrepareForSleep]),
            (asleep, asleep, &[]),
            (asleep, nothing, &[AfterSleep]),
        ] {
            assert_eq!(before.changes(&now), expected, "{before:?}, {now:?}");
        }
    }

    #[test]
    fn what_a_service_no_longer_says_stays_as_it_was() {
        let before = said(Some(true), Some(true), None);
        let now = said(None, Some(false), Some(true));
        assert_eq!(before.updated(now), said(Some(true), Some(false), Some(true)));
        assert_eq!(before.updated(Situation::default()), before);
    }

    #[test]
    fn monitors_are_hidden_as_the_policies_say_and_by_default_never() {
        let of = |lid, away| Policies { lid, away, lid_connector: 2, ..Policies::default() };
        let (away, lid) = (
            Curtain::All("every session is locked or inactive"),
            Curtain::All("the lid is closed"),
        );
        let (open, closed) = (Some(false), Some(true));
        for (policies, is_lid_closed, is_away, expected) in [
            (Policies::default(), closed, closed, Curtain::None),
            (of(LidPolicy::Nothing, AwayPolicy::Off), closed, open, Curtain::None),
            (of(LidPolicy::Nothing, AwayPolicy::Off), closed, closed, away),
            (of(LidPolicy::Others, AwayPolicy::Off), closed, open, Curtain::One(2)),
            (of(LidPolicy::Others, AwayPolicy::Off), closed, closed, away),
            (of(LidPolicy::Others, AwayPolicy::Nothing), closed, closed, Curtain::One(2)),
            (of(LidPolicy::Others, AwayPolicy::Nothing), open, closed, Curtain::None),
            (of(LidPolicy::Off, AwayPolicy::Off), closed, open, lid),
            (of(LidPolicy::Off, AwayPolicy::Off), closed, None, lid),
            (of(LidPolicy::Off, AwayPolicy::Off), None, None, Curtain::None),
        ] {
            let situation = said(is_lid_closed, None, is_away);
            assert_eq!(policies.curtain(&situation), expected, "{policies:?}, {situation:?}");
        }
    }

    #[test]
    fn a_source_of_power_sets_its_policy_and_nothing_else_sets_one() {
        let policies = Policies {
            on_battery: PowerChoice::Saving,
            on_ac: PowerChoice::Performance,
            ..Policies::default()
        };
        assert_eq!(policies.power(OnBattery), Some(PowerPolicy::SAVING));
        assert_eq!(policies.power(OnAc), Some(PowerPolicy::PERFORMANCE));
        assert_eq!(policies.power(LidClosed), None);
        for change in [OnBattery, OnAc] {
            assert_eq!(Policies::default().power(change), None);
        }
    }
}
