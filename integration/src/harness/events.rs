// SPDX-License-Identifier: MIT OR Apache-2.0

//! The director: one thread that triggers control events one after another.

use crate::harness::board::{Board, Outcome, Signal};
use crate::harness::control::Control;
use crate::harness::guest::Message;
use crate::harness::scenario::layout::Layout;
use crate::harness::scenario::plan::{Described, Plan, Planned, Target};
use crate::harness::scenario::{Action, Scenario};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// The longest that one event may delay the next.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How often the director checks whether the run shall end.
const TICK: Duration = Duration::from_millis(100);
/// Most events that the report keeps one by one.
const MAX_KEPT: usize = 100_000;

/// An event that happened.
#[derive(Debug, Clone, Serialize)]
pub struct Happened {
    /// The number of the scenario's event, from 0.
    pub event: usize,
    /// The action and its target.
    pub what: String,
    /// When it was due, in milliseconds from the start; `None` on a condition.
    pub planned_ms: Option<u64>,
    /// When it was done, in milliseconds from the start.
    pub done_ms: u64,
    /// Why it was refused.
    pub refused: Option<String>,
}

/// The events of a run.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) happened: Vec<Happened>,
    /// Occurrences, by the scenario's event.
    pub(super) counts: Vec<u64>,
    /// Refusals, by the scenario's event.
    pub(super) refusals: Vec<u64>,
    /// The run reached its limit and was given up.
    pub(super) is_given_up: bool,
}

/// The thread that triggers events.
pub(super) struct Director<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) layout: &'a Layout,
    pub(super) board: &'a Board,
    pub(super) control: Control,
    pub(super) plan: Plan<'a>,
    pub(super) signals: Receiver<Signal>,
    pub(super) guests: Vec<Sender<Message>>,
    pub(super) duration: Option<Duration>,
    /// Requests the end of the run.
    pub(super) stop: &'a AtomicBool,
    pub(super) start: Instant,
    pub(super) events: Events,
}

impl Director<'_> {
    /// Directs until all guests have done their work, or until the limit.
    pub(super) fn run(mut self) -> Events {
        self.events.counts = vec![0; self.scenario.event.len()];
        self.events.refusals = vec![0; self.scenario.event.len()];
        let mut at_work = self.guests.len();
        let limit = self.scenario.limit.get() + self.duration.unwrap_or_default();
        let mut following = Vec::new();
        while at_work > 0 {
            let now = self.start.elapsed();
            if now >= limit && !self.events.is_given_up {
                self.events.is_given_up = true;
                self.board.give_up();
                break;
            }
            // Events that are planned before the end happen before it, however late they are.
            let next = self.plan.next_at(false);
            let is_over = self.duration.is_some_and(|duration| {
                now >= duration && next.is_none_or(|next| next >= duration)
            });
            if is_over || self.stop.load(Ordering::Acquire) {
                self.board.end();
            }
            // Events on conditions that are met come before timed ones.
            if let Some(event) = following.pop() {
                if let Some(planned) = self.plan.on_condition(event) {
                    self.make_happen(&planned, &mut following);
                }
                continue;
            }
            let is_over = self.board.is_over();
            let next = self.plan.next_at(is_over);
            if next.is_some_and(|next| next <= now) {
                if let Some(planned) = self.plan.take(is_over) {
                    self.make_happen(&planned, &mut following);
                }
                continue;
            }
            let times = [
                next,
                Some(limit),
                self.duration.filter(|duration| *duration > now),
                Some(now + TICK),
            ];
            let until = times.into_iter().flatten().min().unwrap_or_default();
            match self.signals.recv_timeout(until.saturating_sub(now)) {
                Ok(Signal::GuestDone) => at_work -= 1,
                Ok(Signal::Met { event }) => following.push(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.events
    }

    fn make_happen(&mut self, planned: &Planned, following: &mut Vec<usize>) {
        let outcome = self.carry_out(planned);
        if outcome.is_ok() {
            self.plan.happened(planned, self.start.elapsed());
        }
        let event = planned.event;
        self.board.post_event(event);
        self.events.counts[event] += 1;
        self.events.refusals[event] += u64::from(outcome.is_err());
        let what = Described { planned, layout: self.layout }.to_string();
        if self.events.happened.len() < MAX_KEPT {
            self.events.happened.push(Happened {
                event,
                what,
                planned_ms: planned.at.map(|at| at.as_millis() as u64),
                done_ms: self.start.elapsed().as_millis() as u64,
                refused: outcome.err(),
            });
        }
        let name = self.scenario.event.get(event).and_then(|event| event.name.as_ref());
        let follows = |place: &usize| {
            let condition = self.scenario.event[*place].when.as_ref();
            let wanted = condition.and_then(|condition| condition.event.as_ref());
            wanted.is_some() && wanted == name
        };
        // `pop` takes the last one first.
        following.extend((0..self.scenario.event.len()).rev().filter(follows));
    }

    fn carry_out(&self, planned: &Planned) -> Outcome {
        let (answer, answered) = channel();
        let mut gone = "the guest had ended";
        match (&planned.action, planned.target) {
            (Action::End, _) => {
                self.board.end();
                return Ok(());
            }
            (Action::BadPacket { .. }, Target::Queue(lane)) => {
                self.board.order_bad_packet(lane, answer);
            }
            (action, Target::Queue(lane) | Target::Context(lane)) => {
                self.order(self.layout.guest_of(lane), action, Some(lane), answer)?;
            }
            (action, Target::Guest(guest)) if !action.is_the_host_s() => {
                self.order(guest, action, None, answer)?;
            }
            (action, target) => {
                gone = "the host has stopped";
                self.control.begin(action, target, answer)?;
            }
        }
        match answered.recv_timeout(TIMEOUT) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout) => Err(format!("it was not done within {TIMEOUT:?}")),
            Err(RecvTimeoutError::Disconnected) => Err(gone.into()),
        }
    }

    fn order(
        &self,
        guest: usize,
        action: &Action,
        lane: Option<usize>,
        answer: Sender<Outcome>,
    ) -> Outcome {
        let order = Message::Order { action: action.clone(), lane, answer };
        self.guests[guest].send(order).map_err(|_| "the guest had ended".into())
    }
}
