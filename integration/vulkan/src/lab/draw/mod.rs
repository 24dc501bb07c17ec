// SPDX-License-Identifier: MIT OR Apache-2.0

//! Drawing: canvases, plans of pipelines, and what is recorded of them.

mod canvas;
mod commands;
mod corner;
pub(super) mod extended;
mod framebuffer;
mod newer;
mod pass;
mod pass_2;
mod pipeline;
mod plan;
mod query;
mod rendering;
mod secondary;
mod sketch;
mod state;
mod transfer;
mod transform;

pub(crate) use canvas::{Canvas, DEPTH, SIZE, STENCIL, colour_form, depth_form};
pub(crate) use commands::Parameters;
pub(crate) use corner::{
    BLANK, BLUE, Corner, GREEN, RED, WHITE, YELLOW, at, colour_of, corner, corners, rectangle,
    triangle, whole_area,
};
pub(crate) use framebuffer::begun;
pub(crate) use pass::{PassForm, Subpass, after, attachment, reference};
pub(crate) use plan::{PLAIN, Plan, area, stage, viewport};
pub(crate) use rendering::{Rendering, Target};
pub(crate) use secondary::{WITHIN_COLOURS, Within};
pub(crate) use sketch::{boxed, drawn, is_in, pictured, pictured_nearly, sketch, sketch_on};
pub(crate) use state::State;
