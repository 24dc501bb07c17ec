// SPDX-License-Identifier: MIT OR Apache-2.0

//! The cost of submitting, measured from the host: separate daemons, each configured for its suites, with their
//! guests in this process.

mod broker;
mod display;
mod hostile;
mod idle;
mod kernel;
mod oversubscription;
mod scale;
mod setting;
mod video;
mod viewer;
mod vulkan;
mod weights;

use crate::hosted::{Outcome, this_executable};
use crate::hostile_worker;
use anyhow::{Context, bail};
use bellhop_guest::bench::{self, Configuration, Delivery, Measured, Suite};
use bellhop_guest::cli::{BenchArguments, PlaceArguments};
use bellhop_guest::machine::Watch;
use bellhop_guest::{output, processors};
use bellhop_processes::daemon::{self, Daemon, Options};
use bellhop_processes::process::{Signals, block_on};
use setting::Setting;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::thread;
use tokio::sync::oneshot;

/// The daemon's processors, relative to the submitting thread's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Processors {
    /// One other processor, for suites that measure one engine.
    Apart,
    /// All processors but the submitting thread's, as in the main job.
    Others,
    /// Only the submitting thread's processor.
    Shared,
    /// All processors, for engines that work at once or for a daemon that stays idle.
    All,
}

impl Processors {
    /// The daemon's processors. `None` for all, or if there is only one.
    fn of_daemon(self) -> Option<Vec<usize>> {
        let (first, others) = processors::allowed().split_first()?;
        let daemon = match self {
            Self::Apart => others.get(..1)?,
            Self::Others => others,
            Self::Shared => return Some(vec![*first]),
            Self::All => return None,
        };
        (!daemon.is_empty()).then(|| daemon.to_vec())
    }
}

/// The daemon's workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Workers {
    /// Those that the command line asks for.
    OwnVulkan,
    /// Those of [`hostile_worker`], outside the sandbox.
    Hostile,
    /// The same in the sandbox.
    HostileAndConfined,
}

impl Workers {
    /// The words of their command line. `asked_for` are those that the command line asks for.
    fn words(self, asked_for: &[OsString]) -> anyhow::Result<Vec<OsString>> {
        let confined = match self {
            Self::OwnVulkan => return Ok(asked_for.to_vec()),
            Self::Hostile => false,
            Self::HostileAndConfined => true,
        };
        let executable = this_executable()?;
        Ok(hostile_worker::Conduct { confined, ..Default::default() }.words(&executable))
    }
}

/// The suites to measure on one daemon.
struct Stage {
    suites: &'static [Suite],
    /// What this stage measures of a suite whose stages have different configurations.
    part: Option<&'static str>,
    /// The daemon's configuration, TOML.
    config: &'static str,
    guests: usize,
    processors: Processors,
    measure: fn(&Setting, &[Suite], &mut Measured) -> anyhow::Result<()>,
    workers: Workers,
}

/// One guest measures, and the daemon has a processor of its own.
const ONE_GUEST: Stage = Stage {
    suites: &[],
    part: None,
    config: "",
    guests: 1,
    processors: Processors::Apart,
    measure: in_guest,
    workers: Workers::OwnVulkan,
};

/// A guest is measured beside others that do what they should not.
const fn hostile(
    measure: fn(&Setting, &[Suite], &mut Measured) -> anyhow::Result<()>,
    workers: Workers,
) -> Stage {
    let (config, guests) = (hostile::CONFIG, hostile::GUESTS);
    Stage { suites: &[Suite::Hostile], config, guests, measure, workers, ..ONE_GUEST }
}

/// A part of what many cost.
const fn scale(
    part: &'static str,
    config: &'static str,
    measure: fn(&Setting, &[Suite], &mut Measured) -> anyhow::Result<()>,
) -> Stage {
    Stage { suites: &[Suite::Scale], part: Some(part), config, measure, ..ONE_GUEST }
}

/// A number of threads for a video session.
const fn video(
    part: &'static str,
    config: &'static str,
    measure: fn(&Setting, &[Suite], &mut Measured) -> anyhow::Result<()>,
) -> Stage {
    let processors = Processors::All;
    Stage { suites: &[Suite::Video], part: Some(part), config, measure, processors, ..ONE_GUEST }
}

const STAGES: [Stage; 26] = [
    Stage { suites: &[Suite::RoundTrip, Suite::Batch, Suite::Copy, Suite::Wake], ..ONE_GUEST },
    Stage { suites: &[Suite::Stream], processors: Processors::Others, ..ONE_GUEST },
    Stage { suites: &[Suite::OneProcessor], processors: Processors::Shared, ..ONE_GUEST },
    Stage { suites: &[Suite::Fence], processors: Processors::All, ..ONE_GUEST },
    Stage {
        suites: &[Suite::Doorbells],
        config: "[adapter]\nphysical_doorbells = 2048\n[guest]\ndoorbells = 2048\n",
        ..ONE_GUEST
    },
    Stage {
        suites: &[Suite::Queues],
        config: "[adapter]\nphysical_doorbells = 64\npage_table_memory = \"256MiB\"\n\
                 [guest]\ndoorbells = 10240\nlocal_memory = \"256MiB\"\nobjects = 131072\n",
        measure: in_guest_once,
        ..ONE_GUEST
    },
    Stage {
        suites: &[Suite::Display],
        config: display::CONFIG,
        measure: display::run,
        ..ONE_GUEST
    },
    Stage {
        suites: &[Suite::Idle],
        guests: idle::GUESTS,
        processors: Processors::All,
        measure: idle::run,
        ..ONE_GUEST
    },
    Stage {
        suites: &[Suite::Oversubscription],
        guests: oversubscription::MOST_GUESTS,
        measure: oversubscription::run,
        ..ONE_GUEST
    },
    Stage { suites: &[Suite::Broker], guests: broker::GUESTS, measure: broker::run, ..ONE_GUEST },
    Stage {
        suites: &[Suite::Kernel],
        config: kernel::CONFIG,
        guests: kernel::GUESTS,
        processors: Processors::All,
        measure: kernel::run,
        ..ONE_GUEST
    },
    Stage {
        suites: &[Suite::Vulkan],
        part: Some("submissions"),
        guests: vulkan::GUESTS,
        measure: vulkan::submissions,
        ..ONE_GUEST
    },
    Stage {
        suites: &[Suite::Vulkan],
        part: Some("dispatches"),
        guests: vulkan::GUESTS,
        processors: Processors::All,
        measure: vulkan::dispatches,
        ..ONE_GUEST
    },
    Stage {
        suites: &[Suite::Vulkan],
        part: Some("shares"),
        config: vulkan::SHARES,
        guests: vulkan::GUESTS,
        processors: Processors::All,
        measure: vulkan::shares,
        ..ONE_GUEST
    },
    Stage {
        suites: &[Suite::Vulkan],
        part: Some("frames"),
        config: vulkan::FRAMES,
        guests: vulkan::GUESTS,
        processors: Processors::All,
        measure: vulkan::frames,
        ..ONE_GUEST
    },
    Stage {
        suites: &[Suite::Vulkan],
        part: Some("programs"),
        config: vulkan::PROGRAMS,
        guests: vulkan::GUESTS,
        processors: Processors::All,
        measure: vulkan::programs,
        ..ONE_GUEST
    },
    video("on one thread", video::ONE_THREAD, video::on_one_thread),
    video("on two threads", video::TWO_THREADS, video::on_two_threads),
    hostile(hostile::run, Workers::OwnVulkan),
    hostile(hostile::beside_workers, Workers::Hostile),
    hostile(hostile::beside_confined_workers, Workers::HostileAndConfined),
    Stage {
        guests: scale::guests::MOST,
        ..scale("guests", scale::guests::CONFIG, scale::guests::run)
    },
    scale("queues", scale::queues::CONFIG, scale::queues::run),
    scale("doorbells", scale::doorbells::CONFIG, scale::doorbells::run),
    scale("requests", "", scale::requests::run),
    Stage {
        processors: Processors::All,
        ..scale("workers", scale::workers::CONFIG, scale::workers::run)
    },
];

impl Stage {
    fn run(
        &self,
        setting: &Setting,
        suites: &[Suite],
        measured: &mut Measured,
    ) -> anyhow::Result<()> {
        if let (Processors::Shared, [first, ..]) = (self.processors, processors::allowed()) {
            // Before the guest's threads start.
            processors::pin(&[*first]).context("cannot pin the guest to one processor")?;
        }
        (self.measure)(setting, suites, measured)
    }
}

fn in_guest(setting: &Setting, suites: &[Suite], measured: &mut Measured) -> anyhow::Result<()> {
    bench::run(setting.guest(0)?, &setting.options(suites), measured)
}

/// Measures without repetitions: for long suites that count more than they time.
fn in_guest_once(
    setting: &Setting,
    suites: &[Suite],
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let options = bench::Options { repetitions: 1, ..setting.options(suites) };
    bench::run(setting.guest(0)?, &options, measured)
}

/// Measures as the arguments request, and delivers the report. Fails with [`bench::REGRESSED`] if it is worse
/// than the report that it is compared with.
///
/// # Errors
/// When a daemon cannot be started, or a suite cannot be measured.
pub fn run(
    arguments: &BenchArguments,
    place: &PlaceArguments,
    worker: &[OsString],
) -> anyhow::Result<Outcome> {
    let delivery = Delivery::begin(&arguments.wanted())?;
    block_on(async {
        let mut signals = Signals::new()?;
        let (mut measured, watch) = (Measured::default(), Watch::begin());
        let (mut all_suites, mut daemon) = (Vec::new(), BTreeMap::new());
        for stage in &STAGES {
            let suites = stage.suites.iter().copied();
            let suites: Vec<_> = suites.filter(|suite| arguments.asks_for(*suite)).collect();
            if suites.is_empty() {
                continue;
            }
            let names: Vec<_> = suites.iter().map(|suite| suite.name()).collect();
            let part = stage.part.map_or_else(String::new, |part| format!(" {part}"));
            output::note(format_args!("measuring {}{part}", names.join(", ")));
            // The stages of a suite have one configuration, unless each has a part.
            daemon.extend(
                names.iter().map(|name| (format!("{name}{part}"), stage.config.to_owned())),
            );
            let is_new = |name: &String| !all_suites.contains(name);
            let names: Vec<_> = names.into_iter().filter(is_new).collect();
            all_suites.extend(names);
            let worker = stage.workers.words(worker)?;
            tokio::select! {
                done = run_stage(stage, suites, arguments, place, &worker, measured) => measured = done?,
                () = signals.received() => return Ok(Outcome::Interrupted),
            }
        }
        let reached = match processors::pair() {
            Some((first, second)) => {
                format!("guests on processor {first}, engines on processor {second}")
            }
            None => "guests and engines share a processor: times say little".to_owned(),
        };
        let configuration = Configuration {
            suites: all_suites,
            placement: format!("{:?}", place.policy()),
            place: reached,
            daemon: Some(daemon),
            ..arguments.configuration()
        };
        let regressed = delivery.deliver(&measured.report(configuration, watch.end()))?;
        Ok(if regressed { Outcome::Failed(bench::REGRESSED) } else { Outcome::Succeeded })
    })
}

async fn run_stage(
    stage: &'static Stage,
    suites: Vec<Suite>,
    arguments: &BenchArguments,
    place: &PlaceArguments,
    worker: &[OsString],
    mut measured: Measured,
) -> anyhow::Result<Measured> {
    let folder = daemon::folder()?;
    let sockets = (0..stage.guests).map(|number| folder.path().join(format!("{number}.sock")));
    let sockets: Vec<_> = sockets.collect();
    let mut config = tempfile::NamedTempFile::new_in(folder.path())?;
    config.write_all(stage.config.as_bytes())?;
    let control = folder.path().join("control.sock");
    let options = Options {
        config: Some(config.path()),
        control: Some(&control),
        worker,
        quiet: stage.workers != Workers::OwnVulkan,
        ..Options::default()
    };
    let start = || Daemon::start(&sockets, options);
    let mut daemon = match stage.processors.of_daemon() {
        Some(processors) => processors::on(&processors, start)??,
        None => start()?,
    };
    let setting = Setting {
        arguments: arguments.clone(),
        place: place.clone(),
        sockets,
        control,
        worker: worker.to_vec(),
        daemon: daemon.id().context("bellhopd ended at once")?,
    };
    let (done, ended) = oneshot::channel();
    thread::Builder::new().name("bench".into()).spawn(move || {
        let result = stage.run(&setting, &suites, &mut measured).map(|()| measured);
        // The receiver is gone after Ctrl-C.
        let _ = done.send(result);
    })?;
    let measured = tokio::select! {
        result = ended => result.context("the measuring thread panicked")??,
        status = daemon.ended() => bail!("bellhopd ended ({}) while it was measured", status?),
    };
    daemon.end().await?;
    Ok(measured)
}
