// SPDX-License-Identifier: MIT OR Apache-2.0

//! A container with a guest in it.

use super::engine::{self, Engine, Host};
use super::program::Program;
use super::socket::{self, Access};
use super::{SOCKET_IN_CONTAINER, SOCKET_VARIABLE, image};
use crate::hosted::{self, Outcome};
use anyhow::{Context, bail, ensure};
use bellhop_guest::cli::CarriedFile;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::Child;

/// The guest to run.
pub struct Guest {
    /// The device's socket, on the host.
    pub socket: PathBuf,
    /// The container's memory limit, as podman reads it.
    pub memory: Option<String>,
    /// Files that are to be in the container.
    pub files: Vec<CarriedFile>,
    /// What runs in it.
    pub payload: Payload,
}

/// What runs in a container.
#[derive(Debug)]
pub enum Payload {
    /// `bellhop-guest` with these arguments.
    Task(Vec<OsString>),
    /// A program with the Vulkan driver.
    Program(Program),
}

/// Options that take away everything that a guest does not need.
const CONFINEMENT: [&str; 14] = [
    "--network",
    "none",
    "--read-only",
    // No writable folders, not even in memory.
    "--read-only-tmpfs=false",
    "--cap-drop",
    "all",
    "--security-opt",
    "no-new-privileges",
    // Podman as root requests more than a process without CAP_SYS_RESOURCE may grant; a guest needs far less.
    "--ulimit",
    "nofile=1024:1024",
    "--ulimit",
    "nproc=4096:4096",
    // bellhop passes on the guest's output; podman need not keep it.
    "--log-driver",
    "none",
];

impl Guest {
    /// The podman command that runs the guest.
    ///
    /// # Errors
    /// When the host does not support an option.
    pub fn command_line(&self, engine: &Engine) -> anyhow::Result<Vec<OsString>> {
        let mut line = engine.line();
        line.extend(["run".into(), "--rm".into()]);
        line.extend(self.arguments(engine.host())?);
        Ok(line)
    }

    /// The arguments of `podman run`.
    fn arguments(&self, host: &Host) -> anyhow::Result<Vec<OsString>> {
        let mut arguments: Vec<OsString> = CONFINEMENT.map(OsString::from).to_vec();
        if host.selinux {
            arguments.extend(["--security-opt".into(), "label=disable".into()]);
        }
        if let Some(memory) = &self.memory {
            ensure!(
                host.limits_memory,
                "this user cannot limit memory, podman has no memory controller here; run as \
                 root, or have systemd delegate it (Delegate=memory in user@.service)"
            );
            arguments.extend(["--memory".into(), memory.into()]);
        }
        if let Access::Group(group) = socket::access(&self.socket)? {
            ensure!(
                !host.rootless,
                "a container without root is not in group {group}, which may connect to {}; run \
                 as root, or let everybody connect with SocketMode=0666",
                self.socket.display()
            );
            arguments.extend(["--group-add".into(), group.to_string().into()]);
        }
        // The guest cannot replace the socket, and connecting changes no file.
        arguments.extend(mount(&self.socket, Path::new(SOCKET_IN_CONTAINER)));
        for file in &self.files {
            let has_comma = file.path.as_os_str().as_encoded_bytes().contains(&b',');
            ensure!(!has_comma, "podman takes no name with a comma: {}", file.path.display());
            arguments.extend(mount(&file.path, &file.in_guest()));
        }
        let variable = format!("{SOCKET_VARIABLE}={SOCKET_IN_CONTAINER}");
        arguments.extend(["--env".into(), variable.into()]);
        match &self.payload {
            Payload::Task(task) => {
                arguments.extend(["--pull".into(), "never".into(), image::NAME.into()]);
                arguments.extend_from_slice(task);
            }
            Payload::Program(program) => arguments.extend(program.arguments()),
        }
        Ok(arguments)
    }
}

/// The option that has a path of the host's in the container, to read from.
pub(super) fn mount(source: &Path, destination: &Path) -> [OsString; 2] {
    let mut mount = OsString::from("type=bind,source=");
    mount.push(source);
    mount.push(",destination=");
    mount.push(destination);
    mount.push(",ro");
    ["--mount".into(), mount]
}

/// A running container.
pub struct Container<'a> {
    engine: &'a Engine,
    podman: Child,
    /// Its name, which no other container has.
    name: OsString,
    /// The file with the process id of podman's monitor.
    monitor: PathBuf,
    memory: Option<String>,
}

impl<'a> Container<'a> {
    /// Starts a container. Its output goes to `output`, or to standard output.
    ///
    /// # Errors
    /// When the host does not support an option, or podman cannot be started.
    pub fn start(
        engine: &'a Engine,
        guest: Guest,
        output: Option<File>,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let monitor = folder.join("monitor.pid");
        let name = name(folder);
        let podman = engine
            .command()
            .stdout(output.map_or_else(Stdio::inherit, Stdio::from))
            .args(["run", "--rm", "--name"])
            .arg(&name)
            .arg("--conmon-pidfile")
            .arg(&monitor)
            .args(guest.arguments(engine.host())?)
            // Podman's monitor may leave a file in its current folder when the kernel kills the container.
            .current_dir(folder)
            .spawn()
            .context("cannot start podman")?;
        Ok(Self { engine, podman, name, monitor, memory: guest.memory })
    }

    /// Waits until the guest has ended.
    ///
    /// # Errors
    /// When it did not run, or something killed it.
    pub async fn ended(&mut self) -> anyhow::Result<Outcome> {
        // Podman exits with the guest's status, or with an error status of podman itself.
        let status = self.podman.wait().await?;
        match (status.code(), &self.memory) {
            (Some(0), _) => Ok(Outcome::Succeeded),
            (Some(125..=127), _) => bail!("podman cannot run the container ({status}), see above"),
            (Some(137), Some(limit)) => bail!(
                "the container was killed, most likely by the kernel, as its guest needs more \
                 than --memory {limit}"
            ),
            (Some(137), None) => bail!("the container was killed"),
            _ => Ok(hosted::outcome(status)),
        }
    }

    /// Ends the container, if it has not ended, and waits until nothing uses its storage any more.
    ///
    /// # Errors
    /// When podman fails.
    pub async fn end(mut self) -> anyhow::Result<()> {
        if let Some(pid) = self.podman.id().and_then(|id| Pid::from_raw(id as i32)) {
            // If podman has not started the container yet, the signal ends podman. Otherwise podman only passes the
            // signal on, to a process that ignores it.
            kill_process(pid, Signal::TERM).context("cannot end podman")?;
            self.remove().await?;
            self.podman.wait().await?;
            // Podman may have started the container in the meantime.
            self.remove().await?;
        }
        self.monitor_ended().await
    }

    async fn remove(&self) -> anyhow::Result<()> {
        let mut podman = self.engine.command();
        podman.args(["rm", "--force", "--ignore", "--time=0"]).arg(&self.name);
        engine::output(&mut podman).await.context("cannot remove the container").map(drop)
    }

    /// Waits for the monitor: it cleans up after podman has ended, and needs the storage for that.
    async fn monitor_ended(&self) -> anyhow::Result<()> {
        // Podman may have ended before it started a monitor.
        let Ok(number) = std::fs::read_to_string(&self.monitor) else { return Ok(()) };
        let pid = number.trim().parse().ok().and_then(Pid::from_raw);
        let pid =
            pid.with_context(|| format!("cannot parse the PID of podman's monitor: {number:?}"))?;
        let monitor = match pidfd_open(pid, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Ok(()),
            monitor => monitor.context("cannot find podman's monitor")?,
        };
        let ended = move || poll(&mut [PollFd::new(&monitor, PollFlags::IN)], None);
        tokio::task::spawn_blocking(ended).await?.context("cannot wait for podman's monitor")?;
        Ok(())
    }
}

/// A name for the container of a run in this folder.
fn name(folder: &Path) -> OsString {
    let mut name = OsString::from("bellhop");
    if let Some(folder) = folder.file_name().and_then(|folder| folder.to_str()) {
        let fits = |letter: &char| letter.is_ascii_alphanumeric();
        name.push("-");
        name.push(folder.chars().filter(fits).collect::<String>());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::super::engine::tests::host;
    use super::*;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    /// The options for a socket of this mode, in one line.
    fn options(mode: u32, memory: Option<&str>, host: &Host) -> anyhow::Result<String> {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("gpu.sock");
        let _listener = UnixListener::bind(&socket).unwrap();
        set_permissions(&socket, Permissions::from_mode(mode)).unwrap();
        let guest = Guest {
            socket,
            memory: memory.map(str::to_owned),
            files: vec![CarriedFile { path: "/a/k.spv".into(), name: "other-k.spv".into() }],
            payload: Payload::Task(vec!["selftest".into()]),
        };
        let words = guest.arguments(host)?;
        Ok(words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn everything_but_the_socket_and_the_task_s_files_is_taken_away() {
        let options = options(0o666, None, &host()).unwrap();
        for option in CONFINEMENT {
            assert!(options.contains(option), "{options} lacks {option}");
        }
        // Nothing of the host's but these, to read from.
        assert_eq!(options.matches("--mount").count(), 2);
        assert!(options.contains("gpu.sock,destination=/run/bellhop/gpu.sock,ro"));
        assert!(options.contains("source=/a/k.spv,destination=/files/other-k.spv,ro"));
        assert!(!options.contains("group-add") && !options.contains("label"));
        assert!(options.ends_with("localhost/bellhop-guest selftest"));
    }

    #[test]
    fn a_group_that_may_connect_is_given_to_a_container_of_root_only() {
        assert!(options(0o660, None, &host()).unwrap().contains("--group-add "));
        let rootless = Host { rootless: true, ..host() };
        let error = options(0o660, None, &rootless).unwrap_err().to_string();
        assert!(error.contains("SocketMode=0666"), "{error}");
        assert!(options(0o666, None, &rootless).is_ok());
    }

    #[test]
    fn a_memory_limit_is_never_ignored() {
        assert!(options(0o666, Some("64m"), &host()).unwrap().contains("--memory 64m"));
        let without = Host { limits_memory: false, ..host() };
        let error = options(0o666, Some("64m"), &without).unwrap_err().to_string();
        assert!(error.contains("Delegate=memory"), "{error}");
        assert!(options(0o666, None, &without).is_ok());
    }

    #[test]
    fn selinux_lets_the_socket_through() {
        let confined = Host { selinux: true, ..host() };
        assert!(options(0o666, None, &confined).unwrap().contains("label=disable"));
    }
}
