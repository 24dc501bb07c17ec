// SPDX-License-Identifier: MIT OR Apache-2.0

//! Text with columns, as a tree.

use crate::output::WIDTH;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The meaning of a piece of text, which sets its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// Plain text.
    Plain,
    /// A name or a label.
    Name,
    /// A healthy state.
    Good,
    /// A state of waiting.
    Waiting,
    /// A state of loss.
    Bad,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Name => "\x1b[1m",
            Self::Good => "\x1b[32m",
            Self::Waiting => "\x1b[33m",
            Self::Bad => "\x1b[31m",
        }
    }
}

/// A piece of text in a column.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    text: String,
    tone: Tone,
    right: bool,
}

impl Cell {
    pub(super) fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone, right: false }
    }

    /// A number, aligned to the right of its column.
    pub(super) fn right(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain, right: true }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }

    fn put(&self, out: &mut String, width: usize, colour: bool) {
        let padding = " ".repeat(width.saturating_sub(self.width()));
        let (before, after) =
            if self.right { (padding.as_str(), "") } else { ("", padding.as_str()) };
        out.push_str(before);
        match self.tone.code() {
            code if colour && !code.is_empty() => {
                let _ = write!(out, "{code}{}\x1b[0m", self.text);
            }
            _ => out.push_str(&self.text),
        }
        out.push_str(after);
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::new(text, Tone::Plain)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// A line and the lines beneath it.
#[derive(Debug)]
pub(super) struct Branch {
    /// Lines of one kind share columns with their neighbours.
    kind: &'static str,
    cells: Vec<Cell>,
    children: Vec<Branch>,
}

impl Branch {
    /// A line that begins with its kind.
    pub(super) fn new(kind: &'static str, cells: Vec<Cell>) -> Self {
        let cells = [vec![Cell::new(kind, Tone::Name)], cells].concat();
        Self { kind, cells, children: Vec::new() }
    }

    pub(super) fn with(mut self, children: impl IntoIterator<Item = Self>) -> Self {
        self.children.extend(children);
        self
    }

    /// Writes the line, then its children, and marks the last of them.
    pub(super) fn put(&self, out: &mut String, colour: bool) {
        put_line(out, &self.cells, &[], &Edge::default(), colour);
        self.put_children(out, "", colour);
    }

    fn put_children(&self, out: &mut String, indent: &str, colour: bool) {
        let last = self.children.len().saturating_sub(1);
        let mut columns: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for child in &self.children {
            widen(columns.entry(child.kind).or_default(), &child.cells);
        }
        for (index, child) in self.children.iter().enumerate() {
            let (mark, inner) =
                if index == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let widths = columns.get(child.kind).map_or(&[][..], Vec::as_slice);
            let beneath = if child.children.is_empty() { " " } else { "│" };
            let edge = Edge {
                first: format!("{indent}{mark}"),
                others: format!("{indent}{inner}{beneath}    "),
            };
            put_line(out, &child.cells, widths, &edge, colour);
            child.put_children(out, &format!("{indent}{inner}"), colour);
        }
    }
}

/// Lines that share columns.
pub(super) fn put_table(out: &mut String, rows: &[Vec<Cell>], colour: bool) {
    let mut widths = Vec::new();
    rows.iter().for_each(|row| widen(&mut widths, row));
    for row in rows {
        put_line(out, row, &widths, &Edge::default(), colour);
    }
}

/// Widens columns to fit these cells.
fn widen(widths: &mut Vec<usize>, cells: &[Cell]) {
    widths.resize(widths.len().max(cells.len()), 0);
    for (width, cell) in widths.iter_mut().zip(cells) {
        *width = cell.width().max(*width);
    }
}

/// The rest of a line's cells.
#[derive(Debug, Default)]
struct Edge {
    first: String,
    /// The edge of the lines that follow.
    others: String,
}

/// Writes cells in a line, and in further lines when they do not fit.
fn put_line(out: &mut String, cells: &[Cell], widths: &[usize], edge: &Edge, colour: bool) {
    out.push_str(&edge.first);
    let mut column = edge.first.chars().count();
    for (index, cell) in cells.iter().enumerate() {
        let width = widths.get(index).copied().unwrap_or(0);
        if index > 0 && column + GAP.len() + cell.width() > WIDTH {
            end_line(out);
            out.push_str(&edge.others);
            column = edge.others.chars().count();
        } else if index > 0 {
            out.push_str(GAP);
            column += GAP.len();
        }
        cell.put(out, width, colour);
        column += width.max(cell.width());
    }
    end_line(out);
}

/// The space between two cells.
const GAP: &str = "  ";

fn end_line(out: &mut String) {
    out.truncate(out.trim_end_matches(' ').len());
    out.push('\n');
}
