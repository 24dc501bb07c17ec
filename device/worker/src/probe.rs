// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests Vulkan devices in workers: a driver that crashes or hangs costs one worker and is reported.

use crate::caches;
use crate::report::{Description, Device, Kind, Report, Verdict};
use crate::self_test::Progress;
use crate::waiting::is_readable;
use anyhow::Context;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a probe should take at most when a person waits for it. A self-test takes a second at most, but the driver
/// may be on a slow disk.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Most bytes that a worker may print.
const MOST: usize = 1 << 20;

/// What `bellhop-worker list` prints.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Listed {
    /// Why there is no Vulkan.
    None(String),
    /// The loader's devices, in its order.
    Devices(Vec<Description>),
}

/// Which devices to test, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    /// Only devices with this in their names; case does not matter.
    pub name: Option<&'a str>,
    /// Whether a real GPU may be among them.
    pub gpus: bool,
    /// Whether to test no device after one that is usable.
    pub first: bool,
    /// How long each worker may take.
    pub patience: Duration,
}

/// Lists the Vulkan devices, and tests those of the search, each in a worker of its own. `start` prepares the command
/// of a worker.
///
/// # Errors
/// When no worker can be started. A worker that fails is no error: the report tells why.
pub fn probe(
    start: impl Fn() -> anyhow::Result<Command>,
    Search { name, gpus, first, patience }: Search<'_>,
) -> anyhow::Result<Report> {
    let mut list = start()?;
    let ended = Ended::of(list.arg("list"), patience)?;
    let Some(Listed::Devices(devices)) = ended.lines().pop() else {
        let why = match ended.lines().pop() {
            Some(Listed::None(why)) => why,
            _ => format!("Vulkan's devices cannot be listed: {}", ended.why()),
        };
        return Ok(Report::none(&why));
    };
    let wanted = |description: &Description| {
        name.is_none_or(|name| description.name.to_lowercase().contains(&name.to_lowercase()))
    };
    let mut tried = Vec::new();
    for (index, description) in (0..).zip(&devices).filter(|(_, device)| wanted(device)) {
        let verdict = if gpus || description.kind == Kind::Cpu {
            let mut test = start()?;
            Ended::of(test.arg("test").arg(index.to_string()), patience)?.verdict(description)
        } else {
            Verdict::Refused(format!(
                "{} is a real GPU, which adapter.kernels = \"gpu\" allows",
                description.name
            ))
        };
        let is_usable = matches!(verdict, Verdict::Usable { .. });
        tried.push(Device { index, description: description.clone(), verdict });
        if first && is_usable {
            break;
        }
    }
    if tried.is_empty() {
        let names: Vec<_> = devices.iter().map(|device| device.name.as_str()).collect();
        let mut report = Report::choose(tried);
        let name = name.unwrap_or_default();
        report.missing =
            Some(format!("no Vulkan device is named like {name:?}; there is {}", names.join(", ")));
        return Ok(report);
    }
    Ok(Report::choose(tried))
}

/// A worker that has ended.
struct Ended {
    printed: Vec<u8>,
    said: String,
    end: End,
}

/// How a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// By itself.
    Status(ExitStatus),
    /// Killed: it took longer than this.
    TookTooLong(Duration),
    /// Killed: it printed [`MOST`] bytes or more.
    PrintedTooMuch,
}

impl Ended {
    fn of(command: &mut Command, patience: Duration) -> anyhow::Result<Self> {
        let said = std::fs::File::from(
            rustix::fs::memfd_create("said", rustix::fs::MemfdFlags::CLOEXEC)
                .context("cannot create a file in memory")?,
        );
        caches::forbid(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(said.try_clone().context("cannot share a file")?);
        let mut child = command.spawn().context("cannot start a worker")?;
        let (printed, killed) = read(&mut child, patience)?;
        if killed.is_some() {
            child.kill().context("cannot end a worker")?;
        }
        let status = child.wait().context("cannot wait for a worker")?;
        Ok(Self { printed, said: read_back(said), end: killed.unwrap_or(End::Status(status)) })
    }

    /// Parses the lines, and skips those that are incomplete or unknown.
    fn lines<T: for<'a> Deserialize<'a>>(&self) -> Vec<T> {
        let lines = self.printed.split(|byte| *byte == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// Returns the last verdict that it printed, however it ended; else a refusal that names the step that failed.
    fn verdict(&self, Description { name, driver, .. }: &Description) -> Verdict {
        let mut trying = "being opened".to_owned();
        let mut verdict = None;
        for progress in self.lines() {
            match progress {
                Progress::Trying(what) => trying = what,
                Progress::Found(found) => verdict = Some(found),
            }
        }
        verdict.unwrap_or_else(|| {
            let why = self.why();
            Verdict::Refused(format!("{name}, driver {driver}, fails at {trying}: {why}"))
        })
    }

    /// Describes how it ended.
    fn why(&self) -> String {
        let ended = match self.end {
            End::TookTooLong(patience) => format!("it took longer than {patience:?}"),
            End::PrintedTooMuch => format!("it printed more than {MOST} bytes"),
            End::Status(status) => format!("the worker ended ({status})"),
        };
        match self.said.trim() {
            "" => ended,
            said => format!("{ended}: {said}"),
        }
    }
}

/// Reads what it prints until it ends. Also returns why it must be killed, if it must.
fn read(child: &mut Child, patience: Duration) -> anyhow::Result<(Vec<u8>, Option<End>)> {
    let deadline = Instant::now() + patience;
    let mut out: ChildStdout = child.stdout.take().context("it has a pipe")?;
    let mut printed = Vec::new();
    let mut part = [0; 4096];
    while printed.len() < MOST {
        if !is_readable(&out, deadline).context("cannot wait for a worker")? {
            return Ok((printed, Some(End::TookTooLong(patience))));
        }
        match out.read(&mut part).context("cannot read from a worker")? {
            0 => {
                // A worker that closes its output may live on.
                let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty());
                let process = process.context("cannot watch a worker")?;
                let ended = is_readable(process, deadline).context("cannot wait for a worker")?;
                return Ok((printed, (!ended).then_some(End::TookTooLong(patience))));
            }
            read => printed.extend_from_slice(&part[..read]),
        }
    }
    Ok((printed, Some(End::PrintedTooMuch)))
}

/// Returns the end of what it wrote to standard error.
fn read_back(file: std::fs::File) -> String {
    use std::os::unix::fs::FileExt;
    const MOST: u64 = 2000;
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let mut end = vec![0; length.min(MOST) as usize];
    let read = file.read_at(&mut end, length.saturating_sub(MOST)).unwrap_or(0);
    String::from_utf8_lossy(&end[..read]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probes with a shell script as the worker; its arguments are `list`, or `test` and an index.
    fn report(script: &str, name: Option<&str>) -> Report {
        let start = || {
            let mut command = Command::new("sh");
            command.args(["-c", script, "worker"]);
            Ok(command)
        };
        probe(start, Search { name, gpus: true, first: false, patience: PATIENCE }).unwrap()
    }

    const DEVICE: &str = r#"{"name":"N","kind":"cpu","api":"1.3.0","driver":"D 1","limits":{
        "work_group_size":[1,1,1],"work_group_invocations":1,"work_groups":[1,1,1],"shared_memory":1,
        "push_constants":128,"descriptor_alignment":4,"descriptor_range":1,"import_alignment":4096}}"#;

    /// Probes with a worker that lists one device and runs this script to test it.
    fn tested(test: &str, name: Option<&str>) -> Report {
        let device = DEVICE.replace('\n', "");
        report(
            &format!("if [ $1 = list ]; then echo '{{\"devices\":[{device}]}}'; exit; fi; {test}"),
            name,
        )
    }

    #[track_caller]
    fn refusal(report: &Report) -> &str {
        assert!(report.device.is_none() && report.missing.is_some(), "{report}");
        match &report.devices[0].verdict {
            Verdict::Refused(why) => why,
            other @ Verdict::Usable { .. } => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_driver_that_crashes_is_named_with_what_it_was_asked() {
        let report = tested("echo '{\"trying\":\"a loop\"}'; echo oh >&2; kill -SEGV $$", None);
        let why = refusal(&report);
        assert!(
            why.starts_with("N, driver D 1, fails at a loop: the worker ended (signal: 11"),
            "{why}"
        );
        assert!(why.ends_with("oh"), "{why}");
    }

    #[test]
    fn what_was_found_before_a_crash_stands() {
        let found = "echo '{\"found\":{\"usable\":{\"pointers\":false}}}'";
        let report = tested(&format!("{found}; echo '{{\"trying\":\"p\"}}'; kill -SEGV $$"), None);
        assert_eq!(report.device.as_deref(), Some("N"));
        assert_eq!(report.devices[0].verdict, Verdict::Usable { pointers: false });
    }

    #[test]
    fn a_worker_that_says_nothing_sensible_is_no_vulkan() {
        let said = report("echo nonsense; exit 3", None).missing.unwrap();
        assert!(said.contains("exit status: 3"), "{said}");
        let said = report("yes", None).missing.unwrap();
        assert!(said.contains("cannot be listed: it printed more than"), "{said}");
    }

    #[test]
    fn a_worker_that_closes_its_output_and_lives_on_is_killed_when_its_time_is_over() {
        let mut silent = Command::new("sh");
        silent.args(["-c", "exec >&-; exec sleep 1000"]).stdout(Stdio::piped());
        let mut silent = silent.spawn().unwrap();
        let patience = Duration::from_millis(300);
        let (printed, end) = read(&mut silent, patience).unwrap();
        silent.kill().unwrap();
        silent.wait().unwrap();
        assert_eq!((printed, end), (Vec::new(), Some(End::TookTooLong(patience))));
    }

    #[test]
    fn a_search_for_one_device_ends_at_the_first_that_is_usable() {
        let device = |name| DEVICE.replace('\n', "").replace("\"N\"", name);
        let [a, b, c] = ["\"A\"", "\"B\"", "\"C\""].map(device);
        let script = format!(
            "if [ $1 = list ]; then echo '{{\"devices\":[{a},{b},{c}]}}'; exit; fi; \
             [ $2 = 0 ] || echo '{{\"found\":{{\"usable\":{{\"pointers\":true}}}}}}'"
        );
        let start = || {
            let mut command = Command::new("sh");
            command.args(["-c", &script, "worker"]);
            Ok(command)
        };
        let report =
            probe(start, Search { name: None, gpus: true, first: true, patience: PATIENCE })
                .unwrap();
        assert_eq!(report.devices.len(), 2);
        assert_eq!(report.chosen().unwrap().0.index, 1);
    }

    #[test]
    fn a_real_gpu_is_tested_only_if_it_may_be_used() {
        let device = DEVICE.replace('\n', "").replace("cpu", "discrete-gpu");
        let script = format!(
            "if [ $1 = list ]; then echo '{{\"devices\":[{device}]}}'; exit; fi; \
             echo '{{\"found\":{{\"usable\":{{\"pointers\":false}}}}}}'"
        );
        let start = || {
            let mut command = Command::new("sh");
            command.args(["-c", &script, "worker"]);
            Ok(command)
        };
        let search = |gpus| Search { name: None, gpus, first: true, patience: PATIENCE };
        assert!(probe(start, search(true)).unwrap().chosen().is_some());
        let report = probe(start, search(false)).unwrap();
        assert!(refusal(&report).contains("adapter.kernels = \"gpu\""), "{report}");
    }

    #[test]
    fn a_device_is_chosen_by_a_part_of_its_name() {
        let usable = "echo '{\"found\":{\"usable\":{\"pointers\":true}}}'";
        assert!(tested(usable, Some("n")).device.is_some());
        let none = tested(usable, Some("other"));
        assert!(none.device.is_none() && none.devices.is_empty());
        assert!(none.missing.unwrap().ends_with("there is N"));
    }
}
