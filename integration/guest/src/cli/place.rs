// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where the device is, and what kind of guest this is.

use crate::fake_guest::{FakeGuest, GuestOptions, MORE_VMMS, QEMU, VMMS};
use crate::guest::Guest;
use anyhow::{Context, bail};
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::transport::broker::Broker;
use bellhop_guest_umd::transport::vhost_user::{self, VhostUser};
use bellhop_guest_umd::transport::virtio_pci::{self, Options, PciAddress, VirtioPci};
use bellhop_guest_umd::{PlacementPolicy, Placements};
use bellhop_protocol::broker::USUAL_SOCKET;
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the device is. In a VM, the program finds it.
#[derive(Debug, Args)]
pub(super) struct DeviceArguments {
    /// The socket of a bellhopd; this program then stands for a VMM and its guest
    #[arg(long, value_name = "PATH", env = "BELLHOP_SOCKET")]
    socket_path: Option<PathBuf>,
    /// The socket of this guest's broker, where programs share its device; the usual one if it is there
    #[arg(long, value_name = "PATH", env = "BELLHOP_BROKER", conflicts_with = "socket_path")]
    broker: Option<PathBuf>,
    /// The VM's PCI device, such as 0000:01:00.0; the first Bellhop GPU by default
    #[arg(long, value_name = "ADDRESS", conflicts_with = "socket_path")]
    pci: Option<PciAddress>,
    /// Use all Bellhop GPUs of the VM: start them together, then work on one after another
    #[arg(long, conflicts_with_all = ["socket_path", "pci"])]
    all_devices: bool,
    #[command(flatten)]
    pub(super) place: PlaceArguments,
    /// What people may do where the device runs no kernels of guests' own
    #[arg(long, hide = true, value_name = "TEXT")]
    pub(super) advice: Option<String>,
    /// End together with the process that started this one
    #[arg(long, hide = true)]
    end_with_parent: bool,
}

const NO_DEVICE: &str = "this machine has no Bellhop GPU; in a container, name a bellhopd's socket with \
                         --socket-path";

/// What kind of guest this is.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct PlaceArguments {
    /// Where doorbells, fences, rings and local memory are
    ///
    /// "measured" puts them where accesses are fast. "around-slow-bar" puts doorbells, fences and rings
    /// into the guest's own memory, and keeps local memory in the BAR.
    #[arg(long, value_enum, default_value_t = PlacementArgument::Measured)]
    placement: PlacementArgument,
    /// Which VMM the front end at the socket behaves like
    #[arg(long, value_name = "VMM", default_value = QEMU.name,
          value_parser = PossibleValuesParser::new(VMMS.iter().chain(&MORE_VMMS).map(|vmm| vmm.name)))]
    vmm: String,
}

/// [`PlacementPolicy`] on a command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum PlacementArgument {
    Measured,
    Bar,
    GuestMemory,
    AroundSlowBar,
}

impl From<PlacementArgument> for PlacementPolicy {
    fn from(argument: PlacementArgument) -> Self {
        match argument {
            PlacementArgument::Measured => Self::Measured,
            PlacementArgument::Bar => Self::Fixed(Placements::BAR),
            PlacementArgument::GuestMemory => Self::Fixed(Placements::GUEST_MEMORY),
            PlacementArgument::AroundSlowBar => Self::Fixed(Placements::AROUND_SLOW_BAR),
        }
    }
}

impl DeviceArguments {
    /// The socket of the bellhopd, if the guest is one of a socket.
    pub(super) fn socket_path(&self) -> Option<&Path> {
        self.socket_path.as_deref()
    }

    /// The socket of the guest's broker: the one that is named, or the usual one if it is there and no device is named.
    pub(super) fn broker(&self) -> Option<&Path> {
        let usual = Path::new(USUAL_SOCKET);
        let is_named = self.pci.is_some() || self.socket_path.is_some();
        let usual = (!is_named && usual.exists()).then_some(usual);
        self.broker.as_deref().or(usual)
    }

    /// Where the device is, as options of `bellhop-guest`.
    pub(super) fn to_command_line(&self) -> Vec<OsString> {
        let mut line = Vec::new();
        if let Some(path) = &self.socket_path {
            line.extend(["--socket-path".into(), path.into()]);
        }
        if let Some(address) = self.pci {
            line.extend(["--pci".into(), address.to_string().into()]);
        }
        line
    }

    /// The device, for one who drives it as programs do: not as a VMM with its guest.
    pub(super) fn transport(&self) -> anyhow::Result<Arc<dyn Transport>> {
        self.end_with_parent()?;
        if let Some(path) = &self.socket_path {
            let device = VhostUser::connect(path, vhost_user::Options::default());
            return Ok(device.with_context(|| format!("no device at {}", path.display()))?);
        }
        let address = match self.pci {
            Some(address) => address,
            None => virtio_pci::discover()?.into_iter().next().context(NO_DEVICE)?,
        };
        let device = VirtioPci::open(address, Options::default());
        Ok(device.with_context(|| format!("cannot use the device at {address}"))?)
    }

    fn end_with_parent(&self) -> anyhow::Result<()> {
        if self.end_with_parent {
            let signal = rustix::process::Signal::TERM;
            rustix::process::set_parent_process_death_signal(Some(signal))
                .context("cannot arrange to end with the parent process")?;
        }
        Ok(())
    }

    pub(super) fn guests(&self) -> anyhow::Result<Vec<Arc<dyn Guest>>> {
        self.end_with_parent()?;
        if let Some(path) = self.broker() {
            let program = Broker::connect(path);
            let broker = program.with_context(|| format!("no broker at {}", path.display()))?;
            return Ok(vec![broker]);
        }
        if let Some(path) = &self.socket_path {
            return Ok(vec![self.place.connect(path)?]);
        }
        if let Some(address) = self.pci {
            return Ok(vec![over_pci(address)?]);
        }
        let mut found = virtio_pci::discover()?;
        if found.is_empty() {
            bail!(NO_DEVICE);
        }
        if !self.all_devices {
            found.truncate(1);
        }
        found.into_iter().map(over_pci).collect()
    }
}

fn over_socket(path: &Path, vmm: &str) -> anyhow::Result<Arc<dyn Guest>> {
    let profile = VMMS.into_iter().chain(MORE_VMMS).find(|profile| profile.name == vmm);
    let profile = profile.with_context(|| format!("no VMM is called {vmm}"))?;
    let guest = FakeGuest::connect(path, GuestOptions { profile, ..GuestOptions::default() })
        .with_context(|| format!("the guest cannot reach its device at {}", path.display()))?;
    Ok(guest)
}

fn over_pci(address: PciAddress) -> anyhow::Result<Arc<dyn Guest>> {
    let guest = VirtioPci::open(address, Options::default())
        .with_context(|| format!("cannot use the device at {address}"))?;
    Ok(guest)
}

impl PlaceArguments {
    /// A guest of a `bellhopd`, in this process.
    ///
    /// # Errors
    /// When the device cannot be reached.
    pub fn connect(&self, socket: &Path) -> anyhow::Result<Arc<dyn Guest>> {
        over_socket(socket, &self.vmm)
    }

    /// Where the driver places memory that it shares with the device.
    #[must_use]
    pub fn policy(&self) -> PlacementPolicy {
        self.placement.into()
    }

    /// These arguments as options of `bellhop-guest`.
    #[must_use]
    pub fn to_command_line(&self) -> Vec<OsString> {
        let placement = self.placement.to_possible_value();
        let placement = placement.map_or_else(String::new, |value| value.get_name().to_owned());
        vec!["--placement".into(), placement.into(), "--vmm".into(), self.vmm.clone().into()]
    }
}
