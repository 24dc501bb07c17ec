// SPDX-License-Identifier: MIT OR Apache-2.0

//! Looks for the commands that follow those that a worker executes, so that it need not wait for the engine between the two.
//!
//! It finds them if nothing stands in between but signals, and waits for what has happened or these signals bring. What it reads is a hint:
//! the packets are fetched anew when their turn comes, and the engine signals then what is in between. A guest that changes packets
//! after it has announced them has its worker killed.

use crate::gpu::engine::fetch::{Fetched, Stream, Window, Windows};
use crate::gpu::engine::packets::context::{Context, Wait};
use crate::gpu::engine::packets::flow;
use bellhop_protocol::handoff::fence::SignalRule;
use bellhop_protocol::packet::Packet;
use bellhop_protocol::packet::commands::ExecuteCommands;
use bellhop_protocol::packet::fence::WaitFence;
use bellhop_protocol::packet::flow::MAX_INDIRECT_DEPTH;

/// The most packets between two streams that are looked at: a few submissions.
const MOST_PACKETS: usize = 32;
/// The most signals among them.
const MOST_SIGNALS: usize = 8;

/// What has yet to be signaled: slots and values.
#[derive(Debug, Default)]
struct ComingSignals {
    signals: [(u32, u64); MOST_SIGNALS],
    count: usize,
}

impl ComingSignals {
    /// Adds one. Returns false if there are too many.
    fn note(&mut self, slot: u32, value: u64) -> bool {
        let Some(place) = self.signals.get_mut(self.count) else { return false };
        *place = (slot, value);
        self.count += 1;
        true
    }

    /// Whether one of them brings this.
    fn bring(&self, slot: u32, value: u64) -> bool {
        let all = self.signals.iter().take(self.count);
        all.clone().any(|signal| signal.0 == slot && signal.1 >= value)
    }
}

/// Whether a wait is over when everything before it is done: its fence has the value, which it never loses, or is given it by then.
fn is_over(context: &mut Context<'_>, wait: &WaitFence, signals: &ComingSignals) -> bool {
    let (slot, value) = (wait.slot(), wait.value);
    let fence = context.waited.owned(slot);
    let is_monotonic = fence.is_ok_and(|fence| fence.cell.rule == SignalRule::Monotonic);
    let has_reached = Wait { slot, value, since: 0 }.has_reached(context);
    is_monotonic && (signals.bring(slot, value) || has_reached == Ok(true))
}

/// The next commands behind these streams, of which the ring comes last, if only what happens by itself stands before them. The windows
/// hold nothing of use afterwards.
pub(super) fn next_commands(
    context: &mut Context<'_>,
    windows: &mut Windows,
    mut stack: [Stream; MAX_INDIRECT_DEPTH],
    mut depth: usize,
    mut ring: Stream,
) -> Option<ExecuteCommands> {
    let mut signals = ComingSignals::default();
    windows.iter_mut().for_each(Window::clear);
    for _ in 0..MOST_PACKETS {
        while depth > 0 && stack[depth - 1].is_empty() {
            depth -= 1;
        }
        let stream = depth.checked_sub(1).map_or(&mut ring, |top| &mut stack[top]);
        if stream.is_empty() {
            return None;
        }
        let fetched = windows[depth].packet(&mut context.mmu, stream).ok()?;
        let Fetched { packet, size, .. } = fetched;
        stream.advance(size);
        match packet {
            Packet::Nop => {}
            Packet::SignalFence(signal) if signals.note(signal.slot(), signal.value) => {}
            Packet::WaitFence(wait) if is_over(context, &wait, &signals) => {}
            Packet::IndirectBuffer(buffer) if depth < MAX_INDIRECT_DEPTH => {
                stack[depth] = flow::indirect_buffer(&buffer).ok()?;
                depth += 1;
                windows[depth].clear();
            }
            Packet::ExecuteCommands(commands) => return Some(commands),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_brings_its_value_and_those_below_to_its_own_fence() {
        let mut signals = ComingSignals::default();
        assert!(!signals.bring(3, 0));
        assert!(signals.note(3, 7) && signals.note(4, 9));
        assert!(signals.bring(3, 7) && signals.bring(3, 1) && signals.bring(4, 9));
        assert!(!signals.bring(3, 8) && !signals.bring(5, 1));
    }

    #[test]
    fn more_signals_than_are_remembered_end_the_look() {
        let mut signals = ComingSignals::default();
        assert!((0..MOST_SIGNALS).all(|slot| signals.note(slot as u32, 1)));
        assert!(!signals.note(99, 1));
    }
}
