// SPDX-License-Identifier: MIT OR Apache-2.0

#![cfg_attr(not(test), deny(clippy::string_slice, clippy::unchecked_time_subtraction))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

//! A guest in a real VM: stock QEMU, Debian's kernel, and the guest program as its only task. Also a Vulkan and a
//! decoder of Debian's, fetched as these are.

mod accelerator;
pub mod attachment;
mod cloud_hypervisor;
mod environment;
mod guest;
pub mod host;
mod in_qemu;
pub mod keyboard;
mod machine;
mod monitor;
mod nested;
mod options;
mod packages;
mod progress;
mod qemu;
mod reference;
mod task;
mod trace;
pub mod variant;
mod vmm;
mod vulkan;

pub use accelerator::Accelerator;
pub use environment::{Mesa, Sources};
pub use options::{Options, Outcome, STOOD_STILL};
pub use packages::programs::Packaged;
pub use reference::Dav1d;
pub use task::{Program, Service, Task, User};
pub use vmm::Vmm;
pub use vulkan::Vulkan;

/// Finds or fetches a Vulkan for this machine's programs.
///
/// # Errors
/// When it is neither here nor can be fetched.
pub fn fetch_vulkan(mesa: Mesa, sources: &Sources) -> anyhow::Result<Vulkan> {
    environment::Stock::open(sources)?.vulkan(mesa)
}

/// Finds or fetches a Vulkan loader for this machine's programs, and returns its folder.
///
/// # Errors
/// When it is neither here nor can be fetched.
pub fn fetch_vulkan_loader(sources: &Sources) -> anyhow::Result<std::path::PathBuf> {
    environment::Stock::open(sources)?.vulkan_loader()
}

/// Finds or fetches a package of Debian 12's for those who build programs with a library, and its other packages, whose names
/// begin with `prefix`. Returns their folder.
///
/// # Errors
/// When it is neither here nor can be fetched.
pub fn fetch_library(
    package: &str,
    prefix: &str,
    sources: &Sources,
) -> anyhow::Result<std::path::PathBuf> {
    environment::Stock::open(sources)?.library(package, prefix)
}

/// Finds or fetches the programs of packages of Debian 13's.
///
/// # Errors
/// When they are neither here nor can be fetched.
pub fn fetch_programs(packages: &[String], sources: &Sources) -> anyhow::Result<Packaged> {
    environment::Stock::open(sources)?.packaged(packages.iter().map(String::as_str))
}

/// Finds or fetches packages of Debian 13's with a Vulkan loader, for a program that uses Vulkan.
///
/// # Errors
/// When they are neither here nor can be fetched.
pub fn fetch_vulkan_programs(packages: &[String], sources: &Sources) -> anyhow::Result<Packaged> {
    let packages = packages.iter().map(String::as_str).chain(vulkan::OF_PROGRAMS);
    environment::Stock::open(sources)?.packaged(packages)
}

/// Finds or fetches the reference decoder of AV1.
///
/// # Errors
/// When it is neither here nor can be fetched.
pub fn fetch_dav1d(sources: &Sources) -> anyhow::Result<Dav1d> {
    environment::Stock::open(sources)?.dav1d()
}

/// Finds or fetches files of AV1 that Debian ships, and returns their folder.
///
/// # Errors
/// When they are neither here nor can be fetched.
pub fn fetch_av1_samples(sources: &Sources) -> anyhow::Result<std::path::PathBuf> {
    environment::Stock::open(sources)?.av1_samples()
}

/// Boots a VM, has it do its task, and waits for it. The VM has ended when this returns.
///
/// # Errors
/// When it cannot be set up or started, or does not complete the task.
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    options.check_files()?;
    match (options.vmm, options.nested) {
        (Vmm::Qemu, _) => in_qemu::run(options),
        (Vmm::CloudHypervisor, false) => cloud_hypervisor::run(options),
        (Vmm::CloudHypervisor, true) => nested::run(options),
    }
}
