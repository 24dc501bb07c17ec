// SPDX-License-Identifier: MIT OR Apache-2.0

//! Circles of files, and the cheapest edges to cut.

use crate::check::rooms::edges::Edges;
use crate::check::rooms::modules::FileId;
use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

/// Most files that may depend on each other in a circle.
pub const MOST_IN_CIRCLE: usize = 3;

/// An edge.
pub type Edge = (FileId, FileId);

/// Files that all reach each other.
#[derive(Debug)]
pub struct Circle {
    /// The files.
    pub files: Vec<FileId>,
    /// Edges without which no circle of more than [`MOST_IN_CIRCLE`] is left, the best cut first.
    pub cuts: Vec<Edge>,
}

/// The circles of more than one file, largest first.
pub fn find(graph: &Edges) -> Vec<Circle> {
    let edges: Vec<_> = graph.keys().copied().collect();
    let circles = components(&edges).into_iter().map(|files| {
        let inner = |edge: &&Edge| files.contains(&edge.0) && files.contains(&edge.1);
        let inner = edges.iter().filter(inner).copied().collect();
        Circle { cuts: cuts(graph, inner), files }
    });
    circles.collect()
}

/// The strongly connected components of more than one file, largest first.
fn components(edges: &[Edge]) -> Vec<Vec<FileId>> {
    let graph = DiGraphMap::<FileId, ()>::from_edges(edges);
    let mut found = tarjan_scc(&graph);
    found.retain(|files| files.len() > 1);
    found.iter_mut().for_each(|files| files.sort_unstable());
    found.sort_by_key(|files| std::cmp::Reverse(files.len()));
    found
}

/// Removes one edge after another, each time the one that leaves the smallest circles.
fn cuts(graph: &Edges, mut edges: Vec<Edge>) -> Vec<Edge> {
    let mut cuts = Vec::new();
    loop {
        let left = components(&edges);
        let Some(largest) = left.iter().find(|files| files.len() > MOST_IN_CIRCLE) else {
            return cuts;
        };
        // Files in circles once an edge is gone, by the squares: two small circles beat a large one.
        // Among equals, the edge with the fewest names.
        let cost = |place: usize| {
            let mut without = edges.clone();
            let cut = without.swap_remove(place);
            let left = components(&without);
            let size: usize = left.iter().map(|files| files.len().pow(2)).sum();
            (size, graph[&cut].len())
        };
        let inner = |place: &usize| {
            let (from, to) = edges[*place];
            largest.contains(&from) && largest.contains(&to)
        };
        let Some(best) = (0..edges.len()).filter(inner).min_by_key(|place| cost(*place)) else {
            return cuts;
        };
        cuts.push(edges.swap_remove(best));
    }
}
