// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rectangles of pixels, of surfaces and of pictures.

use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A rectangle of pixels (`RECT`). Its right and its lower edge are not in it.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    Serialize,
    Deserialize,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
)]
#[repr(C)]
pub struct Rect {
    /// The first column.
    pub left: u32,
    /// The first row.
    pub top: u32,
    /// The column behind the last.
    pub right: u32,
    /// The row behind the last.
    pub bottom: u32,
}
crate::assert_layout!(Rect, 16, left at 0, top at 4, right at 8, bottom at 12);

impl Rect {
    /// No pixels.
    pub const NONE: Self = Self::new(0, 0, 0, 0);

    /// A rectangle between these columns and rows, the last two exclusive.
    #[must_use]
    pub const fn new(left: u32, top: u32, right: u32, bottom: u32) -> Self {
        Self { left, top, right, bottom }
    }

    /// All of a picture of this width and height.
    #[must_use]
    pub const fn whole(width: u32, height: u32) -> Self {
        Self::new(0, 0, width, height)
    }

    /// Pixels of a row.
    #[must_use]
    pub const fn width(&self) -> u32 {
        self.right.saturating_sub(self.left)
    }

    /// Rows.
    #[must_use]
    pub const fn height(&self) -> u32 {
        self.bottom.saturating_sub(self.top)
    }

    /// Whether there is no pixel in it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.width() == 0 || self.height() == 0
    }

    /// Returns whether the other is not empty and lies in this one.
    #[must_use]
    pub const fn contains(&self, other: &Self) -> bool {
        self.left <= other.left
            && self.top <= other.top
            && other.right <= self.right
            && other.bottom <= self.bottom
            && !other.is_empty()
    }

    /// The least rectangle that has both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        Self {
            left: self.left.min(other.left),
            top: self.top.min(other.top),
            right: self.right.max(other.right),
            bottom: self.bottom.max(other.bottom),
        }
    }

    /// What is in both.
    #[must_use]
    pub fn within(self, other: Self) -> Self {
        Self {
            left: self.left.max(other.left),
            top: self.top.max(other.top),
            right: self.right.min(other.right),
            bottom: self.bottom.min(other.bottom),
        }
    }
}
