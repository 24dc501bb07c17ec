// SPDX-License-Identifier: MIT OR Apache-2.0

//! The machine on which figures were measured, and what disturbed them.

use crate::processors;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The machine on which figures were measured. Unknown values are null, and [`Self::absent`] says why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// This program's version.
    pub version: String,
    /// The commit that it was built from.
    pub commit: Option<String>,
    /// The processor's name.
    pub processor: Option<String>,
    /// Processors that this program may use.
    pub processors: usize,
    /// The processors' frequency governor.
    pub governor: Option<String>,
    /// The kernel's version.
    pub kernel: Option<String>,
    /// Whether this is a virtual machine.
    pub is_virtual: Option<bool>,
    /// Seconds since 1970 when this was found out.
    pub time: Option<u64>,
    /// Why each null is null.
    pub absent: BTreeMap<String, String>,
}

const GOVERNOR: &str = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
const PROCESSORS: &str = "/proc/cpuinfo";
const KERNEL: &str = "/proc/sys/kernel/osrelease";

impl Machine {
    /// This machine.
    #[must_use]
    pub fn find() -> Self {
        let mut absent = BTreeMap::new();
        let mut known = |what: &str, found: Result<String, String>| {
            found.map_err(|why| absent.insert(what.to_owned(), why)).ok()
        };
        let commit = known("commit", commit());
        let kernel = known("kernel", read(KERNEL));
        let governor = known("governor", read(GOVERNOR));
        let cpuinfo = read(PROCESSORS);
        let processor = known("processor", cpuinfo.clone().and_then(|text| model(&text)));
        let flags = known("is_virtual", cpuinfo);
        let is_virtual = flags.map(|text| text.contains(" hypervisor"));
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map(|time| time.as_secs());
        let time =
            time.map_err(|_| absent.insert("time".into(), "the clock is before 1970".into())).ok();
        let (version, processors) =
            (env!("CARGO_PKG_VERSION").to_owned(), processors::allowed().len());
        Self { version, commit, processor, processors, governor, kernel, is_virtual, time, absent }
    }
}

fn read(path: &str) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    Ok(text.trim().to_owned())
}

fn model(cpuinfo: &str) -> Result<String, String> {
    let line = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    let name = line.map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_owned());
    name.ok_or_else(|| format!("{PROCESSORS} has no model name"))
}

/// The version that `--version` prints: with the commit, if the build was given one.
#[must_use]
pub fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    BUILT_FROM.map_or(version.into(), |commit| format!("{version} ({commit})"))
}

/// The commit that the build was given.
const BUILT_FROM: Option<&str> = option_env!("BELLHOP_COMMIT");

/// The commit that the build was given, or that of the sources beside it.
fn commit() -> Result<String, String> {
    if let Some(commit) = BUILT_FROM {
        return Ok(commit.to_owned());
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let git = Command::new("git")
        .arg("-C")
        .arg(sources)
        .args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
        .output();
    match git {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        _ => Err("BELLHOP_COMMIT was not set for the build, and its sources are not here".into()),
    }
}

/// Counters of events that take a thread's processor away.
#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    switches: Option<u64>,
    waited_ns: Option<u64>,
    stolen_ticks: Option<u64>,
}

/// Nanoseconds in a tick of `/proc/stat`: `USER_HZ` is 100 on every architecture that Bellhop runs on.
const TICK: u64 = 10_000_000;

impl Counters {
    fn read() -> Self {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        let status = text("/proc/thread-self/status");
        let switches =
            status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
        let number = |word: Option<&str>| word.and_then(|word| word.trim().parse().ok());
        Self {
            switches: number(switches),
            waited_ns: number(text("/proc/thread-self/schedstat").split_whitespace().nth(1)),
            // "cpu", then user, nice, system, idle, iowait, irq, softirq, steal.
            stolen_ticks: number(text("/proc/stat").split_whitespace().nth(8)),
        }
    }
}

/// Disturbances of this thread during a measurement. Null if this machine does not report them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Disturbances {
    /// Processors that this program may use.
    pub processors: usize,
    /// Times that the thread lost its processor before it slept, its own yields to an engine included.
    pub involuntary_switches: Option<u64>,
    /// Nanoseconds in which it could have run and had no processor.
    pub waited_for_processor_ns: Option<u64>,
    /// Nanoseconds of all processors that the hypervisor gave to others.
    pub stolen_ns: Option<u64>,
    /// Threads that wanted a processor, of all programs: the average of the last minute.
    pub load: Option<f64>,
}

/// Watches for disturbances of the thread that made it.
#[derive(Debug)]
pub struct Watch(Counters);

impl Watch {
    /// Begins to watch.
    #[must_use]
    pub fn begin() -> Self {
        Self(Counters::read())
    }

    /// The disturbances since then.
    #[must_use]
    pub fn end(self) -> Disturbances {
        let (before, after) = (self.0, Counters::read());
        let since = |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
        Disturbances {
            processors: processors::allowed().len(),
            involuntary_switches: since(after.switches, before.switches),
            waited_for_processor_ns: since(after.waited_ns, before.waited_ns),
            stolen_ns: since(after.stolen_ticks, before.stolen_ticks).map(|ticks| ticks * TICK),
            load: load(),
        }
    }
}

/// Threads that wanted a processor, of all programs: the average of the last minute.
pub(crate) fn load() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|load| load.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_of_the_machine_has_a_reason() {
        let machine = serde_json::to_value(Machine::find()).unwrap();
        let facts = machine.as_object().unwrap();
        for (name, fact) in facts {
            assert_eq!(fact.is_null(), machine["absent"].get(name).is_some(), "{name}: {machine}");
        }
        assert_eq!(machine["version"], env!("CARGO_PKG_VERSION"));
        assert!(model("flags\t: fpu\n").is_err());
        assert_eq!(model("model name\t: A: B\n").unwrap(), "A: B");
    }

    #[test]
    fn a_thread_that_gives_its_processor_to_another_is_seen_to_lose_it() {
        let [first, ..] = processors::allowed() else { return };
        let watch = || {
            let watch = Watch::begin();
            // Until the other thread has run: it may take a while to begin.
            while watch.0.switches == Counters::read().switches {
                std::thread::yield_now();
            }
            watch.end()
        };
        let (stop, there) = (std::sync::atomic::AtomicBool::new(false), [*first]);
        let seen = std::thread::scope(|threads| {
            processors::on(&there, || {
                threads.spawn(|| {
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                });
                let seen = watch();
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
                seen
            })
        });
        assert!(seen.unwrap().involuntary_switches > Some(0));
    }
}
