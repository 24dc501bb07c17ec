// SPDX-License-Identifier: MIT OR Apache-2.0

//! A run, from the first guest to the report.

use crate::harness::board::{Board, Signal};
use crate::harness::control::Control;
use crate::harness::events::{Director, Events};
use crate::harness::flag::Flag;
use crate::harness::guest::{Common, GuestThread, Results};
use crate::harness::report::Report;
use crate::harness::report::expect::Outcomes;
use crate::harness::scenario::Scenario;
use crate::harness::scenario::layout::Layout;
use crate::harness::scenario::parse::ScenarioError;
use crate::harness::scenario::plan::Plan;
use anyhow::{Context, anyhow, bail};
use bellhop_device::service::{Endpoint, Served, Service};
use bellhop_processes::daemon;
use indicatif::{ProgressBar, ProgressStyle};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::sync::{Arc, mpsc};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

/// How often the progress line is updated.
const PROGRESS: Duration = Duration::from_millis(250);

/// The parameters of one run of a scenario.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The seed of random choices, instead of the scenario's.
    pub seed: Option<u64>,
    /// How long queues without a number of submissions work, instead of the scenario's duration.
    pub duration: Option<Duration>,
    /// Whether to show progress on standard error.
    pub progress: bool,
    /// Ends the run as if its duration were over, once it is true.
    pub stop: Arc<AtomicBool>,
}

/// Why a scenario could not be run. A run that does not pass is no error.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scenario is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The host cannot run it.
    #[error("{0:#}")]
    Host(#[from] anyhow::Error),
}

impl Scenario {
    /// Runs the scenario: a real device in this process, and guests of one or more threads each.
    ///
    /// # Errors
    /// When the scenario cannot be run. Expectations that did not hold are in the report.
    pub fn run(&self, options: &Options) -> Result<Report, RunError> {
        self.validate()?;
        if options.duration.is_some() && self.duration.is_none() {
            let why = "the scenario has no duration: it ends when its submissions are done";
            return Err(anyhow!(why).into());
        }
        let duration = options.duration.or(self.duration.map(|duration| duration.get()));
        Ok(Run { scenario: self, duration, options }.run()?)
    }
}

struct Run<'a> {
    scenario: &'a Scenario,
    duration: Option<Duration>,
    options: &'a Options,
}

impl Run<'_> {
    fn run(&self) -> anyhow::Result<Report> {
        let scenario = self.scenario;
        let seed = self.options.seed.unwrap_or(scenario.seed);
        let layout = Layout::of(scenario);
        let folder = daemon::folder()?;
        let service = Service::start(&scenario.host.config())?;
        let mut sockets = Vec::new();
        for guest in 0..layout.guests.len() {
            let path = folder.path().join(format!("guest{guest}.sock"));
            let listener = UnixListener::bind(&path)
                .with_context(|| format!("cannot listen on {}", path.display()))?;
            let served = service.serve(Endpoint::listening(listener)?)?;
            sockets.push((path, served));
        }
        let (signals, received) = channel();
        let board = Board::new(scenario, &layout, signals);
        let common = Common { scenario, layout: &layout, board: &board, seed };
        let start = Instant::now();
        let (results, events) =
            thread::scope(|scope| self.act(scope, &common, service, &sockets, received, start))?;
        let mut all = Results::default();
        for (results, guest) in results.into_iter().zip(&layout.guests) {
            all.tallies.extend(results.tallies);
            all.measures.extend(results.measures);
            all.victims += results.victims;
            all.violations.extend(results.violations);
            let own = results.problems.into_iter();
            all.problems.extend(own.map(|problem| format!("{}: {problem}", guest.name)));
        }
        let outcomes = Outcomes { scenario, layout: &layout, results: all, events };
        Ok(Report::new(outcomes, seed, start.elapsed()))
    }

    /// Runs guests and events until all guests have ended.
    fn act<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        common: &'env Common<'env>,
        service: Service,
        sockets: &'env [(PathBuf, Served)],
        signals: mpsc::Receiver<Signal>,
        start: Instant,
    ) -> anyhow::Result<(Vec<Results>, Events)> {
        let (mut orders, mut threads) = (Vec::new(), Vec::new());
        for (index, (socket, _)) in sockets.iter().enumerate() {
            let mailbox = channel();
            orders.push(mailbox.0.clone());
            let guest = GuestThread::new(common, scope, index, socket, mailbox);
            threads.push(scope.spawn(move || guest.run()));
        }
        let ended = Arc::new(Flag::default());
        if self.options.progress {
            let ended = Arc::clone(&ended);
            scope.spawn(move || show_progress(common.board, &ended));
        }
        let director = Director {
            scenario: self.scenario,
            layout: common.layout,
            board: common.board,
            control: Control::new(
                service.kernel().clone(),
                sockets.iter().map(|(_, served)| served.clone()).collect(),
            ),
            plan: Plan::new(self.scenario, common.layout, common.seed),
            signals,
            guests: orders,
            duration: self.duration,
            stop: &self.options.stop,
            start,
            events: Events::default(),
        };
        let events = director.run();
        ended.raise();
        // A device that goes now wakes threads that still wait for it, with the error that it is gone.
        let service = (!events.is_given_up).then_some(service);
        let mut results = Vec::new();
        for thread in threads {
            let Ok(result) = thread.join() else { bail!("a guest's thread panicked") };
            results.push(result);
        }
        drop(service);
        Ok((results, events))
    }
}

fn show_progress(board: &Board, ended: &Flag) {
    let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = style {
        bar.set_style(style);
    }
    board.register();
    while !ended.is_raised() {
        bar.set_message(format!("{} submissions completed", board.all_completed()));
        bar.tick();
        thread::park_timeout(PROGRESS);
    }
    board.unregister();
    bar.finish_and_clear();
}
