// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program of somebody else's: a crate outside the workspace that depends on `bellhop-guest-umd` alone.

use super::examples::{cargo, checkout, copy_program, example_source};
use super::run;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The document that tells people how to write one.
const DOCUMENT: &str = include_str!("../../../docs/programs.md");
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The examples that it has, too.
const EXAMPLES: [&str; 2] = ["compositor", "copy"];

/// A program as the document has it, and examples, all without libraries that a container or a VM would need.
pub struct Stranger {
    programs: PathBuf,
    _folder: TempDir,
}

/// Where the stranger has the library from.
pub enum Source {
    /// The checkout's folder.
    Path,
    /// A repository, as the checkout would be committed now.
    Git,
}

impl Stranger {
    /// Writes the crate and builds it.
    pub fn build(source: &Source) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (name, from) = match source {
            Source::Path => {
                ("by-path", format!("path = {:?}", checkout().join("guest-umd").to_str().unwrap()))
            }
            Source::Git => {
                let repository = at("bellhop");
                commit_checkout(&repository);
                ("by-git", format!("git = \"file://{}\"", repository.display()))
            }
        };
        fs::create_dir_all(at("src/bin")).unwrap();
        let manifest = format!(
            "[package]\nname = \"{name}\"\nedition = \"2024\"\n\n[dependencies]\nbellhop-guest-umd = {{ {from} }}\n\n[workspace]\n"
        );
        fs::write(at("Cargo.toml"), manifest).unwrap();
        fs::write(at("src/main.rs"), first_program()).unwrap();
        for example in EXAMPLES {
            let copied = at("src/bin").join(example).with_extension("rs");
            fs::copy(example_source(example), copied).unwrap();
        }
        // The versions that the workspace was tested with.
        fs::copy(checkout().join("Cargo.lock"), at("Cargo.lock")).unwrap();

        let target = checkout().join("target/stranger");
        // Until the programs are copied: another test's would take their places.
        fs::create_dir_all(&target).unwrap();
        let lock = File::create(target.join("stranger.lock")).unwrap();
        lock.lock().unwrap();
        let mut build = cargo();
        build.args(["build", "--quiet", "--target", TARGET, "--target-dir"]).arg(&target);
        build
            .env("RUSTFLAGS", "-C target-feature=+crt-static")
            .env_remove("CARGO_ENCODED_RUSTFLAGS");
        run(build.current_dir(folder.path()));
        let programs = at("programs");
        fs::create_dir(&programs).unwrap();
        let of_examples = EXAMPLES.map(|example| (example, example));
        for (program, copied) in of_examples.into_iter().chain([(name, "first")]) {
            let built = target.join(TARGET).join("debug").join(program);
            copy_program(&built, &programs.join(copied));
        }
        Self { programs, _folder: folder }
    }

    /// The program of the document.
    pub fn first(&self) -> PathBuf {
        self.programs.join("first")
    }

    /// The example `copy`.
    pub fn copy(&self) -> PathBuf {
        self.programs.join("copy")
    }

    /// The example `compositor`.
    pub fn compositor(&self) -> PathBuf {
        self.programs.join("compositor")
    }
}

/// The program that the document has: its one block of Rust with a `main`.
fn first_program() -> &'static str {
    let blocks = DOCUMENT.split("```rust\n").skip(1);
    let mut programs = blocks.map(|block| block.split_once("```").unwrap().0);
    programs.find(|program| program.contains("fn main()")).unwrap()
}

/// Makes a repository of what git would commit of the checkout now.
fn commit_checkout(repository: &Path) {
    let mut list = Command::new("git");
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let files = run(list.current_dir(checkout()));
    for file in files.split_terminator('\0') {
        let (from, to) = (checkout().join(file), repository.join(file));
        // A file that is deleted and not committed is still listed.
        if from.is_file() {
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(from, to).unwrap();
        }
    }
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]).args(arguments);
        run(git.current_dir(repository));
    };
    git(&["init", "--quiet"]);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "As it is now"]);
}
