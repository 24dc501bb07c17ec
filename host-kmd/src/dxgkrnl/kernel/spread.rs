// SPDX-License-Identifier: MIT OR Apache-2.0

//! The node of each type that a guest begins with.
//!
//! Guests do not know of each other, so guests with few contexts would all use the first node of a type. The kernel
//! therefore suggests to each guest the node that it suggests to the fewest others.

use crate::ddi::Miniport;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::hardware::GuestId;
use bellhop_protocol::control::adapter::NODE_USER_MODE_SUBMISSION_SUPPORTED;
use std::collections::BTreeMap;

/// The nodes to suggest to a guest that attaches: one of each type, for user-mode submission if a node of the type takes
/// that.
pub(crate) fn spread(miniport: &dyn Miniport, guests: &BTreeMap<GuestId, Guest>) -> Vec<u32> {
    let describe = |node| Some((node, miniport.get_node_metadata(node)?));
    let nodes: Vec<_> = (0..miniport.node_count()).filter_map(describe).collect();
    // Nodes of a type are adjacent.
    let types = nodes.chunk_by(|(_, a), (_, b)| a.engine_type == b.engine_type);
    let least = types.map(|nodes| {
        let guests = |node| guests.values().filter(|guest| guest.is_suggested(node)).count();
        let order = nodes.iter().map(|(node, metadata)| {
            let is_supported = metadata.flags & NODE_USER_MODE_SUBMISSION_SUPPORTED != 0;
            (!is_supported, guests(*node), *node)
        });
        order.min().map(|(_, _, node)| node)
    });
    least.flatten().collect()
}
