// SPDX-License-Identifier: MIT OR Apache-2.0

//! One queue: its submissions and their completion.

use crate::harness::board::Board;
use crate::harness::guest::process::Process;
use crate::harness::guest::proof::{After, COMMANDS, Proof};
use crate::harness::guest::tally::{Ended, Tally};
use crate::harness::report::measure::Measure;
use crate::harness::scenario::layout::Lane;
use crate::harness::scenario::{Completion, Scenario, Status, Work};
use bellhop_guest::client;
use bellhop_guest_umd::{CommandBuffer, DoorbellCounters, Error, Fence};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::status::Status as Refusal;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a blocking wait lasts before the thread looks at its other queues.
const SLICE: Duration = Duration::from_millis(5);

/// A submission in flight.
struct InFlight {
    number: u64,
    value: u64,
    digest: u64,
    since: Instant,
    commands: CommandBuffer,
}

/// Whether the error says that the queue is lost, and only the queue.
fn is_loss(error: &Error) -> bool {
    matches!(
        error,
        Error::QueueLost { .. } | Error::Refused { status: Refusal::DEVICE_REMOVED, .. }
    )
}

/// Fails when the process ends: another process may by now own its fences and statuses. Called after they
/// were read.
fn check_process(shared: &Shared<'_>) -> Result<(), Error> {
    if shared.process.doomed.is_raised() {
        Err(Error::NotAvailable("the queue's process"))
    } else {
        Ok(())
    }
}

/// The state that all queues of one thread share.
pub(in crate::harness) struct Shared<'a> {
    pub(in crate::harness) scenario: &'a Scenario,
    pub(in crate::harness) board: &'a Board,
    pub(in crate::harness) process: &'a Process,
    /// Times by row of the report.
    pub(in crate::harness) measures: BTreeMap<usize, Measure>,
    /// Command buffers that are not in use.
    pub(in crate::harness) pool: Vec<CommandBuffer>,
    /// Command buffers that may still be made.
    pub(in crate::harness) unmade: u32,
}

impl Shared<'_> {
    /// Whether this number of command buffers is free.
    fn has_commands(&self, count: usize) -> bool {
        self.pool.len() + self.unmade as usize >= count
    }

    fn commands(&mut self) -> Result<CommandBuffer, Error> {
        match self.pool.pop() {
            Some(commands) => Ok(commands),
            None => {
                self.unmade = self.unmade.saturating_sub(1);
                CommandBuffer::new(&self.process.device, COMMANDS)
            }
        }
    }

    fn measure(&mut self, row: usize) -> &mut Measure {
        self.measures.entry(row).or_default()
    }
}

/// The result of a look at a queue.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::harness) struct Looked {
    /// Something was submitted or completed.
    pub(in crate::harness) has_moved: bool,
    /// When the oldest submission in flight was made.
    pub(in crate::harness) waits_since: Option<Instant>,
    /// When the next submission is due, if it waits for time alone.
    pub(in crate::harness) due: Option<Instant>,
}

/// A queue in use.
pub(in crate::harness) struct Queue {
    // Dropped in this order: the queue, then what its packets reach.
    hardware: client::Queue,
    in_flight: VecDeque<InFlight>,
    proof: Proof,
    pub(in crate::harness) lane: Arc<Lane>,
    pub(in crate::harness) tally: Tally,
    /// Its counters at the last look.
    counted: DoorbellCounters,
    /// The digest after the last submission that was completed.
    proven: u64,
    /// The digest of a submission that failed without an answer whether the device has it.
    unanswered: Option<u64>,
    /// A bad packet that was submitted: the queue must be lost next.
    poison: Option<Poison>,
}

/// A bad packet in flight.
#[derive(Debug, Clone, Copy)]
struct Poison {
    /// The value that the progress fence would get.
    value: u64,
    since: Instant,
}

impl Queue {
    pub(in crate::harness) fn create(
        process: &Process,
        board: &Board,
        lane: Arc<Lane>,
        tally: Tally,
    ) -> Result<Self, Error> {
        const MISSING: Error = Error::NotAvailable("what the harness made for this queue");
        let context = process.context(&lane).ok_or(MISSING)?;
        let extent = process.extent(lane.index).ok_or(MISSING)?;
        let memory = Arc::clone(&process.memory);
        let proof = Proof::begin(memory, extent, &lane.to_string(), tally.number)?;
        let hardware = client::Queue::create(context, lane.spec.mode, lane.spec.ring.get())?;
        board.post_handle(lane.index, hardware.handle());
        Ok(Self {
            hardware,
            in_flight: VecDeque::new(),
            proven: proof.digest(),
            proof,
            lane,
            tally,
            counted: DoorbellCounters::default(),
            unanswered: None,
            poison: None,
        })
    }

    pub(in crate::harness) fn has_ended(&self) -> bool {
        self.tally.ended.is_some()
    }

    /// Looks once for completions, and submits what is due.
    pub(in crate::harness) fn look(
        &mut self,
        shared: &mut Shared<'_>,
        now: Instant,
    ) -> Result<Looked, Error> {
        let mut looked = Looked { has_moved: self.complete(shared)?, ..Looked::default() };
        self.look_at_status(shared)?;
        if self.has_ended() {
            return Ok(looked);
        }
        if let Some(waiter) = shared.board.take_bad_packet(self.lane.index) {
            let poisoned = self.poison(shared);
            let told = match &poisoned {
                // The device may have found the bad packet before the ring.
                Err(error) if !is_loss(error) || self.poison.is_none() => Err(error.to_string()),
                _ => Ok(()),
            };
            // An error means that the receiver is gone.
            let _ = waiter.send(told);
            self.survive(shared, poisoned)?;
            looked.has_moved = true;
        }
        if self.is_done(shared) {
            self.end(shared, Ended::Done);
            return Ok(Looked { has_moved: true, ..looked });
        }
        match self.wants_to_submit(shared) {
            Some(count) => match self.tally.due {
                Some(due) if due > now => looked.due = Some(due),
                _ => {
                    let submitted = self.submit(shared, count);
                    self.survive(shared, submitted)?;
                    looked.has_moved = true;
                }
            },
            None => self.look_for_trouble(shared, now),
        }
        looked.waits_since = self.oldest().map(|(_, since)| since);
        Ok(looked)
    }

    /// The next progress value, and when its submission was made.
    fn oldest(&self) -> Option<(u64, Instant)> {
        let submission = self.in_flight.front().map(|oldest| (oldest.value, oldest.since));
        submission.or(self.poison.map(|poison| (poison.value, poison.since)))
    }

    /// Whether all of the queue's work is done.
    fn is_done(&self, shared: &Shared<'_>) -> bool {
        let enough = self.tally.completed >= self.lane.spec.submissions.unwrap_or(u64::MAX);
        let ends = enough || (self.is_told_to_end(shared) && self.in_flight.is_empty());
        ends && self.poison.is_none()
    }

    fn is_told_to_end(&self, shared: &Shared<'_>) -> bool {
        if shared.board.is_given_up() {
            return true;
        }
        let spec = &self.lane.spec;
        match (&spec.until, spec.submissions) {
            (Some(until), _) if self.has_happened(shared, until) => true,
            (None, Some(_)) => false,
            _ => shared.board.is_over(),
        }
    }

    fn has_happened(&self, shared: &Shared<'_>, name: &str) -> bool {
        let events = &shared.scenario.event;
        let place = events.iter().position(|event| event.name.as_deref() == Some(name));
        place.is_none_or(|event| shared.board.has_happened(event))
    }

    /// The number of submissions to make next; `None` if the queue must wait or end.
    fn wants_to_submit(&self, shared: &Shared<'_>) -> Option<u32> {
        let spec = &self.lane.spec;
        if self.poison.is_some() || self.is_told_to_end(shared) {
            return None;
        }
        if spec.start.as_ref().is_some_and(|start| !self.has_happened(shared, start)) {
            return None;
        }
        let on_their_way = self.in_flight.len() as u64;
        let left = spec.submissions.unwrap_or(u64::MAX) - self.tally.completed;
        let count = left.saturating_sub(on_their_way).min(spec.batch.get().into());
        let has_room = on_their_way + count <= u64::from(spec.depth.get());
        let has_commands = shared.has_commands(count as usize);
        let is_free = self.lane.after.is_none_or(|after| {
            // The other queue completes what it has submitted, and also what it still must submit.
            let has_to = !shared.board.has_ended(after) && spec.submissions.is_some();
            has_to || shared.board.reached(after) >= self.tally.number + count
        });
        (count > 0 && has_room && has_commands && is_free).then_some(count as u32)
    }

    fn submit(&mut self, shared: &mut Shared<'_>, count: u32) -> Result<(), Error> {
        let since = Instant::now();
        for _ in 0..count {
            self.queue_one(shared, since)?;
        }
        let before = self.hardware.counters().connects;
        let rung = Instant::now();
        let result = self.hardware.ring();
        if self.hardware.counters().connects > before {
            let took = rung.elapsed();
            shared.measure(self.lane.row).connect.record(took);
        }
        self.post(shared);
        let [low, high] = self.lane.spec.think.map(|time| time.get().as_micros() as u64);
        let think = Duration::from_micros(self.tally.choose(low, high));
        self.tally.due = (!think.is_zero()).then(|| Instant::now() + think);
        result
    }

    fn queue_one(&mut self, shared: &mut Shared<'_>, since: Instant) -> Result<(), Error> {
        let work = match self.lane.spec.work {
            Work::Mixed => match self.tally.choose(0, 3) {
                0 => Work::Nop,
                1 => Work::Fill,
                2 => Work::Copy,
                _ => Work::Write,
            },
            work => work,
        };
        let number = self.tally.number + 1;
        let mut commands = shared.commands()?;
        let process = shared.process;
        let after = self.lane.after.and_then(|after| {
            let fence = process.fence(after)?;
            Some(After { fence, number: process.extent(after)?.number() })
        });
        let before = self.proof.digest();
        let signal = process.fence(self.lane.index).map(Arc::as_ref);
        self.proof.record(&mut commands, number, work, after.as_ref(), signal)?;
        let queued = self.hardware.queue(&mut commands);
        if queued.is_err() {
            // The device may or may not have the submission.
            self.unanswered = Some(self.proof.digest());
            self.proof.forget_beyond(before);
        }
        let value = queued?;
        self.tally.number = number;
        self.tally.submitted += 1;
        let digest = self.proof.digest();
        self.in_flight.push_back(InFlight { number, value, digest, since, commands });
        Ok(())
    }

    /// Submits bytes that are no valid packet.
    fn poison(&mut self, shared: &mut Shared<'_>) -> Result<(), Error> {
        let mut commands = shared.commands()?;
        commands.reset();
        commands.raw(&[0xFF; 8])?;
        let value = self.hardware.queue(&mut commands)?;
        self.poison = Some(Poison { value, since: Instant::now() });
        // The device is about to read the buffer, so it is not reused.
        self.hardware.ring()
    }

    /// Handles the loss of the queue here; returns any other error to the thread.
    fn survive<T>(
        &mut self,
        shared: &mut Shared<'_>,
        result: Result<T, Error>,
    ) -> Result<(), Error> {
        match result {
            Err(error) if is_loss(&error) => self.lose(shared),
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }

    /// Records completed submissions.
    fn complete(&mut self, shared: &mut Shared<'_>) -> Result<bool, Error> {
        if self.in_flight.is_empty() {
            return Ok(false);
        }
        // Where the driver does not reach fences, only a wait shows completions.
        let Ok(current) = self.hardware.progress_fence().current_value() else { return Ok(false) };
        check_process(shared)?;
        Ok(self.complete_to(shared, current))
    }

    fn complete_to(&mut self, shared: &mut Shared<'_>, current: u64) -> bool {
        if current == Fence::ALWAYS_SIGNALED {
            // The queue is lost; its doorbell or the next wait will show it.
            return false;
        }
        let mut has_moved = false;
        while self.in_flight.front().is_some_and(|oldest| oldest.value <= current)
            && let Some(InFlight { number, digest, since, commands, .. }) =
                self.in_flight.pop_front()
        {
            let took = since.elapsed();
            shared.measure(self.lane.row).latency.record(took);
            if let Err(problem) = self.proof.check(number, digest, self.lane.after.is_some()) {
                self.tally.problem(problem);
            }
            self.proven = digest;
            self.tally.completed += 1;
            shared.pool.push(commands);
            has_moved = true;
        }
        if has_moved {
            self.post(shared);
        }
        has_moved
    }

    /// Posts its progress, and the status of its doorbell.
    fn post(&mut self, shared: &Shared<'_>) {
        let lane = self.lane.index;
        shared.board.post_progress(lane, self.tally.completed, self.tally.number);
        let counters = self.hardware.counters();
        let DoorbellCounters { rings, notifies, connects, .. } = self.counted;
        let other = counters.notifies - notifies + counters.connects - connects;
        if counters.connects > connects {
            shared.board.post_status(lane, Status::DisconnectedRetry);
        }
        if counters.notifies > notifies {
            shared.board.post_status(lane, Status::ConnectedNotify);
        }
        if counters.rings - rings > other {
            shared.board.post_status(lane, Status::Connected);
        }
        self.counted = counters;
    }

    fn look_at_status(&mut self, shared: &mut Shared<'_>) -> Result<(), Error> {
        let is_watched = shared.board.is_status_watched(self.lane.index);
        if self.oldest().is_none() && !is_watched {
            return Ok(());
        }
        let status = match self.hardware.status() {
            Some(ConnectionStatus::CONNECTED) => Status::Connected,
            Some(ConnectionStatus::CONNECTED_NOTIFY) => Status::ConnectedNotify,
            Some(ConnectionStatus::DISCONNECTED_RETRY) => Status::DisconnectedRetry,
            Some(ConnectionStatus::DISCONNECTED_ABORT) => Status::DisconnectedAbort,
            _ => return Ok(()),
        };
        shared.board.post_status(self.lane.index, status);
        match status {
            Status::DisconnectedAbort => self.lose(shared),
            _ => Ok(()),
        }
    }

    /// Handles the loss of the queue, with all submissions in flight.
    fn lose(&mut self, shared: &mut Shared<'_>) -> Result<(), Error> {
        // Submissions that completed before the loss may not be recorded yet.
        self.complete(shared)?;
        check_process(shared)?;
        self.tally.losses += 1;
        if let Some(why) = self.hardware.loss() {
            self.tally.last_loss = why.to_string();
        }
        shared.board.post_status(self.lane.index, Status::DisconnectedAbort);
        self.drop_what_is_left();
        self.post(shared);
        if !self.lane.spec.recover || shared.board.is_given_up() {
            self.end(shared, Ended::Lost);
            return Ok(());
        }
        self.count();
        // The new queue exists before the lost one is destroyed: there are two for a moment.
        let lane = Arc::clone(&self.lane);
        *self = Self::create(shared.process, shared.board, lane, self.tally.clone())?;
        Ok(())
    }

    /// Drops submissions in flight, which will not complete. Those that were executed must be the first of them.
    fn drop_what_is_left(&mut self) {
        let mut possible = vec![self.proven];
        possible.extend(self.in_flight.iter().map(|submission| submission.digest));
        possible.extend(self.unanswered);
        match self.proof.found() {
            Ok(digest) if possible.contains(&digest) => {}
            Ok(digest) => self.tally.problem(format!(
                "the final digest {digest:#018x} matches no number of submissions executed in order"
            )),
            Err(error) => self.tally.problem(format!("its proof cannot be read: {error}")),
        }
        self.tally.dropped += self.in_flight.len() as u64;
        self.in_flight.clear();
    }

    /// Ends the queue if it can make no more progress, and records why.
    fn look_for_trouble(&mut self, shared: &mut Shared<'_>, now: Instant) {
        if shared.board.is_given_up() {
            self.drop_what_is_left();
            return self.end(shared, Ended::GivenUp);
        }
        let stranded = self.lane.after.is_some_and(|after| {
            let wanted = self.in_flight.front().map_or(self.tally.number + 1, |next| next.number);
            // The other queue posts its progress before its end.
            shared.board.has_ended(after) && shared.board.reached(after) < wanted
        });
        let limit = shared.scenario.stuck.get();
        let oldest = self.oldest();
        let is_stuck = |since| now.saturating_duration_since(since) > limit;
        if stranded {
            self.drop_what_is_left();
            self.end(shared, Ended::Stranded);
        } else if oldest.is_some_and(|(_, since)| is_stuck(since)) {
            let number = self.in_flight.front().map_or(self.tally.number, |oldest| oldest.number);
            self.tally.problem(format!("submission {number} did not complete within {limit:?}"));
            self.drop_what_is_left();
            self.end(shared, Ended::Stuck);
        }
    }

    fn end(&mut self, shared: &Shared<'_>, how: Ended) {
        self.tally.ended = Some(how);
        self.post(shared);
        shared.board.post_end(self.lane.index);
    }

    /// Adds the queue's doorbell counters to the tally.
    fn count(&mut self) {
        let counters = self.hardware.counters();
        let all = &mut self.tally.counters;
        all.rings += counters.rings;
        all.notifies += counters.notifies;
        all.kicks += counters.kicks;
        all.connects += counters.connects;
    }

    /// Whether its driver waits to be woken instead of polling.
    pub(in crate::harness) fn is_woken(&self) -> bool {
        self.lane.spec.completion == Completion::Wait
            || self.hardware.progress_fence().current_value().is_err()
    }

    /// Waits for its oldest submission, for at most [`SLICE`].
    pub(in crate::harness) fn wait(
        &mut self,
        shared: &mut Shared<'_>,
        limit: Duration,
    ) -> Result<(), Error> {
        let Some((value, _)) = self.oldest() else { return Ok(()) };
        match self.hardware.progress_fence().wait(value, limit.min(SLICE)) {
            Ok(()) => {
                // A wait that ends because its process does is no completion: the fence decides, where the driver
                // reaches it.
                let current = self.hardware.progress_fence().current_value().unwrap_or(value);
                check_process(shared)?;
                self.complete_to(shared, current);
                Ok(())
            }
            Err(Error::Timeout { .. }) => Ok(()),
            failed => self.survive(shared, failed),
        }
    }

    /// Closes the queue when its process ends, with all submissions in flight. Returns the tally.
    pub(in crate::harness) fn close(mut self) -> (Arc<Lane>, Tally) {
        if !self.has_ended() {
            self.drop_what_is_left();
        }
        self.count();
        (Arc::clone(&self.lane), std::mem::take(&mut self.tally))
    }
}
