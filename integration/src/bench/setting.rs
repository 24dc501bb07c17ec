// SPDX-License-Identifier: MIT OR Apache-2.0

//! The daemon and the arguments of a suite.

use anyhow::Context;
use bellhop_guest::Guest;
use bellhop_guest::bench::{self, Suite};
use bellhop_guest::cli::{BenchArguments, PlaceArguments};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// A daemon, and how to measure it.
pub(super) struct Setting {
    /// The command line's arguments.
    pub(super) arguments: BenchArguments,
    /// Where shared memory is.
    pub(super) place: PlaceArguments,
    /// A socket for each guest.
    pub(super) sockets: Vec<PathBuf>,
    /// The daemon's control socket.
    pub(super) control: PathBuf,
    /// The words of the command line of the daemon's workers; none if they are this executable.
    pub(super) worker: Vec<OsString>,
    /// The daemon's process.
    pub(super) daemon: u32,
}

impl Setting {
    /// Connects a guest.
    pub(super) fn guest(&self, number: usize) -> anyhow::Result<Arc<dyn Guest>> {
        let socket = self.sockets.get(number).context("there are fewer sockets than guests")?;
        self.place.connect(socket)
    }

    /// The options to measure these suites with.
    pub(super) fn options(&self, suites: &[Suite]) -> bench::Options {
        let options = self.arguments.options(self.place.policy());
        let daemon = Some(self.daemon);
        bench::Options { suites: suites.to_vec(), daemon, places_daemon: true, ..options }
    }
}
