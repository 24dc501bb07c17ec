// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask rooms`: how the files of each crate depend on each other.
//!
//! Files are the nodes of a graph. An edge points from a file that names an item to the file that defines it.
//! Re-exports on the way, `mod` declarations and code for tests make no edges. Neither does a call of a method by
//! itself, so there is a second count, in which an edge also points from a file to the file with a method that it
//! calls: see [`methods`]. Three rules hold for every crate, with the floors of `rooms.toml`:
//!
//! - no circle of more than [`MOST_IN_CIRCLE`](circles::MOST_IN_CIRCLE) files, by either count. `rooms.toml` records the
//!   exact sizes of the larger circles by calls that there are: none grows, and what is gained is kept,
//! - no folder with more than [`MOST_IN_FOLDER`](figures::MOST_IN_FOLDER) source files beside each other,
//! - no edge from a lower floor to a higher one, nor between rooms of one floor.

mod calls;
mod circles;
mod edges;
mod figures;
mod floors;
mod methods;
mod modules;
mod report;
mod scan;

use cargo_metadata::{MetadataCommand, Package, Target};
use figures::Figures;
use floors::Table;
use std::path::{Path, PathBuf};

/// Prints the figures of all crates, or everything about the named ones, with all arrows if `with_arrows`.
///
/// # Errors
/// When a crate cannot be read, or no crate has a name.
pub fn print(names: &[String], with_arrows: bool) -> Result<(), String> {
    let figures = measure(&crate::workspace::root())?;
    for name in names {
        let short = |figures: &&Figures| figures.name == *name || short(&figures.name) == name;
        let named = figures.iter().find(short);
        let named = named.ok_or_else(|| format!("the workspace has no crate {name}"))?;
        print!("{}", report::all(named));
        if with_arrows {
            print!("{}", report::arrows(named));
        }
    }
    if names.is_empty() {
        print!("{}", report::table(&figures));
    }
    Ok(())
}

/// Checks every crate.
///
/// # Errors
/// When a rule is broken; the error says which and where.
pub fn check() -> Result<(), String> {
    let figures = measure(&crate::workspace::root())?;
    let broken: String = figures.iter().map(report::broken_rules).collect();
    if broken.is_empty() { Ok(()) } else { Err(format!("\n{broken}")) }
}

/// A crate's name without the workspace's common prefix.
fn short(name: &str) -> &str {
    name.strip_prefix("bellhop-").unwrap_or(name)
}

/// Measures every crate of the workspace.
fn measure(root: &Path) -> Result<Vec<Figures>, String> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .exec()
        .map_err(|error| format!("cannot read the workspace: {error}"))?;
    let mut table = Table::read(root)?;
    let mut packages: Vec<_> = metadata.workspace_packages();
    packages.sort_by_key(|package| &package.name);
    let figures = packages.into_iter().map(|package| {
        let floors = table.crates.remove(package.name.as_str());
        let folder = package.manifest_path.parent().map_or("".into(), |folder| folder.join("src"));
        let recorded = table.circles_by_calls.remove(package.name.as_str()).unwrap_or_default();
        let (name, folder) = (package.name.as_str(), folder.as_std_path());
        Figures::of(name, folder, &roots(package), floors.as_ref(), recorded)
    });
    let figures = figures.collect::<Result<Vec<_>, String>>()?;
    match table.crates.keys().chain(table.circles_by_calls.keys()).next() {
        None => Ok(figures),
        Some(name) => Err(format!("{}: the workspace has no crate {name}", floors::FILE)),
    }
}

/// The root files of a crate's library and programs.
fn roots(package: &Package) -> Vec<PathBuf> {
    let is_built = |target: &&Target| target.is_lib() || target.is_rlib() || target.is_bin();
    let built = package.targets.iter().filter(is_built);
    built.map(|target| target.src_path.clone().into_std_path_buf()).collect()
}

#[cfg(test)]
mod tests;
