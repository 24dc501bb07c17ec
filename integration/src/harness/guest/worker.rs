// SPDX-License-Identifier: MIT OR Apache-2.0

//! A thread of a guest that submits to queues and checks the results.

use crate::harness::board::Board;
use crate::harness::guest::process::Process;
use crate::harness::guest::queue::{Looked, Queue, Shared};
use crate::harness::guest::tally::Tally;
use crate::harness::report::measure::Measure;
use crate::harness::scenario::Scenario;
use crate::harness::scenario::layout::Lane;
use bellhop_guest_umd::Error;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the thread polls in vain before it waits to be woken.
const LOOKS: Duration = Duration::from_millis(1);
/// The longest sleep of the thread: the end of a process cannot always wake it.
const IDLE: Duration = Duration::from_millis(20);

/// The result of a thread's work.
pub(in crate::harness) struct Report {
    pub(in crate::harness) process: u32,
    pub(in crate::harness) tallies: Vec<(Arc<Lane>, Tally)>,
    /// Queues of a halted process, still open.
    pub(in crate::harness) open: Vec<Queue>,
    /// Times by row of the report.
    pub(in crate::harness) measures: BTreeMap<usize, Measure>,
    /// Why it ended before its queues did.
    pub(in crate::harness) error: Option<String>,
}

/// A thread's state.
pub(in crate::harness) struct Worker<'a> {
    pub(in crate::harness) scenario: &'a Scenario,
    pub(in crate::harness) board: &'a Board,
    pub(in crate::harness) process: Arc<Process>,
    /// The process's number in the scenario.
    pub(in crate::harness) number: u32,
    pub(in crate::harness) in_flight: u32,
}

impl Worker<'_> {
    /// Works until all queues or the process have ended.
    pub(in crate::harness) fn run(&self, lanes: Vec<(Arc<Lane>, Tally)>) -> Report {
        self.board.register();
        let mut shared = Shared {
            scenario: self.scenario,
            board: self.board,
            process: &self.process,
            measures: BTreeMap::new(),
            pool: Vec::new(),
            unmade: self.in_flight,
        };
        let mut tallies = Vec::new();
        let mut queues = Vec::new();
        let mut error = None;
        for (lane, tally) in lanes {
            let kept = (Arc::clone(&lane), tally.clone());
            if error.is_some() || tally.ended.is_some() || self.process.over.is_raised() {
                tallies.push(kept);
                continue;
            }
            match Queue::create(&self.process, self.board, lane, tally) {
                Ok(queue) => queues.push(queue),
                Err(refused) => {
                    error = Some(format!("{} cannot be created: {refused}", kept.0));
                    tallies.push(kept);
                }
            }
        }
        if error.is_none() {
            error = self.work(&mut queues, &mut shared).err().map(|error| error.to_string());
        }
        if !self.process.halted.is_raised() {
            tallies.extend(queues.drain(..).map(Queue::close));
        }
        self.board.unregister();
        let Shared { measures, .. } = shared;
        Report { process: self.number, tallies, open: queues, measures, error }
    }

    fn work(&self, queues: &mut [Queue], shared: &mut Shared<'_>) -> Result<(), Error> {
        let mut moved = Instant::now();
        while !self.process.over.is_raised() && !self.process.halted.is_raised() {
            let now = Instant::now();
            let mut all = Looked::default();
            let mut oldest = None;
            let mut is_busy = false;
            for (place, queue) in queues.iter_mut().enumerate() {
                if queue.has_ended() {
                    continue;
                }
                is_busy = true;
                let looked = queue.look(shared, now)?;
                all.has_moved |= looked.has_moved;
                all.due = earlier(all.due, looked.due);
                if earlier(all.waits_since, looked.waits_since) != all.waits_since {
                    all.waits_since = looked.waits_since;
                    oldest = Some(place);
                }
            }
            if !is_busy {
                break;
            }
            if all.has_moved {
                moved = now;
                continue;
            }
            let until_due = all.due.map_or(IDLE, |due| due.saturating_duration_since(now));
            match oldest.and_then(|place| queues.get_mut(place)) {
                Some(queue) if queue.is_woken() || moved.elapsed() > LOOKS => {
                    queue.wait(shared, until_due)?;
                }
                Some(_) => std::thread::yield_now(),
                None => std::thread::park_timeout(until_due.min(IDLE)),
            }
        }
        Ok(())
    }
}

/// The earlier of two times, if there is one.
fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}
