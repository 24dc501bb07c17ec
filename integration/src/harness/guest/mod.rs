// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest: its VMM, its processes, and the actions on it.

pub(in crate::harness) mod mischief;
pub(in crate::harness) mod process;
pub(in crate::harness) mod proof;
pub(in crate::harness) mod queue;
pub(in crate::harness) mod tally;
pub(in crate::harness) mod worker;

use crate::harness::board::{Board, Outcome, Signal};
use crate::harness::flag::Flag;
use crate::harness::guest::mischief::Errand;
use crate::harness::guest::process::Process;
use crate::harness::guest::queue::Queue;
use crate::harness::guest::tally::{Ended, Tally};
use crate::harness::guest::worker::{Report, Worker};
use crate::harness::report::measure::Measure;
use crate::harness::scenario::layout::{Lane, Layout};
use crate::harness::scenario::parse::profile;
use crate::harness::scenario::{Action, GuestSpec, Leaving, PlacementSpec, Scenario};
use anyhow::Context as _;
use bellhop_guest::fake_guest::{FakeGuest, GuestOptions, QEMU};
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{Adapter, Context, Error, PlacementPolicy, Placements};
use bellhop_protocol::features::Features;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::Scope;

/// A message to a guest's thread.
pub(in crate::harness) enum Message {
    /// An action on the guest.
    Order {
        /// The action.
        action: Action,
        /// The queue that the action is about, if it is about one.
        lane: Option<usize>,
        /// Takes the outcome.
        answer: Sender<Outcome>,
    },
    /// A thread of one of its processes has ended.
    Worked(Report),
}

/// The results of a guest, or of all guests.
#[derive(Default)]
pub(in crate::harness) struct Results {
    /// Results by queue, in the order of the layout.
    pub(in crate::harness) tallies: Vec<Tally>,
    /// Times by row of the report.
    pub(in crate::harness) measures: BTreeMap<usize, Measure>,
    pub(in crate::harness) victims: u64,
    pub(in crate::harness) violations: Vec<String>,
    /// Errors that are not about a queue.
    pub(in crate::harness) problems: Vec<String>,
}

/// The state that all guests of a run share.
pub(in crate::harness) struct Common<'a> {
    pub(in crate::harness) scenario: &'a Scenario,
    pub(in crate::harness) layout: &'a Layout,
    pub(in crate::harness) board: &'a Board,
    pub(in crate::harness) seed: u64,
}

/// A running guest.
struct Machine {
    vm: Arc<FakeGuest>,
    /// A process without queues, for requests about the whole guest.
    base: Arc<Adapter>,
}

/// A process, and its queues that no thread works at.
#[derive(Default)]
struct Slot {
    process: Option<Arc<Process>>,
    /// The number of threads that work for it.
    working: usize,
    idle: Vec<(Arc<Lane>, Tally)>,
    /// Queues that stopped threads left open.
    halted: Vec<Queue>,
}

/// The thread of one guest.
pub(in crate::harness) struct GuestThread<'scope, 'env, 'a> {
    common: &'env Common<'a>,
    scope: &'scope Scope<'scope, 'env>,
    index: usize,
    socket: &'env Path,
    orders: Receiver<Message>,
    to_itself: Sender<Message>,
    postponed: VecDeque<Message>,
    slots: BTreeMap<u32, Slot>,
    errands: Vec<Errand>,
    results: Results,
}

impl<'scope, 'env, 'a> GuestThread<'scope, 'env, 'a> {
    pub(in crate::harness) fn new(
        common: &'env Common<'a>,
        scope: &'scope Scope<'scope, 'env>,
        index: usize,
        socket: &'env Path,
        (to_itself, orders): (Sender<Message>, Receiver<Message>),
    ) -> Self {
        let mut slots: BTreeMap<u32, Slot> = BTreeMap::new();
        let lanes = common.layout.guests.get(index).map(|guest| guest.lanes.clone());
        for lane in common.layout.lanes.get(lanes.unwrap_or_default()).unwrap_or_default() {
            let tally = Tally::new(lane, common.seed);
            slots.entry(lane.process).or_default().idle.push((Arc::clone(lane), tally));
        }
        Self {
            common,
            scope,
            index,
            socket,
            orders,
            to_itself,
            postponed: VecDeque::new(),
            slots,
            errands: Vec::new(),
            results: Results::default(),
        }
    }

    /// Runs until all queues of the guest have ended.
    pub(in crate::harness) fn run(mut self) -> Results {
        if let Err(error) = self.live() {
            self.results.problems.push(format!("{error:#}"));
        }
        self.collect_all();
        self.close_halted();
        let slots = std::mem::take(&mut self.slots).into_values();
        let mut tallies: Vec<_> = slots.flat_map(|slot| slot.idle).collect();
        tallies.sort_by_key(|(lane, _)| lane.index);
        tallies.iter().for_each(|(lane, _)| self.common.board.post_end(lane.index));
        self.results.tallies.extend(tallies.into_iter().map(|(_, tally)| tally));
        self.common.board.signal(Signal::GuestDone);
        self.results
    }

    fn live(&mut self) -> anyhow::Result<()> {
        let mut machine = self.boot()?;
        let numbers: Vec<_> = self.slots.keys().copied().collect();
        for number in numbers {
            self.start(&machine, number)?;
        }
        while self.slots.values().any(|slot| slot.working > 0) {
            let message = match self.postponed.pop_front() {
                Some(message) => message,
                None => self.orders.recv().context("the thread that gives orders has ended")?,
            };
            match message {
                Message::Worked(report) => self.note(report),
                Message::Order { action, lane, answer } => {
                    let (next, outcome) = self.obey(machine, &action, lane)?;
                    machine = next;
                    // An error means that the receiver is gone.
                    let _ = answer.send(outcome);
                }
            }
            self.reap(false);
        }
        self.leave(machine);
        Ok(())
    }

    fn spec(&self) -> Arc<GuestSpec> {
        Arc::clone(&self.common.layout.guests[self.index].spec)
    }

    /// Starts the VMM and opens the adapter.
    fn boot(&self) -> anyhow::Result<Machine> {
        let spec = self.spec();
        let without: Features =
            spec.without.iter().filter_map(|name| Features::from_name(name)).collect();
        let options = GuestOptions {
            ram: spec.ram.get(),
            profile: profile(&spec.vmm).unwrap_or(&QEMU),
            features: Features::all() - without,
            ..GuestOptions::default()
        };
        let vm = FakeGuest::connect(self.socket, options).context("the VMM cannot be started")?;
        self.open(vm)
    }

    fn open(&self, vm: Arc<FakeGuest>) -> anyhow::Result<Machine> {
        let policy = match self.spec().placement {
            PlacementSpec::Measured => PlacementPolicy::Measured,
            PlacementSpec::Bar => PlacementPolicy::Fixed(Placements::BAR),
            PlacementSpec::GuestMemory => PlacementPolicy::Fixed(Placements::GUEST_MEMORY),
            PlacementSpec::AroundSlowBar => PlacementPolicy::Fixed(Placements::AROUND_SLOW_BAR),
        };
        let base = Adapter::open_with(Arc::clone(&vm) as Arc<dyn Transport>, policy)
            .context("the adapter cannot be opened")?;
        Ok(Machine { vm, base: Arc::new(base) })
    }

    /// Starts a process, with threads for its queues.
    fn start(&mut self, machine: &Machine, number: u32) -> anyhow::Result<()> {
        let spec = self.spec();
        let Some(slot) = self.slots.get_mut(&number) else { return Ok(()) };
        let process = Process::begin(&machine.base, &spec, &slot.idle)
            .with_context(|| format!("process {number} cannot begin"))?;
        let lanes = std::mem::take(&mut slot.idle);
        let threads = (spec.threads.get() as usize).min(lanes.len()).max(1);
        let mut parts: Vec<Vec<_>> = (0..threads).map(|_| Vec::new()).collect();
        for (place, lane) in lanes.into_iter().enumerate() {
            parts[place % threads].push(lane);
        }
        slot.process = Some(Arc::clone(&process));
        slot.working = threads;
        let Common { scenario, board, .. } = *self.common;
        for part in parts {
            let process = Arc::clone(&process);
            let in_flight = spec.in_flight.get();
            let worker = Worker { scenario, board, process, number, in_flight };
            let ended = self.to_itself.clone();
            self.scope.spawn(move || {
                let report = worker.run(part);
                // Drops the thread's reference to the process before it reports its end.
                drop(worker);
                // An error means that the guest's thread has ended.
                let _ = ended.send(Message::Worked(report));
            });
        }
        Ok(())
    }

    /// Records the report of a thread.
    fn note(&mut self, report: Report) {
        let Report { process, tallies, open, measures, error } = report;
        for (row, own) in measures {
            self.results.measures.entry(row).or_default().add(&own);
        }
        let Some(slot) = self.slots.get_mut(&process) else { return };
        slot.idle.extend(tallies);
        slot.halted.extend(open);
        slot.working -= 1;
        let is_over = slot.process.as_ref().is_some_and(|process| process.over.is_raised());
        if let (Some(error), false) = (error, is_over || self.common.board.is_given_up()) {
            self.results.problems.push(format!("process {process}: {error}"));
        }
    }

    /// Waits until no thread works any more.
    fn collect_all(&mut self) {
        let numbers: Vec<_> = self.slots.keys().copied().collect();
        self.collect(&numbers);
    }

    /// Waits until no thread works for these processes any more, and ends them.
    fn collect(&mut self, numbers: &[u32]) {
        for process in numbers.iter().filter_map(|number| self.slots[number].process.as_ref()) {
            process.over.raise();
        }
        self.common.board.wake();
        while numbers.iter().any(|number| self.slots[number].working > 0) {
            match self.orders.recv() {
                Ok(Message::Worked(report)) => self.note(report),
                Ok(order) => self.postponed.push_back(order),
                Err(_) => break,
            }
        }
        for (_, slot) in self.slots.iter_mut().filter(|(number, _)| numbers.contains(number)) {
            slot.process = None;
        }
    }

    fn doom_all(&self) {
        self.slots
            .values()
            .filter_map(|slot| slot.process.as_ref())
            .for_each(|process| process.doomed.raise());
    }

    /// Starts all processes that have work left and do not run.
    fn start_all(&mut self, machine: &Machine) -> anyhow::Result<()> {
        let has_work = |slot: &Slot| slot.idle.iter().any(|(_, tally)| tally.ended.is_none());
        let slots = self.slots.iter();
        let idle = slots.filter(|(_, slot)| slot.process.is_none() && has_work(slot));
        let numbers: Vec<_> = idle.map(|(number, _)| *number).collect();
        numbers.into_iter().try_for_each(|number| self.start(machine, number))
    }

    /// Carries out an order; returns the machine that runs afterwards. An error ends the guest.
    fn obey(
        &mut self,
        machine: Machine,
        action: &Action,
        lane: Option<usize>,
    ) -> anyhow::Result<(Machine, Outcome)> {
        let outcome = match action {
            Action::ResetGuest { .. } => return Ok((self.reset(machine)?, Ok(()))),
            Action::KillGuest { .. } => return Ok((self.kill(machine)?, Ok(()))),
            Action::EndProcess { process, .. } => self.end_process(&machine, *process)?,
            Action::AnnounceMemory { .. } => {
                machine.vm.announce_memory().map_err(|error| error.to_string())
            }
            Action::WriteDoorbells { r#for, .. } => {
                let (vm, time) = (Arc::clone(&machine.vm), r#for.get());
                self.send_on_errand(move |stop| mischief::write_doorbells(&vm, time, stop))
            }
            Action::QueueStorm { node, queues, rounds, .. } => {
                let base = Arc::clone(&machine.base);
                let (node, queues, rounds) = (*node, *queues, *rounds);
                self.send_on_errand(move |stop| {
                    mischief::queue_storm(&base, node, queues, rounds, stop)
                        .map_err(|error| format!("queue storm: {error}"))
                })
            }
            Action::ConnectStorm { connects, .. } => self.connect_storm(&machine, lane, *connects),
            Action::SuspendContext { .. } => self.with_context(lane, Context::suspend),
            Action::ResumeContext { .. } => self.with_context(lane, Context::resume),
            _ => Err("a guest cannot do this".into()),
        };
        Ok((machine, outcome))
    }

    fn send_on_errand(&mut self, what: impl FnOnce(&Flag) -> Outcome + Send + 'static) -> Outcome {
        self.errands.push(Errand::begin(what)?);
        Ok(())
    }

    /// The queue that an order is about, and its process.
    fn find(&self, lane: Option<usize>) -> Result<(&'env Lane, &Arc<Process>), String> {
        let lane = &self.common.layout.lanes[lane.ok_or("there is no such queue")?];
        let slot = self.slots.get(&lane.process);
        let process = slot.and_then(|slot| slot.process.as_ref()).ok_or("the process has ended")?;
        Ok((lane, process))
    }

    /// Calls a function with the context of a queue.
    fn with_context(
        &self,
        lane: Option<usize>,
        act: impl FnOnce(&Context) -> Result<(), Error>,
    ) -> Outcome {
        let (lane, process) = self.find(lane)?;
        let context = process.context(lane).ok_or("the process has ended")?;
        act(context).map_err(|error| error.to_string())
    }

    fn connect_storm(&mut self, machine: &Machine, lane: Option<usize>, connects: u64) -> Outcome {
        let (lane, process) = self.find(lane)?;
        let handle = self.common.board.handle(lane.index).ok_or("the queue is not there yet")?;
        let (vm, process) = (Arc::clone(&machine.vm), Arc::clone(process));
        self.send_on_errand(move |stop| {
            mischief::connect_storm(&vm, &process, handle, connects, stop)
        })
    }

    /// Ends the process with everything in use, as when the guest's kernel kills it: stops its threads where they
    /// are, destroys it, and starts it anew.
    fn end_process(&mut self, machine: &Machine, number: u32) -> anyhow::Result<Outcome> {
        let slot = self.slots.get(&number);
        let Some(process) = slot.and_then(|slot| slot.process.clone()) else {
            return Ok(Err("the process had ended".into()));
        };
        process.halted.raise();
        self.collect(&[number]);
        process.doomed.raise();
        let ended = process.terminate().map_err(|error| error.to_string());
        drop(process);
        self.close_halted();
        self.start_all(machine)?;
        Ok(ended)
    }

    /// Closes the queues that stopped threads left open.
    fn close_halted(&mut self) {
        for slot in self.slots.values_mut() {
            slot.idle.extend(slot.halted.drain(..).map(Queue::close));
        }
    }

    /// Reboots the guest with everything in use.
    fn reset(&mut self, machine: Machine) -> anyhow::Result<Machine> {
        self.count(&machine);
        self.doom_all();
        let Machine { vm, base } = machine;
        vm.stop().context("the guest cannot be reset")?;
        self.collect_all();
        self.reap(true);
        drop(base);
        vm.reclaim_memory().context("the guest cannot be reset")?;
        vm.start().context("the guest cannot be reset")?;
        let machine = self.open(vm)?;
        self.start_all(&machine)?;
        Ok(machine)
    }

    /// Kills the guest's VMM, and starts another.
    fn kill(&mut self, machine: Machine) -> anyhow::Result<Machine> {
        self.count(&machine);
        self.doom_all();
        machine.vm.kill();
        self.collect_all();
        self.reap(true);
        self.results.violations.extend(violations(&machine.vm));
        drop(machine);
        let machine = self.boot()?;
        self.start_all(&machine)?;
        Ok(machine)
    }

    /// Ends the guest as its scenario says.
    fn leave(&mut self, machine: Machine) {
        self.reap(true);
        self.count(&machine);
        self.results.violations.extend(violations(&machine.vm));
        let is_given_up = |(_, tally): &(_, Tally)| tally.ended == Some(Ended::GivenUp);
        let is_given_up = self.slots.values().any(|slot| slot.idle.iter().any(is_given_up));
        if self.spec().leaves == Leaving::Abruptly || is_given_up {
            machine.vm.kill();
        }
        for slot in self.slots.values_mut() {
            slot.process = None;
        }
    }

    /// Adds the device's counters for this guest, which the device forgets when the guest ends.
    fn count(&mut self, machine: &Machine) {
        match machine.base.statistics() {
            Ok(statistics) => self.results.victims += statistics.victims,
            Err(error) => self.results.problems.push(format!("no statistics: {error}")),
        }
    }

    /// Records the errors of finished errands. With `all`, ends every errand and ignores the errors, which the
    /// guest's end may cause.
    fn reap(&mut self, all: bool) {
        if all {
            self.errands.iter().for_each(Errand::stop);
        }
        let (done, rest) = std::mem::take(&mut self.errands)
            .into_iter()
            .partition::<Vec<_>, _>(|errand| all || errand.is_finished());
        self.errands = rest;
        let failed: Vec<_> = done.into_iter().filter_map(|errand| errand.join().err()).collect();
        if !all {
            self.results.problems.extend(failed);
        }
    }
}

fn violations(vm: &FakeGuest) -> Vec<String> {
    vm.violations().into_iter().map(|violation| violation.0).collect()
}
