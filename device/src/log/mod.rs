//! The log: where it goes, and how much of it each guest can fill.
//!
//! A guest can have lines logged, by its requests, its rings and its VMM's messages. So lines are counted
//! for the socket that it came by, whichever thread logs them and however often it comes again, and those
//! beyond its share are left out. [`LogSource`] is that socket.

mod format;
mod limit;
mod source;

pub use format::LogFormat;
pub use limit::{LineLimit, report_suppressed};
pub use source::LogSource;

use anyhow::Context;
use format::{Json, Text};
use std::io::{IsTerminal, stderr};
use std::os::fd::AsFd;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The variable of the environment with a filter that comes before any other.
pub const FILTER_VARIABLE: &str = "BELLHOP_LOG";

/// Why a filter cannot be read, as what it must be.
#[derive(Debug, thiserror::Error)]
#[error(
    "a level such as \"info\", or levels of modules such as \"info,bellhop_device=debug\" ({0})"
)]
pub struct FilterError(#[from] tracing_subscriber::filter::ParseError);

/// Reads a filter of `tracing-subscriber`.
///
/// # Errors
/// When it is none.
pub fn filter(text: &str) -> Result<EnvFilter, FilterError> {
    Ok(EnvFilter::try_new(text)?)
}

/// Starts the log of this process: to the journal if systemd has connected that and no other format is
/// wanted, else to standard error.
///
/// # Errors
/// When the filter cannot be read, or there is a log already.
pub fn start(filter: &str, format: Option<LogFormat>, limit: LineLimit) -> anyhow::Result<()> {
    let filter = self::filter(filter).context("the log's filter cannot be read")?;
    let log = tracing_subscriber::registry().with(filter).with(limit);
    let announced = std::env::var("JOURNAL_STREAM").ok();
    let has_journal = announced.is_some_and(|journal| is_stream(&journal, stderr()));
    let lines = tracing_subscriber::fmt::layer().with_writer(stderr);
    let started = match format {
        None if has_journal => {
            // With levels and fields of their own, which lines of text do not have there.
            let journal = tracing_journald::layer().context("cannot reach the journal")?;
            log.with(journal.with_field_prefix(None)).try_init()
        }
        None | Some(LogFormat::Text) => {
            let is_terminal = stderr().is_terminal();
            let text = tracing_subscriber::fmt::format().with_ansi(is_terminal);
            log.with(lines.with_ansi(is_terminal).event_format(Text(text))).try_init()
        }
        Some(LogFormat::Json) => {
            let json = tracing_subscriber::fmt::format().json().flatten_event(true);
            let lines = lines.fmt_fields(JsonFields::new()).event_format(Json(json));
            log.with(lines).try_init()
        }
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
