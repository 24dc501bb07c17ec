// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which packets an engine takes from a doorbell's line, and which from the ring: the two differ here, as a driver's
//! never do.

use crate::support::rig::*;
use bellhop_protocol::packet::fence::SignalFence;
use bellhop_protocol::packet::flow::NOP;
use std::sync::atomic::Ordering;
use zerocopy::transmute;

/// What the ring and the line signal the fence to.
const BY_RING: u64 = 1;
const BY_LINE: u64 = 2;

/// Submits a signal after `before` packets that do nothing, with a line whose copy begins at this distance from the
/// signal's position and has at that position another signal. Returns what the fence was signaled to.
fn signaled(guest: &mut Guest, before: u64, start: i64) -> u64 {
    let fence = guest.fence(0);
    let mut queue = guest.queue(COPY);
    for _ in 0..before {
        guest.put(&mut queue, &Packets::new().then(NOP));
    }
    // The engine has read all that is before the signal.
    guest.ring(&queue);
    let position = queue.written;
    eventually("the end of the first packets", || guest.pointers(&queue).consumed() == position);
    guest.put(&mut queue, &Packets::new().then(SignalFence::new(fence, BY_RING)));
    let line = LAYOUT.doorbell(queue.binding.slot);
    let start = position.wrapping_add_signed(start);
    guest.word(line + 8).store(start, Ordering::Relaxed);
    let signal: [u64; 2] = transmute!(SignalFence::new(fence, BY_LINE));
    let nop: u64 = transmute!(NOP);
    for index in 0..6 {
        // A word of the copy that is not of the signal does nothing, whichever position it is taken for.
        let at = start.wrapping_add(8 * index).wrapping_sub(position) / 8;
        let word = signal.get(at as usize).copied().unwrap_or(nop);
        guest.word(line + 16 + 8 * index).store(word, Ordering::Relaxed);
    }
    guest.ring(&queue);
    eventually("the end of the signal", || guest.pointers(&queue).consumed() == queue.written);
    let value = guest.word(LAYOUT.fence(fence)).load(Ordering::Acquire);
    guest.clear(&[&queue]);
    value
}

#[test]
fn the_newest_packets_are_taken_from_the_line_and_others_from_the_ring() {
    // A line holds 48 bytes, and the signal takes 16 of them.
    for (start, by) in [
        (0, BY_LINE),
        (-8, BY_LINE),
        (-32, BY_LINE),
        (-40, BY_RING),
        (8, BY_RING),
        (16, BY_RING),
        (-4, BY_RING),
        (4, BY_RING),
        (i64::MIN, BY_RING),
        (i64::MAX, BY_RING),
    ] {
        let mut guest = Guest::start();
        guest.has_lines = true;
        assert_eq!(signaled(&mut guest, 8, start), by, "{start}");
    }
}

#[test]
fn a_line_is_the_rings_word_alone_unless_the_guest_took_the_feature() {
    let mut guest = Guest::start();
    assert_eq!(signaled(&mut guest, 8, 0), BY_RING);
}

#[test]
fn a_new_doorbell_has_an_empty_line() {
    let mut guest = Guest::start();
    guest.has_lines = true;
    signaled(&mut guest, 8, 0);
    let queue = guest.disconnected_queue(COPY);
    let line = LAYOUT.doorbell(queue.binding.slot);
    for index in 0..8 {
        assert_eq!(guest.word(line + 8 * index).load(Ordering::Relaxed), 0, "{index}");
    }
}
