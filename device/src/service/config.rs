//! What `bellhopd` is configured with: a TOML file, every key optional.

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
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// Why a configuration cannot be used. One line, which says what to change.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read configuration {path}: {source}; name a readable file with --config")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is not TOML, or has a key or a type that does not exist here.
    #[error("configuration {path}, line {line}: {message}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// Keys that do not go together.
    #[error("configuration: {0}")]
    Conflict(String),
    /// A value is outside its range.
    #[error("configuration: {key} is {value}; it must be {expected}")]
    Range {
        /// The key.
        key: String,
        /// Its value.
        value: u64,
        /// What it may be.
        expected: &'static str,
    },
}

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
    /// How many of the copy nodes take kernel-mode submissions only, 0 to 8: the last so many.
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
    /// disconnected, in milliseconds; 0 is never, at most 3,600,000.
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

/// Most doorbells of a guest whose pages are moved: each takes an entry of the VMM's memory table,
/// of which a VMM may have far fewer.
const MAX_REMAPPED_DOORBELLS: u64 = 64;

/// Most groups of guests that share fences.
const MAX_GROUPS: u64 = 64;

/// Most adapters of a host. Each has a thread for each of its engines.
const MAX_ADAPTERS: u64 = 8;

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
    /// Lines of log that it can cause in a second in the long run, 1 to 1,000,000.
    pub log_lines_per_second: u32,
    /// Lines of log that it can cause at once, 1 to 1,000,000.
    pub log_burst: u32,
    /// Its weight, 1 to 10,000: engines share their time among guests that have work by weight.
    pub weight: u32,
    /// Whether a guest may change the adapter's power states. They concern every guest.
    pub power_control: bool,
}

/// Tools on this host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ControlConfig {
    /// Path of a socket where `bellhop inspect` connects, for the daemon's user alone; empty for
    /// none. `--control-socket` comes before it.
    socket: PathBuf,
}

impl ControlConfig {
    /// The path, unless there is to be none.
    #[must_use]
    pub fn socket(&self) -> Option<PathBuf> {
        (!self.socket.as_os_str().is_empty()).then(|| self.socket.clone())
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
    /// Checks what is not checked by its type. `table` is where it stands.
    fn validate(&self, table: &str, guest: &GuestConfig) -> Result<(), ConfigError> {
        let check = |key: &str, value: u64, range, expected| {
            check(&format!("{table}.{key}"), value, range, expected)
        };
        check("copy_nodes", self.copy_nodes.into(), 1..=8, "1 to 8")?;
        check("kernel_mode_copy_nodes", self.kernel_mode_copy_nodes.into(), 0..=8, "0 to 8")?;
        let doorbells = u64::from(self.physical_doorbells);
        check("physical_doorbells", doorbells, 1..=65_536, "1 to 65536")?;
        check("spin_us", self.spin_us, 0..=1_000_000, "0 to 1000000")?;
        check("engine_idle_ms", self.engine_idle_ms, 0..=3_600_000, "0 to 3600000")?;
        check("device_idle_ms", self.device_idle_ms, 0..=86_400_000, "0 to 86400000")?;
        check("timeout_ms", self.timeout_ms, 10..=3_600_000, "10 to 3600000")?;
        check("recovery_ms", self.recovery_ms, 10..=60_000, "10 to 60000")?;
        check("hang_limit", self.hang_limit.into(), 0..=1000, "0 to 1000")?;
        check("hang_limit_s", self.hang_limit_s, 1..=3600, "1 to 3600")?;
        check("quantum_us", self.quantum_us, 0..=100_000, "0 to 100000")?;
        check("page_table_mib", self.page_table_mib, 1..=4096, "1 to 4096")?;
        if self.rotation == Rotation::Remap {
            if self.doorbell_model == DoorbellModel::Global {
                return Err(ConfigError::Conflict(format!(
                    "{table}.rotation is \"remap\", but a global doorbell is never rotated; set it \
                     to \"watch\", or {table}.doorbell_model to \"dedicated\""
                )));
            }
            let expected = "1 to 64 while an adapter's rotation is \"remap\" (4 for QEMU)";
            let range = 1..=MAX_REMAPPED_DOORBELLS;
            super::config::check("guest.doorbells", guest.doorbells.into(), range, expected)?;
        }
        Ok(())
    }

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
            log_lines_per_second: 10,
            log_burst: 100,
            weight: DEFAULT_WEIGHT,
            power_control: false,
        }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { filter: "info".into() }
    }
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        let config: Self = toml::from_str(&text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            let line = 1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count();
            let text = text.lines().nth(line - 1).unwrap_or_default().trim();
            let message = format!("{}, in {text:?}", error.message().replace('\n', "; "));
            ConfigError::Parse { path: path.to_owned(), line, message }
        })?;
        config.validate()?;
        Ok(config)
    }

    /// Checks what is not checked by its type.
    ///
    /// # Errors
    /// When a value is outside its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let Self { adapter, adapters, guest, .. } = self;
        check("guest.doorbells", guest.doorbells.into(), 1..=16_384, "1 to 16384")?;
        adapter.validate("adapter", guest)?;
        check("the number of [adapters]", adapters.len() as u64, 0..=MAX_ADAPTERS - 1, "0 to 7")?;
        for (name, adapter) in adapters {
            adapter.validate(&format!("adapters.{name}"), guest)?;
        }
        if let Some((socket, name)) =
            self.attach.iter().find(|(_, name)| !adapters.contains_key(*name))
        {
            return Err(ConfigError::Conflict(format!(
                "attach.{socket:?} is {name:?}, and there is no [adapters.{name}]"
            )));
        }
        check("guest.weight", guest.weight.into(), 1..=10_000, "1 to 10000")?;
        for weight in self.weights.values() {
            check("a weight in [weights]", (*weight).into(), 1..=10_000, "1 to 10000")?;
        }
        check("guest.fences", guest.fences.into(), 1..=65_536, "1 to 65536")?;
        check("guest.local_memory_mib", guest.local_memory_mib, 1..=65_536, "1 to 65536")?;
        check("guest.private_memory_mib", guest.private_memory_mib, 0..=65_536, "0 to 65536")?;
        let backing = guest.backing_memory_mib;
        check("guest.backing_memory_mib", backing, 0..=1_048_576, "0 to 1048576")?;
        check("guest.objects", guest.objects.into(), 256..=1_048_575, "256 to 1048575")?;
        check("guest.allocations", guest.allocations.into(), 1..=1_048_575, "1 to 1048575")?;
        check("guest.hw_queues", guest.hw_queues.into(), 1..=65_536, "1 to 65536")?;
        check("guest.waits", guest.waits.into(), 1..=1_048_575, "1 to 1048575")?;
        let cross_adapter_fences = guest.cross_adapter_fences.into();
        check("guest.cross_adapter_fences", cross_adapter_fences, 0..=1024, "0 to 1024")?;
        let lines = guest.log_lines_per_second.into();
        check("guest.log_lines_per_second", lines, 1..=1_000_000, "1 to 1000000")?;
        check("guest.log_burst", guest.log_burst.into(), 1..=1_000_000, "1 to 1000000")?;
        let groups = self.fence_sharing.len() as u64;
        check("the number of groups in [fence_sharing]", groups, 0..=MAX_GROUPS, "0 to 64")?;
        check("guest.aperture_mib", guest.aperture_mib, 1..=65_536, "1 to 65536")
    }

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

/// Refuses a value that is outside its range.
fn check(
    key: &str,
    value: u64,
    range: RangeInclusive<u64>,
    expected: &'static str,
) -> Result<(), ConfigError> {
    match range.contains(&value) {
        true => Ok(()),
        false => Err(ConfigError::Range { key: key.to_owned(), value, expected }),
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
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Config, ConfigError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bellhopd.toml");
        std::fs::write(&path, text).unwrap();
        Config::load(&path)
    }

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(load("").unwrap(), Config::default());
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line() {
        let error = load("[adapter]\ncopy_nodes = 1\nfrequency = 3\n").unwrap_err().to_string();
        assert!(error.contains("line 3") && error.contains("frequency"), "{error}");
        assert!(!error.contains('\n'));
    }

    #[test]
    fn a_value_outside_its_range_is_refused_with_the_range() {
        let error = load("[guest]\nlocal_memory_mib = 0\n").unwrap_err().to_string();
        assert!(error.contains("guest.local_memory_mib is 0") && error.contains("1 to 65536"));
    }

    #[test]
    fn a_global_doorbell_is_not_rotated() {
        let both = "[adapter]\ndoorbell_model = \"global\"\nrotation = \"remap\"\n";
        let error = load(&format!("{both}[guest]\ndoorbells = 4\n")).unwrap_err().to_string();
        assert!(error.contains("adapter.rotation") && error.contains("doorbell_model"), "{error}");
        assert!(!error.contains('\n'));
    }

    #[test]
    fn a_guest_is_known_by_its_socket() {
        let weights = "[guest]\nweight = 7\n[weights]\n\"a.sock\" = 1\n\"/run/b.sock\" = 2\n";
        let config = load(weights).unwrap();
        let weight = |path: &str| config.weight(Some(Path::new(path)));
        assert_eq!(weight("/any/where/a.sock"), 1);
        assert_eq!((weight("/run/b.sock"), weight("/tmp/b.sock")), (2, 7));
        assert_eq!(config.weight(None), 7);
        let error = load("[weights]\n\"a.sock\" = 0\n").unwrap_err().to_string();
        assert!(error.contains("[weights] is 0") && error.contains("1 to 10000"), "{error}");
    }

    #[test]
    fn a_guest_is_attached_to_the_adapter_that_its_socket_is_given() {
        let adapters = "[adapters.b]\ncopy_nodes = 1\n[adapters.a]\ncopy_nodes = 3\n";
        let config = load(&format!("{adapters}[attach]\n\"a.sock\" = \"a\"\n")).unwrap();
        let nodes = |path: &str| {
            let place = config.adapter_of(Some(Path::new(path)));
            config.adapters().nth(place).map(|(name, adapter)| (name, adapter.copy_nodes))
        };
        assert_eq!(nodes("/run/a.sock"), Some(("a", 3)));
        assert_eq!(nodes("/run/b.sock"), Some(("", 2)));
        assert_eq!(config.adapter_of(None), 0);
        let error = load("[attach]\n\"a.sock\" = \"c\"\n").unwrap_err().to_string();
        assert!(error.contains("a.sock") && error.contains("no [adapters.c]"), "{error}");
        let error = load("[adapters.a]\ncopy_nodes = 0\n").unwrap_err().to_string();
        assert!(error.contains("adapters.a.copy_nodes is 0"), "{error}");
        let many: String = (0..8).map(|number| format!("[adapters.a{number}]\n")).collect();
        let error = load(&many).unwrap_err().to_string();
        assert!(error.contains("[adapters] is 8") && error.contains("0 to 7"), "{error}");
    }

    #[test]
    fn guests_have_fences_together_whose_sockets_one_group_names() {
        let sharing = "[fence_sharing]\nvideo = [\"a.sock\", \"/run/b.sock\"]\n\
                       render = [\"/run/b.sock\", \"c.sock\"]\n";
        let config = load(sharing).unwrap();
        let groups = |path: &str| config.sharing(Some(Path::new(path)));
        assert!(groups("/x/a.sock").common(groups("/run/b.sock")).is_some());
        assert!(groups("/run/b.sock").common(groups("/y/c.sock")).is_some());
        assert!(groups("/x/a.sock").common(groups("/y/c.sock")).is_none());
        assert_eq!(groups("/tmp/b.sock"), SharingGroups::NONE);
        assert_eq!(config.sharing(None), SharingGroups::NONE);
        assert_eq!(config.cross_adapter_fences(), 3 * 64);
        assert_eq!(Config::default().cross_adapter_fences(), 0);
    }

    #[test]
    fn doorbells_that_are_moved_are_few() {
        let remap = "[adapter]\nrotation = \"remap\"\n";
        let error = load(remap).unwrap_err().to_string();
        assert!(error.contains("guest.doorbells is 1024") && error.contains("remap"), "{error}");
        let config = load(&format!("{remap}[guest]\ndoorbells = 4\n")).unwrap();
        assert!(config.adapter.gpu().remaps_doorbells);
    }

    #[test]
    fn guests_have_the_usual_limits_unless_others_are_set() {
        assert_eq!(Config::default().limits(), Limits::default());
        let limits = load("[guest]\nobjects = 1000\n").unwrap().limits();
        assert_eq!((limits.handles, limits.mappings, limits.extents), (1000, 1000, 16_000));
        let limits = load("[guest]\nallocations = 3\nhw_queues = 2\nwaits = 1\n").unwrap().limits();
        assert_eq!((limits.allocations, limits.hw_queues, limits.waits), (3, 2, 1));
    }

    #[test]
    fn a_missing_file_says_how_to_name_one() {
        let error = Config::load(Path::new("/nonexistent/bellhopd.toml")).unwrap_err();
        assert!(error.to_string().contains("--config"));
    }

    const INSTALLED: &str = include_str!("../../dist/bellhop.toml");

    #[test]
    fn the_installed_file_changes_nothing() {
        assert_eq!(load(INSTALLED).unwrap(), Config::default());
    }

    #[test]
    fn the_installed_file_shows_every_key_with_its_default() {
        // A comment has a space after the `#`, a default has none.
        let shown = INSTALLED.replace("\n#", "\n").replace("\n ", "\n# ");
        let shown: toml::Table = toml::from_str(&shown).unwrap();
        assert_eq!(shown, toml::Table::try_from(Config::default()).unwrap());
    }

    #[test]
    fn the_reference_shows_every_key_with_its_default() {
        let reference = include_str!("../../../docs/service.md");
        for (section, keys) in toml::Table::try_from(Config::default()).unwrap() {
            for (key, default) in keys.as_table().unwrap() {
                let row = format!("| `{section}.{key}` | `{default}` |");
                assert!(reference.contains(&row), "docs/service.md lacks {row}");
            }
        }
    }
}
