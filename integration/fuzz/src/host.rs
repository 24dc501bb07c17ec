// SPDX-License-Identifier: MIT OR Apache-2.0

//! A kernel over a chain of two real GPUs, as `bellhopd` has it, for one guest after another.

use crate::model::monitors::monitor;
use crate::rig::{LAYOUT, SEGMENTS};
use bellhop_device::control_plane;
use bellhop_device::gpu::display::config::{ConnectorConfig, DisplayConfig};
use bellhop_device::gpu::{CrossAdapterMemory, DEFAULT_WEIGHT, Gpu, GpuConfig};
use bellhop_device::log::socket_span;
use bellhop_device::vhost::backend::Host;
use bellhop_device::vhost::calls::Calls;
use bellhop_device::vhost::standing::Standing;
use bellhop_host_kmd::dxgkrnl::{Adapters, Kernel, Limits, OsFeatures};
use bellhop_host_kmd::hardware::GuestId;
use bellhop_host_kmd::port::{Command, SharingGroups};
use bellhop_protocol::control::display::ConnectorKind;
use bellhop_protocol::features::Features;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

/// The host of the guests, which have no BAR.
pub static HOST: LazyLock<Host> = LazyLock::new(|| {
    let connector = ConnectorConfig {
        name: "screen".into(),
        kind: ConnectorKind::VIRTUAL,
        max_pixel_rate: 1_000_000,
        monitor: monitor(),
        plugged: true,
    };
    let config = GpuConfig {
        copy_engines: 1,
        spin: Duration::ZERO,
        display: DisplayConfig { connectors: vec![connector; 2], total_pixel_rate: 2_000_000 },
        ..GpuConfig::default()
    };
    let slave = GpuConfig { display: DisplayConfig::default(), ..config.clone() };
    let members = [config, slave];
    let memory = Arc::new(CrossAdapterMemory::new(0).unwrap());
    let places = Gpu::chain(&members).unwrap();
    let start = |(config, place)| Gpu::start_in_chain(config, Arc::clone(&memory), place).unwrap();
    let mut gpus = members.into_iter().zip(places).map(start);
    let (gpu, slaves) = (gpus.next().unwrap(), gpus.collect::<Vec<_>>());
    let (kernel, mailbox) = control_plane::channel();
    let hardware = slaves.iter().map(|slave| Arc::clone(slave) as _).collect();
    let (features, limits) = (OsFeatures::default(), Limits::default());
    let state = Kernel::linked(gpu.clone(), hardware, features, limits).unwrap();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.unwrap().block_on(control_plane::run(Adapters::from(state), mailbox));
    });
    for interrupting in std::iter::once(&gpu).chain(&slaves) {
        let (interrupting, interrupted) = (Arc::clone(interrupting), kernel.clone());
        thread::spawn(move || {
            loop {
                let line = interrupting.interrupt_fd();
                // libFuzzer's timer signal may interrupt any thread.
                retry_on_intr(|| poll(&mut [PollFd::new(&line, PollFlags::IN)], None)).unwrap();
                interrupting.acknowledge_interrupt();
                interrupted.interrupt();
            }
        });
    }
    gpu.link(slaves);
    Host {
        gpu,
        kernel,
        bar: LAYOUT,
        segments: SEGMENTS,
        features: Features::all(),
        identity: None,
        sharing: SharingGroups::NONE,
        standing: Arc::new(Standing::new(DEFAULT_WEIGHT, 0)),
        span: socket_span(None),
        calls: Arc::new(Calls::new().unwrap()),
        memory_limit: u64::MAX,
        maps_bar: false,
        remaps_doorbells: false,
    }
});

/// Returns when the kernel has handled all earlier requests.
pub fn settle() {
    // No process has this number; what matters is that the refusal comes after all earlier replies.
    let refused = HOST.kernel.command_blocking(Command::ResumeGuest(GuestId(u64::MAX)));
    assert!(refused.is_err());
}
