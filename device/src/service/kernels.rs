// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whether guests can run kernels and have video sessions: looks for the workers' program and tests the host's Vulkan
//! with it, before the first guest is served.

use super::config::{AdapterConfig, Config, KernelSupport};
use super::hardening;
use crate::gpu::{KernelsConfig, RoleConfig, VideoConfig, WorkerProgram};
use bellhop_protocol::control::gpu_va::{GPU_VA_END, GPU_VA_START};
use bellhop_protocol::control::kernel::{
    KERNEL_POINTERS, KERNELS_SUPPORTED, KernelCaps, MAX_SPIRV, padded,
};
use bellhop_worker::owner::Role;
use bellhop_worker::probe::{Search, probe};
use bellhop_worker::report::{Device, Report};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Duration;
use tracing::{info, warn};

/// Memory of a worker beside `kernel_memory` for each of its driver's threads, whose stacks and buffers would else leave
/// kernels nothing on a machine with many processors. Mesa's driver for processors runs the main job's kernel with
/// 128 MiB and 16 MiB for each thread, for 1 to 128 threads; for 2 to 32, it does not with 48 to 80 MiB less in all.
const THREAD_MEMORY: u64 = 16 << 20;

/// How long a worker may take at the daemon's start. A self-test takes a fifth of a second, and guests wait for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Most descriptors and bytes of push constants that the protocol allows.
const MAX_DESCRIPTORS: u32 = 16;
const MAX_PUSH_CONSTANTS: u32 = 256;

/// The file of the workers' program.
const PROGRAM: &str = "bellhop-worker";
/// Where it is installed, from the folder of this executable.
const FOLDERS: [&str; 3] = ["", "../libexec/bellhop", "../lib/bellhop"];

/// An adapter's kernels, or why it has none.
type Kernels = Result<KernelsConfig, String>;

/// An adapter's video sessions, or why it has none.
type Video = Result<VideoConfig, String>;

/// What workers do for an adapter.
pub(super) type Roles = (Kernels, Video);

/// Where the workers' program is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Worker {
    /// It is this.
    Program(WorkerProgram),
    /// It is in a file beside this executable, or where packages put it.
    Installed,
}

impl Worker {
    /// This executable, with these arguments.
    #[must_use]
    pub fn this_executable(arguments: &[&str]) -> Self {
        std::env::current_exe().map_or(Self::Installed, |program| {
            Self::Program(WorkerProgram {
                program,
                arguments: arguments.iter().map(OsString::from).collect(),
                environment: Vec::new(),
            })
        })
    }

    /// The program of a command line: variables as `NAME=VALUE`, the program, and its arguments. `None` without a
    /// program.
    #[must_use]
    pub fn of_words(words: &[OsString]) -> Option<Self> {
        let variable = |word: &OsString| {
            let (name, value) = word.to_str()?.split_once('=')?;
            Some((name.into(), value.into()))
        };
        let environment: Vec<_> = words.iter().map_while(variable).collect();
        let (program, arguments) = words.get(environment.len()..)?.split_first()?;
        let (program, arguments) = (program.into(), arguments.to_vec());
        Some(Self::Program(WorkerProgram { program, arguments, environment }))
    }

    pub(super) fn find(&self) -> Result<WorkerProgram, String> {
        match self {
            Self::Program(program) => Ok(program.clone()),
            Self::Installed => {
                let executable = std::env::current_exe()
                    .map_err(|error| format!("the daemon's own file is unknown: {error}"))?;
                installed(executable.parent().unwrap_or(Path::new("/")))
            }
        }
    }
}

/// The workers' program that was installed with an executable in this folder.
fn installed(folder: &Path) -> Result<WorkerProgram, String> {
    let files = FOLDERS.map(|other| folder.join(other).join(PROGRAM));
    let program: Option<&PathBuf> = files.iter().find(|file| file.is_file());
    let program = program.ok_or_else(|| {
        format!("{PROGRAM} is not beside bellhopd, in {}; install it there", folder.display())
    })?;
    let (arguments, environment) = (Vec::new(), Vec::new());
    Ok(WorkerProgram { program: program.clone(), arguments, environment })
}

/// Finds out what workers can do for each adapter. Starts programs and waits for them.
pub(super) fn find_roles(config: &Config, worker: &Worker) -> Vec<Roles> {
    find(config, worker).into_iter().zip(find_video(config, worker)).collect()
}

/// No adapter has workers, for this reason.
pub(super) fn no_roles(config: &Config, why: &str) -> Vec<Roles> {
    config.adapters().map(|_| (Err(why.to_owned()), Err(why.to_owned()))).collect()
}

/// Finds out what each adapter has to run kernels with. Starts programs and waits for them.
fn find(config: &Config, worker: &Worker) -> Vec<Kernels> {
    let mut reports = BTreeMap::new();
    let processors = available_parallelism().map_or(1, |number| number.get() as u32);
    let mut of_adapter = |adapter: &AdapterConfig| {
        if adapter.kernels == KernelSupport::Off {
            return Err("the host's configuration allows none (adapter.kernels)".to_owned());
        }
        if hardening::is_code_refused() {
            return Err("the host lets this service make no executable memory; its unit must not \
                 set MemoryDenyWriteExecute"
                .to_owned());
        }
        let worker = worker.find()?;
        let name = adapter.vulkan_device.as_str();
        let name = (!name.is_empty()).then(|| name.to_owned());
        let wanted = (name, adapter.kernels == KernelSupport::Gpu);
        let report = reports
            .entry(wanted)
            .or_insert_with_key(|(name, gpus)| search(&worker, name.as_deref(), *gpus));
        let report = report.as_ref().map_err(Clone::clone)?;
        let (device, pointers) = report.chosen().ok_or_else(|| report.why_missing())?;
        let kernels_per_guest = config.guest.kernels.get();
        let threads = match adapter.kernel_processors.get() {
            0 => processors,
            some => some,
        };
        Ok(KernelsConfig {
            worker,
            device: device.index,
            caps: caps(device, pointers, kernels_per_guest),
            workers: adapter.kernel_workers.get(),
            workers_per_guest: adapter.kernel_workers_per_guest.get(),
            kernels_per_guest,
            memory: adapter.kernel_memory.get() + u64::from(threads) * THREAD_MEMORY,
            threads,
            starts: config.worker_starts(),
            compiling: config.kernel_compiling(),
            compile_timeout: adapter.kernel_compile_timeout.get(),
        })
    };
    let found = config.adapters().map(|(name, adapter)| {
        let kernels = of_adapter(adapter);
        tell(name, adapter, &kernels, config.adapters.is_empty());
        kernels
    });
    found.collect()
}

/// Finds out what each adapter has to decode and encode with.
fn find_video(config: &Config, worker: &Worker) -> Vec<Video> {
    let of_adapter = |(name, adapter): (&str, &AdapterConfig)| {
        if adapter.video_decode_nodes.get() + adapter.video_encode_nodes.get() == 0 {
            return Err("the host's configuration has no video nodes \
                 (adapter.video_decode_nodes, adapter.video_encode_nodes)"
                .to_owned());
        }
        let found = worker.find().map(|worker| VideoConfig {
            role: RoleConfig {
                role: Role::Video,
                worker,
                device: 0,
                workers: adapter.video_sessions.get(),
                workers_per_guest: config.guest.video_sessions.get(),
                memory: adapter.video_memory.get(),
                threads: adapter.video_threads.get(),
            },
            starts: config.worker_starts(),
            sessions_per_guest: config.guest.video_sessions.get(),
        });
        if let Err(why) = &found {
            warn!(adapter = name, %why, "guests can have no video sessions");
        }
        found
    };
    config.adapters().map(of_adapter).collect()
}

fn search(worker: &WorkerProgram, name: Option<&str>, gpus: bool) -> Result<Report, String> {
    let search = Search { name, gpus, first: true, patience: PATIENCE };
    probe(|| Ok(worker.command()), search)
        .map_err(|error| format!("{}: {error:#}", worker.program.display()))
}

/// Logs what an adapter has.
fn tell(name: &str, adapter: &AdapterConfig, kernels: &Kernels, is_only: bool) {
    let name = (!is_only).then_some(name);
    match kernels {
        Ok(KernelsConfig { caps, .. }) => {
            let text = bellhop_protocol::control::kernel::unpadded;
            let (device, driver) = (text(&caps.device), text(&caps.driver));
            let pointers = caps.have_pointers();
            info!(adapter = name, device, driver, pointers, "guests can run kernels");
        }
        Err(_) if adapter.kernels == KernelSupport::Off => {}
        // Whoever names a device wants it.
        Err(why) if !adapter.vulkan_device.is_empty() => {
            warn!(adapter = name, %why, "guests cannot run kernels");
        }
        Err(why) => info!(adapter = name, %why, "guests cannot run kernels"),
    }
}

/// What kernels can be on this device.
fn caps(device: &Device, pointers: bool, kernels_per_guest: u32) -> KernelCaps {
    let limits = &device.description.limits;
    KernelCaps {
        flags: KERNELS_SUPPORTED | if pointers { KERNEL_POINTERS } else { 0 },
        api_version: api_version(&device.description.api),
        max_groups: limits.work_groups,
        max_group_size: limits.work_group_size,
        max_invocations: limits.work_group_invocations,
        shared_memory: limits.shared_memory,
        max_push_constants: limits.push_constants.min(MAX_PUSH_CONSTANTS),
        max_descriptors: MAX_DESCRIPTORS,
        descriptor_alignment: u32::try_from(limits.descriptor_alignment).unwrap_or(u32::MAX),
        max_spirv: MAX_SPIRV,
        max_kernels: kernels_per_guest,
        reserved: 0,
        window_start: GPU_VA_START,
        window_length: GPU_VA_END - GPU_VA_START,
        device: padded(&device.description.name),
        driver: padded(&device.description.driver),
        missing: [0; 256],
    }
}

/// A version such as `1.4.305`, as Vulkan encodes it: 10 bits, 10 bits, 12 bits.
fn api_version(text: &str) -> u32 {
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0_u32));
    let [major, minor, patch] = [(); 3].map(|()| parts.next().unwrap_or(0));
    major << 22 | minor << 12 | patch
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_program_follows_its_variables() {
        let given = words(&["A=b", "C=d=e", "/bin/ld.so", "X=y", "--flag"]);
        let Some(Worker::Program(worker)) = Worker::of_words(&given) else { panic!("no program") };
        assert_eq!(worker.program, Path::new("/bin/ld.so"));
        assert_eq!(worker.arguments, words(&["X=y", "--flag"]));
        let pair = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        assert_eq!(worker.environment, [pair("A", "b"), pair("C", "d=e")]);
        assert_eq!(Worker::of_words(&words(&["A=b"])), None);
    }

    #[test]
    fn a_worker_is_found_where_packages_put_it() {
        let root = tempfile::tempdir().unwrap();
        let bin = root.path().join("bin");
        fs::create_dir(&bin).unwrap();
        assert!(installed(&bin).unwrap_err().contains("bellhop-worker is not beside"));
        for folder in ["lib/bellhop", "libexec/bellhop", "bin"] {
            let file = root.path().join(folder).join(PROGRAM);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            let found = installed(&bin).unwrap().program.canonicalize().unwrap();
            assert_eq!(found, file.canonicalize().unwrap());
        }
    }

    #[test]
    fn a_worker_has_nothing_of_the_daemon_s_manager_nor_of_a_user_s_layers() {
        let Some(Worker::Program(worker)) = Worker::of_words(&words(&["A=b", "p"])) else {
            panic!()
        };
        let command = worker.command();
        let variables: BTreeMap<_, _> = command.get_envs().collect();
        for removed in ["NOTIFY_SOCKET", "VK_INSTANCE_LAYERS", "VK_LOADER_LAYERS_ENABLE"] {
            assert_eq!(variables[OsString::from(removed).as_os_str()], None);
        }
        assert_eq!(variables[OsString::from("A").as_os_str()], Some("b".as_ref()));
    }

    /// A worker that finds one device.
    fn found(found: &str) -> Worker {
        let device = r#"{"name":"N","kind":"cpu","api":"1.4.305","driver":"D 1","limits":{
            "work_group_size":[4,5,6],"work_group_invocations":7,"work_groups":[1,2,3],"shared_memory":8,
            "push_constants":1024,"descriptor_alignment":16,"descriptor_range":1,"import_alignment":4096}}"#;
        let device = device.replace('\n', "");
        let script = format!(
            "if [ $1 = list ]; then echo '{{\"devices\":[{device}]}}'; else echo '{{\"found\":{found}}}'; fi"
        );
        Worker::of_words(&words(&["sh", "-c", &script, "worker"])).unwrap()
    }

    #[test]
    fn what_the_test_found_becomes_what_guests_are_told() {
        let config = toml::from_str(
            "[guest]\nkernels = 3\n[adapter]\nkernel_memory = \"128MiB\"\n\
             kernel_processors = 3\n",
        );
        let kernels = find(&config.unwrap(), &found("{\"usable\":{\"pointers\":true}}"));
        let [Ok(KernelsConfig { caps, memory, .. })] = &*kernels else { panic!("{kernels:?}") };
        assert_eq!(*memory, (128 + 3 * 16) << 20);
        assert_eq!(caps.flags, KERNELS_SUPPORTED | KERNEL_POINTERS);
        // `VK_MAKE_API_VERSION(0, 1, 4, 305)`.
        assert_eq!(caps.api_version, 0x0040_4131);
        assert_eq!((caps.max_groups, caps.max_group_size), ([1, 2, 3], [4, 5, 6]));
        assert_eq!((caps.max_push_constants, caps.max_kernels), (256, 3));
        assert_eq!((caps.window_start, caps.window_length), (1 << 20, (1 << 40) - (1 << 20)));
        assert_eq!(caps.device, padded("N"));
    }

    #[test]
    fn without_a_usable_device_an_adapter_has_no_kernels_for_that_reason() {
        let kernels = find(&Config::default(), &found("{\"refused\":\"N computes wrongly\"}"));
        let why = kernels[0].as_ref().unwrap_err();
        assert!(why.contains("N computes wrongly"), "{why}");
        let none = Worker::of_words(&words(&["/no/such/program"])).unwrap();
        let why = find(&Config::default(), &none).remove(0).unwrap_err();
        assert!(why.starts_with("/no/such/program: cannot start a worker"), "{why}");
    }

    #[test]
    fn each_adapter_has_its_own_kernels_or_none() {
        let config =
            "[adapter]\nkernels = \"off\"\n[adapters.b]\n[adapters.c]\nvulkan_device = \"x\"\n";
        let config = toml::from_str(config).unwrap();
        let kernels = find(&config, &found("{\"usable\":{\"pointers\":false}}"));
        let [Err(off), Ok(b), Err(other)] = &*kernels else { panic!("{kernels:?}") };
        assert!(off.contains("adapter.kernels") && !b.caps.have_pointers());
        assert!(other.contains("there is N"), "{other}");
    }
}
