// SPDX-License-Identifier: MIT OR Apache-2.0

//! What drivers keep in files.

use std::process::Command;

/// Variables by which drivers are told to keep no compiled kernels in files: what one guest's kernels left there would be
/// another's. Mesa's, and NVIDIA's.
const WITHOUT: [(&str, &str); 2] =
    [("MESA_SHADER_CACHE_DISABLE", "true"), ("__GL_SHADER_DISK_CACHE", "0")];

/// Has a program's drivers keep nothing in files.
pub(crate) fn forbid(command: &mut Command) {
    command.envs(WITHOUT);
}
