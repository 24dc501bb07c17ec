// SPDX-License-Identifier: MIT OR Apache-2.0

//! What tools and the GPU can see of a guest.

use crate::bench::Bench;
use crate::model::State;
use bellhop_host_kmd::hardware::GuestId;
use bellhop_host_kmd::port::ListObjects;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::escape::ObjectList;
use bellhop_protocol::snapshot;
use std::collections::{BTreeMap, BTreeSet};

/// Everything that tools can see of a guest, except counters of its requests.
pub(super) fn objects(bench: &Bench, guest: GuestId) -> BTreeSet<String> {
    let list = |list, process, parent: Handle| {
        let wanted = ListObjects { list, guest, process, parent, after: 0 };
        let page = bench.list(wanted, 1 << 20).unwrap();
        assert_eq!(page.next, 0, "one page is enough");
        String::from_utf8(page.objects).unwrap()
    };
    let mut seen = BTreeSet::new();
    let all = list(ObjectList::GUESTS, 0, Handle(0));
    let guests: Vec<snapshot::Guest> = serde_json::from_str(&all).unwrap();
    for guest in &guests {
        seen.insert(format!("{:?} {:?} {}", guest.quotas, guest.memory, guest.features));
    }
    let processes = list(ObjectList::PROCESSES, 0, Handle(0));
    let ids: Vec<snapshot::Process> = serde_json::from_str(&processes).unwrap();
    seen.insert(processes);
    for process in ids {
        let process = process.id;
        let devices = list(ObjectList::DEVICES, process, Handle(0));
        let handles: Vec<snapshot::Device> = serde_json::from_str(&devices).unwrap();
        seen.insert(devices);
        for device in handles {
            let device = device.handle.into();
            let contexts = list(ObjectList::CONTEXTS, process, device);
            let handles: Vec<snapshot::Context> = serde_json::from_str(&contexts).unwrap();
            seen.insert(contexts);
            seen.insert(list(ObjectList::ALLOCATIONS, process, device));
            seen.insert(list(ObjectList::FENCES, process, device));
            for context in handles {
                seen.insert(list(ObjectList::HW_QUEUES, process, context.handle.into()));
            }
        }
    }
    seen
}

/// Everything that the GPU was told, in a fixed order.
pub(super) fn hardware(state: &State) -> String {
    let spaces: BTreeMap<_, _> = state.spaces.iter().map(|(id, space)| (id.0, space)).collect();
    let rings: BTreeMap<_, _> = state.rings.iter().collect();
    let watches: BTreeMap<_, _> = state.watches.iter().collect();
    let State { queues, suspended, without_power, fences, placed, kernels, displays, .. } = state;
    let sources = &displays.sources;
    let placed = placed.len();
    format!(
        "{spaces:?} {rings:?} {watches:?} {queues:?} {suspended:?} {without_power:?} {fences:?} \
         {placed} {kernels:?} {sources:?}"
    )
}
