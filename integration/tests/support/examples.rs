// SPDX-License-Identifier: MIT OR Apache-2.0

//! The examples of `bellhop-guest-umd`, as programs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder of the checkout.
pub fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Cargo, as the tests themselves were built with it.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// An example's source.
pub fn example_source(name: &str) -> PathBuf {
    checkout().join("guest-umd/examples").join(name).with_extension("rs")
}

/// An example's program. It is there already where all of the workspace was built, as for all tests.
pub fn example(name: &str) -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut build = cargo();
        build.args(["build", "--workspace", "--locked", "--quiet", "--examples"]);
        let status = build.current_dir(checkout()).status().unwrap();
        assert!(status.success(), "cargo could not build the examples: {status}");
    });
    // Beside the folder `deps`, in which this test is.
    let tests = std::env::current_exe().unwrap();
    tests.ancestors().nth(2).unwrap().join("examples").join(name)
}

/// Copies a program. By a process of its own: where another thread starts a program meanwhile, one that this process has open
/// to write cannot be run.
pub fn copy_program(from: &Path, to: &Path) {
    super::run(Command::new("cp").args([from, to]));
}
