// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(
    clippy::disallowed_methods,
    reason = "files of the kernel in memory; the daemon's start, the manager of workers, and whoever inspects"
)]

//! The cgroups of workers, where the daemon was given a part of the tree to divide (cgroup-v2.rst, "Delegation").
//!
//! Linux has processes in the leaves of the tree alone ("No Internal Process Constraint"). So the daemon moves into a leaf,
//! and beside it are groups of workers: each is one guest's at a time, and bounds what that guest's workers take together.
//! Where there is no such part, workers have their resource limits, and nothing else.
//!
//! A page is charged to the group of the process that touches it first, and stays charged to it for as long as it exists.
//! Linux keeps a removed group for as long as anything is charged to it. A guest could so leave groups behind, one with each
//! connection; therefore the group of a guest that has gone is given to another one, with what is still charged to it on top
//! of what that guest may have.

use bellhop_protocol::snapshot::{Cgroup, Cgroups};
use rustix::fs::getxattr;
use rustix::process::geteuid;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// The controllers that groups use, as far as there are.
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];
/// The leaf with the daemon.
const DAEMON: &str = "daemon";
/// What the names of workers' groups begin with.
const WORKERS: &str = "workers-";
/// The daemon's weight beside each guest's workers, which have Linux's default of 100: engines and the control plane serve
/// everybody, and wait most of the time.
const DAEMONS_WEIGHT: u32 = 1000;

/// The daemon's part of the tree, once it is divided, or why there is none.
static DIVISION: OnceLock<Result<Division, String>> = OnceLock::new();

/// A part of the tree that is divided between the daemon and its workers.
#[derive(Debug)]
pub struct Division {
    folder: PathBuf,
    controllers: Vec<&'static str>,
    /// The number of the next group.
    next: AtomicU32,
}

/// What the workers of a guest may take together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Bytes.
    pub memory: u64,
    /// Threads.
    pub threads: u32,
}

/// A cgroup of workers. Dropping it removes it, if all its processes have ended.
#[derive(Debug)]
pub struct Group {
    folder: Arc<Path>,
    has_memory: bool,
    /// Bytes that its workers may have, with what is charged to it from before.
    allowed: u64,
    /// How many of its processes Linux had ended for want of memory when its guest got it.
    killed_before: u64,
}

/// A group as tools see it.
#[derive(Debug, Clone)]
pub struct Seen {
    folder: Arc<Path>,
    killed_before: u64,
}

/// Divides this process's part of the tree. Must be called before it starts others. Returns the controllers that groups have,
/// or why there are none.
///
/// # Errors
/// Text: why workers have no cgroups.
pub fn divide_own() -> Result<String, String> {
    let division = DIVISION.get_or_init(divide);
    division.as_ref().map(|division| division.controllers.join(", ")).map_err(String::clone)
}

fn divide() -> Result<Division, String> {
    let read = |path| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    let folder = folder_of(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?)?;
    if !is_delegated(&folder) {
        return Err(format!("{} was not delegated (Delegate= of a unit)", folder.display()));
    }
    Division::new(&folder, std::process::id())
}

/// This process's part of the tree, if it was divided.
pub fn division() -> Option<&'static Division> {
    DIVISION.get()?.as_ref().ok()
}

/// Whether this process has divided its part of the tree, for tools.
pub fn described() -> Cgroups {
    let controllers = |division: &Division| division.controllers.clone();
    let divided = DIVISION.get().map(|division| division.as_ref().map(controllers));
    cgroups(divided.unwrap_or(Ok(Vec::new())).map_err(String::clone))
}

/// What a service manager of this machine has to give a daemon, or why it has nothing.
#[must_use]
pub fn of_machine() -> Cgroups {
    cgroups(controllers_of_machine())
}

fn controllers_of_machine() -> Result<Vec<&'static str>, String> {
    let mounts = "/proc/self/mountinfo";
    let mounts = fs::read_to_string(mounts).map_err(|error| format!("{mounts}: {error}"))?;
    let top = folder_of("0::/", &mounts)?;
    let controllers = controllers(&top).map_err(|error| format!("{}: {error}", top.display()))?;
    Some(controllers).filter(|all| !all.is_empty()).ok_or_else(|| no_controller(&top))
}

fn cgroups(controllers: Result<Vec<&'static str>, String>) -> Cgroups {
    let (controllers, missing) = match controllers {
        Ok(controllers) => (controllers, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    Cgroups { controllers: controllers.into_iter().map(Into::into).collect(), missing }
}

/// Those of the controllers that groups use which a cgroup has.
fn controllers(folder: &Path) -> io::Result<Vec<&'static str>> {
    let there = fs::read_to_string(folder.join("cgroup.controllers"))?;
    let is_there = |name: &&str| there.split_whitespace().any(|other| other == *name);
    Ok(CONTROLLERS.into_iter().filter(is_there).collect())
}

fn no_controller(folder: &Path) -> String {
    format!("{} has none of the controllers {}", folder.display(), CONTROLLERS.join(", "))
}

/// Whether a cgroup is this process's to divide: systemd marked it so (systemd.resource-control(5), `Delegate=`), or it is
/// where somebody else's part of the tree ends and that of this process's user begins. Beyond that, a service manager of
/// this user may count on being the only one that divides.
fn is_delegated(folder: &Path) -> bool {
    let is_marked = ["user.delegate", "trusted.delegate"].iter().any(|name| {
        let mut value = [0_u8; 1];
        getxattr(folder, *name, &mut value).is_ok() && value == *b"1"
    });
    let is_own =
        |folder: &Path| fs::metadata(folder).is_ok_and(|folder| folder.uid() == geteuid().as_raw());
    is_marked || is_own(folder) && folder.parent().is_some_and(|parent| !is_own(parent))
}

/// The folder of the cgroup that `/proc/self/cgroup` names, by `/proc/self/mountinfo`.
fn folder_of(cgroup: &str, mountinfo: &str) -> Result<PathBuf, String> {
    let own = cgroup.lines().find_map(|line| line.strip_prefix("0::"));
    let own = own.ok_or("this process is in no cgroup of version 2")?;
    let mounted = mountinfo.lines().find_map(|line| {
        // proc_pid_mountinfo(5): the optional fields end with a hyphen, and the file system's type follows.
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let is_here = kind.starts_with("cgroup2 ");
        let path = Path::new(own).strip_prefix(root).ok().filter(|_| is_here)?;
        Some(Path::new(point).join(path))
    });
    mounted.ok_or_else(|| "no cgroups of version 2 are mounted where this process sees them".into())
}

fn write(folder: &Path, file: &str, value: impl ToString) -> io::Result<()> {
    fs::write(folder.join(file), value.to_string())
}

fn make(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => made?,
    }
    // Whatever the process's mask is: its owner must be able to enter it.
    fs::set_permissions(folder, Permissions::from_mode(0o755))
}

impl Division {
    /// Divides a cgroup whose only process is this one.
    fn new(folder: &Path, process: u32) -> Result<Self, String> {
        let said = |error: io::Error| format!("{}: {error}", folder.display());
        let read = |file| fs::read_to_string(folder.join(file)).map_err(said);
        let processes = read("cgroup.procs")?;
        if processes.split_whitespace().any(|other| other != process.to_string()) {
            return Err(format!("other processes are in {}", folder.display()));
        }
        let controllers = controllers(folder).map_err(said)?;
        if controllers.is_empty() {
            return Err(no_controller(folder));
        }
        let daemon = folder.join(DAEMON);
        make(&daemon).map_err(said)?;
        let enabled: Vec<_> = controllers.iter().map(|name| format!("+{name}")).collect();
        let divided = write(&daemon, "cgroup.procs", process)
            .and_then(|()| write(folder, "cgroup.subtree_control", enabled.join(" ")));
        if let Err(error) = divided {
            let _ = write(folder, "cgroup.procs", process);
            let _ = fs::remove_dir(&daemon);
            return Err(said(error));
        }
        let division = Self { folder: folder.to_owned(), controllers, next: AtomicU32::new(0) };
        if division.has("cpu") {
            write(&daemon, "cpu.weight", DAEMONS_WEIGHT).map_err(said)?;
        }
        // Of a daemon that died. Those with processes stay.
        for old in fs::read_dir(folder).map_err(said)?.flatten() {
            if old.file_name().to_string_lossy().starts_with(WORKERS) {
                let _ = fs::remove_dir(old.path());
            }
        }
        Ok(division)
    }

    fn has(&self, controller: &str) -> bool {
        self.controllers.contains(&controller)
    }

    /// Makes a group.
    ///
    /// # Errors
    /// If Linux refuses.
    pub fn group(&self, share: Share) -> io::Result<Group> {
        // Relaxed: only the uniqueness of the number matters.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.join(format!("{WORKERS}{number}"));
        make(&folder)?;
        let (has_memory, folder) = (self.has("memory"), Arc::<Path>::from(folder));
        // An earlier daemon may have left the folder.
        let killed_before = killed(&folder).unwrap_or(0);
        let mut group = Group { folder, has_memory, allowed: 0, killed_before };
        if group.has_memory {
            // The guest that took too much loses all its workers, and nobody else one.
            write(&group.folder, "memory.oom.group", 1)?;
            // What is swapped counts for no other limit. Without swap there is no such file.
            let _ = write(&group.folder, "memory.swap.max", 0);
        }
        if self.has("pids") {
            write(&group.folder, "pids.max", share.threads)?;
        }
        group.allow(share.memory)?;
        Ok(group)
    }
}

impl Group {
    /// Lets a process in, with all its threads.
    ///
    /// # Errors
    /// If Linux refuses.
    pub fn admit(&self, process: u32) -> io::Result<()> {
        write(&self.folder, "cgroup.procs", process)
    }

    /// Lets its workers have at least so much memory. Linux makes nobody wait: the limit never falls below what they have.
    ///
    /// # Errors
    /// If Linux refuses.
    pub fn allow(&mut self, memory: u64) -> io::Result<()> {
        if self.has_memory && memory > self.allowed {
            write(&self.folder, "memory.max", memory)?;
            self.allowed = memory;
        }
        Ok(())
    }

    /// Whether all its processes have ended.
    pub fn is_empty(&self) -> bool {
        let events = fs::read_to_string(self.folder.join("cgroup.events"));
        events.is_ok_and(|events| events.lines().any(|line| line == "populated 0"))
    }

    /// Ends all its processes: also those that a worker without its sandbox has started, which nobody else knows of. Before
    /// Linux 5.14 those go on, and the group is nobody's again.
    pub fn end_all(&self) {
        let _ = write(&self.folder, "cgroup.kill", 1);
    }

    /// What tools are shown.
    pub fn seen(&self) -> Seen {
        Seen { folder: Arc::clone(&self.folder), killed_before: self.killed_before }
    }

    /// A group without processes begins anew, for another guest.
    ///
    /// # Errors
    /// If Linux refuses.
    pub fn begin(&mut self, memory: u64) -> io::Result<()> {
        let charged = if self.has_memory {
            let text = fs::read_to_string(self.folder.join("memory.current"))?;
            text.trim().parse().map_err(io::Error::other)?
        } else {
            0_u64
        };
        self.killed_before = killed(&self.folder).unwrap_or(0);
        self.allowed = 0;
        self.allow(memory.saturating_add(charged))
    }
}

impl Seen {
    /// What is so now.
    pub fn describe(&self) -> Cgroup {
        let number = |file| number(&self.folder, file);
        Cgroup {
            path: self.folder.display().to_string(),
            memory: number("memory.current"),
            memory_limit: number("memory.max"),
            threads: number("pids.current"),
            threads_limit: number("pids.max"),
            weight: number("cpu.weight"),
            killed: killed(&self.folder).map(|all| all.saturating_sub(self.killed_before)),
        }
    }
}

/// The number in a file; none if there is no such file, or no limit.
fn number(folder: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
}

/// How many processes of a group Linux has ended for want of memory.
fn killed(folder: &Path) -> Option<u64> {
    let events = fs::read_to_string(folder.join("memory.events")).ok()?;
    events.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

impl Drop for Group {
    fn drop(&mut self) {
        // One with processes is removed when the daemon starts again, or with the daemon's part of the tree.
        let _ = fs::remove_dir(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 77;

    /// A folder that looks like a cgroup whose only process is this one.
    fn delegated(controllers: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cgroup.procs"), format!("{OWN}\n")).unwrap();
        fs::write(folder.path().join("cgroup.controllers"), controllers).unwrap();
        folder
    }

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    const SHARE: Share = Share { memory: 1000, threads: 5 };

    #[test]
    fn the_folder_of_a_cgroup_is_under_its_mount() {
        let mounts = "24 1 0:22 / /sys rw - sysfs sysfs rw\n\
                      30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        let folder = |cgroup, mounts| folder_of(cgroup, mounts).ok();
        let unit = Some("/sys/fs/cgroup/system.slice/bellhopd.service".into());
        assert_eq!(folder("0::/system.slice/bellhopd.service\n", mounts), unit);
        // Version 1 beside it; a mount of a part of the tree; another part.
        let hybrid = "4:memory:/a\n0::/b\n";
        assert_eq!(folder(hybrid, mounts), Some("/sys/fs/cgroup/b".into()));
        let part = mounts.replace("0:26 /", "0:26 /b");
        assert_eq!(folder("0::/b/c\n", &part), Some("/sys/fs/cgroup/c".into()));
        assert_eq!(folder("0::/c\n", &part), None);
        assert_eq!(folder("4:memory:/a\n", mounts), None);
        assert_eq!(folder("0::/\n", "24 1 0:22 / /sys rw - sysfs sysfs rw\n"), None);
    }

    #[test]
    fn the_daemon_moves_into_a_leaf_with_more_weight_than_a_guest_s_workers() {
        let folder = delegated("cpuset cpu io memory pids\n");
        let old = folder.path().join("workers-9");
        fs::create_dir(&old).unwrap();
        let division = Division::new(folder.path(), OWN).unwrap();
        assert_eq!(division.controllers, ["memory", "pids", "cpu"]);
        assert_eq!(read(&folder.path().join("cgroup.subtree_control")), "+memory +pids +cpu");
        assert_eq!(read(&folder.path().join("daemon/cgroup.procs")), "77");
        assert_eq!(read(&folder.path().join("daemon/cpu.weight")), "1000");
        assert!(!old.exists());
    }

    #[test]
    fn a_group_bounds_the_memory_and_the_threads_of_its_processes() {
        let folder = delegated("memory pids");
        let division = Division::new(folder.path(), OWN).unwrap();
        let mut group = division.group(SHARE).unwrap();
        let file = |name: &str| read(&folder.path().join("workers-0").join(name));
        assert_eq!((file("memory.max"), file("pids.max")), ("1000".into(), "5".into()));
        assert_eq!((file("memory.oom.group"), file("memory.swap.max")), ("1".into(), "0".into()));
        group.admit(78).unwrap();
        assert_eq!(file("cgroup.procs"), "78");
        // It rises with what the guest has, and falls only when it is another's.
        group.allow(3000).unwrap();
        group.allow(2000).unwrap();
        assert_eq!(file("memory.max"), "3000");
        fs::write(folder.path().join("workers-0/memory.current"), "500\n").unwrap();
        group.begin(1000).unwrap();
        assert_eq!(file("memory.max"), "1500");
        let events = folder.path().join("workers-0/cgroup.events");
        fs::write(&events, "populated 1\nfrozen 0\n").unwrap();
        assert!(!group.is_empty());
        fs::write(&events, "populated 0\nfrozen 0\n").unwrap();
        assert!(group.is_empty());
    }

    #[test]
    fn tools_see_what_linux_writes_of_a_group_since_its_guest_got_it() {
        let folder = delegated("memory pids cpu");
        let division = Division::new(folder.path(), OWN).unwrap();
        let mut group = division.group(SHARE).unwrap();
        let write = |file: &str, text: &str| {
            fs::write(folder.path().join("workers-0").join(file), text).unwrap();
        };
        let described = group.seen().describe();
        assert_eq!((described.memory_limit, described.threads_limit), (Some(1000), Some(5)));
        assert_eq!((described.memory, described.weight, described.killed), (None, None, None));
        write("memory.current", "500\n");
        write("pids.current", "3\n");
        write("pids.max", "max\n");
        write("cpu.weight", "100\n");
        write("memory.events", "oom 1\noom_kill 2\noom_group_kill 1\n");
        let expected = Cgroup {
            path: folder.path().join("workers-0").display().to_string(),
            memory: Some(500),
            memory_limit: Some(1000),
            threads: Some(3),
            threads_limit: None,
            weight: Some(100),
            killed: Some(2),
        };
        assert_eq!(group.seen().describe(), expected);
        group.begin(1000).unwrap();
        write("memory.events", "oom_kill 5\n");
        assert_eq!(group.seen().describe().killed, Some(3));
        group.end_all();
        assert_eq!(read(&folder.path().join("workers-0/cgroup.kill")), "1");
    }

    #[test]
    fn what_others_share_or_what_has_no_controllers_is_left_alone() {
        let shared = delegated("memory");
        fs::write(shared.path().join("cgroup.procs"), "77\n78\n").unwrap();
        let why = Division::new(shared.path(), OWN).unwrap_err();
        assert!(why.starts_with("other processes are in"), "{why}");
        let without = delegated("hugetlb");
        let why = Division::new(without.path(), OWN).unwrap_err();
        assert!(why.contains("none of the controllers memory, pids, cpu"), "{why}");
        for folder in [shared, without] {
            assert!(!folder.path().join("daemon").exists());
        }
    }

    #[test]
    fn a_division_that_linux_refuses_is_undone() {
        let folder = delegated("memory");
        // A folder in the place of the file: it cannot be written.
        fs::create_dir(folder.path().join("cgroup.subtree_control")).unwrap();
        assert!(Division::new(folder.path(), OWN).is_err());
        assert_eq!(read(&folder.path().join("cgroup.procs")), "77");
    }
}
