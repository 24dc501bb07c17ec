// SPDX-License-Identifier: MIT OR Apache-2.0

//! A process: its address space, its devices, and what suspends its contexts.

use crate::dxgkrnl::memory::gpu_va::GpuVa;
use crate::hardware::{AddressSpaceId, ProcessBarId, ProcessShare};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::process::DescribeProcess;
use std::collections::BTreeSet;

/// A process.
#[derive(Debug)]
pub(crate) struct Process {
    space: AddressSpaceId,
    /// The GPU virtual addresses that it uses. They keep their own rules.
    pub(crate) gpu_va: GpuVa,
    devices: BTreeSet<Handle>,
    /// Number of paging works that keep its contexts suspended.
    holds: u32,
    /// Whether it is about to be destroyed: no device is created in it.
    terminating: bool,
    /// Its own BAR, if it has one.
    bar: Option<ProcessBarId>,
    program: Option<DescribeProcess>,
    share: ProcessShare,
}

impl Process {
    /// Creates a process without devices, with a BAR of its own or in its guest's.
    pub(crate) fn new(space: AddressSpaceId, bar: Option<ProcessBarId>) -> Self {
        let (gpu_va, devices) = (GpuVa::new(), BTreeSet::new());
        let (program, share) = (None, ProcessShare::default());
        Self { space, gpu_va, devices, holds: 0, terminating: false, bar, program, share }
    }

    /// The program that it is for, by its guest's word.
    pub(crate) fn program(&self) -> Option<&DescribeProcess> {
        self.program.as_ref()
    }

    /// Its guest says which program it is for.
    pub(crate) fn describe(&mut self, program: DescribeProcess) {
        self.program = Some(program);
    }

    /// Its part of its guest's engine time.
    pub(crate) fn share(&self) -> ProcessShare {
        self.share
    }

    /// HW queues that it creates from now on have this share.
    pub(crate) fn set_share(&mut self, share: ProcessShare) {
        self.share = share;
    }

    /// Its own BAR, if it has one.
    pub(crate) fn bar(&self) -> Option<ProcessBarId> {
        self.bar
    }

    /// Whether it is about to be destroyed.
    pub(crate) fn is_terminating(&self) -> bool {
        self.terminating
    }

    /// Marks it as about to be destroyed.
    pub(crate) fn begin_termination(&mut self) {
        self.terminating = true;
    }

    /// Its page tables.
    pub(crate) fn space(&self) -> AddressSpaceId {
        self.space
    }

    /// Its devices.
    pub(crate) fn devices(&self) -> &BTreeSet<Handle> {
        &self.devices
    }

    /// Adds a device.
    pub(crate) fn add_device(&mut self, device: Handle) {
        self.devices.insert(device);
    }

    /// Removes a device.
    pub(crate) fn remove_device(&mut self, device: Handle) {
        self.devices.remove(&device);
    }

    /// Counts a paging work that keeps its contexts suspended.
    pub(crate) fn hold(&mut self) {
        self.holds += 1;
    }

    /// A paging work that kept its contexts suspended is done.
    pub(crate) fn unhold(&mut self) {
        self.holds = self.holds.saturating_sub(1);
    }

    /// Whether paging keeps its contexts suspended.
    pub(crate) fn is_held(&self) -> bool {
        self.holds > 0
    }
}
