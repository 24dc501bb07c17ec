// SPDX-License-Identifier: MIT OR Apache-2.0

//! The configuration of `bellhopd`: a TOML file in which every key is optional. [`Config`] is declared in
//! `keys`.

#[cfg(test)]
#[macro_use]
mod sample;
#[macro_use]
mod declare;
mod displays;
mod keys;
mod links;
mod processors;
#[cfg(test)]
mod reference;
mod rules;

pub use displays::{Connector, DisplaySettings, ModeSetting, Size};
pub use keys::{
    AdapterConfig, Config, ControlConfig, DebugConfig, DoorbellModel, GuestConfig, KernelSupport,
    LinkConfig, LinkPower, LogConfig, Rotation, Weight,
};
pub use links::AdapterChain;
pub use processors::Processors;

use crate::allowance::Rate;
use crate::gpu::display::config::DisplayConfig;
use crate::gpu::{GpuConfig, KernelsConfig, VideoConfig};
use crate::log::LineLimit;
use bellhop_config::{Fault, KeyPath};
use bellhop_host_kmd::dxgkrnl::{Limits, OsFeatures, PowerPolicy, TdrPolicy};
use bellhop_host_kmd::hardware::{self, SegmentSizes};
use bellhop_host_kmd::port::SharingGroups;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::features::Features;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// A configuration of the daemon and the file that it was read from.
pub type ConfigFile = bellhop_config::ConfigFile<Config>;

impl ControlConfig {
    /// The path of the socket, if one is configured.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        (!self.socket.as_os_str().is_empty()).then_some(&self.socket)
    }

    /// The path of the operator's socket, if one is configured.
    #[must_use]
    pub fn operator_socket(&self) -> Option<&Path> {
        (!self.operator_socket.as_os_str().is_empty()).then_some(&self.operator_socket)
    }

    /// The group that may operate the daemon, if one is configured.
    #[must_use]
    pub fn group(&self) -> Option<&str> {
        (!self.operator_group.is_empty()).then_some(&self.operator_group)
    }
}

impl AdapterConfig {
    /// Returns whether VMMs move doorbell pages.
    #[must_use]
    pub fn remaps_doorbells(&self) -> bool {
        self.rotation == Rotation::Remap
    }

    /// The idle times after which power states change.
    #[must_use]
    pub fn power(&self) -> PowerPolicy {
        PowerPolicy {
            engine_idle: unless_zero(self.engine_idle.get()),
            device_idle: unless_zero(self.device_idle.get()),
        }
    }

    /// The displays of the adapter with this name, which have so many others of their chain before them. Reads the files of
    /// EDIDs.
    ///
    /// # Errors
    /// For the first display that cannot be.
    pub fn displays(&self, name: &str, before: usize) -> Result<DisplayConfig, Fault> {
        let all = table_of_adapter(name).child("displays");
        displays::displays(&all, (&self.displays, before), self.display_megapixels.get())
            .map_err(|refused| Fault::new(refused.key, refused.value, refused.expected))
    }

    /// The number of its nodes.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        let [graphics, copy] = [self.graphics_nodes.get(), self.copy_nodes.get()];
        graphics + copy + self.compute_nodes.get() + self.security_nodes.get()
    }

    /// The features that the kernel enables for the driver.
    #[must_use]
    pub fn os_features(&self) -> OsFeatures {
        if self.native_fences { OsFeatures::default() } else { OsFeatures { native_fences: None } }
    }

    /// The kernel's policy for hangs.
    #[must_use]
    pub fn tdr(&self) -> TdrPolicy {
        TdrPolicy {
            step: self.recovery_timeout.get(),
            limit_count: self.hang_limit.get(),
            limit_time: self.hang_limit_time.get(),
        }
    }
}

impl Config {
    /// All adapters with their names: first the unnamed one, then the others ordered by name.
    pub fn adapters(&self) -> impl Iterator<Item = (&str, &AdapterConfig)> {
        let others = self.adapters.iter().map(|(name, adapter)| (name.as_str(), adapter));
        std::iter::once(("", &self.adapter)).chain(others)
    }

    /// The GPU of an adapter with these kernels, video sessions and displays.
    #[must_use]
    pub fn gpu(
        &self,
        adapter: &AdapterConfig,
        kernels: KernelsConfig,
        video: Result<VideoConfig, String>,
        display: DisplayConfig,
    ) -> GpuConfig {
        GpuConfig {
            graphics_engines: adapter.graphics_nodes.get(),
            copy_engines: adapter.copy_nodes.get(),
            compute_engines: adapter.compute_nodes.get(),
            physical_doorbells: adapter.physical_doorbells.get(),
            doorbell_model: match adapter.doorbell_model {
                DoorbellModel::Dedicated => hardware::DoorbellModel::Dedicated,
                DoorbellModel::Global => hardware::DoorbellModel::Global,
            },
            remaps_doorbells: adapter.remaps_doorbells(),
            engine_processors: adapter.engine_processors.numbers().to_vec(),
            kernel_mode_copy_engines: adapter.kernel_mode_copy_nodes.get(),
            spin: adapter.spin.get(),
            idle: unless_zero(adapter.engine_idle.get()),
            hang: adapter.timeout.get(),
            test_kernels: self.debug.test_kernels,
            bursts: true,
            optimized_fence_interrupt: adapter.optimized_fence_interrupt,
            quantum: adapter.quantum.get(),
            page_table_pages: (adapter.page_table_memory.get() / PAGE_SIZE) as u32,
            guests_per_socket: self.guest.connections.get(),
            kernels: Some(kernels),
            video_decode_engines: adapter.video_decode_nodes.get(),
            video_encode_engines: adapter.video_encode_nodes.get(),
            video,
            security: None,
            display,
        }
    }

    /// The index in [`Self::chains`] of the adapter for guests that connect to this socket.
    #[must_use]
    pub fn adapter_of(&self, socket: Option<&Path>) -> usize {
        let name = named(&self.attach, socket);
        let chains = self.chains();
        let place = name.and_then(|name| chains.iter().position(|chain| chain.name() == name));
        place.unwrap_or(0)
    }

    /// The groups with which guests of this socket share fences.
    #[must_use]
    pub fn sharing(&self, socket: Option<&Path>) -> SharingGroups {
        let groups = self.fence_sharing.values().zip(0..);
        groups
            .filter(|(sockets, _)| names(socket).any(|name| sockets.iter().any(|s| s == name)))
            .fold(SharingGroups::NONE, |groups, (_, number)| groups.with(number))
    }

    /// Maximum number of fences shared by guests: the sum over the guests of all groups, so that no guest can use
    /// up another's.
    #[must_use]
    pub fn cross_adapter_fences(&self) -> u32 {
        let sockets: BTreeSet<_> = self.fence_sharing.values().flatten().collect();
        let sockets = u32::try_from(sockets.len()).unwrap_or(u32::MAX);
        sockets.saturating_mul(self.guest.cross_adapter_fences.get())
    }

    /// The weight of the guests of this socket together.
    #[must_use]
    pub fn weight(&self, socket: Option<&Path>) -> u32 {
        named(&self.weights, socket).unwrap_or(&self.guest.weight).get()
    }

    /// The limits on the host's resources for a guest: its part of what its socket has. Workers bound video sessions, for the
    /// guests of a socket together.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let usual = Limits::default();
        let GuestConfig { allocations, hw_queues, waits, cross_adapter_fences, kernels, .. } =
            &self.guest;
        let objects = self.part(self.guest.objects.get());
        Limits {
            processes: self.part(usual.processes),
            handles: objects,
            allocations: self.part(allocations.get()),
            hw_queues: self.part(hw_queues.get()),
            waits: self.part(waits.get()),
            mappings: objects,
            mapped_bytes: usual.mapped_bytes / u64::from(self.guest.connections.get()),
            // Few objects have many extents, and an extent takes a hundredth of an object's memory.
            extents: objects.saturating_mul(16),
            submissions: self.part(usual.submissions),
            listed_allocations: objects,
            cross_adapter_fences: self.part(cross_adapter_fences.get()),
            held: self.part(usual.held),
            kernels: self.part(kernels.get()),
            video_sessions: self.guest.video_sessions.get(),
        }
    }

    /// A guest's part of what its socket has.
    fn part(&self, of_socket: u32) -> u32 {
        of_socket / self.guest.connections.get()
    }

    /// A guest's part of memory that its socket has: whole MiB.
    fn part_of_memory(&self, of_socket: u64) -> u64 {
        ((of_socket >> 20) / u64::from(self.guest.connections.get())) << 20
    }

    /// Maximum number of bytes of memory that a guest's front end may announce.
    #[must_use]
    pub fn memory_limit(&self) -> u64 {
        self.part_of_memory(self.guest.announced_memory.get())
    }

    /// The limit on log lines per guest.
    #[must_use]
    pub fn line_limit(&self) -> LineLimit {
        LineLimit::new(self.guest.log_lines_per_second.get(), self.guest.log_burst.get())
    }

    /// How often a guest can have workers started.
    #[must_use]
    pub fn worker_starts(&self) -> Rate {
        Rate::new(self.guest.worker_starts_per_second.get(), self.guest.worker_start_burst.get())
    }

    /// How many milliseconds of a processor compiling a guest's kernels may take.
    #[must_use]
    pub fn kernel_compiling(&self) -> Rate {
        let GuestConfig { kernel_compile_time_per_second, kernel_compile_burst, .. } = &self.guest;
        // Their ranges fit.
        let [per_second, burst] =
            [kernel_compile_time_per_second.get(), kernel_compile_burst.get()]
                .map(|time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
        Rate::new(per_second, burst)
    }

    /// The features offered to guests of an adapter.
    #[must_use]
    pub fn features(&self, adapter: &AdapterConfig) -> Features {
        let mut features = Features::all();
        features.set(Features::POWER_CONTROL, self.debug.power_control);
        features.set(Features::DISABLE_GPU_TIMEOUT, self.guest.gpu_timeout_may_be_disabled);
        features.set(Features::PAGE_MIGRATION, adapter.page_migration);
        let native_fences = adapter.native_fences;
        let user_mode =
            Features::USER_MODE_SUBMISSION | Features::DOORBELL_LINES | Features::PROCESS_BARS;
        features.set(Features::NATIVE_FENCES | user_mode, native_fences);
        if adapter.doorbell_model == DoorbellModel::Global || adapter.remaps_doorbells() {
            // Such a doorbell is in the guest's BAR.
            features.remove(Features::PROCESS_BARS);
        }
        // While a page is moved, rings may miss it, and the host has to learn whose.
        features.set(Features::NOTIFY_BY_KICK, !adapter.remaps_doorbells());
        features
    }

    /// Each guest's segments beside the BAR.
    #[must_use]
    pub fn segments(&self) -> SegmentSizes {
        SegmentSizes {
            private: self.part_of_memory(self.guest.private_memory.get()),
            backing: self.part_of_memory(self.guest.backing_memory.get()),
            aperture: self.part_of_memory(self.guest.aperture.get()),
        }
    }

    /// Each guest's BAR.
    #[must_use]
    pub fn bar(&self) -> BarLayout {
        BarLayout {
            doorbell_count: self.part(self.guest.doorbells.get()),
            fence_count: self.part(self.guest.fences.get()),
            local_memory: self.part_of_memory(self.guest.local_memory.get()),
        }
    }
}

/// The table of an adapter; the first has no name.
pub(super) fn table_of_adapter(name: &str) -> KeyPath {
    match name {
        "" => KeyPath::new(["adapter"]),
        name => KeyPath::new(["adapters", name]),
    }
}

/// The names of a socket in a configuration: its path and its file name.
fn names(socket: Option<&Path>) -> impl Iterator<Item = &str> {
    let name = socket.and_then(Path::file_name).and_then(|name| name.to_str());
    socket.and_then(Path::to_str).into_iter().chain(name)
}

/// The map's entry for a socket.
fn named<'c, T>(map: &'c BTreeMap<String, T>, socket: Option<&Path>) -> Option<&'c T> {
    names(socket).find_map(|name| map.get(name))
}

/// The time, or `None` for 0.
fn unless_zero(time: Duration) -> Option<Duration> {
    (!time.is_zero()).then_some(time)
}

#[cfg(test)]
mod tests;
