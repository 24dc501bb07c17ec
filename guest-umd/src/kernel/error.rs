// SPDX-License-Identifier: MIT OR Apache-2.0

//! Errors of creating a kernel.

use crate::error::Error;

/// Why a kernel could not be created.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The device runs no kernels.
    #[error("the device runs no kernels: {missing}")]
    NotOffered {
        /// Why, and what to install on the host.
        missing: String,
    },
    /// The source is not SPIR-V, or is too long for a kernel.
    #[error("kernel {kernel} is no SPIR-V: {problem}")]
    NotSpirv {
        /// The kernel's name.
        kernel: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The WGSL is wrong, or needs something that kernels do not have.
    #[error("kernel {kernel}: {text}")]
    Wgsl {
        /// The kernel's name.
        kernel: String,
        /// What is wrong, with the place in the source where that is known.
        text: String,
    },
    /// The device's compiler refused the kernel.
    #[error("kernel {kernel} does not compile: {text}")]
    Refused {
        /// The kernel's name.
        kernel: String,
        /// What the compiler said.
        text: String,
    },
    /// The device's compiler crashed. Other kernels are not affected.
    #[error("kernel {kernel} crashed the device's compiler: {text}")]
    CompilerCrashed {
        /// The kernel's name.
        kernel: String,
        /// What is known of the crash.
        text: String,
    },
    /// The device gave up compiling.
    #[error("kernel {kernel} takes too long to compile: {text}")]
    TooSlow {
        /// The kernel's name.
        kernel: String,
        /// How long it took.
        text: String,
    },
    /// The host could not start a process that compiles. Later it may.
    #[error("kernel {kernel} cannot be compiled now: {text}")]
    NoWorker {
        /// The kernel's name.
        kernel: String,
        /// Why not.
        text: String,
    },
    /// A request failed, for another reason than the kernel itself.
    #[error(transparent)]
    Device(#[from] Error),
}
