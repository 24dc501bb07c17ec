// SPDX-License-Identifier: MIT OR Apache-2.0

//! The configuration of a security node.

use crate::gpu::workers::config::WorkerProgram;
use bellhop_worker::security::owner::About;
use std::fs::File;
use std::sync::Arc;

/// What a security node is started with.
#[derive(Debug, Clone)]
pub struct SecurityConfig {
    /// How its worker is started.
    pub worker: WorkerProgram,
    /// The file with the root key. The daemon hands it over, and never reads it.
    pub root: Arc<File>,
    /// What statements say, and what keys depend on.
    pub about: About,
}

impl PartialEq for SecurityConfig {
    fn eq(&self, other: &Self) -> bool {
        let is_same = Arc::ptr_eq(&self.root, &other.root);
        is_same && (&self.worker, &self.about) == (&other.worker, &other.about)
    }
}

impl Eq for SecurityConfig {}
