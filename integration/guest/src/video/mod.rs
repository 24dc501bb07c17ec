// SPDX-License-Identifier: MIT OR Apache-2.0

//! Video files: an IVF file decoded to pictures, and pictures encoded to an IVF file.

mod decode;
mod encode;
mod ivf;
mod report;
mod still;
mod stills;
mod y4m;

pub use decode::{Decode, decode};
pub use encode::{Encode, encode};
pub use report::Report;
pub use stills::Stills;

/// The temporal units of an IVF file.
pub(crate) fn units_of(file: &[u8]) -> anyhow::Result<Vec<&[u8]>> {
    Ok(ivf::read(file)?.frames.iter().map(|frame| frame.data).collect())
}
