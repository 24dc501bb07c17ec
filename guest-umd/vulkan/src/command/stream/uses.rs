// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the commands of a buffer write: so that frames that are drawn by several GPUs in turns wait for each other where they must.
//!
//! An image that can be nothing but a target of renderings, and has memory for itself, is known by its place. Whatever else commands
//! write (copies, dispatches, stores of shaders, queries, targets that something reads later) is not looked into: they have everything
//! before them be done, and be done before everything after them.

use crate::image::targets::{self, Target};
use bellhop_protocol::vulkan::CommandCode;
#[cfg(test)]
use {crate::memory::Bound, std::ops::Range};

/// What commands write.
#[derive(Debug, Clone)]
pub(crate) struct Uses {
    /// Whether anybody asks.
    is_asked: bool,
    /// Some of [`ALONE`] and [`ORDERED`].
    marks: u8,
    targets: Vec<Target>,
}

/// The commands write something beside targets.
const ALONE: u8 = 1;
/// Everything before is done before what comes next. In one byte with the other mark, since each command changes both.
const ORDERED: u8 = 2;

/// Whether a command writes nothing but targets of the rendering that it is in.
const fn draws(code: CommandCode) -> bool {
    matches!(
        code,
        CommandCode::BARRIER
            | CommandCode::CONTINUE
            | CommandCode::BEGIN_RENDERING
            | CommandCode::END_RENDERING
            | CommandCode::BIND_GRAPHICS
            | CommandCode::SET_STATE
            | CommandCode::SET_VERTEX_BUFFERS
            | CommandCode::SET_INDEX_BUFFER
            | CommandCode::DRAW
            | CommandCode::DRAW_INDEXED
            | CommandCode::DRAW_INDIRECT
            | CommandCode::CLEAR_ATTACHMENT
    )
}

#[cfg(test)]
impl Uses {
    /// Those of commands that draw on images at these places.
    pub(crate) fn drawing(targets: impl Iterator<Item = Range<u64>>) -> Self {
        let alone = |place| Target::in_memory(place, Bound::default());
        let targets = targets.map(alone).collect();
        Self { is_asked: true, marks: 0, targets }
    }
}

impl Uses {
    /// Nothing; and whether what was before it is done.
    pub(in super::super) const fn new(is_ordered: bool) -> Self {
        let marks = if is_ordered { ORDERED } else { 0 };
        Self { is_asked: false, marks, targets: Vec::new() }
    }

    /// Says whether anybody will ask.
    pub(in super::super) const fn ask(&mut self, is_asked: bool) {
        self.is_asked = is_asked;
    }

    /// Forgets all commands.
    pub(in super::super) fn forget(&mut self) {
        self.marks = 0;
        self.targets.clear();
    }

    /// Adds a command, which waits for none before it.
    #[inline]
    pub(crate) const fn add(&mut self, code: CommandCode) {
        if draws(code) {
            self.marks &= !ORDERED;
        } else {
            self.marks = ALONE;
        }
    }

    /// Whether everything before is done before what comes next.
    #[inline]
    pub(in super::super) const fn is_ordered(&self) -> bool {
        self.marks & ORDERED != 0
    }

    /// Says whether everything before is done before what comes next.
    pub(in super::super) const fn set_ordered(&mut self, is_ordered: bool) {
        self.marks &= !ORDERED;
        if is_ordered {
            self.marks |= ORDERED;
        }
    }

    /// Whether they write anything but targets, or what may be something else's as well.
    fn is_alone(&self) -> bool {
        self.marks & ALONE != 0 || self.targets.iter().any(Target::shares_memory)
    }

    /// Adds commands that write what is not looked into.
    pub(in super::super) const fn add_unknown(&mut self) {
        self.marks |= ALONE;
    }

    /// Adds a rendering on views at these addresses.
    pub(in super::super) fn add_targets(&mut self, addresses: impl Iterator<Item = u64>) {
        if !self.is_asked {
            return;
        }
        for address in addresses.filter(|address| *address != 0) {
            match targets::at(address) {
                Some(target) => self.targets.push(target),
                None => self.marks |= ALONE,
            }
        }
    }

    /// Adds what other commands write.
    pub(crate) fn add_all(&mut self, other: &Self) {
        self.marks |= other.marks & ALONE;
        self.targets.extend_from_slice(&other.targets);
    }

    /// Whether one of both has to be done before the other begins.
    pub(crate) fn are_in_order(&self, other: &Self) -> bool {
        let overlaps = |one: &Target| other.targets.iter().any(|it| one.overlaps(it));
        self.is_alone() || other.is_alone() || self.targets.iter().any(overlaps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of commands that draw on images from a byte to another.
    fn drawn(targets: &[(u64, u64)]) -> Uses {
        Uses::drawing(targets.iter().map(|(start, end)| *start..*end))
    }

    #[test]
    fn commands_that_draw_on_the_same_image_are_in_order() {
        let (one, other) = (drawn(&[(0, 64), (128, 192)]), drawn(&[(64, 128)]));
        assert!(!one.are_in_order(&other) && !other.are_in_order(&one));
        assert!(one.are_in_order(&drawn(&[(190, 200)])));
        assert!(!drawn(&[]).are_in_order(&one));
    }

    /// The commands may have been recorded before.
    #[test]
    fn a_target_that_gets_company_in_its_memory_is_in_order_with_everything() {
        let bound = Bound::default();
        bound.add();
        let mut draws = drawn(&[]);
        draws.targets.push(Target::in_memory(0..64, bound.clone()));
        assert!(!draws.are_in_order(&drawn(&[])) && !drawn(&[(64, 128)]).are_in_order(&draws));
        bound.add();
        assert!(draws.are_in_order(&drawn(&[])) && drawn(&[(64, 128)]).are_in_order(&draws));
    }

    #[test]
    fn what_is_not_looked_into_is_in_order_with_everything() {
        for code in [CommandCode::COPY, CommandCode::DISPATCH, CommandCode::TIMESTAMP] {
            let mut copies = drawn(&[]);
            copies.add(code);
            assert!(copies.are_in_order(&drawn(&[])) && drawn(&[]).are_in_order(&copies));
        }
        let mut draws = drawn(&[]);
        draws.add(CommandCode::DRAW);
        assert!(!draws.are_in_order(&drawn(&[])));
    }
}
