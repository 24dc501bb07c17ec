// SPDX-License-Identifier: MIT OR Apache-2.0

//! Dynamic states: what they are, and which of them the host was not told yet.

use ash::vk::{DynamicState, StencilFaceFlags};
use bellhop_protocol::vulkan::{MAX_STATE, MAX_VIEWPORTS};

/// Most words of a state of which there is one, or one for each face of the stencil.
const WORDS: usize = 5;
/// Number of such states.
const SMALL: usize = 24;
/// Number of states that are lists.
const LISTS: usize = 4;
/// Most words of a list.
const MOST: usize = MAX_STATE as usize;

/// A state of which there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Single {
    LineWidth,
    DepthBias,
    BlendConstants,
    DepthBounds,
    CullMode,
    FrontFace,
    Topology,
    DepthTest,
    DepthWrite,
    DepthCompare,
    DepthBoundsTest,
    StencilTest,
    Discard,
    DepthBiasEnable,
    Restart,
    LineStipple,
}

/// A state of which each face of the stencil has one: the place of the front's, before the back's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Faced {
    CompareMask = 16,
    WriteMask = 18,
    Reference = 20,
    Op = 22,
}

/// A state that is a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum List {
    Viewports,
    Scissors,
    ViewportsWithCount,
    ScissorsWithCount,
}

/// The states by their places.
const NUMBERS: [DynamicState; SMALL] = [
    DynamicState::LINE_WIDTH,
    DynamicState::DEPTH_BIAS,
    DynamicState::BLEND_CONSTANTS,
    DynamicState::DEPTH_BOUNDS,
    DynamicState::CULL_MODE,
    DynamicState::FRONT_FACE,
    DynamicState::PRIMITIVE_TOPOLOGY,
    DynamicState::DEPTH_TEST_ENABLE,
    DynamicState::DEPTH_WRITE_ENABLE,
    DynamicState::DEPTH_COMPARE_OP,
    DynamicState::DEPTH_BOUNDS_TEST_ENABLE,
    DynamicState::STENCIL_TEST_ENABLE,
    DynamicState::RASTERIZER_DISCARD_ENABLE,
    DynamicState::DEPTH_BIAS_ENABLE,
    DynamicState::PRIMITIVE_RESTART_ENABLE,
    DynamicState::LINE_STIPPLE_EXT,
    DynamicState::STENCIL_COMPARE_MASK,
    DynamicState::STENCIL_COMPARE_MASK,
    DynamicState::STENCIL_WRITE_MASK,
    DynamicState::STENCIL_WRITE_MASK,
    DynamicState::STENCIL_REFERENCE,
    DynamicState::STENCIL_REFERENCE,
    DynamicState::STENCIL_OP,
    DynamicState::STENCIL_OP,
];

/// The lists by their places.
const LIST_NUMBERS: [DynamicState; LISTS] = [
    DynamicState::VIEWPORT,
    DynamicState::SCISSOR,
    DynamicState::VIEWPORT_WITH_COUNT,
    DynamicState::SCISSOR_WITH_COUNT,
];

/// Words, of which some count.
#[derive(Clone, Copy)]
struct Words<const ROOM: usize> {
    words: [u32; ROOM],
    length: usize,
}

impl<const ROOM: usize> Words<ROOM> {
    const NONE: Self = Self { words: [0; ROOM], length: 0 };

    fn get(&self) -> &[u32] {
        self.words.get(..self.length).unwrap_or(&self.words)
    }

    /// Writes words from a place on. Those for which there is no room are left out.
    fn put(&mut self, at: usize, words: &[u32]) {
        for (place, word) in self.words.iter_mut().skip(at).zip(words) {
            *place = *word;
        }
        self.length = self.length.max(at + words.len()).min(ROOM);
    }
}

/// All dynamic states.
pub(in super::super) struct States {
    small: [Words<WORDS>; SMALL],
    lists: [Words<MOST>; LISTS],
    /// Bits of the states that are set, and of those that the host was not told: small ones, then lists.
    set: u32,
    new: u32,
}

impl Default for States {
    fn default() -> Self {
        Self { small: [Words::NONE; SMALL], lists: [Words::NONE; LISTS], set: 0, new: 0 }
    }
}

impl States {
    /// Forgets all states.
    pub(in super::super) fn forget(&mut self) {
        for list in &mut self.lists {
            list.length = 0;
        }
        (self.set, self.new) = (0, 0);
    }

    /// The host knows none of the states any more.
    pub(in super::super) const fn renew(&mut self) {
        self.new = self.set;
    }

    fn put(&mut self, place: usize, words: &[u32]) {
        if let Some(state) = self.small.get_mut(place) {
            state.length = 0;
            state.put(0, words);
            self.note(place);
        }
    }

    const fn note(&mut self, place: usize) {
        self.set |= 1 << place;
        self.new |= 1 << place;
    }

    /// Sets a state of which there is one.
    pub(in super::super) fn set(&mut self, state: Single, words: &[u32]) {
        self.put(state as usize, words);
    }

    /// Sets a state of faces.
    pub(in super::super) fn set_faces<const N: usize>(
        &mut self,
        state: Faced,
        faces: StencilFaceFlags,
        words: [u32; N],
    ) {
        for (at, face) in [StencilFaceFlags::FRONT, StencilFaceFlags::BACK].into_iter().enumerate()
        {
            if faces.contains(face) {
                let place = state as usize + at;
                self.put(place, &[face.as_raw()]);
                if let Some(state) = self.small.get_mut(place) {
                    state.put(1, &words);
                }
            }
        }
    }

    /// Sets entries of a list from one on. If the number of entries counts, there are no others.
    pub(in super::super) fn set_list<const N: usize>(
        &mut self,
        state: List,
        first: u32,
        entries: impl Iterator<Item = [u32; N]>,
    ) {
        let place = state as usize;
        let Some(list) = self.lists.get_mut(place) else { return };
        if matches!(state, List::ViewportsWithCount | List::ScissorsWithCount) {
            list.length = 0;
        }
        for (at, entry) in (first..MAX_VIEWPORTS).zip(entries) {
            list.put(at as usize * N, &entry);
        }
        self.note(SMALL + place);
    }

    /// Takes a state that the host was not told: its number, and its words.
    pub(in super::super) fn take_new(&mut self) -> Option<(u32, &[u32])> {
        let place = self.new.checked_ilog2()? as usize;
        self.new &= !(1 << place);
        let (number, words) = if let Some(state) = self.small.get(place) {
            (NUMBERS.get(place)?, state.get())
        } else {
            let list = place - SMALL;
            (LIST_NUMBERS.get(list)?, self.lists.get(list)?.get())
        };
        Some((number.as_raw() as u32, words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(states: &mut States) -> Vec<(u32, Vec<u32>)> {
        let mut told = Vec::new();
        while let Some((number, words)) = states.take_new() {
            told.push((number, words.to_vec()));
        }
        told.reverse();
        told
    }

    #[test]
    fn the_host_is_told_what_is_new_and_all_again_if_it_knows_nothing() {
        let mut states = States::default();
        states.set(Single::LineWidth, &[7]);
        states.set(Single::LineWidth, &[8]);
        states.set(Single::BlendConstants, &[1, 2, 3, 4]);
        let first = [(2, vec![8]), (4, vec![1, 2, 3, 4])];
        assert_eq!(told(&mut states), first);
        states.set(Single::Restart, &[1]);
        let last = [(1_000_377_004, vec![1])];
        assert_eq!(told(&mut states), last);
        states.renew();
        assert_eq!(told(&mut states), [&first[..], &last].concat());
        states.forget();
        states.renew();
        assert_eq!(told(&mut states), []);
    }

    #[test]
    fn faces_are_apart() {
        let mut states = States::default();
        states.set_faces(Faced::Reference, StencilFaceFlags::FRONT_AND_BACK, [5]);
        states.set_faces(Faced::Reference, StencilFaceFlags::BACK, [6]);
        states.set_faces(Faced::Op, StencilFaceFlags::FRONT, [1, 2, 3, 4]);
        let expected = [(8, vec![1, 5]), (8, vec![2, 6]), (1_000_267_011, vec![1, 1, 2, 3, 4])];
        assert_eq!(told(&mut states), expected);
    }

    #[test]
    fn lists_are_told_from_their_first_entry_on() {
        let mut states = States::default();
        let entries = |count: u32| (0..count).map(|at| [at, at, at, at]);
        states.set_list(List::Scissors, 1, entries(1));
        assert_eq!(told(&mut states), [(1, vec![0; 8])]);
        states.set_list(List::Scissors, 0, entries(1));
        assert_eq!(told(&mut states)[0].1.len(), 8);
        states.set_list(List::ScissorsWithCount, 0, entries(3));
        states.set_list(List::ScissorsWithCount, 0, entries(2));
        let expected = (1_000_267_004, vec![0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(told(&mut states), [expected]);
        states.set_list(List::ViewportsWithCount, 0, (0..20).map(|_| [1; 6]));
        assert_eq!(told(&mut states)[0].1.len(), 96);
    }
}
