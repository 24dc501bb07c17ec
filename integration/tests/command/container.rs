// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop container`: real guests in real containers.
//!
//! These tests have podman keep everything in temporary folders.

mod drawing;

use crate::support::kernels::{Doubling, worker};
use crate::support::opengl::{PACKAGES, STILL, UNHURRIED, assert_still, packages, start, still};
use crate::support::screens::see_every_behaviour;
use crate::support::secrets;
use crate::support::vulkan::{ALLOWED, IMPATIENT, LOST, all_passed, assert_told_what_is_wrong};
use crate::support::vulkan_programs::{
    COMPUTEML, GGML, HEPHAISTOS, KOMPUTE, NCNN, NCNN_LAYERS, PATIENT, VKDISPATCH,
    libraries_of_kompute,
};
use crate::support::windows::XServer;
use crate::support::{
    self, DEFAULT_NOT_OFFERED, Daemon, assert_every_behaviour_is_seen, bellhop, conformance,
    report, run, succeed, text, video,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use tempfile::{NamedTempFile, TempDir};

/// What makes the command `bellhop container`, if podman is here.
fn containers() -> Option<fn() -> Command> {
    let container = || {
        let mut command = bellhop();
        command.arg("container").stdin(Stdio::null());
        command
    };
    support::is_here("podman", "nothing is run in a container").then_some(container)
}

/// The standard error of a command that must fail.
#[track_caller]
fn fail(output: Output) -> String {
    assert!(!output.status.success(), "{}", text(&output.stdout));
    text(&output.stderr)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// A daemon with a socket that every user may connect to.
fn daemon() -> Daemon {
    open_to_all(Daemon::start(1))
}

fn open_to_all(daemon: Daemon) -> Daemon {
    fs::set_permissions(daemon.socket(0), Permissions::from_mode(0o666)).unwrap();
    daemon
}

#[test]
fn a_kernel_s_files_go_into_the_container_and_its_output_comes_back() {
    let (Some(container), Some(_)) = (containers(), worker("no container runs kernels")) else {
        return;
    };
    let doubling = Doubling::new();
    let mut container = container();
    run(doubling.ask(container.args(["--vulkan", "debian-13", "--"])));
    doubling.assert_done();
}

/// What a container needs to run a program with the Vulkan driver, if there is all of it.
fn vulkan_containers() -> Option<fn() -> Command> {
    let container = containers()?;
    worker("no program in a container uses Vulkan")?;
    Some(container)
}

#[test]
fn debian_s_vulkaninfo_lists_the_gpu_in_a_container_of_its_packages_alone() {
    let Some(container) = vulkan_containers() else { return };
    let driver = ["--vulkan", "debian-13", "--vulkan-driver", "--package", "vulkan-tools"];
    let summary = ["--validate", "--", "vulkaninfo", "--summary"];
    let summary = run(container().args(driver).args(summary));
    assert!(summary.contains("PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU"), "{summary}");
    assert!(summary.contains("Bellhop"), "{summary}");
    // Nothing of this machine's: not even its programs.
    let error =
        fail(container().args(driver).args(["--", "podman", "--version"]).output().unwrap());
    assert!(error.contains("cannot run the container"), "{error}");
}

#[test]
fn a_scene_of_opengl_in_a_window_of_a_container_is_lavapipe_s_to_the_pixel() {
    let Some(container) = vulkan_containers() else { return };
    let Some(server) = XServer::start() else { return };
    let mut config = NamedTempFile::new().unwrap();
    config.write_all(UNHURRIED.as_bytes()).unwrap();
    for program in ["glmark2", "glmark2-es2"] {
        let mut command = container();
        command.args(["--vulkan", "debian-13", "--vulkan-driver", "--opengl", "--windows"]);
        command.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
        command.arg("--config").arg(config.path()).arg("--").arg(program).args(STILL);
        let mut seen = start(command.env("DISPLAY", &server.display));
        let seen = still(&mut seen, &server);
        let data = packages().root().join("usr/share/glmark2");
        let words = [&[program, "--data-path", data.to_str().unwrap()], &STILL[..]].concat();
        assert_still(&seen, &words);
    }
}

#[test]
fn programs_that_know_nothing_of_bellhop_compute_in_containers_what_the_processor_does() {
    let Some(container) = vulkan_containers() else { return };
    let mut config = NamedTempFile::new().unwrap();
    config.write_all(PATIENT.as_bytes()).unwrap();
    for program in [COMPUTEML, GGML, HEPHAISTOS, KOMPUTE, NCNN, NCNN_LAYERS, VKDISPATCH] {
        let Some(python) = program.python() else { continue };
        let mut command = container();
        command.args(["--vulkan", "debian-13", "--vulkan-driver", "--validate"]);
        command.arg("--config").arg(config.path());
        let libraries = libraries_of_kompute().unwrap();
        for folder in python.folders().iter().chain(&libraries) {
            command.arg("--folder").arg(folder);
        }
        command.arg("--").args([python.path(), program.path()]);
        program.assert_right(&command.output().unwrap());
    }
}

#[test]
fn every_behaviour_of_a_driver_is_seen_in_a_container() {
    let Some(container) = vulkan_containers() else { return };
    let bellhop = PathBuf::from(bellhop().get_program());
    let seen = |configuration: &str, options: &[&str], areas: &[&str]| {
        let mut config = NamedTempFile::new().unwrap();
        config.write_all(configuration.as_bytes()).unwrap();
        let mut command = container();
        command.args(["--vulkan", "debian-13", "--vulkan-driver", "--config"]).arg(config.path());
        command.args(options).arg("--folder").arg(bellhop.parent().unwrap());
        all_passed(&run(command.arg("--").arg(&bellhop).arg("vulkan-suite").args(areas)));
    };
    seen(PATIENT, &["--validate"], &ALLOWED.concat());
    seen(IMPATIENT, &[], LOST);
}

#[test]
fn a_program_in_a_container_that_does_what_vulkan_does_not_allow_has_failed_and_is_told_why() {
    let Some(container) = containers() else { return };
    // A container has the system's programs, and not those that the user alone has.
    let python = "/usr/bin/python3";
    if !support::is_here(python, "no program with an error is validated in a container") {
        return;
    }
    let mut command = container();
    command.args(["--vulkan", "debian-13", "--vulkan-driver", "--validate", "--", python]);
    assert_told_what_is_wrong(&mut command);
}

#[test]
fn every_behaviour_of_a_display_is_seen_in_a_container() {
    let Some(container) = containers() else { return };
    see_every_behaviour(&mut container());
}

/// A container has the file that the command names, and gives back what it makes.
#[test]
fn video_works_in_a_container_and_its_pictures_come_back() {
    let Some(container) = containers() else { return };
    video::see_every_behaviour(&mut container());
    let pictures = video::Pictures::new([64, 48], 3, 8);
    pictures.encode(&mut bellhop(), &[]);
    let mut config = NamedTempFile::new().unwrap();
    config.write_all(video::VIDEO.as_bytes()).unwrap();
    let mut inside = container();
    inside.arg("--config").arg(config.path()).arg("--");
    let decoded = pictures.decode(&mut inside, "video.ivf");
    assert!(decoded == pictures.decode(&mut bellhop(), "video.ivf"));
    video::see_stills(&mut container());
}

#[test]
fn every_behaviour_of_a_chain_is_seen_in_a_container() {
    let Some(container) = containers() else { return };
    support::see_every_behaviour_of_a_chain(&mut container());
}

#[test]
fn two_gpus_draw_frames_in_a_container_and_they_come_back() {
    let Some(container) = containers() else { return };
    support::links::see_frames(&mut container());
}

#[test]
fn the_jobs_of_a_chain_are_done_in_a_container() {
    let Some(container) = containers() else { return };
    support::links::see_power(&mut container());
    support::links::see_surface(&mut container());
    let daemon = open_to_all(Daemon::start_with(1, support::LINK));
    let mut job = container();
    job.arg("--socket-path").arg(daemon.socket(0)).args(["--", "link", "detach", "--frames=2"]);
    support::links::see_detach(&daemon, &mut job);
}

#[test]
fn every_behaviour_of_a_security_node_is_seen_in_a_container() {
    let Some(container) = containers() else { return };
    secrets::see_every_behaviour_in(&mut container());
}

/// A guest that streams without end, in a container.
struct Endless {
    bellhop: Child,
    /// The guest's process on the host.
    guest: Pid,
    errors: Receiver<String>,
}

impl Endless {
    /// Starts the guest, with a unique number `samples`, and returns once it streams.
    fn start(command: &mut Command, samples: u32) -> Self {
        let mut bellhop = command
            .args(["--", "run", "--input", "/dev/zero", "--samples", &samples.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(bellhop.stderr.take().unwrap()).lines();
        let (sender, errors) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|l| sender.send(l)));
        let streams = errors.iter().any(|line| line.contains("streaming"));
        assert!(streams, "the guest did not begin: {:?}", bellhop.wait());
        Self { bellhop, guest: guest_with(samples), errors }
    }

    /// `bellhop`'s exit status, and the later output of `bellhop` and the guest.
    fn ended(mut self) -> (Option<i32>, String) {
        let status = self.bellhop.wait().unwrap();
        (status.code(), self.errors.iter().collect::<Vec<_>>().join("\n"))
    }

    /// A file of the guest's entry in the host's `/proc`.
    fn entry(&self, name: &str) -> String {
        let path = format!("/proc/{}/{name}", self.guest.as_raw_nonzero());
        fs::read_to_string(path).unwrap()
    }

    fn is_running(&self) -> bool {
        rustix::process::test_kill_process(self.guest).is_ok()
    }
}

/// Finds the guest by its command line, among this host's processes.
fn guest_with(samples: u32) -> Pid {
    let guests = entries(Path::new("/proc")).into_iter().filter(|entry| {
        let line = fs::read(entry.join("cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).collect();
        words[0] == b"/bellhop-guest" && words.contains(&samples.to_string().as_bytes())
    });
    let numbers: Vec<i32> =
        guests.map(|entry| entry.file_name().unwrap().to_str().unwrap().parse().unwrap()).collect();
    assert_eq!(numbers.len(), 1, "one guest runs {samples} samples");
    Pid::from_raw(numbers[0]).unwrap()
}

#[test]
fn the_main_job_is_verified_and_leaves_nothing() {
    let Some(container) = containers() else { return };
    let temporary = tempfile::tempdir().unwrap();
    let output = container().args(["--", "run", "--json"]).env("TMPDIR", temporary.path()).output();
    let output = output.unwrap();
    let chosen = text(&output.stderr);
    let report: Value = serde_json::from_str(&succeed(output)).unwrap();
    assert_eq!(report["verified"], true);
    assert!(report["doorbells"].as_u64() > Some(20_000), "{report}");
    assert!(chosen.contains("bellhop: podman ") && chosen.contains(" with runtime "), "{chosen}");
    assert_eq!(entries(temporary.path()), Vec::<PathBuf>::new());
}

#[test]
fn every_behaviour_is_seen_from_a_container() {
    let Some(container) = containers() else { return };
    let seen = conformance(container().args(["--", "selftest", "--json"]));
    assert_every_behaviour_is_seen(&seen, DEFAULT_NOT_OFFERED);
    let listed = report(bellhop().args(["selftest", "--list", "--json"]));
    assert_eq!(listed.as_array().unwrap().len(), seen["checks"].as_array().unwrap().len());
}

/// The suite is one of the programs of a broker in the container.
#[test]
fn every_behaviour_is_seen_by_a_program_behind_a_broker_in_a_container() {
    let Some(container) = containers() else { return };
    let seen = conformance(container().args(["--", "selftest", "--behind-broker", "--json"]));
    support::assert_program_sees_the_suite(&seen);
}

/// A broker in the container, and its programs beside it. Whoever may not change its user has programs of one.
#[test]
fn every_behaviour_of_programs_is_seen_in_a_container() {
    let Some(container) = containers() else { return };
    let seen = conformance(container().args(["--", "selftest", "--programs", "--json"]));
    support::programs::assert_seen(&seen, support::programs::NOT_OFFERED, false);
}

#[test]
fn the_guests_own_failure_is_the_commands() {
    let Some(container) = containers() else { return };
    let errors = fail(container().args(["--", "selftest", "no.such.thing"]).output().unwrap());
    assert!(errors.contains("no.such.thing"), "{errors}");
}

#[test]
fn a_guest_has_its_socket_and_nothing_else() {
    let Some(container) = containers() else { return };
    let job = Endless::start(&mut container(), 1_000_001);
    let status = job.entry("status");
    let value = |key: &str| {
        let line = status.lines().find(|line| line.starts_with(&format!("{key}:"))).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    // In a user namespace the number is another one, but it is never root's.
    assert!(value("Uid").parse::<u32>().unwrap() >= 65534, "{status}");
    assert_eq!(u64::from_str_radix(&value("CapEff"), 16), Ok(0));
    assert_eq!(u64::from_str_radix(&value("CapBnd"), 16), Ok(0));
    assert_eq!((value("NoNewPrivs"), value("Seccomp")), ("1".into(), "2".into()));
    let network = job.entry("net/dev");
    let interfaces: Vec<_> = network
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim())
        .collect();
    assert_eq!(interfaces, ["lo"]);
    // Mount point and options are the 5th and 6th word.
    let mounts = job.entry("mountinfo");
    let mounts: Vec<Vec<_>> =
        mounts.lines().map(|line| line.split(' ').skip(4).take(2).collect()).collect();
    let read_only = |place: &str| {
        let mount = mounts.iter().rfind(|mount| mount[0] == place).unwrap();
        mount[1].split(',').any(|option| option == "ro")
    };
    assert!(read_only("/") && read_only("/run/bellhop/gpu.sock"), "{mounts:?}");
    assert!(!mounts.iter().any(|mount| mount[0] == "/tmp"), "{mounts:?}");
    kill_process(Pid::from_child(&job.bellhop), Signal::TERM).unwrap();
    assert_eq!(job.ended().0, Some(130));
}

#[test]
fn interrupting_it_ends_the_container_and_leaves_nothing() {
    let Some(container) = containers() else { return };
    for (signal, samples) in [(Signal::INT, 1_000_002), (Signal::TERM, 1_000_003)] {
        let temporary = tempfile::tempdir().unwrap();
        let job = Endless::start(container().env("TMPDIR", temporary.path()), samples);
        let guest = job.guest;
        kill_process(Pid::from_child(&job.bellhop), signal).unwrap();
        assert_eq!(job.ended().0, Some(130));
        assert!(rustix::process::test_kill_process(guest).is_err(), "the guest still runs");
        assert_eq!(entries(temporary.path()), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_killed_container_is_an_error_and_leaves_the_daemon_whole() {
    let Some(container) = containers() else { return };
    let mut daemon = daemon();
    let before = daemon.resources();
    let job = Endless::start(container().arg("--socket-path").arg(daemon.socket(0)), 1_000_004);
    assert!(job.is_running());
    kill_process(job.guest, Signal::KILL).unwrap();
    let (code, errors) = job.ended();
    assert_eq!(code, Some(1));
    assert!(errors.contains("the container was killed"), "{errors}");
    daemon.await_log("front end disconnected");
    daemon.await_resources(before);
    assert!(daemon.is_running());
    let mut next = container();
    next.arg("--socket-path").arg(daemon.socket(0)).args(["--", "run", "--samples", "10"]);
    assert!(run(&mut next).contains("verified"));
}

#[test]
fn two_containers_at_one_socket_work_at_the_same_time_and_one_is_killed() {
    let Some(container) = containers() else { return };
    let daemon = open_to_all(Daemon::start_with(1, "[guest]\nconnections = 2\n"));
    let job = Endless::start(container().arg("--socket-path").arg(daemon.socket(0)), 1_000_009);
    let other = || {
        let mut other = container();
        other.arg("--socket-path").arg(daemon.socket(0)).args(["--", "run", "--samples", "10"]);
        run(&mut other)
    };
    assert!(other().contains("verified"));
    assert!(job.is_running(), "its sibling goes on");
    kill_process(job.guest, Signal::KILL).unwrap();
    let (code, errors) = job.ended();
    assert_eq!(code, Some(1), "{errors}");
    assert!(other().contains("verified"));
}

#[test]
fn a_memory_limit_below_what_the_guest_maps_is_an_error_that_says_so() {
    let Some(container) = containers() else { return };
    let folder = tempfile::tempdir().unwrap();
    // Several buffers of 8 MiB are in use at once.
    let task = ["--", "run", "--input", "/dev/zero", "--chunk", "8192"];
    let output = container().args(["--memory", "16m"]).args(task).current_dir(&folder).output();
    let errors = fail(output.unwrap());
    // A user without a delegated controller cannot limit memory, and gets an error that says so.
    let killed = errors.contains("needs more than --memory 16m");
    assert!(killed || errors.contains("Delegate=memory"), "{errors}");
    assert_eq!(entries(folder.path()), Vec::<PathBuf>::new());
}

#[test]
fn a_limit_that_podman_cannot_read_is_podmans_error() {
    let Some(container) = containers() else { return };
    let errors = fail(container().args(["--memory", "much"]).output().unwrap());
    assert!(errors.contains("much") || errors.contains("Delegate=memory"), "{errors}");
}

#[test]
fn a_missing_socket_is_named() {
    let Some(container) = containers() else { return };
    for option in ["--print-command", "--memory=64m"] {
        let output = container().args([option, "--socket-path", "/nonexistent/gpu.sock"]).output();
        let errors = fail(output.unwrap());
        assert!(
            errors.contains("/nonexistent/gpu.sock") || errors.contains("Delegate"),
            "{errors}"
        );
    }
}

/// A user's own podman storage.
struct Storage {
    folder: TempDir,
    /// Makes the command `bellhop container`.
    container: fn() -> Command,
}

impl Storage {
    fn new(container: fn() -> Command) -> Self {
        let storage = Self { folder: tempfile::tempdir().unwrap(), container };
        let folder = storage.folder.path().display();
        let configuration = format!(
            "[storage]\ndriver = \"vfs\"\ngraphroot = \"{folder}/images\"\nrunroot = \"{folder}/run\"\n"
        );
        fs::write(storage.configuration(), configuration).unwrap();
        storage
    }

    fn configuration(&self) -> PathBuf {
        self.folder.path().join("storage.conf")
    }

    /// `bellhop container` with this storage.
    fn container(&self) -> Command {
        let mut command = (self.container)();
        command.env("CONTAINERS_STORAGE_CONF", self.configuration());
        command
    }

    fn make_image(&self) -> String {
        run(self.container().arg("--image-only")).trim_end().to_owned()
    }

    /// The output of `--print-command`, in words.
    fn printed_command(&self, daemon: &Daemon) -> Vec<String> {
        let mut command = self.container();
        command.args(["--print-command", "--socket-path"]).arg(daemon.socket(0));
        shlex::split(&run(command.args(["--", "selftest", "doorbell"]))).unwrap()
    }
}

#[test]
fn the_image_and_the_printed_command_work_for_people() {
    let Some(container) = containers() else { return };
    let (storage, daemon) = (Storage::new(container), daemon());
    assert_eq!(storage.make_image(), "localhost/bellhop-guest");
    let words = storage.printed_command(&daemon);
    let mut podman = Command::new(&words[0]);
    podman.args(&words[1..]).env("CONTAINERS_STORAGE_CONF", storage.configuration());
    assert!(run(&mut podman).contains("passed"));
}

#[test]
fn podman_gives_a_container_the_device_by_its_name() {
    let Some(container) = containers() else { return };
    let namespace = ["--mount", "--propagation", "slave"];
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(namespace);
        command
    };
    if !unshare().arg("true").output().unwrap().status.success() {
        return support::skip(
            "only root may hide this host's own devices from podman",
            "no container gets the device by its name",
            "be root",
        );
    }
    let (storage, daemon) = (Storage::new(container), daemon());
    let image = storage.make_image();
    let mut words = storage.printed_command(&daemon);
    // Replaces the socket by the device's name.
    for option in ["--mount", "--env"] {
        let place = words.iter().position(|word| word == option).unwrap();
        words.drain(place..place + 2);
    }
    let place = words.iter().position(|word| *word == image).unwrap();
    words.splice(place..place, ["--device".to_owned(), "bellhop.local/gpu=0".to_owned()]);
    let run_with = |generate: bool| {
        let script = "\
set -e
mkdir -p /var/run/cdi
mount -t tmpfs none /var/run/cdi
[ -z \"$GENERATE\" ] || \"$BELLHOP\" cdi generate --socket-path \"$SOCKET\" --output /var/run/cdi/bellhop.json
exec \"$@\"";
        unshare()
            .args(["sh", "-c", script, "sh"])
            .args(&words)
            .env("GENERATE", if generate { "yes" } else { "" })
            .env("BELLHOP", env!("CARGO_BIN_EXE_bellhop"))
            .env("SOCKET", daemon.socket(0))
            .env("CONTAINERS_STORAGE_CONF", storage.configuration())
            .output()
            .unwrap()
    };
    assert!(succeed(run_with(true)).contains("passed"));
    assert!(fail(run_with(false)).contains("bellhop.local/gpu=0"));
}
