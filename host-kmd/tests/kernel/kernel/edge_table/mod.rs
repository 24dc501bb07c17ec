// SPDX-License-Identifier: MIT OR Apache-2.0

//! Every field of every request, at every edge.
//!
//! A row is a request that is accepted unchanged, with all its fields, to the last byte. Each field takes each value
//! of [`EDGES`]; the row tells which are accepted and with which status the others are refused. Two numbers take
//! these values together. A refused request changes nothing that a tool or the GPU could see.
//!
//! The table is complete by construction: [`rows`] panics for a code that it does not know, and a row with fields
//! that leave a byte out is refused.

mod agents;
mod displays;
mod lists;
mod observed;
mod presents;
mod requests;
mod row;
mod world;

use crate::bench::{Bench, Refused};
use bellhop_host_kmd::hardware::GuestId;
use bellhop_host_kmd::port::Input;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::{MAX_REPLY_SIZE, ReplyHeader, RequestCode};
use bellhop_protocol::status::Status;
use lists::donations;
use observed::{hardware, objects};
use requests::{openings, rows};
use row::Row;
use std::collections::BTreeSet;
use world::{AWAITED, World, donor};

/// Values at which 64-bit sums and comparisons go wrong. A 32-bit field takes the lower half of each.
const EDGES: [u64; 21] = [
    0,
    1,
    PAGE_SIZE - 1,
    PAGE_SIZE,
    PAGE_SIZE + 1,
    i32::MAX as u64,
    1 << 31,
    u32::MAX as u64,
    1 << 32,
    (1 << 32) + 1,
    (1 << 47) - 1,
    1 << 47,
    (1 << 47) + 1,
    (1 << 48) - 1,
    1 << 48,
    (1 << 48) + 1,
    1 << 63,
    (1 << 63) + 1,
    u64::MAX - PAGE_SIZE,
    u64::MAX - PAGE_SIZE + 1,
    u64::MAX,
];

/// Truncates a value to a field's width.
fn cut(edge: u64, bytes: usize) -> u64 {
    edge & (u64::MAX >> (64 - 8 * bytes as u32))
}

/// How a request ended: its status and detail. `None` if it is not answered yet, which means accepted.
type Ended = Option<Refused>;

/// Sends a request. Returns how it ended, and what it changed if it was refused.
fn send(
    bench: &mut Bench,
    guest: GuestId,
    request: Vec<u8>,
    room: usize,
) -> (Ended, Option<String>) {
    let before = (objects(bench, guest), hardware(&bench.model.state()));
    let token = bench.send_with_room(guest, request, room);
    let ended = bench.reply(guest, token).map(|(header, _)| (header.status, header.detail));
    if is_accepted(ended) {
        return (ended, None);
    }
    let after = (objects(bench, guest), hardware(&bench.model.state()));
    (ended, (before != after).then(|| format!("refused, and changed {before:?} to {after:?}")))
}

fn is_accepted(ended: Ended) -> bool {
    ended.is_none_or(|(status, _)| status.is_success())
}

/// Whether the detail of this status is the wrong value.
fn names_a_value(status: Status) -> bool {
    [Status::INVALID_PARAMETER, Status::INVALID_HANDLE, Status::OBJECT_TYPE_MISMATCH]
        .contains(&status)
}

/// The guest detaches, and nothing of it is left.
fn leave(bench: &mut Bench, guest: GuestId) {
    bench.input(Input::Detach { guest });
    for _ in 0..3 {
        bench.pass_tickets();
    }
    assert_eq!(bench.detached, [guest]);
    assert!(bench.model.is_empty());
}

/// The scene of a row: this guest sends the row's request, and waits for this fence.
struct Scene {
    bench: Bench,
    guest: GuestId,
    awaited: Option<u32>,
    rows: Vec<Row>,
}

impl Scene {
    fn new(code: RequestCode) -> Self {
        if code == RequestCode::DONATE_AREA {
            let (bench, guest) = donor();
            return Self { bench, guest, awaited: None, rows: donations() };
        }
        if code == RequestCode::OPEN_ADAPTER {
            // A guest with processes cannot open the adapter.
            let mut bench = Bench::new(2);
            let guest = bench.attach(1);
            return Self { bench, guest, awaited: None, rows: openings() };
        }
        let mut world = World::new();
        agents::prepare(code, &mut world);
        let rows = rows(code, &world);
        let World { bench, client, fence_slot, .. } = world;
        Self { bench, guest: client.guest, awaited: Some(fence_slot), rows }
    }
}

/// Tries values of fields, given by their indices in the row. Returns what was wrong. `expected`, if any, decides
/// whether the request should be accepted.
fn try_values(
    code: RequestCode,
    row: usize,
    values: &[(usize, u64)],
    expected: Option<Result<(), Status>>,
) -> Option<String> {
    let Scene { mut bench, guest, awaited, rows } = Scene::new(code);
    let Row { mut request, fields } = rows.into_iter().nth(row).unwrap();
    for (index, value) in values {
        let before: usize = fields[..*index].iter().map(|field| field.bytes).sum();
        let (at, bytes) = (size_of::<RequestCode>() + before, fields[*index].bytes);
        request[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
    }
    let (ended, changed) = send(&mut bench, guest, request, MAX_REPLY_SIZE);
    let is_expected = expected.is_none_or(|expected| match expected {
        Ok(()) => is_accepted(ended),
        Err(expected) => ended.is_some_and(|(status, _)| status == expected),
    });
    let mut wrong = changed;
    if !is_expected {
        wrong = Some(format!("{ended:?} and not {expected:?}"));
    } else if let ([(index, value)], Some((status, detail))) = (values, ended)
        && names_a_value(status)
        && detail != fields[*index].named(*value)
    {
        wrong = Some(format!("{status}, and the detail is {detail:#x}"));
    } else if let Some(slot) = awaited.filter(|_| !is_accepted(ended)) {
        // Waits that were accepted earlier still work.
        bench.model.signal(guest, slot, AWAITED);
        bench.interrupt();
        if bench.events.len() != 1 {
            wrong = Some("a wait was lost".into());
        }
    }
    leave(&mut bench, guest);
    let named = |(index, value): &(usize, u64)| format!("{} = {value:#x}", fields[*index].name);
    let named: Vec<_> = values.iter().map(named).collect();
    wrong.map(|wrong| format!("{code}: {}: {wrong}", named.join(", ")))
}

/// Calls `of` for each row of each request.
fn each_row(mut of: impl FnMut(RequestCode, usize, &Row)) {
    for code in RequestCode::ALL {
        let rows = Scene::new(*code).rows;
        assert!(!rows.is_empty(), "{code} has no row");
        for (index, row) in rows.iter().enumerate() {
            of(*code, index, row);
        }
    }
}

#[test]
fn every_row_is_accepted_as_it_stands() {
    each_row(|code, row, _| assert_eq!(try_values(code, row, &[], Some(Ok(()))), None));
}

#[test]
fn every_field_of_every_request_is_refused_or_taken_at_every_edge() {
    let mut wrong = Vec::new();
    each_row(|code, row, Row { fields, .. }| {
        for (index, field) in fields.iter().enumerate() {
            let values: BTreeSet<_> = EDGES.iter().map(|edge| cut(*edge, field.bytes)).collect();
            wrong.extend(values.into_iter().filter_map(|value| {
                try_values(code, row, &[(index, value)], Some((field.rule)(value)))
            }));
        }
    });
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// The size of a reply depends only on its request. A request without room for its reply is not carried out, because
/// the guest would not learn of it.
#[test]
fn every_request_is_refused_before_it_is_done_where_its_reply_does_not_fit() {
    let header = size_of::<ReplyHeader>();
    let mut wrong = Vec::new();
    each_row(|code, row, _| {
        let sent = |room: usize| {
            let Scene { mut bench, guest, rows, .. } = Scene::new(code);
            let request = rows.into_iter().nth(row).unwrap().request;
            let sent = send(&mut bench, guest, request, room);
            leave(&mut bench, guest);
            sent
        };
        // No reply lacks a header, so that much room is always needed.
        let needed = match sent(header - 1) {
            (Some((Status::BUFFER_TOO_SMALL, needed)), None) => needed as usize,
            other => return wrong.push(format!("{code}: {other:?} without room")),
        };
        let (short, exact) = (sent(needed - 1), sent(needed));
        if needed < header || needed > MAX_REPLY_SIZE || !is_accepted(exact.0) {
            wrong.push(format!("{code}: it needs {needed} bytes, with which it is {exact:?}"));
        }
        if short != (Some((Status::BUFFER_TOO_SMALL, needed as u64)), None) {
            wrong.push(format!("{code}: {short:?} with a byte less than {needed}"));
        }
    });
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Two numbers may each be right and their sum wrong. Nothing panics, and a refused request changes nothing.
#[test]
fn two_numbers_at_their_edges_do_no_harm_together() {
    let mut wrong = Vec::new();
    each_row(|code, row, Row { fields, .. }| {
        let numbers = || (0..fields.len()).filter(|index| fields[*index].is_number);
        for (first, second) in numbers().flat_map(|first| numbers().map(move |at| (first, at))) {
            if first < second {
                let pairs = EDGES.iter().flat_map(|one| EDGES.iter().map(move |two| (*one, *two)));
                wrong.extend(pairs.filter_map(|(one, two)| {
                    try_values(code, row, &[(first, one), (second, two)], None)
                }));
            }
        }
    });
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
