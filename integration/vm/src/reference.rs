// SPDX-License-Identifier: MIT OR Apache-2.0

//! Debian's reference decoder of AV1, which tests compare pictures with.

use crate::packages::unpacked::Unpacked;
use anyhow::ensure;
use std::path::Path;
use std::process::Command;

/// Debian's package.
pub const PACKAGE: &str = "dav1d";
/// The program in it.
const PROGRAM: &str = "usr/bin/dav1d";

/// A package of Debian with files of AV1 among its samples: AVIF, a picture and a sequence.
pub const SAMPLES: &str = "golang-github-gabriel-vasile-mimetype-dev";
/// Its folder of samples.
pub const SAMPLES_FOLDER: &str = "usr/share/gocode/src/github.com/gabriel-vasile/mimetype/testdata";

/// dav1d, with the libraries of its release.
#[derive(Debug)]
pub struct Dav1d {
    packages: Unpacked,
}

impl Dav1d {
    /// Takes the program in a folder of unpacked packages.
    ///
    /// # Errors
    /// When it is not there.
    pub fn unpacked(root: &Path) -> anyhow::Result<Self> {
        ensure!(root.join(PROGRAM).is_file(), "Debian's {PACKAGE} has no {PROGRAM}");
        Ok(Self { packages: Unpacked::new(root) })
    }

    /// The command that starts it.
    #[must_use]
    pub fn command(&self) -> Command {
        self.packages.command(&self.packages.path(PROGRAM))
    }
}
