// SPDX-License-Identifier: MIT OR Apache-2.0

//! Budgets and quotas.

use super::{PAGES, description, exchange, map, new, page, trims, with_limits};
use crate::bench::{Client, USER_MODE};
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::{
    CreateAllocation, MAX_RESIDENCY_LIST, QueryVideoMemoryInfo, SegmentSet,
};
use bellhop_protocol::control::context::CreateContext;
use bellhop_protocol::control::process::{DestroyProcess, TERMINATED_ABNORMALLY};
use bellhop_protocol::status::Status;

#[test]
fn a_process_over_its_budget_is_asked_to_trim_and_suspended_when_another_needs_its_share() {
    let (mut bench, greedy) = new();
    let local = |client, pages| CreateAllocation {
        supported_segments: SegmentSet::LOCAL.bits(),
        ..description(client, pages)
    };
    let quarter = PAGES / 4;
    let mine: Vec<_> =
        (0..4).map(|_| bench.call(greedy, &local(greedy, quarter)).unwrap().allocation).collect();
    bench.make_resident(greedy, &mine).unwrap();
    assert_eq!(trims(&bench), []);
    let modest = bench.client(greedy.guest);
    let over = PAGES / 2 * PAGE_SIZE;
    assert_eq!(trims(&bench), [(greedy.process, over)]);
    let segment = SegmentSet::LOCAL.bits();
    let query = QueryVideoMemoryInfo { segment, gpu: 0 };
    let info = bench.call(greedy, &query).unwrap();
    assert_eq!((info.size, info.budget, info.usage), (2 * over, over, 2 * over));
    let both = QueryVideoMemoryInfo { segment: 5, gpu: 0 };
    assert_eq!(bench.call(greedy, &both).unwrap_err(), (Status::INVALID_PARAMETER, 5));

    let theirs = bench.call(modest, &local(modest, PAGES / 2)).unwrap().allocation;
    bench.make_resident(modest, &[theirs]).unwrap();
    assert!(bench.model.state().suspended.contains(&greedy.id));
    assert!(!bench.model.state().suspended.contains(&modest.id));
    // A context that is created meanwhile waits, too.
    let late = {
        let request = CreateContext { device: greedy.device, node: 0, engine_affinity: 0 };
        let context = bench.call(greedy, &request).unwrap();
        bench.queue(Client { context, ..greedy }, USER_MODE)
    };
    assert!(bench.model.state().suspended.contains(&late.id));
    bench.evict(greedy, &mine[..2]).unwrap();
    assert!(!bench.model.state().suspended.contains(&greedy.id), "all that it wants is there");
    assert!(!bench.model.state().suspended.contains(&late.id));

    // It wants an allocation back, and gets it when the other process ends.
    let refused = bench.make_resident(greedy, &mine[..1]).unwrap_err();
    assert_eq!(refused, (Status::INSUFFICIENT_RESOURCES, quarter * PAGE_SIZE));
    let destroy = DestroyProcess { flags: TERMINATED_ABNORMALLY };
    bench.call(modest, &destroy).unwrap();
    bench.make_resident(greedy, &mine[..2]).unwrap();
}

#[test]
fn a_process_that_was_suspended_resumes_when_the_other_has_ended() {
    let (mut bench, greedy) = new();
    let local = |client, pages| CreateAllocation {
        supported_segments: SegmentSet::LOCAL.bits(),
        ..description(client, pages)
    };
    let mine = bench.call(greedy, &local(greedy, PAGES)).unwrap().allocation;
    bench.make_resident(greedy, &[mine]).unwrap();
    let va = map(&mut bench, greedy, mine, PAGE_SIZE);
    exchange(&bench, greedy, va, 5);
    let modest = bench.client(greedy.guest);
    let theirs = bench.call(modest, &local(modest, 1)).unwrap().allocation;
    bench.make_resident(modest, &[theirs]).unwrap();
    assert_eq!(page(&bench, greedy, va), None);
    assert!(bench.model.state().suspended.contains(&greedy.id));
    bench.call(modest, &DestroyProcess { flags: 0 }).unwrap();
    assert!(!bench.model.state().suspended.contains(&greedy.id));
    assert_eq!(exchange(&bench, greedy, va, 5), 5);
}

#[test]
fn a_million_small_allocations_end_at_the_quota() {
    let (mut bench, client) = with_limits(Limits { handles: 5000, ..Limits::default() });
    let mut created = Vec::new();
    let refused = loop {
        match bench.call(client, &description(client, 1)) {
            Ok(reply) => created.push(reply.allocation),
            Err(refused) => break refused,
        }
        assert!(created.len() < 1_000_000);
    };
    assert_eq!(refused, (Status::QUOTA_EXCEEDED, 5000));
    let mut refused = None;
    for list in created.chunks(MAX_RESIDENCY_LIST as usize) {
        if let Err(error) = bench.make_resident(client, list) {
            refused = Some(error);
            break;
        }
    }
    // Backing memory bounds what may ever be resident.
    assert_eq!(refused, Some((Status::NO_MEMORY, PAGE_SIZE)));
    bench.call(client, &DestroyProcess { flags: 0 }).unwrap();
}
