// SPDX-License-Identifier: MIT OR Apache-2.0

//! The model as the driver and dxgkrnl see it: one file for each subject of `Gpu` and `Platform`.

mod adapter;
mod display;
mod doorbells;
mod engines;
mod fences;
mod kernels;
mod memory;
mod observe;
mod page_tables;
mod process_bars;
mod queues;
mod video;

pub use kernels::ModelKernel;

use bellhop_host_kmd::hardware::NodeDescription;
use bellhop_protocol::control::adapter::EngineType;

/// The nodes of an adapter, unless a test chooses others. The last for copies executes paging.
pub const NODES: &[NodeDescription] = &[
    NodeDescription {
        engine_type: EngineType::THREE_D,
        name: "compute",
        user_mode_submission: true,
        processor: Some(3),
    },
    NodeDescription {
        engine_type: EngineType::COPY,
        name: "copy",
        user_mode_submission: true,
        processor: None,
    },
];
