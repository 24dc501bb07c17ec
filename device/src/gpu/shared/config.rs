// SPDX-License-Identifier: MIT OR Apache-2.0

//! The configuration of a GPU.

use crate::gpu::display::config::DisplayConfig;
use crate::gpu::security::config::SecurityConfig;
use crate::gpu::workers::config::{KernelsConfig, VideoConfig};
use bellhop_host_kmd::hardware::DoorbellModel;
use std::time::Duration;

/// The configuration of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuConfig {
    /// 3D engines, which draw and compute: 1 to 8.
    pub graphics_engines: u32,
    /// Copy engines: at most 8.
    pub copy_engines: u32,
    /// Compute engines, beside those: at most 8.
    pub compute_engines: u32,
    /// Physical doorbells, which all guests share.
    pub physical_doorbells: u32,
    /// Whether each queue has its own doorbell, or all queues of a guest share one word and use no physical
    /// doorbell.
    pub doorbell_model: DoorbellModel,
    /// Whether doorbell pages are moved, for guests with a VMM that can do so: see `Gpu::rotate_doorbells`.
    pub remaps_doorbells: bool,
    /// Number of trailing copy engines reserved for kernel-mode submission.
    pub kernel_mode_copy_engines: u32,
    /// Processors to pin engines to, one each, by node and starting over at the end of the list; if empty, the
    /// scheduler places all engines.
    pub engine_processors: Vec<usize>,
    /// How long an engine without work polls its doorbells before it sleeps.
    pub spin: Duration,
    /// How long an engine sleeps without work before it asks for F1; with `None` it never asks.
    pub idle: Option<Duration>,
    /// How long an engine executes a queue without progress before the queue counts as hung.
    pub hang: Duration,
    /// How long a context keeps its engine while others of its guest and priority wait.
    pub quantum: Duration,
    /// Whether the kernels that hang until a reset exist. They are for tests: a guest that dispatches one can force
    /// a reset of the adapter.
    pub test_kernels: bool,
    /// Whether engines execute the packets of most submissions in bursts; otherwise packet by packet, like the
    /// rest. The results are equal: tests compare the two.
    pub bursts: bool,
    /// Whether interrupts for logged signals name the HW queue instead of the fences.
    pub optimized_fence_interrupt: bool,
    /// Page-table pages of 4 KiB, which all guests share. The guests of a socket can have up to a quarter of them.
    pub page_table_pages: u32,
    /// How many guests a socket can have at once. Each has an equal part of what is the socket's.
    pub guests_per_socket: u32,
    /// What runs guests' own kernels; without it, guests have none.
    pub kernels: Option<KernelsConfig>,
    /// Video decode engines: at most 4.
    pub video_decode_engines: u32,
    /// Video encode engines: at most 4.
    pub video_encode_engines: u32,
    /// What has the video sessions, or why there are none.
    pub video: Result<VideoConfig, String>,
    /// The security node; without it there is none.
    pub security: Option<SecurityConfig>,
    /// The displays that each guest has.
    pub display: DisplayConfig,
}

impl Default for GpuConfig {
    fn default() -> Self {
        Self {
            graphics_engines: 1,
            copy_engines: 2,
            compute_engines: 1,
            kernel_mode_copy_engines: 0,
            engine_processors: Vec::new(),
            physical_doorbells: 64,
            doorbell_model: DoorbellModel::Dedicated,
            remaps_doorbells: false,
            spin: Duration::from_micros(50),
            idle: Some(Duration::from_secs(1)),
            hang: Duration::from_secs(2),
            quantum: Duration::from_micros(200),
            test_kernels: false,
            bursts: true,
            optimized_fence_interrupt: false,
            page_table_pages: 1 << 15,
            guests_per_socket: 1,
            kernels: None,
            video_decode_engines: 0,
            video_encode_engines: 0,
            video: Err("this adapter has no video nodes".into()),
            security: None,
            display: DisplayConfig::default(),
        }
    }
}
