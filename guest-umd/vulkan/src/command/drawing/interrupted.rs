// SPDX-License-Identifier: MIT OR Apache-2.0

//! What ends where a rendering is interrupted or a chunk ends, and goes on behind that: queries, storing, conditions.

use super::super::drawn::{Condition, Counting, Storing};
use super::super::recording::Recording;
use super::super::stream::HEADER;
use crate::query::Counted;
use bellhop_protocol::vulkan::{
    BeginConditional, BeginQuery, BeginTransform, EndConditional, EndQuery, EndTransform,
    MAX_TRANSFORM_BUFFERS,
};
use zerocopy::IntoBytes;

/// Bytes of a number of bytes.
const WORD: u64 = 4;
pub(super) const BUFFERS: usize = MAX_TRANSFORM_BUFFERS as usize;

/// Addresses of words, 0 for none.
pub(super) type Words = [u64; BUFFERS];

impl Recording {
    pub(super) fn begin_counting(&mut self, query: &Counting) {
        let Counted { statistics, stream, .. } = query.counted;
        let flags = query.flags;
        let command = BeginQuery { header: HEADER, flags, statistics, stream, reserved: 0 };
        self.push(query.counted.kind, command, []);
    }

    pub(super) fn end_counting(&mut self, query: &Counting) {
        let (destination, stream) = (query.destination, query.counted.stream);
        let command = EndQuery { header: HEADER, destination, stream, reserved: 0 };
        self.push(query.counted.kind, command, []);
    }

    /// Ends those queries that cannot go on, for as long as that.
    pub(super) fn stop_counting(&mut self, is_one: impl Fn(&Counting) -> bool) {
        for query in self.drawing().counting.clone() {
            if is_one(&query) {
                self.end_counting(&query);
            }
        }
    }

    /// Begins them again. They count from here on.
    pub(super) fn go_on_counting(&mut self, is_one: impl Fn(&Counting) -> bool) {
        for query in self.drawing().counting.clone() {
            if is_one(&query) {
                self.begin_counting(&query);
            }
        }
    }

    /// Stores vertices in the buffers that are bound, behind what these counters say.
    pub(super) fn store(&mut self, counters: Words) {
        let mut stored = self.drawing().stored;
        for (buffer, counter) in stored.iter_mut().zip(counters) {
            buffer.counter = if buffer.address == 0 { 0 } else { counter };
        }
        let command = BeginTransform { header: HEADER };
        self.push(stored.len() as u32, command, [stored.as_bytes()]);
    }

    /// Stores no more, and has these counters say how many bytes there are.
    pub(super) fn end_storing(&mut self, counters: Words) {
        let command = EndTransform { header: HEADER };
        self.push(counters.len() as u32, command, [counters.as_bytes()]);
    }

    /// Ends storing for as long as there is no rendering.
    fn stop_storing(&mut self) {
        let spare = match &self.drawing().storing {
            None => return,
            Some(Storing { spare }) => *spare,
        };
        let spare = match spare {
            Some(address) => address,
            None => match self.heap.take((WORD as usize) * BUFFERS) {
                Ok(piece) => {
                    let address = piece.gpu_va();
                    let drawing = self.drawing();
                    drawing.pieces.push(piece);
                    drawing.storing = Some(Storing { spare: Some(address) });
                    address
                }
                Err(why) => return self.fail(why),
            },
        };
        let counters = self.spare_counters(spare);
        self.end_storing(counters);
    }

    /// Goes on behind what was stored.
    fn go_on_storing(&mut self) {
        if let Some(Storing { spare: Some(spare) }) = self.drawing().storing
            && self.tell_all()
        {
            let counters = self.spare_counters(spare);
            self.store(counters);
        }
    }

    /// Words of the driver's for the buffers that there are.
    fn spare_counters(&mut self, spare: u64) -> Words {
        let stored = self.drawing().stored;
        std::array::from_fn(|at| match stored.get(at) {
            Some(buffer) if buffer.address != 0 => spare + at as u64 * WORD,
            _ => 0,
        })
    }

    pub(super) fn begin_conditional(&mut self, condition: Condition) {
        let command = BeginConditional { header: HEADER, address: condition.address };
        self.push(condition.is_inverted.into(), command, []);
    }

    /// Ends what cannot go on where a rendering is interrupted, or where a chunk ends: of what is inside, or what is outside.
    pub(super) fn suspend(&mut self, is_inside: bool) {
        self.stop_counting(|query| query.is_inside == is_inside);
        if is_inside {
            self.stop_storing();
        }
        if self.drawing().condition.is_some_and(|it| it.is_inside == is_inside) {
            self.push(0, EndConditional { header: HEADER }, []);
        }
    }

    /// Goes on with that.
    pub(super) fn resume(&mut self, is_inside: bool) {
        if let Some(condition) = self.drawing().condition.filter(|it| it.is_inside == is_inside) {
            self.begin_conditional(condition);
        }
        if is_inside {
            self.go_on_storing();
        }
        self.go_on_counting(|query| query.is_inside == is_inside);
    }
}
