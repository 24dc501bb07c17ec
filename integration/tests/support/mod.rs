// SPDX-License-Identifier: MIT OR Apache-2.0

//! A `bellhopd` as a separate process.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod agents;
pub mod brokers;
pub mod cube;
pub mod examples;
pub mod independent;
pub mod kernels;
mod left_out;
pub mod links;
pub mod opengl;
pub mod printed;
pub mod programs;
pub mod python;
pub mod qmp;
pub mod screens;
pub mod secrets;
pub mod standing;
pub mod stopped;
pub mod stranger;
pub mod typed;
pub mod video;
pub mod vulkan;
pub mod vulkan_programs;
pub mod windows;

use bellhop_guest::client::{Client, Shape};
use bellhop_guest::fake_guest::{FakeGuest, GuestOptions, VmmProfile};
use bellhop_guest::inspect::{self, Selection};
use bellhop_guest_umd::{Adapter, Error, Fence, QueueFault};
use bellhop_integration::guest_binary;
use bellhop_integration::inspect::ControlClient;
use bellhop_protocol::snapshot::Snapshot;
use bellhop_protocol::status::Status;
pub use left_out::skip;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::{NamedTempFile, TempDir};

/// The longest that an event may take before it counts as not happening: long, because a machine may be busy with
/// other things.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// The `bellhop` command.
pub fn bellhop() -> Command {
    Command::new(env!("CARGO_BIN_EXE_bellhop"))
}

/// `bellhopd` with these arguments, not started yet.
pub fn bellhopd(arguments: &[&str]) -> Command {
    let mut command = bellhop();
    command.args(["daemon", "--"]).args(arguments);
    command
}

/// A program's output as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The output of a program that must have succeeded.
#[track_caller]
pub fn succeed(output: Output) -> String {
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Runs a program that must succeed; returns its output.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    succeed(command.output().unwrap())
}

/// Runs a program that must succeed; returns the one JSON value that it prints.
#[track_caller]
pub fn report(command: &mut Command) -> Value {
    serde_json::from_str(&run(command)).unwrap()
}

/// Text without its line breaks, which may be anywhere.
pub fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A configuration under which the conformance suite sees everything without long waits: engines lose their power
/// soon, hangs are detected after a second, which no other step reaches even on a busy machine, and a guest may hang
/// any number of times. These lines are added to it.
pub fn quick(adapter: &str, guest: &str) -> String {
    // What the suite sees must not depend on the machine.
    let kernels = if adapter.contains("kernels") { "" } else { "kernels = \"off\"" };
    format!(
        "[debug]\ntest_kernels = true\npower_control = true\n\
         [adapter]\n{kernels}\n{adapter}\nengine_idle = \"100ms\"\ntimeout = \"1s\"\nhang_limit = 0\n\
         [guest]\n{guest}\n"
    )
}

/// [`quick`] as a file.
pub fn quick_configuration(adapter: &str, guest: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(quick(adapter, guest).as_bytes()).unwrap();
    file
}

/// Two monitors, of which one has the rates that behaviours look at.
pub const DISPLAYS: &str = "[[adapter.displays]]\nmodes = [\"1280x720@60\", \"640x480@240\", \"640x480@24\"]\n\
     [[adapter.displays]]\nmodes = [\"800x600@75\"]\n";

/// A chain of two GPUs, whose second has fewer nodes than the master and a display of its own.
pub const LINK: &str = "[adapters.second]\ncopy_nodes = 1\n\
     [[adapters.second.displays]]\nmodes = [\"640x480@100\"]\n\
     [link.pair]\nadapters = [\"\", \"second\"]\npower = \"when_needed\"\n";

/// Areas of behaviours that a device may not offer, and how many of each are seen even then.
const OPTIONAL: [(&str, usize); 6] = [
    ("kernel.", 1),
    ("display.", 0),
    ("screen.", 0),
    ("video.", 1),
    ("link.", 0),
    ("security.", 0),
];

/// Behaviours that the device does not offer with [`quick`] alone.
pub const NOT_OFFERED: &[&str] = &[
    "um.node.not-supported",
    "agent.power-policy.performance",
    "fence.cross.policy",
    "tdr.disabled.runs-on",
    "tdr.disabled.ends",
];

/// Behaviours that the device does not offer with its default configuration.
pub const DEFAULT_NOT_OFFERED: &[&str] = &[
    "um.node.not-supported",
    "agent.power-policy.performance",
    "fence.cross.policy",
    "tdr.reset.engine",
    "tdr.disabled.runs-on",
    "tdr.disabled.ends",
];

/// Behaviours that the device does not offer with [`quick`] and a global doorbell.
pub const GLOBAL_NOT_OFFERED: &[&str] = &[
    "um.node.not-supported",
    "doorbell.victim",
    "doorbell.victim.least-recently-rung",
    "doorbell.line.differs",
    "doorbell.line.stale",
    "doorbell.line.torn",
    "doorbell.line.of-another",
    "context.suspend.victim",
    "process.termination.victim",
    "agent.power-policy.performance",
    "fence.cross.policy",
    "tdr.disabled.runs-on",
    "tdr.disabled.ends",
];

/// Runs the conformance suite as this command does, and returns its report. The exit status must tell whether a
/// behaviour failed.
#[track_caller]
pub fn conformance(command: &mut Command) -> Value {
    conformance_in(&command.output().unwrap())
}

/// The report of the conformance suite in what a command printed that ran it.
#[track_caller]
pub fn conformance_in(output: &Output) -> Value {
    let said = text(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout).expect(&said);
    let has_failed = outcomes(&report, "failed").next().is_some();
    assert_ne!(output.status.success(), has_failed, "{said}");
    report
}

/// Asserts that a conformance report has every behaviour, and that all are seen except those that are not offered,
/// which must be exactly these. Of kernels, displays and chains, what is offered depends on the host's Vulkan and configuration:
/// either all of an area are seen, or only what is said where there are none.
#[track_caller]
pub fn assert_every_behaviour_is_seen(report: &Value, not_offered: &[&str]) {
    let failed: Vec<_> = outcomes(report, "failed").collect();
    let checks = report["checks"].as_array().unwrap();
    assert!(!checks.is_empty() && failed.is_empty(), "{failed:#?}");
    let ids = outcomes(report, "not-offered").map(|check| check["id"].as_str().unwrap());
    let (optional, absent): (Vec<_>, Vec<_>) =
        ids.partition(|id| OPTIONAL.iter().any(|(area, _)| id.starts_with(area)));
    assert_eq!(absent, not_offered);
    for (area, always) in OPTIONAL {
        let is_of_area = |check: &&Value| check["id"].as_str().unwrap().starts_with(area);
        let all = checks.iter().filter(is_of_area).count();
        let missing = optional.iter().filter(|id| id.starts_with(area)).count();
        assert!(missing == 0 || missing + always == all, "{optional:?}");
    }
}

/// Asserts that a program behind a broker sees all but what needs the whole guest, or memory that such a program does not have.
#[track_caller]
pub fn assert_program_sees_the_suite(report: &Value) {
    let failed: Vec<_> = outcomes(report, "failed").collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(outcomes(report, "passed").count() >= 150, "{report}");
}

/// Sees every behaviour of a chain in a guest that this command starts.
#[track_caller]
pub fn see_every_behaviour_of_a_chain(command: &mut Command) {
    let mut file = NamedTempFile::new().unwrap();
    write!(file, "{}{DISPLAYS}{LINK}", quick("", "")).unwrap();
    command.arg("--config").arg(file.path()).args(["--", "selftest", "link.", "--json"]);
    let seen = conformance(command);
    assert_every_behaviour_is_seen(&seen, &[]);
    assert_eq!(outcomes(&seen, "passed").count(), seen["checks"].as_array().unwrap().len());
}

/// The checks of a conformance report that had this outcome.
pub fn outcomes<'a>(report: &'a Value, outcome: &str) -> impl Iterator<Item = &'a Value> {
    let checks = report["checks"].as_array().unwrap().iter();
    checks.filter(move |check| check["outcome"] == outcome)
}

/// Whether a program that a test needs is installed. Without it `loss` is not tested, which is a failure where
/// everything must be.
pub fn is_here(program: &str, loss: &str) -> bool {
    let ran =
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if ran.is_err() {
        skip(&format!("{program} is not installed"), loss, &format!("install {program}"));
    }
    ran.is_ok()
}

/// What makes the command `bellhop vm`, if VMs can be set up here.
pub fn vms() -> Option<fn() -> Command> {
    let are_here =
        ["apt-get", "dpkg-deb"].iter().all(|program| is_here(program, "nothing is run in a VM"));
    are_here.then_some(vm)
}

/// `bellhop vm`, whether or not VMs can be set up here.
pub fn vm() -> Command {
    // Cargo looks at the program for guests once, and not at each boot.
    static GUEST: OnceLock<Option<PathBuf>> = OnceLock::new();
    let mut command = bellhop();
    command.arg("vm");
    if let Some(guest) = GUEST.get_or_init(|| guest_binary::find(None).ok()) {
        command.env(guest_binary::VARIABLE, guest);
    }
    command
}

/// A guest of a daemon, in this process.
pub fn guest(daemon: &Daemon, number: usize) -> Arc<FakeGuest> {
    guest_with(daemon, number, GuestOptions::default())
}

/// A guest under this VMM.
pub fn guest_under(profile: &'static VmmProfile, daemon: &Daemon, number: usize) -> Arc<FakeGuest> {
    guest_with(daemon, number, GuestOptions { profile, ..GuestOptions::default() })
}

/// A guest with these options.
pub fn guest_with(daemon: &Daemon, number: usize, options: GuestOptions) -> Arc<FakeGuest> {
    FakeGuest::connect(&daemon.socket(number), options).unwrap()
}

/// The adapter as a new process of this guest's opens it.
pub fn adapter_of(guest: &Arc<FakeGuest>) -> Adapter {
    Adapter::open(Arc::clone(guest) as Arc<_>).unwrap()
}

/// A client in a process of this guest.
pub fn client_of(guest: &Arc<FakeGuest>, shape: Shape) -> Client {
    Client::new(adapter_of(guest), shape).unwrap()
}

/// The only client of a guest, in the default shape.
pub fn client(daemon: &Daemon, number: usize) -> Client {
    client_of(&guest(daemon, number), Shape::default())
}

/// The status with which the device refused this.
#[track_caller]
pub fn refusal<T>(result: Result<T, Error>) -> Status {
    match result {
        Err(Error::Refused { status, .. }) => status,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was not refused"),
    }
}

/// The fault for which the device took the queue away.
#[track_caller]
pub fn fault<T>(result: Result<T, Error>) -> QueueFault {
    match result {
        Err(Error::QueueLost { fault: Some(fault), .. }) => fault,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("the queue was not lost"),
    }
}

/// Submits once, and waits until it is executed.
pub fn submit_once(client: &mut Client) {
    client.commands.nop().unwrap();
    client.run().unwrap();
}

/// Has a CPU wait until the fence has this value, meanwhile.
pub fn while_awaited(fence: &Fence, value: u64, act: impl FnOnce()) {
    thread::scope(|threads| {
        let waiter = threads.spawn(|| fence.wait(value, TIMEOUT));
        act();
        waiter.join().unwrap().unwrap();
    });
}

/// Polls until a condition holds.
#[track_caller]
pub fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < TIMEOUT, "never: {what}");
        pause(start);
    }
}

/// Lets others run between two looks at what has no event. Whoever only yields takes half a processor from those
/// that it waits for, so a long wait sleeps.
fn pause(start: Instant) {
    if start.elapsed() < Duration::from_millis(1) {
        thread::yield_now();
    } else {
        thread::sleep(Duration::from_micros(200));
    }
}

/// A running `bellhopd`, ended with SIGTERM when dropped.
pub struct Daemon {
    child: Child,
    folder: TempDir,
    log: Receiver<String>,
}

impl Daemon {
    /// Starts a daemon that listens on `gpu0.sock`, `gpu1.sock`, ... and returns once it does.
    pub fn start(sockets: usize) -> Self {
        Self::start_with(sockets, "")
    }

    /// Starts a daemon with a configuration.
    pub fn start_with(sockets: usize, configuration: &str) -> Self {
        Self::start_logging(sockets, configuration, "info")
    }

    /// Starts a daemon with a configuration and a filter for its log.
    pub fn start_logging(sockets: usize, configuration: &str, filter: &str) -> Self {
        Self::launch(sockets, configuration, filter, |_, _| {})
    }

    /// Starts a daemon as another user, which takes root, with this limit of threads.
    pub fn start_as(user: u32, threads: Option<u64>, sockets: usize) -> Self {
        Self::launch(sockets, "", "info", |command, folder| {
            std::os::unix::fs::chown(folder, Some(user), Some(user)).unwrap();
            if let Some(threads) = threads {
                let mut limited = Command::new("prlimit");
                limited.arg(format!("--nproc={threads}")).arg(command.get_program());
                limited.args(command.get_args());
                *command = limited;
            }
            command.uid(user).gid(user);
        })
    }

    fn launch(
        sockets: usize,
        configuration: &str,
        filter: &str,
        prepare: impl FnOnce(&mut Command, &Path),
    ) -> Self {
        let daemon = Self::spawn(sockets, configuration, filter, prepare);
        daemon.await_log("ready");
        daemon
    }

    /// Starts a daemon without waiting until it listens.
    fn spawn(
        sockets: usize,
        configuration: &str,
        filter: &str,
        prepare: impl FnOnce(&mut Command, &Path),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("bellhopd.toml");
        std::fs::write(&config, for_tests(configuration)).unwrap();
        let mut command = bellhopd(&["--config", config.to_str().unwrap()]);
        command.arg("--control-socket").arg(folder.path().join("control.sock"));
        command.arg("--operator-socket").arg(folder.path().join("operator.sock"));
        for number in 0..sockets {
            command.arg("--socket-path").arg(socket(folder.path(), number));
        }
        prepare(&mut command, folder.path());
        let mut child = command
            .env("BELLHOP_LOG", filter)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, log) = channel();
        // Drained, so that the daemon never blocks on a full pipe; shown if the test fails.
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                eprintln!("bellhopd: {line}");
                // The test may have dropped its end.
                let _ = sender.send(line);
            }
        });
        Self { child, folder, log }
    }

    /// Waits until the daemon logs a line that contains this, and skips the lines before.
    pub fn await_log(&self, text: &str) -> String {
        loop {
            match self.log.recv_timeout(TIMEOUT) {
                Ok(line) if line.contains(text) => return line,
                Ok(_) => {}
                Err(error) => panic!("bellhopd did not log {text:?}: {error}"),
            }
        }
    }

    /// The socket of guest `number`.
    pub fn socket(&self, number: usize) -> PathBuf {
        socket(self.folder.path(), number)
    }

    /// The socket of tools.
    pub fn control_socket(&self) -> PathBuf {
        self.folder.path().join("control.sock")
    }

    /// The socket of the operator.
    pub fn operator_socket(&self) -> PathBuf {
        self.folder.path().join("operator.sock")
    }

    /// `bellhop` with this work and these options, as the operator of this daemon.
    pub fn operate(&self, arguments: &[&str]) -> Command {
        let mut command = bellhop();
        command.args(arguments).arg("--socket").arg(self.operator_socket());
        command
    }

    /// The daemon's objects, as tools see them.
    pub fn snapshot(&self) -> Snapshot {
        inspect::snapshot(&mut ControlClient::connect(&self.control_socket()).unwrap()).unwrap()
    }

    /// The number of pending CPU waits of the first guest.
    pub fn cpu_waits(&self) -> u64 {
        let seen = self.snapshot();
        let devices = seen.guests[0].processes.iter().flat_map(|process| &process.devices);
        devices.flat_map(|device| &device.fences).map(|fence| fence.waits).sum()
    }

    /// The objects of those of its adapters and guests that are selected.
    pub fn snapshots(&self, only: Selection) -> Vec<Snapshot> {
        let mut client = ControlClient::connect(&self.control_socket()).unwrap();
        inspect::snapshots(&mut client, only).unwrap()
    }

    /// `bellhop` with this work and these options, as a tool of this daemon.
    pub fn tool(&self, arguments: &[&str]) -> Command {
        let mut command = bellhop();
        command.args(arguments).arg("--socket").arg(self.control_socket());
        command
    }

    /// `bellhop` with this work and these options, as the first guest of this daemon.
    pub fn work(&self, arguments: &[&str]) -> Command {
        let mut command = bellhop();
        command.args(arguments).arg("--socket-path").arg(self.socket(0));
        command
    }

    /// The report of the conformance suite, with these options, in the first guest of this daemon. Somebody looks at its
    /// monitors.
    #[track_caller]
    pub fn selftest(&self, options: &[&str]) -> Value {
        let mut work = self.work(&["selftest", "--json"]);
        conformance(work.arg("--control-socket").arg(self.control_socket()).args(options))
    }

    /// The process's id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.signal(rustix::process::Signal::KILL);
        self.wait();
    }

    /// Ends it as a service manager does; it must succeed.
    #[track_caller]
    pub fn end(&mut self) {
        self.signal(rustix::process::Signal::TERM);
        await_that("the daemon ends", || !self.is_running());
        assert!(self.wait().success());
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// How often all its threads together got a processor.
    pub fn wakeups(&self) -> u64 {
        let switches = |task: PathBuf| -> u64 {
            let status = std::fs::read_to_string(task.join("status")).unwrap();
            let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
            lines.map(|line| line.split_whitespace().last().unwrap().parse::<u64>().unwrap()).sum()
        };
        self.tasks().map(switches).sum()
    }

    /// The folders of its threads in `/proc`.
    pub fn tasks(&self) -> impl Iterator<Item = PathBuf> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.id())).unwrap();
        tasks.map(|task| task.unwrap().path())
    }

    /// A number of its status, in KiB where it is memory.
    pub fn status(&self, key: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let value = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        value.unwrap().split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Waits until all its threads sleep.
    pub fn await_quiet(&self) {
        let sleeps = |task: PathBuf| {
            // A thread may end after it was listed.
            std::fs::read_to_string(task.join("stat")).unwrap_or_default().contains(") S ")
        };
        await_that("the daemon comes to rest", || self.tasks().all(sleeps));
    }

    /// The logged lines that no call has returned yet.
    pub fn logged(&self) -> Vec<String> {
        self.log.try_iter().collect()
    }

    /// Drops earlier lines, and fails if the daemon logs another within this time.
    pub fn expect_no_log_for(&self, time: Duration) {
        while let Ok(line) = self.log.try_recv() {
            drop(line);
        }
        if let Ok(line) = self.log.recv_timeout(time) {
            panic!("it logged {line:?}");
        }
    }

    /// The daemon's resources once all its threads sleep, so that no thread that is about to end counts.
    pub fn resources(&self) -> Resources {
        self.await_quiet();
        self.count_resources()
    }

    fn count_resources(&self) -> Resources {
        let count =
            |what| std::fs::read_dir(format!("/proc/{}/{what}", self.id())).unwrap().count();
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.id())).unwrap();
        let shared = maps.lines().filter(|line| line.contains("/memfd:")).count();
        Resources { descriptors: count("fd"), threads: count("task"), shared }
    }

    /// The daemon's private memory in KiB, without memory that it shares with guests.
    pub fn private_memory(&self) -> u64 {
        self.status("RssAnon")
    }

    /// Waits until the daemon has no more than `expected`: a thread that is about to end may still hold resources when
    /// the daemon reports that a guest has gone.
    pub fn await_resources(&self, expected: Resources) {
        let start = Instant::now();
        while self.count_resources() != expected {
            assert!(start.elapsed() < TIMEOUT, "{:?}, not {expected:?}", self.count_resources());
            pause(start);
        }
    }
}

/// A daemon's resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    descriptors: usize,
    threads: usize,
    /// Mappings of memory that it shares with guests, or gives to them.
    shared: usize,
}

/// The configuration, without limits on log lines unless it sets them: tests wait for lines. Guests have no kernels
/// unless it sets that, so that what they are offered does not depend on the machine.
fn for_tests(configuration: &str) -> String {
    let mut configuration: toml::Table = configuration.parse().unwrap();
    let without_kernels = |adapter: &mut toml::Value| {
        let adapter = adapter.as_table_mut().unwrap();
        adapter.entry("kernels").or_insert_with(|| "off".into());
    };
    without_kernels(configuration.entry("adapter").or_insert_with(|| toml::Table::new().into()));
    if let Some(others) = configuration.get_mut("adapters") {
        others.as_table_mut().unwrap().iter_mut().for_each(|(_, adapter)| without_kernels(adapter));
    }
    let guest = configuration.entry("guest").or_insert_with(|| toml::Table::new().into());
    let guest = guest.as_table_mut().unwrap();
    guest.entry("log_burst").or_insert_with(|| 1_000_000.into());
    configuration.to_string()
}

fn socket(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("gpu{number}.sock"))
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if self.is_running() {
            self.signal(rustix::process::Signal::TERM);
            self.wait();
        }
    }
}
