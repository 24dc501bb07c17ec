// SPDX-License-Identifier: MIT OR Apache-2.0

//! A scenario with every guest and queue enumerated.

use crate::harness::scenario::names::{Name, matches};
use crate::harness::scenario::{GuestSpec, QueueSpec, Scenario};
use std::ops::Range;
use std::sync::Arc;

/// One queue of the scenario, even if the run loses it and makes it anew.
#[derive(Debug)]
pub(in crate::harness) struct Lane {
    /// Its place in [`Layout::lanes`].
    pub(in crate::harness) index: usize,
    guest: Name,
    context: Name,
    queue: Name,
    /// Its context's place in the guest.
    pub(in crate::harness) context_index: usize,
    pub(in crate::harness) process: u32,
    pub(in crate::harness) spec: Arc<QueueSpec>,
    /// The row of the report that it belongs to.
    pub(in crate::harness) row: usize,
    /// The queue that its submissions wait for.
    pub(in crate::harness) after: Option<usize>,
    /// Whether another queue waits for it.
    pub(in crate::harness) is_waited_for: bool,
}

impl Lane {
    fn matches(&self, pattern: &str) -> bool {
        matches(pattern, &[&self.guest, &self.context, &self.queue])
    }

    /// The name of its context.
    pub(in crate::harness) fn context_name(&self) -> String {
        format!("{}/{}", self.guest, self.context)
    }
}

impl std::fmt::Display for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.guest, self.context, self.queue)
    }
}

/// One guest.
#[derive(Debug)]
pub(in crate::harness) struct Guest {
    pub(in crate::harness) name: Name,
    pub(in crate::harness) spec: Arc<GuestSpec>,
    /// Its range of [`Layout::lanes`].
    pub(in crate::harness) lanes: Range<usize>,
}

/// The queues of one row of the report: those that one table of one guest describes.
#[derive(Debug)]
pub(in crate::harness) struct Row {
    pub(in crate::harness) name: String,
    pub(in crate::harness) count: u32,
}

/// All guests, rows and queues.
#[derive(Debug, Default)]
pub(in crate::harness) struct Layout {
    pub(in crate::harness) guests: Vec<Guest>,
    pub(in crate::harness) lanes: Vec<Arc<Lane>>,
    pub(in crate::harness) rows: Vec<Row>,
}

impl Layout {
    pub(in crate::harness) fn of(scenario: &Scenario) -> Self {
        let mut layout = Self::default();
        for spec in &scenario.guest {
            let spec = Arc::new(spec.clone());
            for number in 0..spec.count.get() {
                layout.add(Name::of(&spec.name, number, spec.count.get()), &spec);
            }
        }
        layout
    }

    fn add(&mut self, name: Name, spec: &Arc<GuestSpec>) {
        let first = self.lanes.len();
        let mut lanes = Vec::new();
        for (context_index, context) in spec.context.iter().enumerate() {
            for queue in &context.queue {
                let row = self.rows.len();
                let row_name = format!("{name}/{}/{}", context.name, queue.name);
                self.rows.push(Row { name: row_name, count: queue.count.get() });
                let queue_spec = Arc::new(queue.clone());
                for number in 0..queue.count.get() {
                    lanes.push(Lane {
                        index: first + lanes.len(),
                        guest: name.clone(),
                        context: Name::of(&context.name, 0, 1),
                        queue: Name::of(&queue.name, number, queue.count.get()),
                        context_index,
                        process: context.process,
                        spec: Arc::clone(&queue_spec),
                        row,
                        after: None,
                        is_waited_for: false,
                    });
                }
            }
        }
        link(&mut lanes, first);
        self.lanes.extend(lanes.into_iter().map(Arc::new));
        let lanes = first..self.lanes.len();
        self.guests.push(Guest { name, spec: Arc::clone(spec), lanes });
    }

    /// The queues that a pattern names.
    pub(in crate::harness) fn lanes(&self, pattern: &str) -> Vec<usize> {
        self.lanes.iter().filter(|lane| lane.matches(pattern)).map(|lane| lane.index).collect()
    }

    /// The contexts that a pattern names, by the first queue of each.
    pub(in crate::harness) fn contexts(&self, pattern: &str) -> Vec<usize> {
        let names = |lane: &&Arc<Lane>| matches(pattern, &[&lane.guest, &lane.context]);
        let mut first: Vec<_> = self.lanes.iter().filter(names).collect();
        first.dedup_by_key(|lane| lane.context_name());
        first.iter().map(|lane| lane.index).collect()
    }

    /// The guests that a pattern names.
    pub(in crate::harness) fn guests(&self, pattern: &str) -> Vec<usize> {
        let all = self.guests.iter().enumerate();
        all.filter(|(_, guest)| matches(pattern, &[&guest.name])).map(|(place, _)| place).collect()
    }

    /// The guest of a queue.
    pub(in crate::harness) fn guest_of(&self, lane: usize) -> usize {
        let holds = |guest: &Guest| guest.lanes.contains(&lane);
        self.guests.iter().position(holds).unwrap_or_default()
    }
}

/// Finds the queue that each queue waits for: of several, the one with its own number, modulo their count.
fn link(lanes: &mut [Lane], first: usize) {
    let links: Vec<_> = lanes
        .iter()
        .map(|lane| {
            let wanted = lane.spec.after.as_ref()?;
            let pattern = if wanted.contains('/') {
                wanted.clone()
            } else {
                format!("{}/{wanted}", lane.context)
            };
            let found: Vec<_> = lanes
                .iter()
                .filter(|other| matches(&pattern, &[&other.context, &other.queue]))
                .filter(|other| other.process == lane.process && other.row != lane.row)
                .map(|other| other.index)
                .collect();
            let own = lanes.iter().filter(|other| other.row == lane.row);
            let place = own.take_while(|other| other.index < lane.index).count();
            found.get(place.checked_rem(found.len())?).copied()
        })
        .collect();
    for (place, after) in links.into_iter().enumerate() {
        lanes[place].after = after;
        if let Some(after) = after {
            lanes[after - first].is_waited_for = true;
        }
    }
}
