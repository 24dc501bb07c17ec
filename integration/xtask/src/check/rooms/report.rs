// SPDX-License-Identifier: MIT OR Apache-2.0

//! Text for people: the table of all crates, and the broken rules of one.

use crate::check::rooms::circles::{Circle, Edge, MOST_IN_CIRCLE};
use crate::check::rooms::edges::{Edges, Graph};
use crate::check::rooms::figures::{Figures, MOST_IN_FOLDER};
use crate::check::rooms::floors::FILE;
use std::fmt::Write;
use std::path::Path;

/// A line for each crate.
pub fn table(figures: &[Figures]) -> String {
    let mut text = format!(
        "{:<22}{:>6}{:>16}{:>10}{:>16}{:>16}\n",
        "crate", "files", "largest circle", "by calls", "largest folder", "broken floors"
    );
    for crate_ in figures {
        let _ = writeln!(
            text,
            "{:<22}{:>6}{:>16}{:>10}{:>16}{:>16}",
            crate_.name,
            crate_.graph.files.len(),
            crate_.largest_circle(),
            crate_.largest_circle_by_calls(),
            crate_.largest_folder(),
            crate_.floors.len(),
        );
    }
    text
}

/// Every circle, the fullest folders and every arrow that points up, of one crate.
pub fn all(figures: &Figures) -> String {
    let mut text = format!("{}: {} files\n", figures.name, figures.graph.files.len());
    for circle in &figures.circles {
        text += &explained(&figures.graph, &figures.graph.imports, circle);
    }
    for circle in &figures.circles_by_calls {
        text += "by calls, ";
        text += &explained(&figures.graph, &figures.graph.calls, circle);
    }
    for (folder, files) in figures.folders.iter().take(5) {
        let _ = writeln!(text, "folder {}: {files} files", shown(folder));
    }
    for line in &figures.floors {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Every arrow of a crate.
pub fn arrows(figures: &Figures) -> String {
    let Graph { calls, .. } = &figures.graph;
    calls.keys().map(|edge| arrow(&figures.graph, calls, *edge) + "\n").collect()
}

/// The rules that a crate breaks; empty if it breaks none.
pub fn broken_rules(figures: &Figures) -> String {
    let mut text = String::new();
    for circle in figures.circles.iter().filter(|circle| circle.files.len() > MOST_IN_CIRCLE) {
        text += &explained(&figures.graph, &figures.graph.imports, circle);
    }
    text += &broken_by_calls(figures);
    for (folder, files) in figures.folders.iter().filter(|(_, files)| *files > MOST_IN_FOLDER) {
        let folder = shown(folder);
        let _ =
            writeln!(text, "{folder} has {files} files, more than {MOST_IN_FOLDER}: make rooms");
    }
    for line in &figures.floors {
        let _ = writeln!(text, "{line}");
    }
    if text.is_empty() { text } else { format!("{}:\n{text}", figures.name) }
}

/// The rule for circles by calls: those of more than [`MOST_IN_CIRCLE`] files are the recorded ones, with the recorded
/// sizes.
fn broken_by_calls(figures: &Figures) -> String {
    let large: Vec<_> = figures.large_circles_by_calls().map(|circle| circle.files.len()).collect();
    let recorded = &figures.recorded;
    if large == *recorded {
        return String::new();
    }
    let is_better = large < *recorded && large.len() <= recorded.len();
    if is_better {
        return format!(
            "circles by calls have shrunk from {recorded:?} to {large:?}: record that in {FILE}\n"
        );
    }
    let mut text = format!("circles by calls have grown from {recorded:?} to {large:?} files\n");
    for circle in figures.large_circles_by_calls() {
        text += &explained(&figures.graph, &figures.graph.calls, circle);
    }
    text
}

/// A folder as text; the empty path is `src`.
fn shown(folder: &Path) -> String {
    let inner = folder.components();
    let path: std::path::PathBuf = Path::new("src").components().chain(inner).collect();
    path.display().to_string()
}

/// A circle's files, and the edges to cut.
fn explained(graph: &Graph, edges: &Edges, circle: &Circle) -> String {
    let files: Vec<_> =
        circle.files.iter().map(|file| graph.files[*file].display().to_string()).collect();
    let mut text = format!("a circle of {} files: {}\n", files.len(), files.join(", "));
    for cut in &circle.cuts {
        let _ = writeln!(text, "  cut {}", arrow(graph, edges, *cut));
    }
    text
}

fn arrow(graph: &Graph, edges: &Edges, edge: Edge) -> String {
    let (from, to) = (graph.files[edge.0].display(), graph.files[edge.1].display());
    let paths: Vec<_> = edges[&edge].iter().map(String::as_str).collect();
    format!("{from} -> {to}: {}", paths.join(", "))
}
