// SPDX-License-Identifier: MIT OR Apache-2.0

//! What an administrator of the guest wants to happen: the executable files of a folder, one after another, in the order
//! of their names. Each has a bounded time, and so have all of an event together. A failure is told, and stops nothing.

use crate::output::note;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, kill_process_group, pidfd_open};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Where hooks find programs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How long all hooks of an event may take together: who asked waits for ten seconds.
const ALL: Duration = Duration::from_secs(8);
/// Most files of the folder that are looked at.
const MOST: usize = 64;

/// An event, as hooks see it.
#[derive(Debug, Clone, Default)]
pub struct Occasion {
    /// The hook's name: its first argument, and `BELLHOP_EVENT`.
    pub name: &'static str,
    /// What it is about: the second argument.
    pub about: String,
    /// Further variables of the environment.
    pub variables: Vec<(&'static str, String)>,
}

/// A folder of hooks.
#[derive(Debug, Clone)]
pub struct Hooks {
    folder: Option<PathBuf>,
    timeout: Duration,
}

/// How a hook ended badly.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("it cannot be started: {0}")]
    Start(#[from] io::Error),
    #[error("it ended with {0}")]
    Ended(ExitStatus),
    #[error("it took longer than {0:?}, and was killed")]
    TooSlow(Duration),
}

impl Hooks {
    /// The hooks of a folder, each of which may take this long. Without a folder there are none.
    #[must_use]
    pub fn new(folder: Option<PathBuf>, timeout: Duration) -> Self {
        Self { folder, timeout }
    }

    /// Runs the hooks for an event. Returns how many succeeded.
    pub fn run(&self, occasion: &Occasion) -> usize {
        let Some(folder) = &self.folder else { return 0 };
        let files = match files(folder) {
            Ok(files) => files,
            Err(error) => {
                note(format_args!("cannot read the hooks in {}: {error}", folder.display()));
                return 0;
            }
        };
        let end = Instant::now() + ALL;
        let mut succeeded = 0;
        for file in files {
            let left = end.saturating_duration_since(Instant::now()).min(self.timeout);
            match run(&file, occasion, left) {
                Ok(()) => succeeded += 1,
                Err(failure) => {
                    note(format_args!("hook {} for {}: {failure}", file.display(), occasion.name));
                }
            }
        }
        succeeded
    }
}

/// Refuses a folder in which, or in place of which, another user could put files: what is checked of a file would say
/// nothing of what is then run. Returns it without links.
fn check_folder(folder: &Path) -> io::Result<PathBuf> {
    let folder = folder.canonicalize()?;
    for ancestor in folder.ancestors() {
        let metadata = fs::metadata(ancestor)?;
        // In a folder with the sticky bit, such as /tmp, nobody takes another user's folder away.
        let is_inside = ancestor != folder && metadata.mode() & 0o1000 != 0;
        let why = match owner_refusal(&metadata) {
            Some(why) => why,
            None if metadata.mode() & 0o022 != 0 && !is_inside => OTHERS_WRITE,
            None => continue,
        };
        let why = format!("no hook is run, since of {}: {why}", ancestor.display());
        return Err(io::Error::other(why));
    }
    Ok(folder)
}

const OTHERS_WRITE: &str = "others may write it; take that away with chmod go-w";

fn owner_refusal(metadata: &Metadata) -> Option<&'static str> {
    let is_ours = metadata.uid() == 0 || metadata.uid() == geteuid().as_raw();
    (!is_ours).then_some("it belongs to another user; give it to root")
}

/// The files to run, by name.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(check_folder(folder)?)?.take(MOST) {
        let path = entry?.path();
        let is_hidden =
            path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        if is_hidden {
            continue;
        }
        match fs::symlink_metadata(&path).map(|metadata| refusal(&metadata)) {
            Ok(Ok(true)) => files.push(path),
            Ok(Ok(false)) => {}
            Ok(Err(why)) => note(format_args!("hook {} is not run: {why}", path.display())),
            Err(error) => note(format_args!("hook {} is not run: {error}", path.display())),
        }
    }
    files.sort();
    Ok(files)
}

/// Whether a file is a hook. An error says why it must not be run.
fn refusal(metadata: &Metadata) -> Result<bool, &'static str> {
    let mode = metadata.mode();
    if metadata.is_symlink() {
        return Err(
            "it is a link, which may lead to where others write; put the file itself there",
        );
    }
    if !metadata.is_file() || mode & 0o111 == 0 {
        return Ok(false);
    }
    match owner_refusal(metadata) {
        Some(why) => Err(why),
        None if mode & 0o022 != 0 => Err(OTHERS_WRITE),
        None => Ok(true),
    }
}

fn run(file: &Path, occasion: &Occasion, timeout: Duration) -> Result<(), Failure> {
    let Occasion { name, about, variables } = occasion;
    let mut command = Command::new(file);
    command.arg(name).arg(about).env_clear().env("PATH", PATH).env("BELLHOP_EVENT", name);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    // A group of its own, so that what it started ends with it.
    let mut child = command.stdin(Stdio::null()).process_group(0).spawn()?;
    let ended = wait(&mut child, timeout);
    if ended.is_err() {
        let group = Pid::from_child(&child);
        // It may have ended just now.
        let _ = kill_process_group(group, Signal::KILL);
        let _ = child.wait();
    }
    match ended? {
        status if status.success() => Ok(()),
        status => Err(Failure::Ended(status)),
    }
}

/// Waits until a child ends.
fn wait(child: &mut Child, timeout: Duration) -> Result<ExitStatus, Failure> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty());
    let process = process.map_err(io::Error::from)?;
    let mut waited = [PollFd::new(&process, PollFlags::IN)];
    let until = Timespec::try_from(timeout).map_err(|_| io::Error::other("no such time"))?;
    match rustix::io::retry_on_intr(|| poll(&mut waited, Some(&until))).map_err(io::Error::from)? {
        0 => Err(Failure::TooSlow(timeout)),
        _ => Ok(child.wait()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn put(folder: &Path, name: &str, script: &str, mode: u32) {
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn hooks(folder: &Path) -> Hooks {
        Hooks::new(Some(folder.to_owned()), Duration::from_millis(500))
    }

    #[test]
    fn hooks_run_by_name_with_their_arguments_and_nothing_of_the_environment() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let script = |mark: &str| {
            let out = out.display();
            format!("echo {mark} $1 \"$2\" $BELLHOP_EVENT $BELLHOP_MODE $HOME >> {out}")
        };
        put(folder.path(), "20-b", &script("b"), 0o755);
        put(folder.path(), "10-a", &script("a"), 0o700);
        put(folder.path(), ".hidden", &script("hidden"), 0o755);
        put(folder.path(), "notes", &script("notes"), 0o644);
        let variables = vec![("BELLHOP_MODE", "640x480".to_owned())];
        let occasion = Occasion { name: "topology", about: "two words".into(), variables };
        assert_eq!(hooks(folder.path()).run(&occasion), 2);
        let expected =
            ["a", "b"].map(|mark| format!("{mark} topology two words topology 640x480\n"));
        assert_eq!(fs::read_to_string(out).unwrap(), expected.concat());
    }

    #[test]
    fn a_hook_that_fails_or_hangs_or_others_may_write_stops_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        put(folder.path(), "1-fails", "exit 3", 0o755);
        put(folder.path(), "2-hangs", "sleep 600 & wait", 0o755);
        put(folder.path(), "3-written-by-all", "touch ${0%/*}/never", 0o777);
        put(folder.path(), "4-no-program", "", 0o755);
        fs::write(folder.path().join("4-no-program"), "#!/no/such/interpreter\n").unwrap();
        put(folder.path(), "5-works", &format!("echo done > {}", out.display()), 0o755);
        let began = Instant::now();
        assert_eq!(hooks(folder.path()).run(&Occasion { name: "stop", ..Occasion::default() }), 1);
        assert!(out.exists() && !folder.path().join("never").exists());
        // The one that hangs has its time, and not ten minutes.
        assert!(began.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn a_link_is_not_followed() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let out = folder.path().join("out");
        put(elsewhere.path(), "hook", &format!("echo ran > {}", out.display()), 0o755);
        symlink(elsewhere.path().join("hook"), folder.path().join("hook")).unwrap();
        assert_eq!(hooks(folder.path()).run(&Occasion::default()), 0);
        assert!(!out.exists());
    }

    #[test]
    fn a_folder_that_others_may_write_or_replace_has_no_hooks() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("hooks.d");
        fs::create_dir(&folder).unwrap();
        put(&folder, "hook", "true", 0o755);
        let link = outer.path().join("link");
        symlink(&folder, &link).unwrap();
        let ran = |outer_mode: u32, mode: u32| {
            fs::set_permissions(outer.path(), Permissions::from_mode(outer_mode)).unwrap();
            fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
            [&folder, &link].map(|folder| hooks(folder).run(&Occasion::default()))
        };
        assert_eq!(ran(0o700, 0o755), [1, 1]);
        assert_eq!(ran(0o1777, 0o755), [1, 1]);
        for (outer_mode, mode) in
            [(0o700, 0o777), (0o700, 0o775), (0o700, 0o1777), (0o777, 0o755), (0o720, 0o755)]
        {
            assert_eq!(ran(outer_mode, mode), [0, 0], "{outer_mode:o}, {mode:o}");
        }
    }

    #[test]
    fn without_a_folder_nothing_runs() {
        let none = Hooks::new(None, ALL);
        assert_eq!(none.run(&Occasion::default()), 0);
        assert_eq!(hooks(Path::new("/no/such/folder")).run(&Occasion::default()), 0);
    }
}
