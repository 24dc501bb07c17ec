// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program in the place of a worker's, without Vulkan: it does what a worker that is broken or taken over might.
//!
//! Tests and `bellhop bench hostile` have daemons start it. A kernel's entry point says what becomes of the worker that
//! compiles or executes it; but for [`COMPUTES`], nothing is computed. Outside the sandbox of workers it may do what Linux
//! allows, so that nothing depends on what the sandbox refuses; in the sandbox, what somebody could who has taken over a
//! worker there.

mod broken;
mod call;
mod forbidden;
mod greedy;
mod hands;
mod mapping;
mod memory;
mod owner;
mod page_tables;
mod streams;
mod taken_over;

pub use broken::TAKES_LONG;
pub use forbidden::TRIED;
pub use memory::{GO, RESULT, WORD};
pub use streams::Stream;

use anyhow::Context;
use bellhop_guest::output::put_line;
use bellhop_worker::messages::commands::CommandsTask;
use bellhop_worker::messages::{self, Done, Ready, Refused, Request, Start, Text};
use bellhop_worker::processors;
use bellhop_worker::sandbox::{self, Confined, Limits};
use call::Call;
use clap::{Args, Subcommand, ValueEnum};
use hands::Hands;
use memory::Memory;
use owner::Owner;
use rustix::fd::OwnedFd;
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::stdio::stdin;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use streams::Streams;

/// The subcommand of `bellhop` that is this program.
pub const COMMAND: &str = "hostile-worker";

/// An honest kernel: all threads of its worker compute for 20 ms each, and it is done.
pub const COMPUTES: &str = "run_computes";
/// A kernel whose worker undoes each stop with all of its threads, for ever.
pub const UNDOES_STOPS: &str = "run_undoes_stops";
/// A kernel whose worker breaks the protocol once its client stores [`GO`], and then takes long to end.
pub const DIES_SLOWLY: &str = "run_dies_slowly";
/// A kernel that is done at once. Then all threads of its worker spin.
pub const THEN_SPINS: &str = "run_then_spins";
/// A kernel that is in one long system call after the other, for ever.
pub const CALLS_LONG: &str = "run_calls_long";
/// A kernel whose worker takes memory until there is none.
pub const HOARDS: &str = "run_hoards";
/// A kernel whose worker starts a process that stays, and threads until there can be no more. Then it is done.
pub const SWARMS: &str = "run_swarms";
/// A kernel that tries [`TRIED`], stores at [`RESULT`] a bit for each that Linux did, and is done.
pub const TRIES: &str = "run_tries";

/// How a worker begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Begins {
    /// As an honest one
    #[default]
    Good,
    /// By ending
    Ends,
    /// By refusing to
    Refuses,
    /// With an answer to nothing
    Nonsense,
}

/// How workers of this kind conduct themselves.
#[derive(Debug, Clone, Default, Args)]
pub struct Conduct {
    /// How it begins
    #[arg(long, value_enum, default_value_t)]
    pub begins: Begins,
    /// Whether it enters the sandbox of workers, as they do, before it is ready
    #[arg(long)]
    pub confined: bool,
    /// A pipe: the kernel run_until_told ends when it is opened for writing
    #[arg(long, value_name = "PIPE")]
    pub told: Option<PathBuf>,
}

impl Conduct {
    /// The words of the command line of such workers, as `bellhopd --worker` takes them. `executable` is `bellhop`.
    #[must_use]
    pub fn words(&self, executable: &Path) -> Vec<OsString> {
        let begins = self.begins.to_possible_value();
        let begins = begins.map(|begins| format!("--begins={}", begins.get_name()).into());
        let told = self.told.as_ref().map(|pipe| {
            let mut word = OsString::from("--told=");
            word.push(pipe);
            word
        });
        let confined = self.confined.then(|| "--confined".into());
        let words = [executable.into(), COMMAND.into()].into_iter();
        words.chain(begins).chain(confined).chain(told).collect()
    }
}

/// The command line of this program.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    #[command(flatten)]
    conduct: Conduct,
    #[command(subcommand)]
    task: Task,
}

/// What a daemon asks of workers' program.
#[derive(Debug, Clone, Subcommand)]
enum Task {
    /// Say that there is a Vulkan device
    List,
    /// Say that it computes correctly
    Test {
        /// The device's index in the list
        device: usize,
    },
    /// Be a worker of the owner at the other end of standard input
    Serve,
}

/// What a daemon hears of the machine's Vulkan.
const LIST: &str = r#"{"devices":[{"name":"N","kind":"cpu","api":"1.4.305","driver":"D 1","limits":{"work_group_size":[64,64,64],"work_group_invocations":64,"work_groups":[9,9,9],"shared_memory":1024,"push_constants":256,"descriptor_alignment":16,"descriptor_range":4096,"import_alignment":4096}}]}"#;
const FOUND: &str = r#"{"found":{"usable":{"pointers":true}}}"#;

impl Arguments {
    /// Is such a worker.
    ///
    /// # Errors
    /// When it cannot be one.
    pub fn run(&self) -> anyhow::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        match self.task {
            Task::List => Ok(put_line(LIST)?),
            Task::Test { .. } => Ok(put_line(FOUND)?),
            Task::Serve => serve(&self.conduct),
        }
    }
}

/// Serves the owner until it closes its end of the socket.
fn serve(conduct: &Conduct) -> anyhow::Result<()> {
    sandbox::close_others();
    let owner = Owner(stdin());
    match conduct.begins {
        Begins::Good => {}
        Begins::Ends => return Ok(()),
        Begins::Nonsense => owner.tell(&Done { count: 1 }),
        Begins::Refuses => owner.tell(&Refused { why: Text::new("it wants no kernels") }),
    }
    let mut memory = None;
    let mut kernels = BTreeMap::new();
    let mut streams = Streams::default();
    let hands = Hands::default();
    while let Some((bytes, descriptor)) = owner.hear() {
        match Request::read(&bytes) {
            Ok(Request::Start(start)) => {
                memory = Some(begin(&start, descriptor, &hands)?);
                if conduct.confined {
                    sandbox::enter(Confined::Kernels, &Limits::with_window(start.memory))?;
                }
                if conduct.begins == Begins::Good {
                    owner.tell(&Ready { pointers: 1, resident: 0 });
                }
            }
            Ok(Request::Load(load)) => {
                let name = &load.name[..load.name_length as usize];
                let name = String::from_utf8(name.to_vec())?;
                broken::compile(&owner, load.kernel, &name);
                kernels.insert(load.kernel, name);
            }
            // The other packets are no structures: tasks and batches.
            Err(_) => {
                if let Ok(task) = messages::Task::read(&bytes) {
                    streams.obey(&owner, &CommandsTask::read(task.bytes)?);
                    continue;
                }
                let Some(memory) = &memory else { continue };
                let call = Call::of_batch(&bytes, memory)?;
                let Some(name) = kernels.get(&call.kernel) else { continue };
                if !taken_over::execute(name, &call, &hands) {
                    broken::execute(&owner, name, &call, conduct.told.as_deref());
                }
            }
            Ok(_) => {}
        }
    }
    Ok(())
}

/// Gives up what each worker gives up, and starts the threads that it has from then on.
fn begin(start: &Start, socket: Option<OwnedFd>, hands: &Hands) -> anyhow::Result<Arc<Memory>> {
    processors::limit(start.processors, start.first_processor)?;
    processors::be_nice()?;
    let memory = Arc::new(Memory::default());
    let socket = socket.context("a request to start without a socket")?;
    let theirs = Arc::clone(&memory);
    hands.start(move || theirs.obey(&socket))?;
    Ok(memory)
}
