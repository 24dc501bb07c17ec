// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use bellhop_host_kmd::hardware::GuestId;
use serde_json::Value;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;
use tracing::info;
use tracing::subscriber::with_default;

/// Collects the written lines.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The lines that `work` logs in this module, each source with at most `burst`.
fn logged(format: LogFormat, burst: u32, work: impl FnOnce()) -> Vec<String> {
    let (page, mut limit) = (Page::default(), LineLimit::new(1, burst));
    limit.rate.interval = Duration::from_secs(3600);
    let writer = page.clone();
    let output = lines(format, &limit, move || writer.clone(), false);
    let filter = filter(concat!("off,", module_path!(), "=info")).unwrap();
    let log = tracing_subscriber::registry().with(filter).with(limit).with(output);
    with_default(log, work);
    let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The span of a guest of a socket.
fn guest(socket: &str, number: u64) -> tracing::Span {
    guest_span(&socket_span(Some(Path::new(socket))), GuestId(number))
}

/// A line within a guest's span, one that names the guest from outside, and one from within another guest's span.
fn three_lines() {
    let (one, two) = (guest("/run/one.sock", 7), guest("/run/two.sock", 8));
    one.in_scope(|| info!("within"));
    info!(guest = 7_u64, "outside");
    two.in_scope(|| info!(guest = 7_u64, "within another's"));
}

#[test]
fn a_line_of_text_names_the_guest_and_its_socket() {
    let lines = logged(LogFormat::Text, 10, three_lines);
    assert_eq!(lines.len(), 3);
    for line in lines {
        assert!(line.contains("guest=7") && line.contains("/run/one.sock"), "{line}");
    }
}

#[test]
fn a_line_of_json_names_the_guest_and_its_socket_beside_its_own_fields() {
    let lines = logged(LogFormat::Json, 10, three_lines);
    assert_eq!(lines.len(), 3);
    for line in lines {
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&line["guest"], &line["socket"]),
            (&7.into(), &"/run/one.sock".into()),
            "{line}"
        );
        assert!(line["message"].is_string() && line["level"] == "INFO", "{line}");
    }
}

#[test]
fn a_line_that_concerns_no_guest_stays_as_it_is() {
    let lines = logged(LogFormat::Json, 10, || info!(sockets = 2, "ready"));
    let line: Value = serde_json::from_str(&lines[0]).unwrap();
    assert!(line["sockets"] == 2 && line.get("socket").is_none(), "{line}");
}

#[test]
fn a_line_is_charged_to_the_socket_of_the_guest_that_it_names_or_else_of_its_span() {
    const BURST: usize = 3;
    let lines = logged(LogFormat::Text, BURST as u32, || {
        let socket = socket_span(Some(Path::new("one")));
        let two = guest("two", 2);
        for number in 10..15 {
            // Guests may reconnect any number of times.
            let one = guest_span(&socket, GuestId(number));
            one.in_scope(|| info!("of one"));
            info!(guest = number, "of one");
            two.in_scope(|| info!(guest = number, "of one"));
        }
        for _ in 0..5 {
            two.in_scope(|| info!("of two"));
            info!("of none");
            info!(guest = 10, "of a guest that is gone, which is none");
        }
    });
    let of = |name: &str| lines.iter().filter(|line| line.contains(name)).count();
    assert_eq!([of("of one"), of("of two"), of("none")], [BURST; 3], "{lines:#?}");
}

#[test]
fn the_journal_is_used_only_for_the_very_stream_that_was_announced() {
    let (one, other) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    let status = rustix::fs::fstat(&one).unwrap();
    let announced = format!("{}:{}", status.st_dev, status.st_ino);
    assert!(is_stream(&announced, &one) && !is_stream(&announced, &other));
    assert!(!is_stream("", &one));
}
