// SPDX-License-Identifier: MIT OR Apache-2.0

//! Power of the GPUs of a chain: a slave may have it only while something needs it.
//!
//! ```text
//!        nothing needs it                engines passed the ticket, memory is empty
//!   D0 ───────────────────> Leaving D0 ─────────────────────────────────────────────> D3
//!    ^                          │ something needs it                                   │
//!    └──────────────────────────┴──────────────────────────────────────────────────────┘
//! ```
//!
//! In D3 a GPU's engines and displays have no power, and what was in its local memory is lost. The master, and every GPU
//! of the policy [`GpuPowerPolicy::Always`], has the power of the device.
//!
//! Source: Windows KMD overview, "MGPU": "PowerXpress ... dGPU only powers up when needed".

use crate::hardware::{GpuOrdinal, Ticket};
use bellhop_protocol::control::power::{DevicePowerState, GPU_POWER_WHEN_NEEDED, GpuPowerInfo};
use std::time::Duration;

/// When the slaves of a chain have power.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GpuPowerPolicy {
    /// Whenever the device has.
    #[default]
    Always,
    /// While something needs it.
    WhenNeeded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    D0,
    /// Nothing needs it; engines may not have passed this ticket yet.
    Leaving(Ticket),
    D3,
}

/// A step of a GPU's power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GpuPowerStep {
    /// Something needs it: to D0.
    PowerOn,
    /// Nothing needs it: empty its memory and wait for its engines.
    Leave,
    /// Something needs it again that is about to leave D0.
    Stay,
    /// To D3.
    PowerOff,
}

/// What counts of a GPU's past.
#[derive(Debug)]
struct Past {
    /// Whether it has power, and since when.
    is_on: bool,
    since: Duration,
    /// Time in D0 before that.
    in_d0: Duration,
    d0_entries: u64,
    d3_entries: u64,
}

#[derive(Debug)]
struct Gpu {
    state: State,
    past: Past,
}

/// Power of the GPUs of a chain.
#[derive(Debug)]
pub(crate) struct GpuPower {
    policy: GpuPowerPolicy,
    /// By ordinal.
    gpus: Vec<Gpu>,
    /// Whether the device has power.
    is_device_on: bool,
}

impl GpuPower {
    /// All GPUs have power.
    pub(crate) fn new(gpus: u8) -> Self {
        let gpu = || Gpu {
            state: State::D0,
            past: Past {
                is_on: true,
                since: Duration::ZERO,
                in_d0: Duration::ZERO,
                d0_entries: 0,
                d3_entries: 0,
            },
        };
        let gpus = (0..gpus.max(1)).map(|_| gpu()).collect();
        Self { policy: GpuPowerPolicy::Always, gpus, is_device_on: true }
    }

    /// Sets when slaves have power.
    pub(crate) fn set_policy(&mut self, policy: GpuPowerPolicy) {
        self.policy = policy;
    }

    /// All GPUs.
    pub(crate) fn all(&self) -> impl Iterator<Item = GpuOrdinal> + use<> {
        let gpus = u8::try_from(self.gpus.len()).unwrap_or(u8::MAX);
        (0..gpus).map(GpuOrdinal)
    }

    /// The GPUs that have power only while something needs it.
    pub(crate) fn managed(&self) -> impl Iterator<Item = GpuOrdinal> + use<> {
        let policy = self.policy;
        self.all()
            .filter(move |gpu| policy == GpuPowerPolicy::WhenNeeded && *gpu != GpuOrdinal::MASTER)
    }

    /// Whether a GPU has power while the device has.
    pub(crate) fn has_power(&self, gpu: GpuOrdinal) -> bool {
        self.gpus.get(gpu.index()).is_some_and(|gpu| gpu.state != State::D3)
    }

    /// The next step of a managed GPU, as something needs it or not. `may_power_off`: its memory is empty and nothing is
    /// paged.
    pub(crate) fn next_step(
        &self,
        gpu: GpuOrdinal,
        is_needed: bool,
        quiesced: Ticket,
        may_power_off: bool,
    ) -> Option<GpuPowerStep> {
        match (self.gpus.get(gpu.index())?.state, is_needed) {
            (State::D0, false) => Some(GpuPowerStep::Leave),
            (State::Leaving(_), true) => Some(GpuPowerStep::Stay),
            (State::Leaving(ticket), false) if ticket <= quiesced && may_power_off => {
                Some(GpuPowerStep::PowerOff)
            }
            (State::D3, true) => Some(GpuPowerStep::PowerOn),
            _ => None,
        }
    }

    /// A GPU is about to leave D0, once its engines have passed a ticket.
    pub(crate) fn leave(&mut self, gpu: GpuOrdinal, ticket: Ticket) {
        self.set(gpu, State::Leaving(ticket), None);
    }

    /// A GPU is in D0.
    pub(crate) fn power_on(&mut self, gpu: GpuOrdinal, now: Duration) {
        self.set(gpu, State::D0, Some(now));
    }

    /// A GPU that was about to leave D0 stays.
    pub(crate) fn stay(&mut self, gpu: GpuOrdinal) {
        self.set(gpu, State::D0, None);
    }

    /// A GPU is in D3.
    pub(crate) fn power_off(&mut self, gpu: GpuOrdinal, now: Duration) {
        self.set(gpu, State::D3, Some(now));
    }

    fn set(&mut self, gpu: GpuOrdinal, state: State, counted: Option<Duration>) {
        if let Some(gpu) = self.gpus.get_mut(gpu.index()) {
            gpu.state = state;
        }
        if let Some(now) = counted {
            self.count(now);
        }
    }

    /// The device has power, or none: no GPU has more than the device.
    pub(crate) fn set_device(&mut self, is_on: bool, now: Duration) {
        self.is_device_on = is_on;
        self.count(now);
    }

    fn count(&mut self, now: Duration) {
        for Gpu { state, past } in &mut self.gpus {
            let is_on = self.is_device_on && *state != State::D3;
            if is_on == past.is_on {
                continue;
            }
            if is_on {
                past.d0_entries += 1;
            } else {
                past.d3_entries += 1;
                past.in_d0 += now.saturating_sub(past.since);
            }
            (past.is_on, past.since) = (is_on, now);
        }
    }

    /// What a guest and tools are told of a GPU.
    pub(crate) fn info(&self, gpu: GpuOrdinal, now: Duration) -> Option<GpuPowerInfo> {
        let past = &self.gpus.get(gpu.index())?.past;
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let in_state = now.saturating_sub(past.since);
        let in_d0 = if past.is_on { past.in_d0 + in_state } else { past.in_d0 };
        let is_managed = self.managed().any(|managed| managed == gpu);
        Some(GpuPowerInfo {
            state: if past.is_on { DevicePowerState::D0 } else { DevicePowerState::D3 },
            flags: if is_managed { GPU_POWER_WHEN_NEEDED } else { 0 },
            d0_entries: past.d0_entries,
            d3_entries: past.d3_entries,
            d0_time: nanoseconds(in_d0),
            state_time: nanoseconds(in_state),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SLAVE: GpuOrdinal = GpuOrdinal(1);
    const SECOND: Duration = Duration::from_secs(1);

    fn when_needed(gpus: u8) -> GpuPower {
        let mut power = GpuPower::new(gpus);
        power.set_policy(GpuPowerPolicy::WhenNeeded);
        power
    }

    #[test]
    fn a_slave_leaves_d0_when_its_engines_have_and_its_memory_is_empty() {
        let mut power = when_needed(2);
        let step = |power: &GpuPower, needed, quiesced, empty| {
            power.next_step(SLAVE, needed, Ticket(quiesced), empty)
        };
        assert_eq!(step(&power, true, 0, true), None);
        assert_eq!(step(&power, false, 0, false), Some(GpuPowerStep::Leave));
        power.leave(SLAVE, Ticket(3));
        assert_eq!(step(&power, false, 2, true), None);
        assert_eq!(step(&power, false, 3, false), None);
        assert_eq!(step(&power, true, 3, true), Some(GpuPowerStep::Stay));
        assert_eq!(step(&power, false, 3, true), Some(GpuPowerStep::PowerOff));
        assert!(power.has_power(SLAVE));
        power.power_off(SLAVE, 4 * SECOND);
        assert!(!power.has_power(SLAVE));
        assert_eq!(step(&power, false, 9, true), None);
        assert_eq!(step(&power, true, 9, true), Some(GpuPowerStep::PowerOn));
    }

    #[test]
    fn the_master_and_slaves_of_the_other_policy_are_not_managed() {
        assert_eq!(when_needed(3).managed().collect::<Vec<_>>(), [SLAVE, GpuOrdinal(2)]);
        assert_eq!(when_needed(1).managed().count(), 0);
        assert_eq!(GpuPower::new(3).managed().count(), 0);
    }

    #[test]
    fn time_in_d0_is_that_of_the_gpu_and_the_device_together() {
        let mut power = when_needed(2);
        power.power_off(SLAVE, 2 * SECOND);
        power.set_device(false, 5 * SECOND);
        // The device has no power, so this slave has none either until the device is back.
        power.power_on(SLAVE, 6 * SECOND);
        power.set_device(true, 7 * SECOND);
        let info = power.info(SLAVE, 10 * SECOND).unwrap();
        assert_eq!((info.state, info.flags), (DevicePowerState::D0, GPU_POWER_WHEN_NEEDED));
        assert_eq!((info.d0_entries, info.d3_entries), (1, 1));
        assert_eq!((info.d0_time, info.state_time), (5_000_000_000, 3_000_000_000));
        let master = power.info(GpuOrdinal::MASTER, 10 * SECOND).unwrap();
        assert_eq!((master.flags, master.d0_time), (0, 8_000_000_000));
        assert_eq!(power.info(GpuOrdinal(2), SECOND), None);
    }

    proptest! {
        /// However needs come and go, a GPU that something needs has power, it goes to D3 only through a ticket that was
        /// drawn after the last need, and its times add up.
        #[test]
        fn a_needed_gpu_has_power_and_d3_comes_after_a_ticket_of_its_own(
            inputs in proptest::collection::vec((any::<bool>(), 0u64..3, any::<bool>()), 1..80),
        ) {
            let mut power = when_needed(2);
            let (mut drawn, mut passed) = (0u64, 0u64);
            // The last ticket that was drawn while the GPU was needed.
            let mut needed_until = 0;
            let (mut now, mut in_d0, mut in_d3) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
            for (is_needed, passes, is_empty) in inputs {
                now += SECOND;
                let before = power.has_power(SLAVE);
                *(if before { &mut in_d0 } else { &mut in_d3 }) += SECOND;
                passed = (passed + passes).min(drawn);
                if is_needed {
                    needed_until = drawn;
                }
                let mut steps = 0;
                while let Some(step) = power.next_step(SLAVE, is_needed, Ticket(passed), is_empty) {
                    steps += 1;
                    prop_assert!(steps <= 2, "a fixpoint is reached");
                    match step {
                        GpuPowerStep::PowerOn => power.power_on(SLAVE, now),
                        GpuPowerStep::Stay => power.stay(SLAVE),
                        GpuPowerStep::Leave => {
                            drawn += 1;
                            power.leave(SLAVE, Ticket(drawn));
                        }
                        GpuPowerStep::PowerOff => {
                            prop_assert!(passed > needed_until && is_empty);
                            power.power_off(SLAVE, now);
                        }
                    }
                }
                prop_assert!(power.has_power(SLAVE) || !is_needed);
                let info = power.info(SLAVE, now).unwrap();
                prop_assert_eq!(info.d0_time, in_d0.as_nanos() as u64);
                prop_assert_eq!(in_d0 + in_d3, now);
                prop_assert!(info.d3_entries - info.d0_entries <= 1);
            }
        }
    }
}
