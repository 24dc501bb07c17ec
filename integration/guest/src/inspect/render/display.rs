// SPDX-License-Identifier: MIT OR Apache-2.0

//! Displays: paths, flips and viewers.

use super::cells::{state, times};
use crate::inspect::tree::{Branch, Cell, Tone};
use crate::units::{counted, grouped};
use bellhop_protocol::snapshot::{Display, DisplayPath};

/// A connector, and the path to it.
pub(super) fn display(display: &Display) -> Branch {
    let Display { connector, name, kind, plugged, plugs, viewers, resets, path } = display;
    let mut head = vec![connector.to_string().into()];
    head.extend(name.as_deref().map(Cell::from));
    head.push(kind.as_str().into());
    head.push(state(if *plugged { "plugged" } else { "unplugged" }));
    head.push(counted((*plugs).into(), "plug").into());
    head.extend(viewers.map(|viewers| Cell::from(counted(viewers, "viewer"))));
    head.extend((*resets > 0).then(|| Cell::new(times(*resets, "reset"), Tone::Bad)));
    let Some(path) = path else {
        head.push(Cell::new("shows nothing", Tone::Waiting));
        return Branch::new("display", head);
    };
    Branch::new("display", head).with([shown(path), flips(path)])
}

/// What a path shows, and how.
pub(super) fn shown(path: &DisplayPath) -> Branch {
    let rate = f64::from(path.refresh_numerator) / f64::from(path.refresh_denominator.max(1));
    let turned = (path.rotation != 0).then(|| format!("turned by {} degrees", path.rotation));
    let scaled = Some(path.scaling.as_str()).filter(|scaling| *scaling != "identity");
    let lent = path.lent_to.map(|process| format!("lent to process {process}"));
    let mut cells = vec![
        format!("process {}", path.process).into(),
        format!("source {}", path.source).into(),
        format!("{}x{} {}", path.width, path.height, path.format).into(),
        format!("on {}x{} at {rate:.2} Hz", path.monitor_width, path.monitor_height).into(),
    ];
    cells.extend(scaled.map(Cell::from));
    cells.extend(turned.map(Cell::from));
    cells.extend((!path.visible).then(|| Cell::new("blanked", Tone::Waiting)));
    cells.extend(lent.map(Cell::from));
    Branch::new("path", cells)
}

pub(super) fn flips(path: &DisplayPath) -> Branch {
    let now = match path.flip {
        0 => Cell::new("black", Tone::Waiting),
        flip => format!("flip {flip} is shown").into(),
    };
    let waiting = path.pending.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let waiting = (!waiting.is_empty()).then(|| format!("{waiting} waiting"));
    let bad = |count: u64, what: &str| {
        let tone = if count == 0 { Tone::Plain } else { Tone::Bad };
        Cell::new(format!("{} {what}", grouped(count)), tone)
    };
    let shown = format!("{} shown", grouped(path.shown));
    let dropped = format!("{} dropped", grouped(path.dropped));
    let missed = format!("{} missed", grouped(path.missed));
    let counts = vec![shown.into(), missed.into(), dropped.into(), bad(path.lost, "lost")];
    let waiting = waiting.map(|waiting| Cell::new(waiting, Tone::Waiting));
    Branch::new("flips", std::iter::once(now).chain(waiting).chain(counts).collect())
}
