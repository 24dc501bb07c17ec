// SPDX-License-Identifier: MIT OR Apache-2.0

//! The format of lines on standard error. A line that concerns a guest names the guest's socket.

use super::span::GuestSpans;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

/// How lines of the log look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people: time, level, spans, place, message, fields
    Text,
    /// For programs: a JSON object on each line, with the fields of the line and of its spans beside `timestamp`,
    /// `level`, `target` and `message`
    Json,
}

/// Lines in the format of `lines`, with the fields of their guest's spans.
pub(super) struct WithSpans<F> {
    pub(super) format: LogFormat,
    pub(super) lines: F,
    pub(super) guests: Arc<GuestSpans>,
}

impl<S, N, F> FormatEvent<S, N> for WithSpans<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut spans: Vec<_> = context.event_scope().into_iter().flatten().collect();
        let named = self.guests.named(event, |id| context.span(id));
        let named = named.filter(|named| spans.iter().all(|span| span.id() != named.id()));
        // The text format itself writes the fields of the line's own spans.
        if self.format == LogFormat::Text {
            spans.clear();
        }
        if let Some(socket) = named.and_then(|guest| guest.parent()) {
            spans.insert(0, socket);
        }
        if spans.is_empty() {
            return self.lines.format_event(context, writer, event);
        }
        let mut line = String::new();
        self.lines.format_event(context, Writer::new(&mut line), event)?;
        let fields = spans.iter().filter_map(fields::<S, N>);
        match self.format {
            LogFormat::Text => {
                let fields: Vec<_> = fields.collect();
                writeln!(writer, "{} {}", line.trim_end(), fields.join(" "))
            }
            LogFormat::Json => {
                let mut object = object(&line)?;
                for fields in fields {
                    // The line's own fields take precedence, then those of inner spans.
                    for (name, value) in self::object(&fields)? {
                        object.entry(name).or_insert(value);
                    }
                }
                writeln!(writer, "{}", Value::Object(object))
            }
        }
    }
}

/// The fields of a span, formatted.
fn fields<'a, S, N>(span: &SpanRef<'a, S>) -> Option<String>
where
    S: LookupSpan<'a>,
    N: 'static,
{
    Some(span.extensions().get::<FormattedFields<N>>()?.fields.clone())
}

fn object(text: &str) -> Result<Map<String, Value>, fmt::Error> {
    serde_json::from_str(text).map_err(|_| fmt::Error)
}
