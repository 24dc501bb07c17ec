// SPDX-License-Identifier: MIT OR Apache-2.0

//! A picture of a screen.

/// Pixels `0x00RRGGBB`, row by row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Picture {
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// As many as `width * height`.
    pub pixels: Vec<u32>,
}

impl Picture {
    /// A black picture.
    #[must_use]
    pub fn black(width: u32, height: u32) -> Self {
        Self { width, height, pixels: vec![0; width as usize * height as usize] }
    }
}
