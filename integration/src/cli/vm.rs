// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop vm`.

mod program;

use super::vulkan::Whose;
use crate::guest_binary;
use crate::hosted::INTERRUPTED;
use anyhow::{Context, ensure};
use bellhop_guest::cli::{Carried, Delivery, Output};
use bellhop_guest::output::{put, put_line};
use bellhop_vm::keyboard::Keyboard;
use bellhop_vm::variant::{CLOUD_HYPERVISOR, VARIANTS, Variant, find};
use bellhop_vm::{
    Accelerator, Options, Outcome, STOOD_STILL, Service, Sources, Task, User, Vmm, attachment,
};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{ArgGroup, Args};
use program::ProgramArguments;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The arguments of `bellhop vm`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  bellhop vm                                    what the device offers a guest of the plain VM
  bellhop vm -- selftest                        the conformance suite in the VM
  bellhop vm --variant iommu -- run --json      the main job over VFIO and MSI-X
  bellhop vm --vulkan debian-13 -- kernel my.wgsl --in a --out b
                                                your kernel on files of this machine
  bellhop vm --vulkan debian-13 -- picture      a picture that a kernel draws: picture.png
  bellhop vm --file data -- run --input /files/data
                                                the main job on a file of this machine
  bellhop vm --interactive                      a shell in the guest; Ctrl-A X ends the VM
  bellhop vm --agent --file hook.sh             the guest's agent as its service, with a hook
  bellhop vm --agent --portable --file agent.toml
                                                the same with a lid and a session, and policies for them
  bellhop vm --broker -- selftest               the suite as one of the programs that share the GPU
  bellhop vm --vulkan debian-13 --debian 13 --install vulkan-tools -- vulkaninfo --summary
                                                a program of Debian's with Bellhop's Vulkan driver
  bellhop vm --vulkan debian-13 --vulkan-driver --folder venv -- venv/bin/python compute.py
                                                a program of this machine's
  bellhop vm --trace-mmio trace.log -- run      which accesses stopped the guest
  bellhop vm --vmm cloud-hypervisor -- run      the main job in another VMM
  bellhop vm --print-command                    QEMU's command line, for your own VM
  bellhop vm --print-libvirt                    the XML for your own libvirt domain

Downloads are kept in $BELLHOP_CACHE, by default ~/.cache/bellhop.")]
#[command(group = ArgGroup::new("others").args(["vulkan_driver", "install"]).multiple(true))]
#[command(group = ArgGroup::new("shared").args(["broker", "vulkan_driver", "install"]).multiple(true))]
pub struct VmArguments {
    /// The VMM that runs the VM
    #[arg(long, value_enum, default_value_t = Vmm::Qemu)]
    vmm: Vmm,
    /// Run cloud-hypervisor in a QEMU VM that emulates a machine with KVM: slow, but works everywhere
    #[arg(long)]
    nested: bool,
    /// The kind of VM
    #[arg(long, value_name = "NAME", default_value = VARIANTS[0].name,
          value_parser = PossibleValuesParser::new(VARIANTS.iter().map(described)))]
    variant: String,
    /// How QEMU executes the guest
    #[arg(long, value_enum, default_value_t = Accelerator::Auto)]
    accel: Accelerator,
    /// Start a shell in the guest, on this terminal
    #[arg(long, conflicts_with_all = ["task"])]
    interactive: bool,
    /// Boot systemd, and by it the guest's agent; each --file is a hook, if it is executable
    ///
    /// Without a guest's command, the VM runs until Ctrl-C. `bellhop ctl agent` asks the agent of a guest of your own
    /// bellhopd (--socket-path).
    #[arg(long, conflicts_with = "interactive")]
    agent: bool,
    /// Make the agent's guest a portable computer with somebody at it: Debian's system bus, logind, UPower, a lid and a
    /// battery
    #[arg(long, requires = "agent")]
    portable: bool,
    /// Boot systemd, and by it the guest's broker: the command is a program of a user, which shares the GPU with others
    #[arg(long, conflicts_with = "interactive")]
    broker: bool,
    /// Whose program the command is, where the guest has a broker
    #[arg(long, value_enum, value_name = "WHO", default_value_t = User::User, requires = "shared")]
    user: User,
    #[command(flatten)]
    program: ProgramArguments,
    /// End the VM if its task takes longer than this, or a shell this long after its input ends
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// Use the bellhopd that listens on this socket instead of starting one; give one socket for each GPU
    #[arg(long, value_name = "PATH", conflicts_with = "config")]
    socket_path: Vec<PathBuf>,
    /// The configuration file for the bellhopd that this starts; without one, its guest may change power states
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Whose Vulkan runs kernels, in the bellhopd that this starts
    #[arg(long, value_enum, value_name = "WHOSE", default_value_t = Whose::System, conflicts_with = "socket_path")]
    vulkan: Whose,
    /// The guest's program, instead of the one that $BELLHOP_GUEST_BINARY names, or the bellhop-guest that belongs to
    /// this bellhop
    #[arg(long, value_name = "PATH")]
    guest_binary: Option<PathBuf>,
    /// The QEMU to run, instead of this machine's (or Debian's, where this machine has none or one older
    /// than 11)
    #[arg(long, value_name = "PATH")]
    qemu: Option<PathBuf>,
    /// Put this file into the guest's folder /files; may be given several times
    ///
    /// The files of `kernel` and `picture` need none of this: they go into the guest, and come back, by themselves.
    #[arg(long, value_name = "PATH")]
    file: Vec<PathBuf>,
    /// The Debian mirror, instead of the one that this machine's apt uses
    #[arg(long, value_name = "URL", env = "BELLHOP_MIRROR")]
    mirror: Option<String>,
    /// Fetch QEMU, the kernel and the shell again
    #[arg(long)]
    refresh: bool,
    /// Keep the guest kernel's messages in this file
    #[arg(long, value_name = "FILE")]
    kernel_log: Option<PathBuf>,
    /// Write each access that QEMU emulates to this file, and count the accesses to the GPU
    #[arg(long, value_name = "FILE")]
    trace_mmio: Option<PathBuf>,
    /// Offer QEMU's monitor (QMP) at this socket, for instance to plug memory in
    #[arg(long, value_name = "PATH")]
    qmp: Option<PathBuf>,
    /// Keep the VM running when the guest reboots; without this, a reboot ends the VM
    #[arg(long)]
    reboot: bool,
    /// Print the command line that starts your own VM with the device, and exit
    #[arg(long, conflicts_with_all = ["print_libvirt", "print_description", "interactive", "agent", "broker", "task"])]
    print_command: bool,
    /// Print the XML to add to your own libvirt domain, and exit
    #[arg(long, conflicts_with_all = ["interactive", "agent", "broker", "task"])]
    print_libvirt: bool,
    /// Print the JSON that describes bellhopd to management tools (QEMU's vhost-user conventions), and exit
    #[arg(long, conflicts_with_all = ["print_libvirt", "interactive", "agent", "broker", "task"])]
    print_description: bool,
    /// What bellhop-guest does in the VM, or the program with the Vulkan driver
    ///
    /// [default: probe]
    #[arg(last = true, value_name = "GUEST-COMMAND")]
    task: Vec<OsString>,
}

fn described(variant: &Variant) -> PossibleValue {
    PossibleValue::new(variant.name).help(variant.description)
}

impl VmArguments {
    /// Runs the command.
    ///
    /// # Errors
    /// When the VM cannot be set up or started, or does not complete its task.
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
            put(if self.print_command {
                attachment::command(variant, &sockets)?
            } else {
                attachment::libvirt(variant, &sockets)?
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        ensure!(
            !self.interactive || Keyboard::find() != Keyboard::Absent,
            "--interactive wants a terminal or a pipe as standard input, to type into the shell; \
             without one, have the guest do a task: bellhop vm -- TASK"
        );
        let worker = self.vulkan.worker(self.mirror.clone())?;
        let sources = Sources { qemu: self.qemu, mirror: self.mirror, refresh: self.refresh };
        let is_of_others = self.program.are_given();
        let has_broker = self.broker || is_of_others;
        let serves = self.agent && !has_broker && self.task.is_empty();
        ensure!(
            !self.agent || has_broker || serves,
            "the agent has the guest's device; for a program beside it, add --broker"
        );
        // Of a program of others', what bellhop-guest understands means nothing.
        let of_guest = match &self.task[..] {
            _ if is_of_others || self.interactive || serves => Vec::new(),
            [] => vec!["probe".into()],
            task => task.to_owned(),
        };
        let Carried { task, files, output } = Carried::new(&self.file, of_guest)?;
        ensure!(
            !self.nested || (files.is_empty() && output.is_none()),
            "--nested carries no files into its guest, nor out of it"
        );
        let output = output.as_ref().map(Output::create).transpose()?;
        let options = Options {
            vmm: self.vmm,
            nested: self.nested,
            variant,
            accelerator: self.accel,
            guest_program: guest_binary::find(self.guest_binary.as_deref())?,
            task: match (self.interactive, serves) {
                (true, _) => Task::Shell,
                (_, true) => Task::Serve,
                _ if is_of_others => {
                    Task::Program(self.program.program(&self.task, self.vulkan, &sources)?)
                }
                _ => Task::Run(task),
            },
            sources,
            user: self.user,
            services: [
                (has_broker, Service::Broker),
                (self.agent, Service::Agent),
                (self.portable, Service::Portable),
            ]
            .into_iter()
            .filter_map(|(is_wanted, service)| is_wanted.then_some(service))
            .collect(),
            files,
            output: output.as_ref().map(Delivery::handle).transpose()?,
            sockets: self.socket_path,
            config: self.config,
            worker,
            reboots: self.reboot,
            timeout: Duration::from_secs(self.timeout),
            kernel_log: self.kernel_log,
            trace: self.trace_mmio,
            qmp: self.qmp,
        };
        let outcome = bellhop_vm::run(&options)?;
        if let (Some(output), Outcome::Exited(0)) = (output, outcome) {
            output.finish()?;
        }
        Ok(match outcome {
            Outcome::Exited(status) => ExitCode::from(status),
            Outcome::Interrupted => INTERRUPTED.into(),
            Outcome::StoodStill => STOOD_STILL.into(),
        })
    }

    /// Refuses options that only QEMU supports with another VMM.
    fn check_vmm(&self) -> anyhow::Result<()> {
        let is_qemu = self.vmm == Vmm::Qemu;
        ensure!(
            !self.nested || self.vulkan == Whose::System,
            "--vulkan is for a bellhopd on this machine; with --nested it runs in a VM"
        );
        ensure!(!self.nested || !is_qemu, "--nested is for --vmm cloud-hypervisor");
        let qemus = [
            (self.variant != VARIANTS[0].name, "--variant"),
            (self.interactive, "--interactive"),
            (self.agent, "--agent"),
            (self.broker, "--broker"),
            (self.program.are_given(), "a program with the Vulkan driver"),
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
        if self.socket_path.is_empty() {
            let path = |number| format!("/run/bellhop/vm{number}.sock").into();
            (0..variant.devices).map(path).collect()
        } else {
            self.socket_path.clone()
        }
    }
}
