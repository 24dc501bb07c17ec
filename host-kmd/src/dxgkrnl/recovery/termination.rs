// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is about to end, and how far each has come.
//!
//! ```text
//!  normal ──> Draining ──all done──────────────────────> ended
//!                 └─time─> Preempting ──ticket passed──> ended
//!  abnormal ─────────────> Preempting
//! ```
//! Source: user-mode work submission, "Normal and abnormal process termination".

use crate::dxgkrnl::object::completion::Completion;
use crate::dxgkrnl::object::target::Target;
use crate::hardware::{GuestId, Ticket};
use bellhop_protocol::control::Handle;
use std::time::Duration;

/// A queue's progress fence and the last value that it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Drain {
    /// The queue.
    pub(crate) queue: Handle,
    /// The slot of its progress fence.
    pub(crate) slot: u32,
    /// The value.
    pub(crate) value: u64,
}

/// How far something has come.
#[derive(Debug)]
pub(crate) enum Phase {
    /// Its doorbells are disconnected, and these queues have yet to do what they were given.
    Draining {
        /// What is waited for.
        waits: Vec<Drain>,
        /// When that has taken too long.
        deadline: Duration,
    },
    /// Its contexts are off the run list, and engines have yet to leave them.
    Preempting(Ticket),
}

/// Something that is about to end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ending {
    /// The guest.
    pub(crate) guest: GuestId,
    /// The process.
    pub(crate) process: u32,
    /// What ends of it.
    pub(crate) target: Target,
    /// What happens when it has ended.
    pub(crate) completion: Completion,
}

#[derive(Debug)]
struct Termination {
    ending: Ending,
    phase: Phase,
}

/// What has become of something that is about to end.
#[derive(Debug)]
pub(crate) enum Progress {
    /// No engine needs it any more, and it was taken off the list.
    Ended(Ending),
    /// Its queues have not done in time what they were given.
    Late(Ending, Vec<Drain>),
    /// It takes more time.
    Waiting,
}

/// Everything that is about to end, in the order in which its end began.
#[derive(Debug, Default)]
pub(crate) struct Terminations(Vec<Termination>);

impl Terminations {
    /// Something begins to end.
    pub(crate) fn begin(&mut self, ending: Ending, phase: Phase) {
        self.0.push(Termination { ending, phase });
    }

    /// Looks at one of them by its place. `is_drained` tells whether a queue has done what it was given.
    pub(crate) fn look(
        &mut self,
        index: usize,
        (quiesced, now): (Ticket, Duration),
        is_drained: impl Fn(&Ending, Drain) -> bool,
    ) -> Option<Progress> {
        let Termination { ending, phase } = self.0.get(index)?;
        let has_ended = match phase {
            Phase::Preempting(ticket) => *ticket <= quiesced,
            Phase::Draining { waits, .. } => waits.iter().all(|wait| is_drained(ending, *wait)),
        };
        Some(match phase {
            _ if has_ended => Progress::Ended(self.0.remove(index).ending),
            Phase::Draining { waits, deadline } if *deadline <= now => {
                Progress::Late(*ending, waits.clone())
            }
            _ => Progress::Waiting,
        })
    }

    /// One of them changes its phase: it gets more time, or none.
    pub(crate) fn set_phase(&mut self, index: usize, phase: Phase) {
        if let Some(termination) = self.0.get_mut(index) {
            termination.phase = phase;
        }
    }

    /// Whether engines have left something that ends, having passed a ticket.
    pub(crate) fn has_passed(&self, quiesced: Ticket) -> bool {
        let mut phases = self.0.iter().map(|termination| &termination.phase);
        phases.any(|phase| matches!(phase, Phase::Preempting(ticket) if *ticket <= quiesced))
    }

    /// When the next of them has waited for long enough.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let deadlines = self.0.iter().filter_map(|termination| match termination.phase {
            Phase::Draining { deadline, .. } => Some(deadline),
            Phase::Preempting(_) => None,
        });
        deadlines.min()
    }

    /// Whether something is about to end already.
    pub(crate) fn contains(&self, guest: GuestId, process: u32, target: Target) -> bool {
        let wanted = (guest, process, target);
        let mut endings = self.0.iter().map(|termination| termination.ending);
        endings.any(|ending| (ending.guest, ending.process, ending.target) == wanted)
    }

    /// The guest goes with everything that is about to end.
    pub(crate) fn forget_guest(&mut self, guest: GuestId) {
        self.0.retain(|termination| termination.ending.guest != guest);
    }

    /// Whether nothing is about to end.
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
        let (target, completion) = (Target::Process, Completion::Nothing);
        Ending { guest: GUEST, process, target, completion }
    }

    fn draining(value: u64) -> Phase {
        let waits = vec![Drain { queue: Handle(1), slot: 2, value }];
        Phase::Draining { waits, deadline: SECOND }
    }

    #[test]
    fn what_drains_ends_when_all_is_done_and_is_late_at_its_deadline() {
        let mut all = Terminations::default();
        all.begin(ending(1), draining(7));
        let mut look = |now, done| all.look(0, (Ticket(0), now), |_, wait| wait.value <= done);
        assert!(matches!(look(SECOND / 2, 6), Some(Progress::Waiting)));
        let Some(Progress::Late(late, waits)) = look(SECOND, 6) else { panic!("it is late") };
        assert_eq!((late.process, waits.len()), (1, 1));
        // What is done in the end has ended, however late.
        assert!(matches!(look(SECOND, 7), Some(Progress::Ended(_))));
        assert!(look(SECOND, 7).is_none() && all.is_empty());
    }

    #[test]
    fn what_is_preempted_ends_when_its_ticket_has_passed_and_has_no_deadline() {
        let mut all = Terminations::default();
        all.begin(ending(1), draining(7));
        assert_eq!(all.deadline(), Some(SECOND));
        all.set_phase(0, Phase::Preempting(Ticket(5)));
        assert_eq!(all.deadline(), None);
        let mut look = |ticket| all.look(0, (Ticket(ticket), 9 * SECOND), |_, _| false);
        assert!(matches!(look(4), Some(Progress::Waiting)));
        assert!(matches!(look(5), Some(Progress::Ended(_))));
    }

    #[test]
    fn a_guest_takes_what_is_about_to_end_with_it() {
        let mut all = Terminations::default();
        all.begin(ending(1), draining(1));
        assert!(
            all.contains(GUEST, 1, Target::Process) && !all.contains(GUEST, 2, Target::Process)
        );
        all.forget_guest(GUEST);
        assert!(all.is_empty());
    }
}
