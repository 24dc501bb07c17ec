// SPDX-License-Identifier: MIT OR Apache-2.0

//! Dynamic state: what Vulkan and a device allow of it, and what it is while nobody sets it.

use crate::vulkan::OfGraphics;
use ash::vk::{DynamicState, FALSE, PrimitiveTopology, StencilFaceFlags, TRUE};
use bellhop_protocol::vulkan::MAX_VIEWPORTS;
use std::collections::BTreeMap;

/// Words of a viewport and of a scissor.
const VIEWPORT: usize = 6;
const SCISSOR: usize = 4;
/// Each number of Vulkan 1.0 in such a field is less.
pub const COMPARISONS: u32 = 8;
pub const STENCIL_OPERATIONS: u32 = 8;
pub const TOPOLOGIES: u32 = 11;
pub const CULL_MODES: u32 = 4;
const FACES: u32 = StencilFaceFlags::FRONT_AND_BACK.as_raw();

/// Whether all words are bits of numbers that are in a range.
fn are_from_0_to_1(words: &[u32]) -> bool {
    words.iter().all(|word| (0.0..=1.0).contains(&f32::from_bits(*word)))
}

fn is_viewport(words: &[u32; VIEWPORT]) -> bool {
    let [x, y, width, height, depths @ ..] = words.map(f32::from_bits);
    [x, y, width, height].iter().all(|number| number.is_finite())
        && width > 0.0
        && height != 0.0
        && depths.iter().all(|depth| (0.0..=1.0).contains(depth))
}

fn is_scissor([x, y, width, height]: &[u32; SCISSOR]) -> bool {
    let most = i32::MAX as u32;
    let fits = |start: u32, length: u32| start.checked_add(length).is_some_and(|end| end <= most);
    fits(*x, *width) && fits(*y, *height)
}

/// Whether words are so many structures as there can be, each of which is one.
fn are_all<const N: usize>(words: &[u32], is_one: impl Fn(&[u32; N]) -> bool) -> bool {
    let (each, rest) = words.as_chunks();
    rest.is_empty() && (1..=MAX_VIEWPORTS as usize).contains(&each.len()) && each.iter().all(is_one)
}

/// Whether there are such a factor and such a pattern of stipples.
pub fn is_stipple([factor, pattern]: [u32; 2]) -> bool {
    (1..=256).contains(&factor) && pattern <= u16::MAX.into()
}

/// Checks the words of a dynamic state on any device.
///
/// # Errors
/// The first rule of Vulkan that they break.
pub fn check_words(state: u32, words: &[u32]) -> Result<(), &'static str> {
    let is_face = |face: u32| face != 0 && face & !FACES == 0;
    let are_right = match (DynamicState::from_raw(state as i32), words) {
        (DynamicState::VIEWPORT | DynamicState::VIEWPORT_WITH_COUNT, _) => {
            are_all(words, is_viewport)
        }
        (DynamicState::SCISSOR | DynamicState::SCISSOR_WITH_COUNT, _) => are_all(words, is_scissor),
        (DynamicState::LINE_WIDTH, [width]) => f32::from_bits(*width).is_finite(),
        (DynamicState::DEPTH_BIAS, [_, _, _]) => {
            words.iter().all(|word| f32::from_bits(*word).is_finite())
        }
        (DynamicState::BLEND_CONSTANTS, [_, _, _, _]) => true,
        (DynamicState::DEPTH_BOUNDS, [_, _]) => are_from_0_to_1(words),
        (
            DynamicState::STENCIL_COMPARE_MASK
            | DynamicState::STENCIL_WRITE_MASK
            | DynamicState::STENCIL_REFERENCE,
            [face, _],
        ) => is_face(*face),
        (DynamicState::STENCIL_OP, [face, operations @ .., compare]) => {
            is_face(*face)
                && operations.len() == 3
                && operations.iter().all(|operation| *operation < STENCIL_OPERATIONS)
                && *compare < COMPARISONS
        }
        (DynamicState::LINE_STIPPLE_EXT, [factor, pattern]) => is_stipple([*factor, *pattern]),
        (DynamicState::CULL_MODE, [mode]) => *mode < CULL_MODES,
        (DynamicState::PRIMITIVE_TOPOLOGY, [topology]) => *topology < TOPOLOGIES,
        (DynamicState::DEPTH_COMPARE_OP, [compare]) => *compare < COMPARISONS,
        (
            DynamicState::FRONT_FACE
            | DynamicState::DEPTH_TEST_ENABLE
            | DynamicState::DEPTH_WRITE_ENABLE
            | DynamicState::DEPTH_BOUNDS_TEST_ENABLE
            | DynamicState::STENCIL_TEST_ENABLE
            | DynamicState::RASTERIZER_DISCARD_ENABLE
            | DynamicState::DEPTH_BIAS_ENABLE
            | DynamicState::PRIMITIVE_RESTART_ENABLE,
            [number],
        ) => *number <= 1,
        _ => false,
    };
    if are_right { Ok(()) } else { Err("an unknown state, or impossible words of one") }
}

/// Checks the words of a dynamic state, which Vulkan allows, on a device.
///
/// # Errors
/// What the device does not take.
pub fn check_for(state: u32, words: &[u32], device: &OfGraphics) -> Result<(), &'static str> {
    let OfGraphics { features, limits, .. } = device;
    let are_right = match (DynamicState::from_raw(state as i32), words) {
        (DynamicState::VIEWPORT | DynamicState::VIEWPORT_WITH_COUNT, _) => {
            let [least, most] = limits.viewport_bounds_range;
            let [most_width, most_height] = limits.max_viewport_dimensions;
            let in_bounds = |at: f32| (least..=most).contains(&at);
            let fits = |words: &[u32; VIEWPORT]| {
                let [x, y, width, height, ..] = words.map(f32::from_bits);
                width <= most_width as f32
                    && height.abs() <= most_height as f32
                    && [x, y, x + width, y + height].into_iter().all(in_bounds)
            };
            let (each, _) = words.as_chunks();
            each.iter().all(fits) && fits_count(each.len(), device)
        }
        (DynamicState::SCISSOR | DynamicState::SCISSOR_WITH_COUNT, _) => {
            fits_count(words.len() / SCISSOR, device)
        }
        (DynamicState::LINE_WIDTH, [width]) => {
            let [least, most] = limits.line_width_range;
            let is_wide = features.wide_lines == TRUE;
            let width = f32::from_bits(*width);
            if is_wide { (least..=most).contains(&width) } else { width == 1.0 }
        }
        (DynamicState::DEPTH_BIAS, [_, clamp, _]) => {
            f32::from_bits(*clamp) == 0.0 || features.depth_bias_clamp == TRUE
        }
        (DynamicState::DEPTH_BOUNDS_TEST_ENABLE, [is_on]) => {
            *is_on == FALSE || features.depth_bounds == TRUE
        }
        (DynamicState::PRIMITIVE_TOPOLOGY, [topology]) => is_topology(*topology, device),
        (DynamicState::LINE_STIPPLE_EXT, _) => {
            device.extensions.line_rasterization.iter().skip(3).any(|is_there| *is_there == TRUE)
        }
        _ => true,
    };
    if are_right { Ok(()) } else { Err("a state that the device does not take") }
}

/// Whether a device takes so many viewports.
pub fn fits_count(count: usize, device: &OfGraphics) -> bool {
    let has_several = device.features.multi_viewport == TRUE;
    let most = if has_several { device.limits.max_viewports } else { 1 };
    count <= most as usize
}

/// Whether a device takes a topology.
pub fn is_topology(topology: u32, device: &OfGraphics) -> bool {
    match PrimitiveTopology::from_raw(topology as i32) {
        PrimitiveTopology::LINE_LIST_WITH_ADJACENCY
        | PrimitiveTopology::LINE_STRIP_WITH_ADJACENCY
        | PrimitiveTopology::TRIANGLE_LIST_WITH_ADJACENCY
        | PrimitiveTopology::TRIANGLE_STRIP_WITH_ADJACENCY => {
            device.features.geometry_shader == TRUE
        }
        PrimitiveTopology::PATCH_LIST => device.features.tessellation_shader == TRUE,
        _ => true,
    }
}

/// The class of a topology: a dynamic one is of its pipeline's.
pub fn class_of(topology: u32) -> u32 {
    match PrimitiveTopology::from_raw(topology as i32) {
        PrimitiveTopology::POINT_LIST => 0,
        PrimitiveTopology::LINE_LIST
        | PrimitiveTopology::LINE_STRIP
        | PrimitiveTopology::LINE_LIST_WITH_ADJACENCY
        | PrimitiveTopology::LINE_STRIP_WITH_ADJACENCY => 1,
        PrimitiveTopology::PATCH_LIST => 3,
        _ => 2,
    }
}

/// The dynamic state that a stream has set, whatever pipelines have of it.
#[derive(Clone, Default)]
pub struct States(BTreeMap<u32, Vec<u32>>);

impl States {
    /// Sets a state, whose words have been checked. That of the stencil is kept as words of the front and then of the back.
    pub fn set(&mut self, state: u32, words: &[u32]) {
        let is_of_faces = matches!(
            DynamicState::from_raw(state as i32),
            DynamicState::STENCIL_COMPARE_MASK
                | DynamicState::STENCIL_WRITE_MASK
                | DynamicState::STENCIL_REFERENCE
                | DynamicState::STENCIL_OP
        );
        let kept = self.0.entry(state).or_insert_with(|| default_of(state));
        let Some((faces, of_face)) = words.split_first().filter(|_| is_of_faces) else {
            kept.clear();
            kept.extend_from_slice(words);
            return;
        };
        let each = kept.chunks_exact_mut(of_face.len().max(1));
        for (number, face) in each.enumerate() {
            if faces & (1 << number) != 0 {
                face.copy_from_slice(of_face);
            }
        }
    }

    /// The words of a state, as the stream set them, or as they are while nobody does.
    pub fn get(&self, state: u32) -> Vec<u32> {
        self.0.get(&state).cloned().unwrap_or_else(|| default_of(state))
    }

    /// As [`Self::get`], of as many structures as a pipeline has: viewports or scissors.
    pub fn get_several(&self, state: u32, count: u32) -> Vec<u32> {
        let mut words = self.get(state);
        let one = default_of(state);
        while words.len() < one.len() * count as usize {
            words.extend_from_slice(&one);
        }
        words.truncate(one.len() * count as usize);
        words
    }

    /// The topology that was set last.
    pub fn topology(&self) -> Option<u32> {
        let words = self.0.get(&(DynamicState::PRIMITIVE_TOPOLOGY.as_raw() as u32))?;
        words.first().copied()
    }

    /// How many viewports or scissors a state has.
    pub fn count(&self, state: u32) -> u32 {
        let one = default_of(state).len().max(1);
        self.0.get(&state).map_or(1, |words| words.len() / one) as u32
    }
}

/// What a state is while nobody sets it.
fn default_of(state: u32) -> Vec<u32> {
    let one = 1.0_f32.to_bits();
    match DynamicState::from_raw(state as i32) {
        DynamicState::VIEWPORT | DynamicState::VIEWPORT_WITH_COUNT => vec![0, 0, one, one, 0, one],
        DynamicState::SCISSOR | DynamicState::SCISSOR_WITH_COUNT => vec![0, 0, 1, 1],
        DynamicState::LINE_WIDTH => vec![one],
        DynamicState::DEPTH_BIAS => vec![0; 3],
        DynamicState::BLEND_CONSTANTS => vec![0; 4],
        DynamicState::DEPTH_BOUNDS => vec![0, one],
        DynamicState::STENCIL_COMPARE_MASK
        | DynamicState::STENCIL_WRITE_MASK
        | DynamicState::STENCIL_REFERENCE => vec![0; 2],
        DynamicState::LINE_STIPPLE_EXT => vec![1, 0],
        DynamicState::STENCIL_OP => vec![0; 8],
        _ => vec![0],
    }
}
