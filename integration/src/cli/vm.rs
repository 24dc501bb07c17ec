// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop vm`.

use crate::guest_binary;
use crate::hosted::INTERRUPTED;
use anyhow::{Context, ensure};
use bellhop_guest::output::{put, put_line};
use bellhop_vm::keyboard::Keyboard;
use bellhop_vm::variant::{CLOUD_HYPERVISOR, VARIANTS, Variant, find};
use bellhop_vm::{Accelerator, Options, Outcome, Sources, Vmm, attachment};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// What a VM is started with.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  bellhop vm                                    what a guest of the plain VM is offered
  bellhop vm -- selftest                        the conformance suite, inside the VM
  bellhop vm --variant iommu -- run --json      the main job over VFIO and MSI-X
  bellhop vm --interactive                      a shell in the guest; Ctrl-A X ends the VM
  bellhop vm --trace-mmio trace.log -- run      which accesses stopped the guest
  bellhop vm --vmm cloud-hypervisor -- run      the main job in another VMM
  bellhop vm --print-command                    for a VM of your own: what QEMU needs
  bellhop vm --print-libvirt                    the same for a domain of libvirt's

Downloads are kept in $BELLHOP_CACHE, by default ~/.cache/bellhop.")]
pub struct VmArguments {
    /// What runs the VM
    #[arg(long, value_enum, default_value_t = Vmm::Qemu)]
    vmm: Vmm,
    /// Run that in a VM of QEMU's, which emulates a machine with KVM: slow, and works everywhere
    #[arg(long)]
    nested: bool,
    /// The kind of VM
    #[arg(long, value_name = "NAME", default_value = VARIANTS[0].name,
          value_parser = PossibleValuesParser::new(VARIANTS.iter().map(described)))]
    variant: String,
    /// What executes the guest
    #[arg(long, value_enum, default_value_t = Accelerator::Auto)]
    accel: Accelerator,
    /// Start a shell in the guest, on this terminal
    #[arg(long, conflicts_with_all = ["task"])]
    interactive: bool,
    /// End the VM when its task is not done after so long, or a shell so long after its input
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// Use the bellhopd that listens on this socket instead of starting one; once for each GPU
    #[arg(long, value_name = "PATH", conflicts_with = "config")]
    socket_path: Vec<PathBuf>,
    /// Configuration file for the bellhopd that is started, whose guest may otherwise change power states
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The program for the guest, instead of the bellhop-guest that belongs to this bellhop
    #[arg(long, value_name = "PATH")]
    guest_binary: Option<PathBuf>,
    /// QEMU's program, instead of this machine's or, where that is missing or older than 11,
    /// Debian's
    #[arg(long, value_name = "PATH")]
    qemu: Option<PathBuf>,
    /// Debian's mirror, instead of the one that this machine's apt uses
    #[arg(long, value_name = "URL", env = "BELLHOP_MIRROR")]
    mirror: Option<String>,
    /// Fetch QEMU, kernel and shell again
    #[arg(long)]
    refresh: bool,
    /// Keep the guest kernel's messages in this file
    #[arg(long, value_name = "FILE")]
    kernel_log: Option<PathBuf>,
    /// Have QEMU write each access that it emulates to this file, and count those to the GPU
    #[arg(long, value_name = "FILE")]
    trace_mmio: Option<PathBuf>,
    /// Let others speak with QEMU's monitor (QMP) at this socket: to plug memory in, for one
    #[arg(long, value_name = "PATH")]
    qmp: Option<PathBuf>,
    /// Go on when the guest reboots; without this a reboot ends the VM
    #[arg(long)]
    reboot: bool,
    /// Print what starts a VM of your own with the device, and exit
    #[arg(long, conflicts_with_all = ["print_libvirt", "print_description", "interactive", "task"])]
    print_command: bool,
    /// Print what to add to a domain of libvirt's, and exit
    #[arg(long, conflicts_with_all = ["interactive", "task"])]
    print_libvirt: bool,
    /// Print bellhopd's description as QEMU's conventions for vhost-user programs want it, and exit
    #[arg(long, conflicts_with_all = ["print_libvirt", "interactive", "task"])]
    print_description: bool,
    /// What bellhop-guest does in the VM
    #[arg(last = true, value_name = "GUEST-COMMAND", default_value = "probe")]
    task: Vec<OsString>,
}

fn described(variant: &Variant) -> PossibleValue {
    PossibleValue::new(variant.name).help(variant.description)
}

impl VmArguments {
    /// Does it.
    ///
    /// # Errors
    /// When the VM cannot be set up or started, or does not come to its task's end.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let variant = match self.vmm {
            Vmm::Qemu => find(&self.variant).context("no VM has this name")?,
            Vmm::CloudHypervisor => &CLOUD_HYPERVISOR,
        };
        self.check_vmm()?;
        if self.print_description {
            put_line(attachment::description()?)?;
            return Ok(ExitCode::SUCCESS);
        }
        if self.print_command || self.print_libvirt {
            let sockets = self.sockets_of_others(variant);
            put(match self.print_command {
                true => attachment::command(variant, &sockets)?,
                false => attachment::libvirt(variant, &sockets)?,
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        ensure!(
            !self.interactive || Keyboard::find() != Keyboard::Absent,
            "--interactive wants a terminal or a pipe as standard input, to type into the shell; \
             without one, have the guest do a task: bellhop vm -- TASK"
        );
        let options = Options {
            vmm: self.vmm,
            nested: self.nested,
            variant,
            accelerator: self.accel,
            sources: Sources { qemu: self.qemu, mirror: self.mirror, refresh: self.refresh },
            guest_program: guest_binary::find(self.guest_binary.as_deref())?,
            task: (!self.interactive).then_some(self.task),
            sockets: self.socket_path,
            config: self.config,
            reboots: self.reboot,
            timeout: Duration::from_secs(self.timeout),
            kernel_log: self.kernel_log,
            trace: self.trace_mmio,
            qmp: self.qmp,
        };
        Ok(match bellhop_vm::run(&options)? {
            Outcome::Exited(status) => ExitCode::from(status),
            Outcome::Interrupted => INTERRUPTED.into(),
        })
    }

    /// What only QEMU's VMs can.
    fn check_vmm(&self) -> anyhow::Result<()> {
        let is_qemu = self.vmm == Vmm::Qemu;
        ensure!(!self.nested || !is_qemu, "--nested is for --vmm cloud-hypervisor");
        let qemus = [
            (self.variant != VARIANTS[0].name, "--variant"),
            (self.interactive, "--interactive"),
            (self.accel != Accelerator::Auto, "--accel"),
            (self.trace_mmio.is_some(), "--trace-mmio"),
            (self.qmp.is_some(), "--qmp"),
            (self.reboot, "--reboot"),
            (self.print_command, "--print-command"),
            (self.print_libvirt, "--print-libvirt"),
        ];
        for (given, option) in qemus {
            ensure!(is_qemu || !given, "{option} is for --vmm qemu");
        }
        Ok(())
    }

    /// The sockets of a VM that another program starts.
    fn sockets_of_others(&self, variant: &Variant) -> Vec<PathBuf> {
        match self.socket_path.is_empty() {
            true => {
                let path = |number| format!("/run/bellhop/vm{number}.sock").into();
                (0..variant.devices).map(path).collect()
            }
            false => self.socket_path.clone(),
        }
    }
}
