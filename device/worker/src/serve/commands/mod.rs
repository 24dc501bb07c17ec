// SPDX-License-Identifier: MIT OR Apache-2.0

//! Streams of commands: they are copied from the window, decoded and checked, and then recorded and run.
//!
//! Nothing is kept that another worker could not make again: pipelines, images, and the last command buffers are kept
//! because they take long to make.

mod continued;
mod described;
mod descriptors;
mod drawing;
mod fields;
mod images;
mod making;
mod pipelines;
mod plan;
mod reader;
mod record;
mod residency;
mod runs;
mod stages;
mod stream;
mod transfers;
mod waiting;
mod warming;
mod wrong;

#[cfg(test)]
mod tests;

pub use residency::Residency;
pub use runs::Runs;
pub use stream::Stream;
pub use wrong::Wrong;
