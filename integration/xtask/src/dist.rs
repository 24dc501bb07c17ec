// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask dist`: the packages that people install, in `target/dist`.
//!
//! `bellhop-package` lays out one tree of files. The archive and the Debian package both contain it; each is
//! opened again and compared with the tree.

use crate::command::{cargo, exists, has_assembler, output, run};
use crate::tree::Tree;
use crate::workspace::root;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The version of `cargo-deb`, which cargo installs below `target/tools`.
const CARGO_DEB: &str = "3.8.0";

/// The variable that tells a build its commit; `--version` prints it.
const COMMIT: &str = "BELLHOP_COMMIT";

/// The output folder.
fn folder() -> PathBuf {
    root().join("target/dist")
}

fn tree() -> PathBuf {
    folder().join("tree")
}

/// Builds the programs of the host.
pub fn programs() -> Result<(), String> {
    let packages = ["bellhop-device", "bellhop-integration", "bellhop-vulkan", "bellhop-worker"];
    let mut build = cargo(&["build", "--locked", "--release"]);
    build.args(packages.map(|package| format!("--package={package}"))).env(COMMIT, commit()?);
    if has_assembler() {
        build.args(["--features", "bellhop-integration/assembly,bellhop-worker/assembly"]);
    }
    run(&mut build)
}

/// Lays out the tree anew, without files of an earlier version.
pub fn lay_out() -> Result<(), String> {
    empty(&folder())?;
    let package = ["run", "--locked", "--quiet", "--package", "bellhop-package", "--"];
    let mut lay_out = cargo(&package);
    lay_out.arg(tree()).arg("--programs").arg(root().join("target/release"));
    // `bellhop-package` builds the program for guests.
    run(lay_out.env(COMMIT, commit()?))
}

/// Makes the archive for any distribution.
pub fn archive() -> Result<(), String> {
    let name = format!("bellhop-{VERSION}-x86_64-linux");
    let archive = folder().join(format!("{name}.tar.gz"));
    run(Command::new("tar")
        .args(["--create", "--gzip", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
        .arg(format!("--mtime=@{}", date()?))
        // The flags leave the targets of links unchanged.
        .arg(format!("--transform=flags=rSH;s,^\\.,{name},"))
        .arg("--file")
        .arg(&archive)
        .arg("--directory")
        .arg(tree())
        .arg("."))?;
    let opened = folder().join("opened");
    empty(&opened)?;
    run(Command::new("tar")
        .args(["--extract", "--preserve-permissions", "--strip-components=1", "--file"])
        .arg(&archive)
        .arg("--directory")
        .arg(&opened))?;
    Tree::read(&tree())?.must_be_in(&Tree::read(&opened)?, &archive)?;
    remove(&opened)?;
    println!("{}", archive.display());
    Ok(())
}

/// Makes the Debian package; `cargo-deb` prints its path.
pub fn debian_package() -> Result<(), String> {
    let tools = root().join("target/tools");
    let install = ["install", "cargo-deb", "--locked", "--quiet", "--version", CARGO_DEB, "--root"];
    run(cargo(&install).arg(&tools))?;
    let package = folder().join(format!("bellhop_{VERSION}_amd64.deb"));
    run(Command::new(tools.join("bin/cargo-deb"))
        // The programs keep their line tables, for backtraces. Quiet, because `cargo-deb` would warn that it adds no
        // unit files: they are in the tree.
        .args(["--package", "bellhop-package", "--no-build", "--no-strip", "--locked", "--quiet"])
        .args(["--deb-revision", "", "--output"])
        .arg(&package)
        .env("SOURCE_DATE_EPOCH", date()?)
        .current_dir(root()))?;
    check_debian_package(&package)
}

/// Checks the package with Debian's own tool.
fn check_debian_package(package: &Path) -> Result<(), String> {
    if !exists("dpkg-deb") {
        println!("without dpkg-deb: the content of the package is not checked");
        return Ok(());
    }
    let opened = folder().join("opened");
    run(Command::new("dpkg-deb").arg("--raw-extract").arg(package).arg(&opened))?;
    let expected = [
        ("control", "Package: bellhop\n"),
        ("control", "libc6"),
        ("conffiles", "/etc/bellhop/bellhop.toml\n"),
        ("postinst", "systemd-sysusers"),
        ("postinst", "deb-systemd-helper enable bellhopd.socket"),
        ("prerm", "deb-systemd-invoke stop"),
    ];
    for (name, text) in expected {
        let path = opened.join("DEBIAN").join(name);
        if !fs::read_to_string(&path).is_ok_and(|control| control.contains(text)) {
            return Err(format!("{name} of {} lacks {text:?}", package.display()));
        }
    }
    Tree::read(&tree())?.must_be_in(&Tree::read(&opened)?, package)?;
    remove(&opened)
}

/// The commit of the sources.
fn commit() -> Result<String, String> {
    if let Ok(commit) = std::env::var(COMMIT) {
        return Ok(commit);
    }
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]);
    let commit = output(git.current_dir(root()))
        .map_err(|error| format!("{error}; outside a checkout, set {COMMIT}"))?;
    Ok(commit.trim().to_owned())
}

/// The time of the last commit, for files in packages, so that packages are reproducible.
fn date() -> Result<String, String> {
    if let Ok(date) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(date);
    }
    let log = output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()));
    let date =
        log.map_err(|error| format!("{error}; outside a checkout, set SOURCE_DATE_EPOCH"))?;
    Ok(date.trim().to_owned())
}

fn empty(folder: &Path) -> Result<(), String> {
    remove(folder)?;
    fs::create_dir_all(folder)
        .map_err(|error| format!("cannot create {}: {error}", folder.display()))
}

fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}
