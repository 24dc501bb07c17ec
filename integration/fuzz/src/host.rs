// SPDX-License-Identifier: MIT OR Apache-2.0

//! A kernel over a chain of two real GPUs, as `bellhopd` has it, for one guest after another; without threads.

use crate::model::monitors::monitor;
use crate::rig::{LAYOUT, SEGMENTS};
use crate::stepped;
use bellhop_device::control_plane::{self, SteppedControlPlane, while_waiting};
use bellhop_device::gpu::display::config::{ConnectorConfig, DisplayConfig};
use bellhop_device::gpu::{DEFAULT_WEIGHT, GpuConfig};
use bellhop_device::log::socket_span;
use bellhop_device::vhost::backend::Host;
use bellhop_device::vhost::calls::Calls;
use bellhop_device::vhost::place::{Place, Places};
use bellhop_device::vhost::standing::Standing;
use bellhop_host_kmd::dxgkrnl::{Adapters, Kernel, Limits, OsFeatures};
use bellhop_host_kmd::hardware::GuestId;
use bellhop_host_kmd::port::{Command, SharingGroups};
use bellhop_protocol::control::display::ConnectorKind;
use bellhop_protocol::features::Features;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    static HOST: Host = start();
    static KERNEL: RefCell<Option<SteppedControlPlane>> = const { RefCell::new(None) };
}

/// The host of the guests, which have no BAR. The thread that plays an input takes its engines and its control plane step
/// by step.
pub fn host() -> Host {
    HOST.with(Host::clone)
}

fn start() -> Host {
    let connector = ConnectorConfig {
        name: "screen".into(),
        kind: ConnectorKind::VIRTUAL,
        max_pixel_rate: 1_000_000,
        monitor: monitor(),
        plugged: true,
    };
    let config = GpuConfig {
        copy_engines: 0,
        display: DisplayConfig { connectors: vec![connector; 2], total_pixel_rate: 2_000_000 },
        ..GpuConfig::default()
    };
    let slave = GpuConfig { display: DisplayConfig::default(), ..config.clone() };
    let gpus = stepped::start_chain(vec![config, slave]);
    let (kernel, mailbox) = control_plane::channel();
    let (gpu, slaves) = gpus.split_first().unwrap();
    let (features, limits) = (OsFeatures::default(), Limits::default());
    let state = Kernel::linked(gpu.clone(), slaves.to_vec(), features, limits).unwrap();
    let state = SteppedControlPlane::new(Adapters::from(state), mailbox).unwrap();
    KERNEL.set(Some(state));
    gpu.link(slaves.to_vec());
    while_waiting(|| HOST.with(step));
    crate::rig::while_waiting(|| HOST.with(step));
    Host {
        gpu: Arc::clone(gpu),
        kernel,
        bar: LAYOUT,
        segments: SEGMENTS,
        features: Features::all(),
        identity: Some([7; 32]),
        sharing: SharingGroups::NONE,
        standing: Arc::new(Standing::new(DEFAULT_WEIGHT, 0, 1)),
        span: socket_span(None),
        calls: Arc::new(Calls::new().unwrap()),
        memory_limit: u64::MAX,
        maps_bar: false,
        connections: 1,
        remaps_doorbells: false,
    }
}

/// A guest's place at a socket of its own.
pub fn place() -> Place {
    Places::new(1).take().unwrap()
}

/// Takes a step of the control plane and of the engines.
fn step(host: &Host) {
    if stepped::round() {
        host.kernel.interrupt();
    } else {
        stepped::rest();
    }
    KERNEL.with_borrow_mut(|kernel| kernel.as_mut().map(SteppedControlPlane::step));
}

/// Returns when the kernel has handled all earlier requests.
pub fn settle(host: &Host) {
    // No process has this number; what matters is that the refusal comes after all earlier replies.
    let refused = host.kernel.command_blocking(Command::ResumeGuest(GuestId(u64::MAX)));
    assert!(refused.is_err());
}
