// SPDX-License-Identifier: MIT OR Apache-2.0

//! Terminations in progress, and the phase of each.
//!
//! ```text
//!  normal ──> Draining ──all done, or time──> Preempting ──ticket passed──> ended
//!  abnormal ────────────────────────────────> Preempting
//! ```
//! What has done all its work is off the run list, too, before it is destroyed: an engine may be inside a packet behind
//! the last-queued value, or inside a queue that is lost. If it never leaves, that is a hang of a queue that the kernel
//! still knows.
//!
//! What a display may still read ends only when it no longer does: it is `Shown` until then.
//! Source: user-mode work submission, "Normal and abnormal process termination".

use crate::dxgkrnl::object::completion::Completion;
use crate::dxgkrnl::object::target::Target;
use crate::dxgkrnl::recovery::quiesced::Quiesced;
use crate::hardware::{GuestId, Ticket};
use bellhop_protocol::control::Handle;
use std::time::Duration;

/// A queue's progress fence and the value that it must reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Drain {
    /// The queue.
    pub(crate) queue: Handle,
    /// The slot of its progress fence.
    pub(crate) slot: u32,
    /// The value.
    pub(crate) value: u64,
}

/// The phase of a termination.
#[derive(Debug)]
pub(crate) enum Phase {
    /// Its doorbells are disconnected; these queues have unfinished work.
    Draining {
        /// The drains to wait for.
        waits: Vec<Drain>,
        /// When they have taken too long.
        deadline: Duration,
    },
    /// Its queues are off the run list; engines have left them when they have passed the ticket.
    Preempting(Ticket),
    /// No engine needs it; a display may still show it.
    Shown,
}

/// A termination in progress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ending {
    /// The guest.
    pub(crate) guest: GuestId,
    /// The process.
    pub(crate) process: u32,
    /// The target in that process.
    pub(crate) target: Target,
}

#[derive(Debug)]
struct Termination {
    ending: Ending,
    /// The action when the target has ended.
    completion: Completion,
    phase: Phase,
}

/// The result of checking a termination.
#[derive(Debug)]
pub(crate) enum Progress {
    /// No engine needs the target any more; the termination was taken off the list, and its
    /// completion follows.
    Ended(Ending, Completion),
    /// The target's queues have finished their work; engines may still be inside them.
    Drained(Ending),
    /// The target's queues have not finished their work in time.
    Late(Ending, Vec<Drain>),
    /// The termination needs more time.
    Waiting,
}

/// All terminations in progress, in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct Terminations(Vec<Termination>);

impl Terminations {
    /// Adds a termination; `completion` follows when the target has ended.
    pub(crate) fn begin(&mut self, ending: Ending, completion: Completion, phase: Phase) {
        self.0.push(Termination { ending, completion, phase });
    }

    /// Checks the termination at an index. `is_drained` tells whether a queue has finished its work, `is_shown` whether a
    /// display may still read what the target takes with it.
    pub(crate) fn look(
        &mut self,
        index: usize,
        (quiesced, now): (&Quiesced, Duration),
        is_drained: impl Fn(&Ending, Drain) -> bool,
        is_shown: impl Fn(&Ending) -> bool,
    ) -> Option<Progress> {
        let Termination { ending, phase, .. } = self.0.get_mut(index)?;
        let has_ended = match phase {
            Phase::Preempting(ticket) => *ticket <= quiesced.of(ending.guest),
            Phase::Draining { waits, .. } => {
                if waits.iter().all(|wait| is_drained(ending, *wait)) {
                    return Some(Progress::Drained(*ending));
                }
                false
            }
            Phase::Shown => true,
        };
        if has_ended && is_shown(ending) {
            *phase = Phase::Shown;
            return Some(Progress::Waiting);
        }
        Some(match phase {
            _ if has_ended => {
                let Termination { ending, completion, .. } = self.0.remove(index);
                Progress::Ended(ending, completion)
            }
            Phase::Draining { waits, deadline } if *deadline <= now => {
                Progress::Late(*ending, waits.clone())
            }
            _ => Progress::Waiting,
        })
    }

    /// Changes a termination's phase: it gets more time, or none.
    pub(crate) fn set_phase(&mut self, index: usize, phase: Phase) {
        if let Some(termination) = self.0.get_mut(index) {
            termination.phase = phase;
        }
    }

    /// Whether the ticket of a termination has passed.
    pub(crate) fn has_passed(&self, quiesced: &Quiesced) -> bool {
        self.0.iter().any(|Termination { ending, phase, .. }| {
            matches!(phase, Phase::Preempting(ticket) if *ticket <= quiesced.of(ending.guest))
        })
    }

    /// When the next drain is too late.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let deadlines = self.0.iter().filter_map(|termination| match termination.phase {
            Phase::Draining { deadline, .. } => Some(deadline),
            Phase::Preempting(_) | Phase::Shown => None,
        });
        deadlines.min()
    }

    /// Whether a target is already being terminated.
    pub(crate) fn contains(&self, guest: GuestId, process: u32, target: Target) -> bool {
        let wanted = (guest, process, target);
        let mut endings = self.0.iter().map(|termination| termination.ending);
        endings.any(|ending| (ending.guest, ending.process, ending.target) == wanted)
    }

    /// Drops a guest's terminations, because the guest itself ends.
    pub(crate) fn forget_guest(&mut self, guest: GuestId) {
        self.0.retain(|termination| termination.ending.guest != guest);
    }

    /// Whether there are no terminations.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const GUEST: GuestId = GuestId(4);

    fn ending(process: u32) -> Ending {
        Ending { guest: GUEST, process, target: Target::Process }
    }

    fn draining(value: u64) -> Phase {
        let waits = vec![Drain { queue: Handle(1), slot: 2, value }];
        Phase::Draining { waits, deadline: SECOND }
    }

    #[test]
    fn what_drains_ends_when_all_is_done_and_is_late_at_its_deadline() {
        let mut all = Terminations::default();
        all.begin(ending(1), Completion::Nothing, draining(7));
        let none = Quiesced::default();
        let mut look =
            |now, done| all.look(0, (&none, now), |_, wait| wait.value <= done, |_| false);
        assert!(matches!(look(SECOND / 2, 6), Some(Progress::Waiting)));
        let Some(Progress::Late(late, waits)) = look(SECOND, 6) else { panic!("it is late") };
        assert_eq!((late.process, waits.len()), (1, 1));
        // A drain that completes after its deadline still ends normally.
        assert!(matches!(look(SECOND, 7), Some(Progress::Drained(_))));
        all.set_phase(0, Phase::Preempting(Ticket(0)));
        let mut look = |now| all.look(0, (&none, now), |_, _| false, |_| false);
        assert!(matches!(look(SECOND), Some(Progress::Ended(..))));
        assert!(look(SECOND).is_none() && all.is_empty());
    }

    #[test]
    fn what_is_preempted_ends_when_its_ticket_has_passed_and_has_no_deadline() {
        let mut all = Terminations::default();
        all.begin(ending(1), Completion::Nothing, draining(7));
        assert_eq!(all.deadline(), Some(SECOND));
        all.set_phase(0, Phase::Preempting(Ticket(5)));
        assert_eq!(all.deadline(), None);
        let mut look =
            |ticket| all.look(0, (&Ticket(ticket).into(), 9 * SECOND), |_, _| false, |_| false);
        assert!(matches!(look(4), Some(Progress::Waiting)));
        assert!(matches!(look(5), Some(Progress::Ended(..))));
    }

    #[test]
    fn what_a_display_still_reads_ends_when_it_no_longer_does_and_has_no_deadline() {
        let mut all = Terminations::default();
        all.begin(ending(1), Completion::Nothing, Phase::Preempting(Ticket(0)));
        let none = Quiesced::default();
        let mut look = |seen| all.look(0, (&none, 9 * SECOND), |_, _| true, |_| seen);
        assert!(matches!(look(true), Some(Progress::Waiting)));
        assert!(matches!(look(true), Some(Progress::Waiting)));
        assert_eq!(all.deadline(), None);
        let mut look = |seen| all.look(0, (&none, 9 * SECOND), |_, _| false, |_| seen);
        assert!(matches!(look(false), Some(Progress::Ended(..))));
    }

    #[test]
    fn a_guest_takes_what_is_about_to_end_with_it() {
        let mut all = Terminations::default();
        all.begin(ending(1), Completion::Nothing, draining(1));
        assert!(
            all.contains(GUEST, 1, Target::Process) && !all.contains(GUEST, 2, Target::Process)
        );
        all.forget_guest(GUEST);
        assert!(all.is_empty());
    }
}
