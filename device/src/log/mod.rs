// SPDX-License-Identifier: MIT OR Apache-2.0

//! The log: its destination, and each guest's share of it.
//!
//! A guest can cause log lines by its requests, its rings and its VMM's messages. Spans tell which socket and guest
//! a line concerns, on every thread. A layer charges the line to the socket's share and suppresses lines beyond it,
//! however often guests reconnect to that socket.

mod format;
mod limit;
mod share;
mod span;
#[cfg(test)]
mod tests;

pub use format::LogFormat;
pub use limit::{LineLimit, SocketShares, Suppressed};
pub use span::{guest_span, socket_name, socket_span};

use anyhow::Context;
use bellhop_host_kmd::port::QUEUE_SPANS;
use format::WithSpans;
use std::io::{IsTerminal, stderr};
use std::os::fd::AsFd;
use std::sync::Arc;
use tracing::Subscriber;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// The environment variable with a filter, which overrides the configuration's.
pub const FILTER_VARIABLE: &str = "BELLHOP_LOG";

/// Why a filter cannot be parsed, phrased as a requirement.
#[derive(Debug, thiserror::Error)]
#[error(
    "a level such as \"info\", or levels of modules such as \"info,bellhop_device=debug\" ({0})"
)]
pub struct FilterError(#[from] tracing_subscriber::filter::ParseError);

/// Parses a filter of `tracing-subscriber`. The filter always passes the spans of sockets, guests and queues.
///
/// # Errors
/// If the text is not a filter.
pub fn filter(text: &str) -> Result<EnvFilter, FilterError> {
    let mut filter = EnvFilter::try_new(text)?;
    for target in [span::TARGET, QUEUE_SPANS] {
        filter = filter.add_directive(format!("{target}=error").parse()?);
    }
    Ok(filter)
}

/// Starts the log of this process: to the journal if systemd connected it and no format is requested, else to
/// standard error.
///
/// # Errors
/// If the filter cannot be parsed, or the process already has a log.
pub fn start(filter: &str, format: Option<LogFormat>, limit: LineLimit) -> anyhow::Result<()> {
    let filter = self::filter(filter).context("cannot parse the log filter")?;
    let announced = std::env::var("JOURNAL_STREAM").ok();
    let has_journal = announced.is_some_and(|journal| is_stream(&journal, stderr()));
    let output = if format.is_none() && has_journal {
        // The journal's protocol keeps level and fields, which lines of text would lose.
        let journal = tracing_journald::layer().context("cannot reach the journal")?;
        journal.with_field_prefix(None).boxed()
    } else {
        lines(format.unwrap_or(LogFormat::Text), &limit, stderr, stderr().is_terminal())
    };
    let log = tracing_subscriber::registry().with(filter).with(limit).with(output);
    log.try_init().context("cannot start the log")
}

/// The layer that writes lines.
fn lines<S, W>(
    format: LogFormat,
    limit: &LineLimit,
    writer: W,
    is_terminal: bool,
) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (guests, events) = (Arc::clone(&limit.guests), tracing_subscriber::fmt::format());
    let layer = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(is_terminal);
    match format {
        LogFormat::Text => {
            let lines = events.compact().with_ansi(is_terminal);
            layer.event_format(WithSpans { format, lines, guests }).boxed()
        }
        LogFormat::Json => {
            let lines = events.json().flatten_event(true);
            let lines = lines.with_current_span(false).with_span_list(false);
            let layer = layer.fmt_fields(JsonFields::new());
            layer.event_format(WithSpans { format, lines, guests }).boxed()
        }
    }
}

/// Returns whether `DEVICE:INODE` names this descriptor. A descriptor that was redirected since does not match.
fn is_stream(announced: &str, descriptor: impl AsFd) -> bool {
    rustix::fs::fstat(descriptor)
        .is_ok_and(|status| announced == format!("{}:{}", status.st_dev, status.st_ino))
}
