//! How a line looks on standard error. Each that concerns a guest says which socket that came by.

use super::source::Account;
use serde_json::{Map, Value};
use std::fmt::{self, Debug};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

/// How lines of the log look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people: time, level, place, message, fields
    Text,
    /// For programs: a JSON object on each line, its fields beside `timestamp`, `level`, `target`, `message`
    Json,
}

/// The fields of a line that say whom it concerns.
#[derive(Default)]
pub(super) struct Concern {
    /// The guest's number.
    pub(super) guest: Option<u64>,
    names_socket: bool,
}

impl Concern {
    /// Whom a line concerns.
    pub(super) fn of(event: &Event<'_>) -> Self {
        let mut concern = Self::default();
        event.record(&mut concern);
        concern
    }

    /// The socket that its line does not name yet.
    fn socket(&self) -> Option<String> {
        let account = Account::of(self.guest).filter(|_| !self.names_socket)?;
        Some(account.name.clone())
    }
}

impl Visit for Concern {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "guest" {
            self.guest = Some(value);
        }
    }

    fn record_debug(&mut self, field: &Field, _: &dyn Debug) {
        self.names_socket |= field.name() == "socket";
    }
}

/// Lines of text with the socket behind them.
pub(super) struct Text<F>(pub(super) F);

impl<S, N, F> FormatEvent<S, N> for Text<F>
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
        let Some(socket) = Concern::of(event).socket() else {
            return self.0.format_event(context, writer, event);
        };
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        writeln!(writer, "{} socket={socket:?}", line.trim_end())
    }
}

/// Objects of JSON with the socket in them.
pub(super) struct Json<F>(pub(super) F);

impl<S, N, F> FormatEvent<S, N> for Json<F>
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
        let Some(socket) = Concern::of(event).socket() else {
            return self.0.format_event(context, writer, event);
        };
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        let mut object: Map<String, Value> = serde_json::from_str(&line).map_err(|_| fmt::Error)?;
        object.insert("socket".into(), socket.into());
        writeln!(writer, "{}", Value::Object(object))
    }
}
