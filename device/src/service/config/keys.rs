// SPDX-License-Identifier: MIT OR Apache-2.0

//! Every key of the configuration, declared once: its purpose, its type with unit and range, and its default.
//!
//! The table in `docs/service.md` and the installed `bellhop.toml` are generated from this file.

use super::displays::DisplaySettings;
use super::processors::Processors;
use crate::gpu::DEFAULT_WEIGHT;
use bellhop_config::{Count, Kind, Mib, Micros, Millis, Secs, Setting, at, choices};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A guest's share of engine time relative to other guests.
pub type Weight = Count<1, 10_000>;

section! {
    /// The whole configuration.
    pub struct Config {
        /// The adapter of every guest that `[attach]` does not give another.
        adapter: AdapterConfig;
        /// Further adapters, at most 7. Each is a table `[adapters.NAME]` with the keys of `[adapter]`.
        adapters: BTreeMap<String, AdapterConfig>;
        /// Chains of adapters that guests see as one. Each is a table `[link.NAME]`.
        link: BTreeMap<String, LinkConfig>;
        /// The adapter of a guest, as `"vm1.sock" = "NAME"`. A guest is named by the path of its socket or by
        /// that path's file name.
        attach: BTreeMap<String, String>;
        /// What each guest gets of its adapter; where a socket has several connections, what its guests get together.
        guest: GuestConfig;
        /// Weights of guests that differ from `guest.weight`, as `"vm1.sock" = 400`. Guests are named as in
        /// `[attach]`.
        weights: BTreeMap<String, Weight>;
        /// Groups of guests that may share fences with each other and with no other guest, at most 64, as
        /// `NAME = ["vm0.sock", "vm1.sock"]`. Guests are named as in `[attach]`.
        fence_sharing: BTreeMap<String, Vec<String>>;
        /// Tools on this host.
        control: ControlConfig;
        /// The log, which goes to the journal or to standard error.
        log: LogConfig;
        /// Switches for tests, for all adapters and guests. Leave them off where guests are not trusted.
        debug: DebugConfig;
    }
}

section! {
    /// An adapter.
    pub struct AdapterConfig {
        /// 3D engines, which draw and compute. The first nodes are theirs. Each engine is a thread.
        graphics_nodes: Count<1, 8> = at(1);
        /// Copy engines (SDMA). Their nodes follow those of the 3D engines. Each engine is a thread.
        copy_nodes: Count<1, 8> = at(2);
        /// Number of trailing copy engines reserved for kernel-mode submission, at most `copy_nodes`.
        kernel_mode_copy_nodes: Count<0, 8> = at(0);
        /// Compute engines, which compute beside what 3D engines draw. Their nodes follow those of the copy engines. Each
        /// engine is a thread.
        compute_nodes: Count<0, 8> = at(1);
        /// Processors that engines run on, in the order of their nodes, each on one of the list, which begins
        /// anew when engines are more. The default leaves all engines to the scheduler.
        engine_processors: Processors;
        /// Physical doorbells that all guests share. User-mode queues beyond this number take turns.
        physical_doorbells: Count<1, 65_536> = at(64);
        /// `dedicated` gives each queue a doorbell of its own, which one of the physical doorbells watches.
        /// `global` gives each guest one doorbell for all its queues, and no queue waits for a physical one.
        doorbell_model: DoorbellModel;
        /// What connecting a dedicated doorbell does to its page. `watch` leaves the page in place. `remap` has
        /// the VMM move it; `guest.doorbells` must then be 64 at most, and 4 at most for QEMU.
        rotation: Rotation;
        /// How long an idle engine looks for more work before it sleeps. A longer time saves the wake-up, a
        /// shorter one saves the processor.
        spin: Micros<0, 1_000_000> = at(50);
        /// How long an engine sleeps before it enters F1 and the doorbells of its queues are disconnected. With
        /// 0 the host decides, when it has seen the engine idle for 1 to 1.5 times `timeout`.
        engine_idle: Millis<0, 3_600_000> = at(1000);
        /// How long all engines stay in F1 before the device enters D3. 0 is never.
        device_idle: Millis<0, 86_400_000> = at(10_000);
        /// How long a queue may execute without progress before the host takes it for a hang, and how long a
        /// destroyed object may take to finish its work.
        timeout: Millis<10, 3_600_000> = at(2000);
        /// How long the host waits after each step of recovery (pre-empting the queue that hangs, resetting its
        /// engine) before it takes the next one.
        recovery_timeout: Millis<10, 60_000> = at(500);
        /// Hangs within `hang_limit_time` after which nothing of a guest is executed until its device is reset. 0
        /// is never.
        hang_limit: Count<0, 1000> = at(5);
        /// How long a hang counts towards `hang_limit`.
        hang_limit_time: Secs<1, 3600> = at(60);
        /// How long a context keeps an engine while contexts of its guest wait that have its priority. The engine
        /// then switches at the next boundary of a packet or step.
        quantum: Micros<0, 100_000> = at(200);
        /// Whether paged allocations that engines use move back to local memory by themselves, when there is room
        /// or when something there is not used.
        page_migration: bool = true;
        /// Whether fences may be native, so that queues wait for them on the GPU. Without native fences there is
        /// no user-mode submission.
        native_fences: bool = true;
        /// Whether the interrupt for a logged signal names the HW queue, so that the host finds the fences in the
        /// queue's log.
        optimized_fence_interrupt: bool = false;
        /// Memory for the page tables of all guests. 1 MiB maps about 500 MiB.
        page_table_memory: Mib<1, 4096> = at(64);
        /// Whether guests may run kernels of their own. With `auto` they may if one of the host's Vulkan devices
        /// that run on processors passes a test when the daemon starts; the log tells which, or why none. With `gpu`
        /// it may also be a real GPU, whose driver in the host's kernel workers then reach.
        kernels: KernelSupport;
        /// Text in the name of the Vulkan device that runs kernels; empty for the first that passes the test.
        vulkan_device: String;
        /// Workers, the processes that run kernels: one for each process of a guest that uses kernels, on each
        /// 3D and Compute engine. One more is kept ready. When guests want more, whoever has most
        /// beyond an equal share makes room.
        kernel_workers: Count<1, 256> = at(16);
        /// Workers of one guest; of several guests of a socket together.
        kernel_workers_per_guest: Count<1, 256> = at(4);
        /// Memory of a worker's own, for the driver, its compiler and the kernels that it compiled. It has 16 MiB more for
        /// each processor that it may use.
        kernel_memory: Mib<128, 65_536> = at(1024);
        /// Processors that a worker may use at once, where kernels run on processors. 0 is all of this service's.
        kernel_processors: Count<0, 1024> = at(0);
        /// How long compiling a kernel may take. Beyond that, the kernel is refused.
        kernel_compile_timeout: Millis<10, 3_600_000> = at(10_000);
        /// Video decode nodes. Without any, guests have no sessions that decode.
        video_decode_nodes: Count<0, 4> = at(0);
        /// Video encode nodes.
        video_encode_nodes: Count<0, 4> = at(0);
        /// Video sessions of all guests. Each has a process of its own, from its first packet to its end.
        video_sessions: Count<1, 256> = at(16);
        /// Memory of such a process's own, for the pictures that its codec keeps.
        video_memory: Mib<64, 65_536> = at(1024);
        /// Threads of such a process that decode or encode a picture together, and processors that it may use. A picture is
        /// encoded in as many tiles.
        video_threads: Count<1, 16> = at(1);
        /// Security nodes: protected allocations, sealing, opening and attestation. The last node is the security node's.
        security_nodes: Count<0, 1> = at(0);
        /// Path of a file of 32 random bytes, which nobody but the daemon's user may read: the root of the security
        /// node's keys. Without it, the root is drawn when the daemon starts, and what guests sealed opens no more when
        /// it has ended.
        security_key: PathBuf;
        /// Most megapixels in a second, blanks included, that all displays of a guest show together. 0 is any number.
        display_megapixels: Count<0, 1_000_000> = at(0);
        /// The displays of each guest, at most 16: tables `[[adapter.displays]]`.
        displays: Vec<DisplaySettings>;
    }
}

section! {
    /// A chain of adapters that guests see as one.
    pub struct LinkConfig {
        /// The adapters by name, at most 4, the master first; the name of `[adapter]` is empty. A guest of the master has
        /// the nodes, private memory and displays of all. Idle times and time-outs are as the master's keys say.
        adapters: Vec<String>;
        /// When the slaves have power: whenever the master has, or while something needs them.
        power: LinkPower;
    }
}

section! {
    /// What each guest gets of its adapter; where a socket has several connections, what its guests get together.
    pub struct GuestConfig {
        /// Front ends that may be connected to one socket at once, each a guest of its own. The guests of a socket have
        /// together what one guest has by the other keys: counts and sizes in equal parts, rates and the weight in common.
        connections: Count<1, 16> = at(1);
        /// Doorbells, one for each HW queue for user-mode submission.
        doorbells: Count<1, 16_384> = at(1024);
        /// Native fences, those of HW queues included. Each process takes whole pages of 64.
        fences: Count<1, 65_536> = at(16_384);
        /// Local memory that the guest's CPUs see.
        local_memory: Mib<1, 65_536> = at(64);
        /// Local memory that no CPU of the guest sees. The host provides it page by page, as it is used.
        private_memory: Mib<0, 65_536> = at(64);
        /// Memory for what is evicted from local memory. The host provides it page by page, as it is used.
        backing_memory: Mib<0, 1_048_576> = at(256);
        /// Addresses of the aperture segment, which shows other memory page by page. Its page tables are made as
        /// it is used, 1 MiB of them for 512 MiB.
        aperture: Mib<1, 65_536> = at(64);
        /// Whether a guest gets a BAR where its VMM can map one. Without a BAR everything that guest and device
        /// share is in the guest's own memory.
        bar: bool = true;
        /// Objects. Mappings, and entries of allocation lists, are limited to this number too. The host remembers
        /// at most 2 KiB for an object, and 16 KiB for one with a native fence.
        objects: Count<256, 1_048_575> = at(65_536);
        /// Allocations among the objects, rings and command buffers included.
        allocations: Count<1, 1_048_575> = at(32_768);
        /// HW queues among the objects, for user-mode and for kernel-mode submission. Each has a fence.
        hw_queues: Count<1, 65_536> = at(16_384);
        /// Waits of the guest's CPUs for fences. The host remembers at most 2 KiB for a wait.
        waits: Count<1, 1_048_575> = at(65_536);
        /// Fences that the guest may share with other guests. Each takes a page of the host's memory.
        cross_adapter_fences: Count<0, 1024> = at(64);
        /// Kernels of the guest's own. The host keeps the SPIR-V of each, at most 1 MiB.
        kernels: Count<0, 65_536> = at(256);
        /// Video sessions, which decode or encode a stream each.
        video_sessions: Count<0, 256> = at(4);
        /// Workers that the guest can have started in a second in the long run, for instance by kernels that fault
        /// or that crash the compiler. Each takes about a tenth of a second of a processor. Beyond that, its kernels
        /// wait.
        worker_starts_per_second: Count<1, 1000> = at(5);
        /// Workers that the guest can have started at once.
        worker_start_burst: Count<1, 10_000> = at(50);
        /// Processor time that compiling the guest's kernels may take in a second in the long run. Beyond that, its
        /// kernels wait.
        kernel_compile_time_per_second: Millis<1, 60_000> = at(500);
        /// Processor time that compiling the guest's kernels may take at once.
        kernel_compile_burst: Millis<1, 3_600_000> = at(30_000);
        /// Memory that the guest's VMM may announce: the whole memory of the VM. It takes addresses of the daemon,
        /// which has 128 TiB of them, and no memory until it is used.
        announced_memory: Mib<1, 1_048_576> = at(262_144);
        /// Lines of log that a guest can cause in a second in the long run. A line says how many more were left
        /// out.
        log_lines_per_second: Count<1, 1_000_000> = at(10);
        /// Lines of log that a guest can cause at once.
        log_burst: Count<1, 1_000_000> = at(100);
        /// The weight of a socket's guests together. Engines share their time by weight among the sockets whose guests have
        /// work, and the guests of one socket share its part alike.
        weight: Weight = at(DEFAULT_WEIGHT.into());
        /// Physical doorbells that no guest of another socket takes from those of this one. 0 is an equal part of the
        /// adapter's for each socket, at least 1. A guest has more while others leave some free. When the sum of all
        /// exceeds `adapter.physical_doorbells`, not every guest has its own.
        physical_doorbells_reserved: Count<0, 65_536> = at(0);
        /// Whether a guest may have HW queues that `adapter.timeout` does not concern. Such a queue may execute
        /// without progress for any time, within its share of an engine.
        gpu_timeout_may_be_disabled: bool = false;
    }
}

section! {
    /// Tools on this host.
    pub struct ControlConfig {
        /// Path of a socket where `bellhop inspect` connects, for the daemon's user and root; empty for none. The
        /// option `--control-socket` takes precedence.
        socket: PathBuf;
        /// Path of a socket where `bellhop ctl` connects, which changes guests and adapters, for the daemon's user,
        /// root and `operator_group`; empty for none. The option `--operator-socket` takes precedence.
        operator_socket: PathBuf;
        /// A group, by name or number, whose members may operate the daemon too; empty for none.
        operator_group: String;
    }
}

section! {
    /// The log.
    pub struct LogConfig {
        /// A level (`error`, `warn`, `info`, `debug`), or levels of modules such as `info,bellhop_device=debug`. The
        /// environment variable `BELLHOP_LOG` takes precedence.
        filter: String = "info".to_owned();
    }
}

section! {
    /// Switches for tests.
    pub struct DebugConfig {
        /// Whether guests may dispatch the kernels that hang until a reset. A guest can then have an adapter reset
        /// for every guest.
        test_kernels: bool = false;
        /// Whether a guest may change its adapter's power states, which concern every guest.
        power_control: bool = false;
    }
}

/// How queues and doorbells go together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum DoorbellModel {
    /// A doorbell for each queue, watched by one of the physical doorbells.
    #[default]
    Dedicated,
    /// One doorbell for all queues of a guest.
    Global,
}

/// When the slaves of a chain have power.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum LinkPower {
    /// Whenever the master has.
    #[default]
    Always,
    /// While something needs them.
    #[value(name = "when_needed")]
    WhenNeeded,
}

/// What becomes of a dedicated doorbell's page when it is connected and disconnected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Rotation {
    /// It stays where it is; an engine watches it or does not.
    #[default]
    Watch,
    /// The VMM moves it, between a physical doorbell's page and a dummy page.
    Remap,
}

/// Whether guests may run kernels of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum KernelSupport {
    /// If the host has a Vulkan that computes correctly, on processors.
    #[default]
    Auto,
    /// Also on a real GPU: what runs kernels then reaches the GPU's driver in the host's kernel.
    Gpu,
    /// No.
    Off,
}

impl Setting for DoorbellModel {
    const KIND: Kind = Kind::value(choices::<Self>);
}

impl Setting for Rotation {
    const KIND: Kind = Kind::value(choices::<Self>);
}

impl Setting for LinkPower {
    const KIND: Kind = Kind::value(choices::<Self>);
}

impl Setting for KernelSupport {
    const KIND: Kind = Kind::value(choices::<Self>);
}
