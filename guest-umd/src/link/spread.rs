// SPDX-License-Identifier: MIT OR Apache-2.0

//! Choosing among several nodes of a type for a context.
//!
//! The driver counts the contexts of all processes on a transport by node. It does not know what other guests use;
//! the device suggests different nodes to different guests as a start.

use bellhop_protocol::control::adapter::{
    EngineType, NODE_SUGGESTED, NODE_USER_MODE_SUBMISSION_SUPPORTED, NodeMetadata,
};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

/// The contexts on each node in use. A device may claim any number of nodes, so unused ones take no room.
#[derive(Default)]
pub(crate) struct Spread(Mutex<HashMap<u32, usize>>);

/// A context that counts for its node until this is dropped.
pub(crate) struct OnNode {
    spread: Arc<Spread>,
    node: u32,
}

impl Spread {
    /// Counts a context on the node.
    pub(crate) fn enter(self: &Arc<Self>, node: u32) -> OnNode {
        self.with(|contexts| *contexts.entry(node).or_default() += 1);
        OnNode { spread: Arc::clone(self), node }
    }

    fn with<R>(&self, act: impl FnOnce(&mut HashMap<u32, usize>) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The node of a type, among those that `counts` accepts, with the fewest contexts; among equals the suggested one, or else the first. If any node
    /// supports user-mode submission, one that does.
    pub(crate) fn least_used(
        &self,
        nodes: &[NodeMetadata],
        engine_type: EngineType,
        counts: impl Fn(&NodeMetadata) -> bool,
    ) -> Option<u32> {
        let nodes = (0..).zip(nodes);
        let nodes = nodes.filter(|(_, node)| node.engine_type == engine_type && counts(node));
        let order = nodes.map(|(ordinal, node)| {
            let has = |flag| node.flags & flag != 0;
            let contexts = self.with(|contexts| contexts.get(&ordinal).copied().unwrap_or(0));
            (!has(NODE_USER_MODE_SUBMISSION_SUPPORTED), contexts, !has(NODE_SUGGESTED), ordinal)
        });
        order.min().map(|(_, _, _, ordinal)| ordinal)
    }
}

impl Drop for OnNode {
    fn drop(&mut self) {
        self.spread.with(|contexts| {
            if let Entry::Occupied(mut contexts) = contexts.entry(self.node) {
                *contexts.get_mut() -= 1;
                if *contexts.get() == 0 {
                    contexts.remove();
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: u32 = NODE_USER_MODE_SUBMISSION_SUPPORTED;
    const SUGGESTED: u32 = PLAIN | NODE_SUGGESTED;

    fn node(engine_type: EngineType, flags: u32) -> NodeMetadata {
        NodeMetadata { engine_type, flags, friendly_name: [0; 32] }
    }

    #[test]
    fn contexts_go_round_from_the_suggested_node_and_into_gaps() {
        let nodes = [PLAIN, SUGGESTED, PLAIN].map(|flags| node(EngineType::THREE_D, flags));
        let spread = Arc::new(Spread::default());
        let next = || spread.least_used(&nodes, EngineType::THREE_D, |_| true).unwrap();
        let mut contexts: Vec<_> = (0..6).map(|_| spread.enter(next())).collect();
        let places: Vec<_> = contexts.iter().map(|context| context.node).collect();
        assert_eq!(places, [1, 0, 2, 1, 0, 2]);
        contexts.remove(2);
        assert_eq!(next(), 2);
    }

    #[test]
    fn a_node_for_user_mode_submission_comes_before_one_without_however_used_it_is() {
        let nodes = [PLAIN, 0, NODE_SUGGESTED].map(|flags| node(EngineType::COPY, flags));
        let spread = Arc::new(Spread::default());
        let _contexts = [(); 3].map(|()| spread.enter(0));
        assert_eq!(spread.least_used(&nodes, EngineType::COPY, |_| true), Some(0));
        assert_eq!(spread.least_used(&nodes[1..], EngineType::COPY, |_| true), Some(1));
        assert_eq!(spread.least_used(&nodes, EngineType::THREE_D, |_| true), None);
    }

    #[test]
    fn nothing_is_left_of_contexts_that_are_gone() {
        let spread = Arc::new(Spread::default());
        drop([spread.enter(u32::MAX), spread.enter(7), spread.enter(7)]);
        assert!(spread.with(|contexts| contexts.is_empty()));
    }
}
