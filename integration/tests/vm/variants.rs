// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop vm`: real guests in real VMs.
//!
//! Parts of VMs that are not in the cache are fetched from Debian. Each boot takes seconds without KVM, so a test
//! boots as seldom as it can.

use crate::support::typed::Typed;
use crate::support::{self, independent::IndependentDriver};
use crate::support::{
    Daemon, NOT_OFFERED, assert_every_behaviour_is_seen, conformance_in, run, text, vms,
};
use bellhop_integration::guest_binary;
use bellhop_vm::variant::{KernelSeries, VARIANTS, Variant};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A program that the guest runs: a script for its shell.
struct Program {
    folder: TempDir,
}

impl Program {
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = Self { folder };
        std::fs::write(program.path(), format!("#!/bin/sh\n{script}")).unwrap();
        std::fs::set_permissions(program.path(), PermissionsExt::from_mode(0o755)).unwrap();
        program
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("program")
    }

    /// This command `bellhop vm`, with this program for its guest.
    fn run_in(&self, mut vm: Command) -> Command {
        vm.arg("--guest-binary").arg(self.path());
        vm
    }
}

/// Has the guest's shell describe its VM, in lines that begin with "is: ".
const DESCRIBE: &str = "\
is() { echo \"is: $*\"; }
is $(nproc)
is $(free -m | sed -n 's/Mem: *\\([0-9]*\\) .*/\\1/p')
is $(uname -r | cut -d. -f1)
for device in /sys/bus/pci/devices/*; do
    [ $(cat $device/vendor)$(cat $device/device) = 0x1af40x1067 ] || continue
    driver=$(readlink $device/driver)
    bus=${device##*/0000:}
    is ${driver##*/} ${bus%%:*}
done
";

/// Asserts that the VM of a variant describes itself correctly.
#[track_caller]
fn assert_described<'a>(lines: impl IntoIterator<Item = &'a str>, variant: &Variant) {
    let said: Vec<_> = lines.into_iter().filter_map(|line| line.split_once("is: ")).collect();
    let said: Vec<_> = said.iter().map(|(_, value)| value.trim_end()).collect();
    let name = variant.name;
    assert_eq!(said[0], variant.processors.to_string(), "{name}");
    let memory: u32 = said[1].parse().unwrap();
    // The kernel and its tables take a part.
    assert!(memory <= variant.memory_mib && memory > variant.memory_mib * 3 / 4, "{name}");
    let kernel = match variant.kernel {
        KernelSeries::Stable => "6",
        KernelSeries::Backports => "7",
    };
    assert_eq!(said[2], kernel, "{name}");
    let driver = if variant.iommu { "vfio-pci" } else { "uio_pci_generic" };
    let gpus = (1..=variant.devices).map(|number| {
        if variant.root_ports { format!("{driver} {number:02x}") } else { format!("{driver} 00") }
    });
    assert_eq!(said[3..], gpus.collect::<Vec<_>>(), "{name}");
}

/// The main job, where a kind differs from others: the place of the device and its interrupts, the number of
/// processors and devices, and the layout of memory.
const MAIN_JOB: &str = "--all-devices run --samples 200";

/// The two kinds that differ in everything that a driver could notice: the kernel, interrupts (UIO and INTx, VFIO and
/// MSI-X), an IOMMU, and the bus.
const MOST_DIFFERENT: [&str; 2] = ["plain", "new-kernel-iommu"];

/// The most different kinds show below what these show here, and run the whole suite.
#[test]
fn every_other_kind_of_vm_has_the_gpu_it_says_and_does_the_main_job_with_it() {
    let Some(vm) = vms() else { return };
    for variant in VARIANTS.iter().filter(|variant| !MOST_DIFFERENT.contains(&variant.name)) {
        let mut vm = Typed::start(vm().args(["--variant", variant.name]));
        vm.stop_echo();
        vm.write(DESCRIBE);
        vm.write("echo all is $((40 + 1))\n");
        let lines = vm.wait_for("all is 41");
        assert_described(lines.iter().map(String::as_str), variant);
        println!("{}", variant.name);
        vm.write("for work in um. virtqueue.; do ");
        vm.write("bellhop-guest --all-devices selftest $work || exit 9; done\n");
        vm.end_with(&format!("bellhop-guest {MAIN_JOB}"));
    }
}

#[test]
fn every_behaviour_is_seen_in_the_two_most_different_vms_which_have_the_gpu_they_say() {
    let Some(vm) = vms() else { return };
    let config = support::quick_configuration("", "");
    let guest = guest_binary::find(None).unwrap();
    let guest = guest.canonicalize().unwrap();
    let in_guest = format!("/files/{}", guest.file_name().unwrap().display());
    let script = format!("{{ {DESCRIBE}{in_guest} {MAIN_JOB}; }} >&2 || exit 9\n{in_guest} \"$@\"");
    let describes = Program::new(&script);
    for variant in VARIANTS.iter().filter(|variant| MOST_DIFFERENT.contains(&variant.name)) {
        eprintln!("{}", variant.name);
        let mut vm = describes.run_in(vm());
        vm.arg("--config").arg(config.path()).arg("--file").arg(&guest);
        let work = ["--variant", variant.name, "--", "selftest", "--json"];
        let output = vm.args(work).output().unwrap();
        assert_every_behaviour_is_seen(&conformance_in(&output), NOT_OFFERED);
        assert_described(text(&output.stderr).lines(), variant);
    }
}

#[test]
fn output_errors_and_exit_status_come_back_as_they_are() {
    let Some(vm) = vms() else { return };
    let script = "\
head -c 100000 /dev/zero | tr '\\0' x
printf '\\000\\377\\r\\n\\004'
echo \"these: $*\" >&2
exit 42";
    let arguments = ["--", "two words", "it's", "--help"];
    let output = Program::new(script).run_in(vm()).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(42), "{}", text(&output.stderr));
    let mut expected = vec![b'x'; 100_000];
    expected.extend(b"\x00\xff\r\n\x04");
    assert!(output.stdout == expected, "{} bytes came", output.stdout.len());
    assert!(text(&output.stderr).contains("these: two words it's --help\n"));
}

#[test]
fn a_guest_that_panics_or_hangs_is_an_error_that_quotes_its_kernel() {
    let Some(vm) = vms() else { return };
    let panics = Program::new("echo c > /proc/sysrq-trigger");
    let hangs = Program::new("echo it hangs > /dev/console; sleep 1000000");
    let cases = [(&panics, "600", "sysrq triggered crash"), (&hangs, "20", "--timeout")];
    for (program, timeout, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("kernel.log");
        let mut vm = program.run_in(vm());
        vm.args(["--timeout", timeout, "--kernel-log"]).arg(&log);
        let output = vm.output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(expected), "{error}");
        let log = std::fs::read_to_string(log).unwrap();
        let last = log.lines().rfind(|line| !line.is_empty()).unwrap();
        assert!(error.trim_end().ends_with(last.trim_end()), "{error}");
    }
}

/// A QEMU whose VM stops before its kernel runs, as on a machine with a KVM that only seems to work.
const STOPS: &str = "\
case \"$*\" in *-version*) echo 'QEMU emulator version 11.0.0'; exit ;; esac
echo 'error: kvm run failed Bad address' >&2
echo '{\"QMP\": {}}' >&3
read -r capabilities <&3
echo '{\"event\": \"STOP\"}' >&3
read -r status <&3
echo '{\"return\": {\"status\": \"internal-error\"}}' >&3
read -r end <&3";
/// A QEMU on a machine without KVM.
const HAS_NONE: &str = "\
case \"$*\" in *-version*) echo 'QEMU emulator version 11.0.0'; exit ;; esac
echo 'qemu: failed to initialize kvm: Permission denied' >&2
exit 1";

#[test]
fn a_failure_of_kvm_is_reported_in_qemus_own_words() {
    let Some(vm) = vms() else { return };
    let guest = Program::new("exit");
    let cases = [
        (STOPS, &["internal-error", "kvm run failed Bad address", "--accel tcg"][..]),
        (HAS_NONE, &["failed to initialize kvm: Permission denied"]),
    ];
    for (script, words) in cases {
        let qemu = Program::new(script);
        let mut vm = guest.run_in(vm());
        let output = vm.args(["--accel", "kvm", "--qemu"]).arg(qemu.path()).output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        for word in words {
            assert!(error.contains(word), "{error:?} lacks {word:?}");
        }
    }
}

#[test]
fn ctrl_c_ends_it_and_nothing_is_left() {
    let Some(vm) = vms() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = Program::new("echo it runs; sleep 1000000");
    let mut vm = program.run_in(vm());
    let mut child = vm.env("TMPDIR", folder.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "it runs");
    let names = |folder: &TempDir| {
        let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
        let named = folder.path().to_str().unwrap().as_bytes();
        let lines = processes.filter_map(|path| std::fs::read(path.join("cmdline")).ok());
        lines.filter(|line| line.windows(named.len()).any(|part| part == named)).count()
    };
    assert_eq!(names(&folder), 2, "QEMU names its sockets, and bellhopd its configuration");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(names(&folder), 0, "QEMU or bellhopd is left");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "files are left");
}

#[test]
fn a_shell_in_the_guest_takes_commands_and_its_status_comes_back() {
    let Some(vm) = vms() else { return };
    let mut vm = Typed::start(&mut vm());
    vm.write("echo $((6 * 7)) $(tty); bellhop-guest probe; exit 3\n");
    vm.wait_for("42 /dev/ttyS1");
    vm.wait_for("Bellhop GPU");
    assert_eq!(vm.wait().code(), Some(3));
}

/// The commands of `docs/vmm.md`, "In the guest", for the device at this address.
fn documented_commands(address: &str) -> String {
    let page = include_str!("../../../docs/vmm.md");
    let (_, section) = page.split_once("## In the guest").unwrap();
    let commands = section.split("```\n").nth(1).unwrap();
    let example = "device=0000:01:00.0 ";
    assert!(commands.contains(example), "{commands}");
    commands.replace(example, &format!("device={address} "))
}

/// Debian's kernels give the device to a driver that has no use for it.
#[test]
fn a_device_bound_to_virtio_pci_is_freed_by_following_the_page_and_the_error() {
    let Some(vm) = vms() else { return };
    let mut vm = Typed::start(&mut vm());
    vm.stop_echo();
    vm.write("found=$(dirname $(grep -l 0x1067 /sys/bus/pci/devices/*/device))\n");
    vm.write("cd $found; found=${found##*/}\n");
    vm.write("echo $found > driver/unbind; echo > driver_override\n");
    vm.write("echo $found > /sys/bus/pci/drivers_probe\n");
    vm.write("bellhop-guest probe; echo it ended with $?\n");
    let said = vm.wait_for("it ended with 1").join(" ");
    for words in ["is bound to virtio-pci", "/driver/unbind", "/driver_override", "/drivers_probe"]
    {
        assert!(said.contains(words), "{said:?} lacks {words:?}");
    }
    vm.write(&documented_commands("$found"));
    vm.wait_for("Bellhop GPU");
    vm.write("exit 3\n");
    assert_eq!(vm.wait().code(), Some(3));
}

/// The second guest runs the driver in C, which finds the device on its VM's PCI bus.
#[test]
fn guests_come_and_go_at_a_daemon_that_runs_already() {
    let Some(vm) = vms() else { return };
    let independent = IndependentDriver::build(true);
    let daemon = Daemon::start_with(1, "[adapter]\nphysical_doorbells = 3\n");
    let boot = |configure: &dyn Fn(&mut Command)| {
        let mut vm = vm();
        vm.arg("--socket-path").arg(daemon.socket(0));
        configure(&mut vm);
        let said = run(&mut vm);
        daemon.await_log("front end disconnected");
        said
    };
    assert!(boot(&|_| {}).contains("Bellhop GPU"));
    let Some(independent) = independent else { return };
    let works = ["probe", "submit", "copy", "victim", "reset", "malformed"];
    let said = boot(&|vm| {
        vm.arg("--guest-binary").arg(independent.path());
        vm.arg("--").args(works);
    });
    let done: Vec<_> = said.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(done, works, "{said}");
}
