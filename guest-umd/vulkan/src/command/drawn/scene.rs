// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where a recording is, and what is counted there.

use super::super::stream::Place;
use crate::device::DeviceMask;
use crate::query::Counted;
use crate::rendering::{RenderPass, Rendering, View};
use ash::vk;
use std::sync::Arc;

/// Where a recording is.
#[derive(Default)]
pub(in super::super) enum Scene {
    /// In no rendering.
    #[default]
    Outside,
    /// In a rendering that it has begun.
    Open(Box<Open>),
    /// In that of whoever executes it, in which so many queries are counted at a time.
    Inherited { views: u32 },
}

/// A rendering that has begun.
pub(in super::super) struct Open {
    pub(in super::super) rendering: Rendering,
    /// Where it begins.
    pub(in super::super) place: Place,
    /// If it was interrupted: where what is recorded since then begins.
    pub(in super::super) since: Option<Place>,
    /// The render pass that it is of.
    pub(in super::super) instance: Option<Instance>,
}

impl Scene {
    /// How many queries are counted at a time, if it is in a rendering.
    pub(in super::super) fn views(&self) -> Option<u32> {
        match self {
            Self::Outside => None,
            Self::Open(open) => Some(open.rendering.views()),
            Self::Inherited { views } => Some(*views),
        }
    }
}

/// A render pass that has begun.
pub(in super::super) struct Instance {
    pub(in super::super) pass: Arc<RenderPass>,
    /// Its subpass.
    pub(in super::super) index: u32,
    pub(in super::super) views: Vec<View>,
    pub(in super::super) clears: Vec<[u32; 4]>,
    pub(in super::super) area: vk::Rect2D,
    pub(in super::super) layers: u32,
}

impl Instance {
    /// The rendering that its subpass is.
    pub(in super::super) fn rendering(&self) -> Rendering {
        let Self { pass, index, views, clears, area, layers } = self;
        match pass.subpass(*index) {
            Some(subpass) => subpass.rendering(views, clears, *area, *layers),
            None => Rendering::new(*area, *layers, 0),
        }
    }
}

/// What of a rendering is for some GPUs alone.
pub(in super::super) struct Divided {
    /// The GPUs that execute what comes behind it.
    pub(in super::super) before: DeviceMask,
    /// The number of its first chunk.
    pub(in super::super) from: usize,
    /// The areas, by device index.
    pub(in super::super) areas: Vec<vk::Rect2D>,
}

/// A query that is being counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Counting {
    pub(in super::super) counted: Counted,
    /// `VkQueryControlFlags`.
    pub(in super::super) flags: u32,
    /// Where its value goes.
    pub(in super::super) destination: u64,
    /// Whether it began in a rendering.
    pub(in super::super) is_inside: bool,
}

/// How transformed vertices are being stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Storing {
    /// Where words are that say how many bytes each buffer has while the rendering is interrupted.
    pub(in super::super) spare: Option<u64>,
}

/// What draws depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Condition {
    /// A word's address.
    pub(in super::super) address: u64,
    /// Whether they are drawn if it is 0.
    pub(in super::super) is_inverted: bool,
    /// Whether it began in a rendering.
    pub(in super::super) is_inside: bool,
}

/// Words that say that there are values: of one query or of several that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Available {
    pub(in super::super) address: u64,
    pub(in super::super) count: u32,
}
