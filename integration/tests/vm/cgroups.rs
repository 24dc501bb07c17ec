// SPDX-License-Identifier: MIT OR Apache-2.0

//! The cgroups of guests' workers, on a host whose systemd starts the daemon with the unit that its package has. The host
//! is a VM. Workers there are a program that takes what it gets.

use crate::named_kernels::{execute, fault, kernel, renew};
use crate::support::{await_that, run, text, vms};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::fake_guest::{FakeGuest, GuestOptions};
use bellhop_guest::inspect;
use bellhop_guest_umd::Adapter;
use bellhop_integration::hostile_worker::{Conduct, HOARDS, SWARMS};
use bellhop_integration::inspect::ControlClient;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::snapshot::{Cgroup, Snapshot};
use bellhop_vm::Outcome;
use bellhop_vm::host::Host;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// The longest that everything in the VM may take.
const IN_VM: Duration = Duration::from_secs(600);
/// Set in the VM.
const HOST: &str = "BELLHOP_TEST_HOST";
/// The command there.
const BELLHOP: &str = "/usr/bin/bellhop";
/// This executable there.
const LOOK: &str = "/usr/bin/look";
/// Files of the package.
const UNIT: &str = "usr/lib/systemd/system/bellhopd.service";
const SOCKET_UNIT: &str = "usr/lib/systemd/system/bellhopd.socket";
/// The unit's socket, and another one.
const SOCKETS: [&str; 2] = ["/run/bellhop/gpu.sock", "/run/bellhop/other.sock"];
const CONTROL: &str = "/run/bellhopd/control.sock";
/// The daemon's log, in place of a journal.
const LOG: &str = "/run/bellhopd.log";
/// The service's cgroup, as processes name it, and its folder.
const SERVICE: &str = "/system.slice/bellhopd.service";
const FOLDER: &str = "/sys/fs/cgroup/system.slice/bellhopd.service";

/// A guest has one worker, and one that compiles. Nothing is too slow.
const CONFIGURATION: &str = "[adapter]\nengine_idle = \"0s\"\ntimeout = \"10m\"\n\
     kernel_workers_per_guest = 1\nkernel_memory = \"128MiB\"\nkernel_processors = 1\n\
     kernel_compile_timeout = \"10m\"\n\
     [guest]\ndoorbells = 64\nfences = 1024\nlocal_memory = \"8MiB\"\n\
     private_memory = \"16MiB\"\nbacking_memory = \"16MiB\"\n";
/// What both may take by that: twice 128 MiB and 16 MiB for a processor, and 256 MiB.
const BOTH: u64 = (2 * (2 * (128 + 16) + 256)) << 20;
/// Threads of both.
const THREADS: u64 = 2 * 128;

#[test]
fn a_daemon_that_systemd_starts_bounds_the_workers_of_each_guest_by_a_cgroup() {
    if vms().is_none() {
        return;
    }
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let mut host = Host::default();
    host.program(&BELLHOP[1..], Path::new(env!("CARGO_BIN_EXE_bellhop")));
    host.program(&LOOK[1..], &std::env::current_exe().unwrap());
    // The unit starts the daemon as it is; what differs is the workers' program.
    let daemon = folder.path().join("bellhopd");
    let words = Conduct::default().words(Path::new(BELLHOP));
    let words = words.iter().map(|word| format!("--worker={}", word.to_str().unwrap()));
    let words: Vec<_> = words.collect();
    let words = shlex::try_join(words.iter().map(String::as_str)).unwrap();
    let script = format!("#!/bin/sh\nexec /usr/bin/bellhop daemon -- \"$@\" {words}\n");
    fs::write(&daemon, script).unwrap();
    fs::set_permissions(&daemon, fs::Permissions::from_mode(0o755)).unwrap();
    host.file("usr/bin/bellhopd", &daemon);
    // Debian's systemd has services look there alone.
    for program in ["sh", "sleep"] {
        host.link(&format!("usr/bin/{program}"), "/bin/busybox");
    }
    let dist = own.join("../device/dist");
    host.file(UNIT, &dist.join("bellhopd.service"));
    host.file(SOCKET_UNIT, &dist.join("bellhopd.socket"));
    host.file("usr/lib/sysusers.d/bellhop.conf", &dist.join("sysusers.d/bellhop.conf"));
    host.text("etc/bellhop/bellhop.toml", CONFIGURATION);
    let units = "etc/systemd/system";
    host.link(&format!("{units}/sockets.target.wants/bellhopd.socket"), &format!("/{SOCKET_UNIT}"));
    let another = format!("[Socket]\nListenStream={}\n", SOCKETS[1]);
    host.text(&format!("{units}/bellhopd.socket.d/another.conf"), &another);
    let log = format!("[Service]\nStandardError=append:{LOG}\n");
    host.text(&format!("{units}/bellhopd.service.d/log.conf"), &log);

    let variable = format!("{HOST}=1");
    let test = "cgroups::a_host_is_looked_at";
    let task = ["env", &variable, LOOK, "--exact", test, "--ignored", "--nocapture"];
    let output = folder.path().join("output");
    let begin = Instant::now();
    let ended = host.run(&task.map(Into::into), IN_VM, fs::File::create(&output).unwrap());
    let said = fs::read_to_string(&output).unwrap();
    let ended = ended.unwrap_or_else(|error| panic!("{error:?}\n{said}"));
    println!("{said}\n{:?}", begin.elapsed());
    assert_eq!(ended.outcome, Outcome::Exited(0), "{}", ended.messages);
    assert!(said.contains("1 passed"));
}

/// The guest of a socket, with a client.
fn guest(socket: &str) -> (Arc<FakeGuest>, Client) {
    let options = GuestOptions { ram: 32 << 20, ..GuestOptions::default() };
    let guest = FakeGuest::connect(Path::new(socket), options).unwrap();
    let adapter = Adapter::open(Arc::clone(&guest) as Arc<_>).unwrap();
    let mut client = Client::new(adapter, Shape::default()).unwrap();
    let main = kernel(&client, "main").unwrap();
    execute(&mut client, &main).unwrap();
    (guest, client)
}

fn snapshot() -> Snapshot {
    inspect::snapshot(&mut ControlClient::connect(Path::new(CONTROL)).unwrap()).unwrap()
}

/// The cgroup that a process is in.
fn of_process(pid: u32) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    text.strip_prefix("0::").unwrap().trim().to_owned()
}

/// The content of a file of a cgroup.
fn read(group: &Path, file: &str) -> String {
    fs::read_to_string(group.join(file)).unwrap().trim().to_owned()
}

fn number(group: &Path, file: &str) -> u64 {
    read(group, file).parse().unwrap()
}

/// How often something has happened in a cgroup.
fn count(group: &Path, file: &str, what: &str) -> u64 {
    let text = read(group, file);
    let line = text.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(' '));
    line.unwrap().parse().unwrap()
}

/// The groups of guests' workers.
fn groups() -> Vec<PathBuf> {
    let all = fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path());
    let of_workers =
        |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("workers-");
    all.filter(of_workers).collect()
}

/// The group of the guest of a socket: all its workers are in it, and no spare one. And what tools are shown of it.
fn group(socket: &str) -> (PathBuf, Cgroup) {
    let snapshot = snapshot();
    let of_socket = snapshot.guests.iter().find(|guest| guest.socket.as_deref() == Some(socket));
    let guest = of_socket.unwrap();
    let workers = snapshot.workers.iter().filter(|worker| worker.guest == Some(guest.id));
    let mut of_workers: Vec<_> = workers.map(|worker| of_process(worker.pid.unwrap())).collect();
    assert!(!of_workers.is_empty(), "{snapshot:?}");
    of_workers.dedup();
    let [group] = of_workers.as_slice() else { panic!("{of_workers:?}") };
    let folder = PathBuf::from(format!("/sys/fs/cgroup{group}"));
    for spare in snapshot.workers.iter().filter(|worker| worker.state == "spare") {
        assert_eq!(of_process(spare.pid.unwrap()), format!("{SERVICE}/daemon"));
    }
    let [shown] = guest.cgroups.as_slice() else { panic!("{:?}", guest.cgroups) };
    assert_eq!(Path::new(&shown.path), folder);
    (folder, shown.clone())
}

fn systemctl(arguments: &[&str]) -> String {
    run(Command::new("systemctl").args(arguments))
}

fn main_pid() -> u32 {
    let pid = systemctl(&["show", "--property=MainPID", "--value", "bellhopd.service"]);
    pid.trim().parse().unwrap()
}

/// As many rounds of a guest show that it is served beside another one. Then it leaves the VM's one processor to that.
const ROUNDS: u32 = 50;

/// Does something while another guest executes kernels and notices nothing.
fn beside(other: &mut Client, act: impl FnOnce()) {
    let (over, is_over) = channel::<()>();
    let rounds = AtomicU32::new(0);
    thread::scope(|threads| {
        threads.spawn(|| {
            let main = kernel(other, "main").unwrap();
            for _ in 0..ROUNDS {
                execute(other, &main).unwrap();
                rounds.fetch_add(1, Ordering::Release);
            }
            assert!(is_over.into_iter().next().is_none());
            execute(other, &main).unwrap();
        });
        await_that("the other guest works", || rounds.load(Ordering::Acquire) > 0);
        act();
        drop(over);
    });
}

#[test]
#[ignore = "in a VM that another test boots"]
fn a_host_is_looked_at() {
    if std::env::var_os(HOST).is_none() {
        return;
    }
    let begin = Instant::now();
    let step = |what: &str| println!("{:>5.1} s: {what}", begin.elapsed().as_secs_f64());
    // The socket starts the service.
    let (first_guest, mut first) = guest(SOCKETS[0]);
    let (other_guest, mut other) = guest(SOCKETS[1]);
    step("two guests have executed kernels");
    let pid = main_pid();
    assert_eq!(of_process(pid), format!("{SERVICE}/daemon"));
    let daemon = Path::new(FOLDER).join("daemon");
    assert_eq!(number(&daemon, "cpu.weight"), 1000);
    let [(group, shown), (others, _)] = SOCKETS.map(self::group);
    assert_ne!(group, others);
    // No limit of all guests together, which some could use up.
    assert_eq!(read(Path::new(FOLDER), "pids.max"), "max");
    for group in [&group, &others] {
        let limit = number(group, "memory.max");
        // The guest's memory comes on top.
        assert!((BOTH + (32 << 20)..BOTH + (256 << 20)).contains(&limit), "{limit}");
        assert_eq!(number(group, "memory.oom.group"), 1);
        assert_eq!((number(group, "pids.max"), number(group, "cpu.weight")), (THREADS, 100));
        println!("{}: memory.max {limit}", group.display());
    }
    let limits = (shown.memory_limit, shown.threads_limit, shown.weight, shown.killed);
    assert_eq!(limits, (Some(number(&group, "memory.max")), Some(THREADS), Some(100), Some(0)));
    let all = ["memory", "pids", "cpu"];
    assert_eq!(snapshot().adapter.cgroups.unwrap().controllers, all);
    let tree = run(Command::new(BELLHOP).args(["inspect", "--socket", CONTROL]));
    let lines = tree.lines().skip_while(|line| !line.contains("cgroup  "));
    println!("{}", lines.take(2).collect::<Vec<_>>().join("\n"));
    let log = fs::read_to_string(LOG).unwrap();
    let line = log.lines().find(|line| line.contains("have a cgroup"));
    println!("{}", line.expect(&log));

    step("memory until there is no more");
    beside(&mut other, || {
        let hoards = kernel(&first, HOARDS).unwrap();
        let fault = fault(execute(&mut first, &hoards), HOARDS);
        assert_eq!(fault.reason, FaultReason::KERNEL_LOST, "{fault}");
        println!("the guest is told: {fault}");
    });
    step("the other guest goes on");
    let events = |group| count(group, "memory.events", "oom_kill");
    println!("memory.events: {}", read(&group, "memory.events").replace('\n', ", "));
    assert!(events(&group) > 0 && events(&others) == 0 && events(&daemon) == 0);
    renew(&mut first);
    let main = kernel(&first, "main").unwrap();
    execute(&mut first, &main).unwrap();
    assert_eq!(self::group(SOCKETS[0]).1.killed, Some(events(&group)));

    step("threads until there is no other one");
    beside(&mut other, || {
        let swarms = kernel(&first, SWARMS).unwrap();
        // It ends when Linux has refused one for now (EAGAIN).
        execute(&mut first, &swarms).unwrap();
    });
    step("the other guest goes on");
    assert_eq!(number(&group, "pids.current"), THREADS);
    assert!(count(&group, "pids.events", "max") > 0);
    println!("pids.current {THREADS}, pids.events {}", read(&group, "pids.events"));
    kernel(&other, "compiled_meanwhile").unwrap();
    assert_eq!(main_pid(), pid);

    // A process that no worker should have started is not left behind.
    drop((main, first, first_guest));
    await_that("the guest's group is empty", || count(&group, "cgroup.events", "populated") == 0);
    step("the guest has gone");
    let (next_guest, next) = guest(SOCKETS[0]);
    let (again, shown) = self::group(SOCKETS[0]);
    assert_eq!((again.as_path(), shown.killed), (group.as_path(), Some(0)));
    assert_eq!(groups().len(), 2);
    drop((next, next_guest));

    let probed =
        Command::new(BELLHOP).args(["probe", "--socket-path", SOCKETS[0]]).output().unwrap();
    let probed = text(&probed.stdout);
    let line = probed.lines().find(|line| line.contains("groups")).expect(&probed);
    assert_eq!(line, "Cgroups for workers, with memory, pids, cpu");
    step(line);

    drop((other, other_guest));
    systemctl(&["kill", "--kill-whom=main", "--signal=KILL", "bellhopd.service"]);
    let starts = || fs::read_to_string(LOG).unwrap().matches("have a cgroup").count();
    await_that("systemd starts it again", || starts() == 2);
    let (guest, client) = guest(SOCKETS[0]);
    assert_ne!(main_pid(), pid);
    assert_eq!(groups(), [self::group(SOCKETS[0]).0]);
    step("killed, and started again");
    drop((client, guest));

    let stop = Instant::now();
    systemctl(&["stop", "bellhopd.socket", "bellhopd.service"]);
    let result = ["show", "--property=Result,ActiveState,ExecMainStatus", "bellhopd.service"];
    let result = systemctl(&result).replace('\n', " ");
    println!("stopped in {:?}: {result}", stop.elapsed());
    for word in ["Result=success", "ActiveState=inactive", "ExecMainStatus=0"] {
        assert!(result.contains(word), "{result}");
    }
    assert!(!Path::new(FOLDER).exists());
    step("stopped");

    let units = [UNIT, SOCKET_UNIT].map(|unit| format!("/{unit}"));
    let mut verify = Command::new("systemd-analyze");
    let verified = verify.args(["verify", "--man=no"]).args(units).output().unwrap();
    let said = text(&verified.stdout) + &text(&verified.stderr);
    println!("systemd-analyze verify: {}, {said:?}", verified.status);
    assert!(verified.status.success() && said.is_empty());
    let mut security = Command::new("systemd-analyze");
    let security = run(security.args(["security", "--no-pager", "bellhopd.service"]));
    let exposure = security.lines().last().unwrap();
    println!("{exposure}");
    assert!(exposure.contains("SAFE"), "{security}");
    step("looked at");
}
