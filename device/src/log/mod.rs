//! The log: where it goes, and how much of it each guest can fill.
//!
//! A guest can have lines logged, by its requests, its rings and its VMM's messages. So lines are counted
//! for the socket that it came by, whichever thread logs them and however often it comes again, and those
//! beyond its share are left out. [`LogSource`] is that socket.

mod limit;
mod source;

pub use limit::{LineLimit, report_suppressed};
pub use source::LogSource;

use anyhow::Context;
use std::io::{IsTerminal, stderr};
use std::os::fd::AsFd;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts the log of this process: to the journal if systemd has connected that, else to standard error.
/// `filter` is one of `tracing-subscriber`, unless `BELLHOP_LOG` has another.
///
/// # Errors
/// When the filter cannot be read, or there is a log already.
pub fn start(filter: &str, limit: LineLimit) -> anyhow::Result<()> {
    let filter = std::env::var("BELLHOP_LOG").unwrap_or_else(|_| filter.to_owned());
    let filter = EnvFilter::try_new(&filter)
        .with_context(|| format!("log filter {filter:?} cannot be read; try \"info\""))?;
    let log = tracing_subscriber::registry().with(filter).with(limit);
    let announced = std::env::var("JOURNAL_STREAM").ok();
    let started = if announced.is_some_and(|journal| is_stream(&journal, stderr())) {
        // With levels and fields of their own, which lines of text do not have there.
        let journal = tracing_journald::layer().context("cannot reach the journal")?;
        log.with(journal.with_field_prefix(None)).try_init()
    } else {
        let text =
            tracing_subscriber::fmt::layer().with_ansi(stderr().is_terminal()).with_writer(stderr);
        log.with(text).try_init()
    };
    started.context("cannot start the log")
}

/// Whether `DEVICE:INODE` names this descriptor. One that was redirected since is another.
fn is_stream(announced: &str, descriptor: impl AsFd) -> bool {
    rustix::fs::fstat(descriptor)
        .is_ok_and(|status| announced == format!("{}:{}", status.st_dev, status.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_is_used_only_for_the_very_stream_that_was_announced() {
        let (one, other) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let status = rustix::fs::fstat(&one).unwrap();
        let announced = format!("{}:{}", status.st_dev, status.st_ino);
        assert!(is_stream(&announced, &one) && !is_stream(&announced, &other));
        assert!(!is_stream("", &one));
    }
}
