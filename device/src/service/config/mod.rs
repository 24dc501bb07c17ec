//! What `bellhopd` is configured with: a TOML file, every key optional.

mod file;
mod place;
mod rules;

pub use file::{ConfigError, ConfigFile};
pub use place::{KeyPath, Position};
pub use rules::Fault;

use crate::gpu::{DEFAULT_WEIGHT, GpuConfig};
use crate::log::LineLimit;
use bellhop_host_kmd::dxgkrnl::{Limits, OsFeatures, PowerPolicy, TdrPolicy};
use bellhop_host_kmd::hardware::{self, SegmentSizes};
use bellhop_host_kmd::port::SharingGroups;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::features::Features;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// The whole configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The adapter that guests share which are attached to no other.
    pub adapter: AdapterConfig,
    /// Further adapters, by name.
    pub adapters: BTreeMap<String, AdapterConfig>,
    /// Which of them a guest is attached to, by its socket as in `weights`.
    pub attach: BTreeMap<String, String>,
    /// What each guest gets of its adapter.
    pub guest: GuestConfig,
    /// Weights of guests that have another than `guest.weight`, by the path of the socket that the guest
    /// connects to, or by its file name.
    pub weights: BTreeMap<String, u32>,
    /// Groups of guests, by a name for each: those of one may have fences together that they create for it.
    /// Guests by their sockets as in `weights`.
    pub fence_sharing: BTreeMap<String, Vec<String>>,
    /// What tools on this host reach.
    pub control: ControlConfig,
    /// What is logged.
    pub log: LogConfig,
}

/// The adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdapterConfig {
    /// Copy nodes (SDMA) beside the one 3D/compute node, 1 to 8. Each is a thread.
    pub copy_nodes: u32,
    /// Number of trailing copy nodes, at most all of them, that take kernel-mode submissions only, 0 to 8.
    pub kernel_mode_copy_nodes: u32,
    /// Physical doorbells that all guests share, 1 to 65,536.
    pub physical_doorbells: u32,
    /// Whether each queue has a doorbell of its own, or all queues of a guest share one.
    pub doorbell_model: DoorbellModel,
    /// What becomes of a dedicated doorbell's page when it is connected and disconnected.
    pub rotation: Rotation,
    /// How long an engine looks for more work before it sleeps, in microseconds; 0 to 1,000,000.
    pub spin_us: u64,
    /// How long an engine sleeps before its power is taken (F1) and its queues' doorbells are
    /// disconnected, in milliseconds; 0 leaves that to the host, which sees after 1 to 1.5 times
    /// `timeout_ms` that it does nothing; at most 3,600,000.
    pub engine_idle_ms: u64,
    /// How long all engines have been in F1 when the device's power is taken (D3), in milliseconds; 0
    /// is never, at most 86,400,000.
    pub device_idle_ms: u64,
    /// How long an engine executes a queue that makes no progress before that is a hang, and how long what
    /// is destroyed may go on with what it was given, in milliseconds, 10 to 3,600,000.
    pub timeout_ms: u64,
    /// How long pre-empting a queue that hangs, and then resetting its engine, may take before the next
    /// harder thing is done, in milliseconds, 10 to 60,000.
    pub recovery_ms: u64,
    /// With how many hangs within `hang_limit_s` a guest gets nothing executed any more until it is
    /// reset, 0 to 1,000; 0 is never.
    pub hang_limit: u32,
    /// Seconds that hangs are counted for, 1 to 3,600.
    pub hang_limit_s: u64,
    /// Whether guests may dispatch the kernels that hang until a reset, with which they can have the
    /// adapter reset for everybody.
    pub test_kernels: bool,
    /// How long a context keeps an engine while others of its guest and of its priority wait, in
    /// microseconds, 0 to 100,000. It is the next one's turn at the next boundary of a packet or step.
    pub quantum_us: u64,
    /// Whether paged allocations that engines use go back to local memory by themselves.
    pub page_migration: bool,
    /// Whether fences may be native. Without them there is no user-mode submission.
    pub native_fences: bool,
    /// Whether interrupts for signals that are logged name the hardware queue, and the host finds the fences in
    /// its log.
    pub optimized_fence_interrupt: bool,
    /// Memory for page tables in MiB, 1 to 4,096. 1 MiB maps about 500 MiB.
    pub page_table_mib: u64,
}

/// How queues and doorbells go together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DoorbellModel {
    /// A doorbell for each queue, watched by one of the physical doorbells.
    #[default]
    Dedicated,
    /// One doorbell for all queues of a guest.
    Global,
}

/// What becomes of a dedicated doorbell's page when it is connected and disconnected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rotation {
    /// It stays where it is; an engine watches it or does not.
    #[default]
    Watch,
    /// The VMM moves it, between a physical doorbell's page and a dummy page.
    Remap,
}

/// One guest's share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GuestConfig {
    /// Doorbells, and with that HW queues for user-mode submission, 1 to 16,384.
    pub doorbells: u32,
    /// Native fences, those of HW queues included, 1 to 65,536. Each process takes whole pages of 64.
    pub fences: u32,
    /// CPU-visible local memory in MiB, 1 to 65,536.
    pub local_memory_mib: u64,
    /// Local memory in MiB that no CPU of the guest sees, 0 to 65,536. It is the host's memory and
    /// takes none until it is used, as does the next.
    pub private_memory_mib: u64,
    /// Memory in MiB for what is evicted from local memory, 0 to 1,048,576.
    pub backing_memory_mib: u64,
    /// Addresses in MiB of the aperture segment, 1 to 65,536. Page tables for it are made as it is
    /// used, 1 MiB of them for 512 MiB.
    pub aperture_mib: u64,
    /// Whether a guest gets a BAR where its VMM can map one. Without it everything that guest and
    /// device share is in the guest's own memory.
    pub bar: bool,
    /// Objects, and mappings and entries of allocation lists as many again, 256 to 1,048,575. The host
    /// remembers no more than 2 KiB for each, and 16 KiB for one with a native fence.
    pub objects: u32,
    /// Allocations among them, rings and command buffers included, 1 to 1,048,575.
    pub allocations: u32,
    /// Hardware queues among them, whoever submits to them, 1 to 65,536. Each has a fence.
    pub hw_queues: u32,
    /// Waits of its CPUs for fences, 1 to 1,048,575. The host remembers no more than 2 KiB for each.
    pub waits: u32,
    /// Fences that it may have together with other guests, 0 to 1,024. Each takes a page of the host's memory.
    pub cross_adapter_fences: u32,
    /// Memory in MiB that its front end may announce, 1 to 1,048,576. It takes addresses, of which this process has
    /// 128 TiB, and no memory until it is used.
    pub announced_memory_mib: u64,
    /// Lines of log that it can cause in a second in the long run, 1 to 1,000,000.
    pub log_lines_per_second: u32,
    /// Lines of log that it can cause at once, 1 to 1,000,000.
    pub log_burst: u32,
    /// Its weight, 1 to 10,000: engines share their time among guests that have work by weight.
    pub weight: u32,
    /// Physical doorbells that no other guest takes from it, 0 to 65,536; 0 is an equal part of the adapter's for
    /// each socket, at least 1.
    pub physical_doorbells_reserved: u32,
    /// Whether a guest may change the adapter's power states. They concern every guest.
    pub power_control: bool,
    /// Whether a guest may have hardware queues that are no hang for making no progress.
    pub gpu_timeout_may_be_disabled: bool,
}

/// Tools on this host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ControlConfig {
    /// Path of a socket where `bellhop inspect` connects, for the daemon's user alone; empty for
    /// none. `--control-socket` comes before it.
    pub(super) socket: PathBuf,
}

impl ControlConfig {
    /// The path, unless there is to be none.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        (!self.socket.as_os_str().is_empty()).then_some(&self.socket)
    }
}

/// The log, which goes to the journal or to standard error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// A filter as `tracing-subscriber` reads it, such as `info` or `bellhop_device=debug`. The
    /// environment variable `BELLHOP_LOG` comes before it.
    pub filter: String,
}

impl Default for AdapterConfig {
    fn default() -> Self {
        Self {
            copy_nodes: 2,
            kernel_mode_copy_nodes: 0,
            physical_doorbells: 64,
            doorbell_model: DoorbellModel::Dedicated,
            rotation: Rotation::Watch,
            spin_us: 50,
            engine_idle_ms: 1000,
            device_idle_ms: 10_000,
            timeout_ms: 2000,
            recovery_ms: 500,
            hang_limit: 5,
            hang_limit_s: 60,
            test_kernels: false,
            quantum_us: 200,
            page_migration: true,
            native_fences: true,
            optimized_fence_interrupt: false,
            page_table_mib: 64,
        }
    }
}

impl AdapterConfig {
    /// The GPU that this configuration asks for.
    #[must_use]
    pub fn gpu(&self) -> GpuConfig {
        GpuConfig {
            copy_engines: self.copy_nodes,
            physical_doorbells: self.physical_doorbells,
            doorbell_model: match self.doorbell_model {
                DoorbellModel::Dedicated => hardware::DoorbellModel::Dedicated,
                DoorbellModel::Global => hardware::DoorbellModel::Global,
            },
            remaps_doorbells: self.remaps_doorbells(),
            kernel_mode_copy_engines: self.kernel_mode_copy_nodes,
            spin: Duration::from_micros(self.spin_us),
            idle: milliseconds_or_never(self.engine_idle_ms),
            hang: self.timeout(),
            test_kernels: self.test_kernels,
            optimized_fence_interrupt: self.optimized_fence_interrupt,
            quantum: Duration::from_micros(self.quantum_us),
            page_table_pages: (self.page_table_mib * MIB / PAGE_SIZE) as u32,
        }
    }

    /// Whether VMMs move doorbells' pages.
    #[must_use]
    pub fn remaps_doorbells(&self) -> bool {
        self.rotation == Rotation::Remap
    }

    /// When power states change by themselves.
    #[must_use]
    pub fn power(&self) -> PowerPolicy {
        PowerPolicy {
            engine_idle: milliseconds_or_never(self.engine_idle_ms),
            device_idle: milliseconds_or_never(self.device_idle_ms),
        }
    }

    /// What the kernel enables for the driver.
    #[must_use]
    pub fn os_features(&self) -> OsFeatures {
        match self.native_fences {
            true => OsFeatures::default(),
            false => OsFeatures { native_fences: None },
        }
    }

    /// How hangs are dealt with.
    #[must_use]
    pub fn tdr(&self) -> TdrPolicy {
        TdrPolicy {
            step: Duration::from_millis(self.recovery_ms),
            limit_count: self.hang_limit,
            limit_time: Duration::from_secs(self.hang_limit_s),
        }
    }

    /// How long an engine may take for one thing.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }
}

impl Default for GuestConfig {
    fn default() -> Self {
        Self {
            doorbells: 1024,
            fences: 16_384,
            local_memory_mib: 64,
            private_memory_mib: 64,
            backing_memory_mib: 256,
            aperture_mib: 64,
            bar: true,
            objects: 65_536,
            allocations: 32_768,
            hw_queues: 16_384,
            waits: 65_536,
            cross_adapter_fences: 64,
            announced_memory_mib: 262_144,
            log_lines_per_second: 10,
            log_burst: 100,
            weight: DEFAULT_WEIGHT,
            physical_doorbells_reserved: 0,
            power_control: false,
            gpu_timeout_may_be_disabled: false,
        }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { filter: "info".into() }
    }
}

impl Config {
    /// All adapters with their names: first the one that has none, then the others by name.
    pub fn adapters(&self) -> impl Iterator<Item = (&str, &AdapterConfig)> {
        let others = self.adapters.iter().map(|(name, adapter)| (name.as_str(), adapter));
        std::iter::once(("", &self.adapter)).chain(others)
    }

    /// Which of [`Self::adapters`] guests are attached to that connect to this socket.
    #[must_use]
    pub fn adapter_of(&self, socket: Option<&Path>) -> usize {
        let name = named(&self.attach, socket);
        let place = name.and_then(|name| self.adapters().position(|(other, _)| other == name));
        place.unwrap_or(0)
    }

    /// With whom guests may have fences that connect to this socket.
    #[must_use]
    pub fn sharing(&self, socket: Option<&Path>) -> SharingGroups {
        let groups = self.fence_sharing.values().zip(0..);
        groups
            .filter(|(sockets, _)| names(socket).any(|name| sockets.iter().any(|s| s == name)))
            .fold(SharingGroups::NONE, |groups, (_, number)| groups.with(number))
    }

    /// How many fences there can be that guests have together: as many as the guests of all groups may
    /// have, so that none can keep another from its own.
    #[must_use]
    pub fn cross_adapter_fences(&self) -> u32 {
        let sockets: BTreeSet<_> = self.fence_sharing.values().flatten().collect();
        let sockets = u32::try_from(sockets.len()).unwrap_or(u32::MAX);
        sockets.saturating_mul(self.guest.cross_adapter_fences)
    }

    /// The weight of guests that connect to this socket.
    #[must_use]
    pub fn weight(&self, socket: Option<&Path>) -> u32 {
        named(&self.weights, socket).copied().unwrap_or(self.guest.weight)
    }

    /// How much the host remembers of a guest.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let objects = self.guest.objects;
        Limits {
            handles: objects,
            allocations: self.guest.allocations,
            hw_queues: self.guest.hw_queues,
            waits: self.guest.waits,
            mappings: objects,
            // An object seldom has many. Each is a hundredth of what an object takes.
            extents: objects.saturating_mul(16),
            listed_allocations: objects,
            cross_adapter_fences: self.guest.cross_adapter_fences,
            ..Limits::default()
        }
    }

    /// Bytes of memory that a guest's front end may announce.
    #[must_use]
    pub fn memory_limit(&self) -> u64 {
        self.guest.announced_memory_mib * MIB
    }

    /// How much each guest can have logged.
    #[must_use]
    pub fn line_limit(&self) -> LineLimit {
        LineLimit::new(self.guest.log_lines_per_second, self.guest.log_burst)
    }

    /// The features that guests of an adapter are offered.
    #[must_use]
    pub fn features(&self, adapter: &AdapterConfig) -> Features {
        let mut features = Features::all();
        features.set(Features::POWER_CONTROL, self.guest.power_control);
        features.set(Features::DISABLE_GPU_TIMEOUT, self.guest.gpu_timeout_may_be_disabled);
        features.set(Features::PAGE_MIGRATION, adapter.page_migration);
        let native_fences = adapter.native_fences;
        features.set(Features::NATIVE_FENCES | Features::USER_MODE_SUBMISSION, native_fences);
        features
    }

    /// The segments beside the BAR that it gives each guest.
    #[must_use]
    pub fn segments(&self) -> SegmentSizes {
        SegmentSizes {
            private: self.guest.private_memory_mib * MIB,
            backing: self.guest.backing_memory_mib * MIB,
            aperture: self.guest.aperture_mib * MIB,
        }
    }

    /// The BAR that this configuration gives each guest.
    #[must_use]
    pub fn bar(&self) -> BarLayout {
        BarLayout {
            doorbell_count: self.guest.doorbells,
            fence_count: self.guest.fences,
            local_memory: self.guest.local_memory_mib * MIB,
        }
    }
}

/// What a socket may be called here: by its path or its file name.
fn names(socket: Option<&Path>) -> impl Iterator<Item = &str> {
    let name = socket.and_then(Path::file_name).and_then(|name| name.to_str());
    socket.and_then(Path::to_str).into_iter().chain(name)
}

/// What stands for a socket.
fn named<'c, T>(map: &'c BTreeMap<String, T>, socket: Option<&Path>) -> Option<&'c T> {
    names(socket).find_map(|name| map.get(name))
}

fn milliseconds_or_never(milliseconds: u64) -> Option<Duration> {
    (milliseconds != 0).then(|| Duration::from_millis(milliseconds))
}

#[cfg(test)]
mod tests;
