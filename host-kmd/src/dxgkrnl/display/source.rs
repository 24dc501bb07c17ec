// SPDX-License-Identifier: MIT OR Apache-2.0

//! A committed source: who may flip it, what it shows, and the flips that wait.
//!
//! ```text
//!  queue: waits for paging, fences and earlier flips ──> given to the hardware ──> shown
//! ```
//! At most one flip is pending in the hardware, and one more when a flip that replaces it came too late. The end of each
//! flip is told once.

use crate::dxgkrnl::display::flip::{Ended, Flip, FlipId, Outcomes, Primary, Surface};
use crate::hardware::DisplayPath;
use bellhop_protocol::control::display::{SourceMode, TargetMode};
use bellhop_protocol::control::flip::MAX_FLIPS;
use bellhop_protocol::event::FlipOutcome;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// How many intervals of its monitor a flip may take, at the longest.
const INTERVALS: u32 = 4;

/// A flip that the hardware has.
#[derive(Debug)]
struct Given {
    flip: Flip,
    /// When its end is too late.
    deadline: Duration,
    /// The targets whose VSYNCs have counted since: the hardware may have reported the flip before a commit.
    targets: BTreeSet<u32>,
}

/// What an interrupt about a source says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The flip that is shown; 0 for none.
    pub(crate) flip: FlipId,
    /// VSYNCs of the source.
    pub(crate) count: u64,
    /// When, in ticks of the adapter's clock.
    pub(crate) time: u64,
}

/// The interrupt names a flip that is neither shown nor expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the hardware shows flip {0}, which it was not given")]
pub(crate) struct UnexpectedFlip(pub(crate) u64);

/// A committed source.
#[derive(Debug)]
pub(crate) struct Source {
    index: u32,
    /// The process that committed it.
    owner: u32,
    /// Another process that may flip it.
    granted: Option<u32>,
    mode: SourceMode,
    /// The target of its first path, and that target's mode.
    target: u32,
    target_mode: TargetMode,
    visible: bool,
    /// Processes that want VSYNC events.
    wanted_by: BTreeSet<u32>,
    shown: Option<Primary>,
    queue: VecDeque<Flip>,
    given: VecDeque<Given>,
    /// Flips up to this one that the source does not have were lost: the hardware may have shown them before it knew.
    settled: FlipId,
    /// VSYNCs and the time of the last that was reported.
    last: (u64, u64),
}

/// The longest time between two VSYNCs of a mode.
fn interval(mode: &TargetMode) -> Duration {
    let nanoseconds = |seconds: u64, frames: u64| {
        let time = u128::from(seconds) * 1_000_000_000 / u128::from(frames.max(1));
        Duration::from_nanos(u64::try_from(time).unwrap_or(u64::MAX))
    };
    let fixed = nanoseconds(mode.refresh_denominator.into(), mode.refresh_numerator.into());
    match mode.min_refresh {
        0 => fixed,
        // Frames in 1,000 seconds.
        frames => fixed.max(nanoseconds(1000, frames.into())),
    }
}

impl Source {
    /// A source that a process has committed with this first path, after this flip of the guest. It shows nothing yet.
    pub(crate) fn new(owner: u32, path: &DisplayPath, last: FlipId) -> Self {
        Self {
            index: path.source,
            owner,
            granted: None,
            mode: path.source_mode,
            target: path.target,
            target_mode: path.target_mode,
            visible: true,
            wanted_by: BTreeSet::new(),
            shown: None,
            queue: VecDeque::new(),
            given: VecDeque::new(),
            settled: last,
            last: (0, 0),
        }
    }

    /// The source has other paths from now on; this is the first. The flips that the hardware has stay. With another
    /// mode frames begin anew, and those flips get their time again.
    pub(crate) fn set_first_path(&mut self, path: &DisplayPath, times: (Duration, Duration)) {
        self.target = path.target;
        for given in &mut self.given {
            given.targets.insert(path.target);
        }
        if self.target_mode != path.target_mode {
            self.target_mode = path.target_mode;
            self.restart_deadlines(times);
        }
    }

    pub(crate) fn owner(&self) -> u32 {
        self.owner
    }

    pub(crate) fn mode(&self) -> SourceMode {
        self.mode
    }

    /// The target whose VSYNCs count.
    pub(crate) fn preferred_target(&self) -> u32 {
        self.target
    }

    /// Whether a VSYNC of a target that shows a flip counts: the target is the preferred one, or was since the hardware
    /// got the flip.
    pub(crate) fn counts(&self, target: u32, id: FlipId) -> bool {
        let given = self.given.iter().find(|given| given.flip.id() == id);
        target == self.target || given.is_some_and(|given| given.targets.contains(&target))
    }

    pub(crate) fn is_visible(&self) -> bool {
        self.visible
    }

    /// Whether the hardware has a flip, or can be given one.
    pub(crate) fn is_flipping(&self) -> bool {
        !self.given.is_empty() || self.is_next_ready()
    }

    pub(crate) fn set_visible(&mut self, visible: bool) {
        self.visible = visible;
    }

    /// Whether a process may flip it.
    pub(crate) fn may_flip(&self, process: u32) -> bool {
        self.owner == process || self.granted == Some(process)
    }

    /// Lets another process flip it, or no other. Returns the processes that are told of VSYNCs.
    ///
    /// What waits of a process that may flip it no more never happens: flips wait for those before them, and its fences may never
    /// have their values.
    pub(crate) fn grant(&mut self, process: Option<u32>) -> Vec<u32> {
        self.granted = process;
        let (owner, granted) = (self.owner, self.granted);
        for flip in &mut self.queue {
            let of = flip.primary.surface.process;
            flip.hopeless |= of != owner && Some(of) != granted;
        }
        self.wanted_by.retain(|process| *process == owner || Some(*process) == granted);
        self.wanted_by.iter().copied().collect()
    }

    /// The other process that may flip it.
    pub(crate) fn granted(&self) -> Option<u32> {
        self.granted
    }

    /// A process wants VSYNC events, or not. Returns the processes that are told of VSYNCs.
    pub(crate) fn want_vsync(&mut self, process: u32, on: bool) -> Vec<u32> {
        if on {
            self.wanted_by.insert(process);
        } else {
            self.wanted_by.remove(&process);
        }
        self.wanted_by.iter().copied().collect()
    }

    /// The driver's number of the flip that is shown; 0 for none.
    pub(crate) fn shown_number(&self) -> u64 {
        self.shown.map_or(0, |primary| primary.number)
    }

    /// The driver's numbers of the flips that have not ended, in order.
    pub(crate) fn pending(&self) -> impl Iterator<Item = u64> {
        let given = self.given.iter().map(|given| &given.flip);
        given.chain(&self.queue).map(|flip| flip.primary.number)
    }

    /// VSYNCs by the last that was reported.
    pub(crate) fn vsyncs(&self) -> u64 {
        self.last.0
    }

    /// Whether another flip has room.
    pub(crate) fn has_room(&self) -> bool {
        self.queue.len() + self.given.len() < MAX_FLIPS as usize
    }

    /// Adds a flip behind the others.
    pub(crate) fn push(&mut self, flip: Flip) {
        self.queue.push_back(flip);
    }

    /// A flip that waits.
    pub(crate) fn waiting(&mut self, id: FlipId) -> Option<&mut Flip> {
        self.queue.iter_mut().find(|flip| flip.id() == id)
    }

    fn ended(&self, flip: Flip, outcome: FlipOutcome) -> Ended {
        let (count, time) = self.last;
        Ended { source: self.index, flip, outcome, count, time }
    }

    /// Ends a flip that the hardware never had.
    fn end_unseen(&self, flip: Flip, outcome: FlipOutcome, outcomes: &mut Outcomes) {
        outcomes.released.push(flip.primary.surface);
        outcomes.ended.push(self.ended(flip, outcome));
    }

    /// Ends waiting flips that cannot happen, and those that a ready one replaces.
    fn prune(&mut self, outcomes: &mut Outcomes) {
        let is_newest = |flip: &Flip| flip.replace && flip.is_ready();
        let replaced = self.queue.iter().rposition(is_newest).unwrap_or(0);
        for (index, flip) in std::mem::take(&mut self.queue).into_iter().enumerate() {
            if flip.hopeless {
                self.end_unseen(flip, FlipOutcome::LOST, outcomes);
            } else if index < replaced {
                self.end_unseen(flip, FlipOutcome::DROPPED, outcomes);
            } else {
                self.queue.push_back(flip);
            }
        }
    }

    /// Whether the hardware can be given the next flip.
    pub(crate) fn is_next_ready(&self) -> bool {
        let is_free = |next: &Flip| {
            let replaceable = self.given.iter().all(|given| !given.flip.immediate);
            self.given.is_empty() || next.replace && replaceable
        };
        self.queue.iter().any(|flip| flip.replace && flip.is_ready() && is_free(flip))
            || self.queue.front().is_some_and(|next| next.is_ready() && is_free(next))
    }

    /// Takes the next flip for the hardware, which gets it with `give`: that returns the pending flip that will not
    /// happen.
    pub(crate) fn give_next(
        &mut self,
        times: (Duration, Duration),
        mut give: impl FnMut(&mut Flip) -> Option<FlipId>,
        outcomes: &mut Outcomes,
    ) {
        self.prune(outcomes);
        while self.is_next_ready()
            && let Some(mut flip) = self.queue.pop_front()
        {
            let replaced = give(&mut flip);
            if let Some(at) = self.given.iter().position(|given| Some(given.flip.id()) == replaced)
                && let Some(Given { flip, .. }) = self.given.remove(at)
            {
                self.end_unseen(flip, FlipOutcome::DROPPED, outcomes);
            }
            let (deadline, targets) = (self.deadline_from(times), BTreeSet::from([self.target]));
            self.given.push_back(Given { flip, deadline, targets });
        }
    }

    /// The hardware shows a flip. It has let go of what it showed before.
    pub(crate) fn show(
        &mut self,
        Shown { flip: id, count, time }: Shown,
        outcomes: &mut Outcomes,
    ) -> Result<(), UnexpectedFlip> {
        let Some(at) = self.given.iter().position(|given| given.flip.id() == id) else {
            if self.shown.map_or(FlipId(0), |shown| shown.id) == id {
                self.last = (count, time);
                return Ok(());
            }
            // What was lost counted VSYNCs that are not the source's any more.
            return if id <= self.settled { Ok(()) } else { Err(UnexpectedFlip(id.0)) };
        };
        self.last = (count, time);
        // Those before it have happened: the hardware did not say that they were replaced.
        let happened: Vec<_> = self.given.drain(..=at).collect();
        for Given { flip, .. } in happened {
            let before = self.shown.replace(flip.primary);
            outcomes.released.extend(before.map(|before| before.surface));
            outcomes.ended.push(self.ended(flip, FlipOutcome::SHOWN));
        }
        Ok(())
    }

    /// When the first flip that the hardware has is too late.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.given.iter().map(|given| given.deadline).min()
    }

    /// When a flip is too late that the hardware gets now, if it may take a slack longer than some intervals.
    fn deadline_from(&self, (now, slack): (Duration, Duration)) -> Duration {
        let time = interval(&self.target_mode).saturating_mul(INTERVALS).saturating_add(slack);
        now.saturating_add(time)
    }

    /// The flips that the hardware has get their time again: there was no power, or their frames begin anew.
    pub(crate) fn restart_deadlines(&mut self, times: (Duration, Duration)) {
        let deadline = self.deadline_from(times);
        for given in &mut self.given {
            given.deadline = deadline;
        }
    }

    /// Loses the flips that the hardware has, which forgets them. It may still read their surfaces.
    pub(crate) fn lose_given(&mut self, outcomes: &mut Outcomes) {
        for Given { flip, .. } in std::mem::take(&mut self.given) {
            outcomes.taken.push(flip.primary.surface);
            outcomes.ended.push(self.ended(flip, FlipOutcome::LOST));
        }
    }

    /// Takes back the flips that the hardware has, which forgets them: those whose surfaces are selected are lost, the others
    /// are given to it again, before all that wait. It may still read their surfaces.
    pub(crate) fn take_back_given(
        &mut self,
        is_lost: impl Fn(&Surface) -> bool,
        outcomes: &mut Outcomes,
    ) {
        let given = std::mem::take(&mut self.given).into_iter().map(|given| given.flip);
        let (lost, stay): (Vec<_>, Vec<_>) = given.partition(|flip| is_lost(&flip.primary.surface));
        for flip in lost {
            outcomes.taken.push(flip.primary.surface);
            outcomes.ended.push(self.ended(flip, FlipOutcome::LOST));
        }
        stay.into_iter().rev().for_each(|flip| self.queue.push_front(flip));
    }

    /// Loses the waiting flips whose surfaces are selected.
    pub(crate) fn lose_waiting(
        &mut self,
        is_lost: impl Fn(&Surface) -> bool,
        outcomes: &mut Outcomes,
    ) {
        for flip in std::mem::take(&mut self.queue) {
            if is_lost(&flip.primary.surface) {
                self.end_unseen(flip, FlipOutcome::LOST, outcomes);
            } else {
                self.queue.push_back(flip);
            }
        }
    }

    /// Takes what is shown, if its surface is selected. The hardware may still read it.
    pub(crate) fn take_shown(
        &mut self,
        is_lost: impl Fn(&Surface) -> bool,
        outcomes: &mut Outcomes,
    ) {
        if let Some(shown) = self.shown.take_if(|shown| is_lost(&shown.surface)) {
            outcomes.taken.push(shown.surface);
        }
    }

    /// What is shown, under a new id: the hardware is told again.
    pub(crate) fn show_again(&mut self, id: FlipId) -> Option<Primary> {
        self.settled = id;
        let shown = self.shown.as_mut()?;
        shown.id = id;
        Some(*shown)
    }

    /// Whether the hardware shows, or has been given, a surface that is selected.
    pub(crate) fn is_seen(&self, is_it: impl Fn(&Surface) -> bool) -> bool {
        let given = self.given.iter().map(|given| &given.flip.primary);
        given.chain(&self.shown).any(|primary| is_it(&primary.surface))
    }

    /// All surfaces that it needs.
    pub(crate) fn surfaces(&self) -> impl Iterator<Item = Surface> {
        let waiting = self.queue.iter().map(|flip| flip.primary.surface);
        let given = self.given.iter().map(|given| given.flip.primary.surface);
        waiting.chain(given).chain(self.shown.iter().map(|shown| shown.surface))
    }
}
