// SPDX-License-Identifier: MIT OR Apache-2.0

//! Residency: the memory that the GPU can access, and a process's share of it.

use crate::device::Device;
use crate::error::Error;
use crate::memory::allocation::Allocation;
use bellhop_protocol::control::allocation::{
    Evict, MAX_RESIDENCY_LIST, MakeResident, QueryVideoMemoryInfo, SegmentSet, VideoMemoryInfo,
};
use std::time::Duration;
use zerocopy::IntoBytes;

impl Device {
    /// Size, budget and use of one segment, in bytes, for this process
    /// (`D3DKMTQueryVideoMemoryInfo`).
    ///
    /// # Errors
    /// [`Error::Refused`] unless `segment` is one segment.
    pub fn video_memory_info(&self, segment: SegmentSet) -> Result<VideoMemoryInfo, Error> {
        self.session().call(&QueryVideoMemoryInfo { segment: segment.bits(), gpu: 0 })
    }

    /// [`Self::video_memory_info`] of the `PRIVATE` segment of a GPU of the chain.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such GPU.
    pub fn video_memory_info_on(&self, gpu: u8) -> Result<VideoMemoryInfo, Error> {
        let segment = SegmentSet::PRIVATE.bits();
        self.session().call(&QueryVideoMemoryInfo { segment, gpu: gpu.into() })
    }

    /// Waits until the device asks the process to trim because it exceeds its local-memory budget. Returns the
    /// number of bytes to evict, or `None` if `timeout` expires. Returns each request once.
    ///
    /// # Errors
    /// Only the common errors.
    pub fn wait_for_trim(&self, timeout: Duration) -> Result<Option<u64>, Error> {
        let session = self.session();
        session.link.events.wait_for_trim(session.process(), timeout)
    }

    /// Makes allocations resident, all or none (`D3DKMTMakeResident`). The GPU can access them when this returns.
    /// Each call for a paged allocation needs a matching [`Self::evict`].
    ///
    /// # Errors
    /// [`Error::Refused`] if they do not fit.
    pub fn make_resident(&self, allocations: &[&Allocation]) -> Result<(), Error> {
        for (index, list) in allocations.chunks(MAX_RESIDENCY_LIST as usize).enumerate() {
            let (device, count) = (self.handle(), list.len() as u32);
            let handles: Vec<_> = list.iter().map(|allocation| allocation.handle()).collect();
            let request = MakeResident { device, count, reserved: 0 };
            let resident = self.session().call_with_list(&request, handles.as_bytes());
            if let Err(error) = resident {
                // Each list is all or none, and the lists before this one must not stay resident. If evicting them
                // fails, the device is gone or has evicted them.
                let before = allocations.get(..index * MAX_RESIDENCY_LIST as usize);
                let _ = self.evict(before.unwrap_or_default());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Evicts allocations (`D3DKMTEvict`). When this returns, the GPU can no longer access those that no device
    /// needs resident, and faults if it tries. Bytes and addresses stay.
    ///
    /// # Errors
    /// [`Error::Refused`] if a doorbell uses one of them, or a paged one is not resident on this device.
    pub fn evict(&self, allocations: &[&Allocation]) -> Result<(), Error> {
        for list in allocations.chunks(MAX_RESIDENCY_LIST as usize) {
            let (device, count) = (self.handle(), list.len() as u32);
            let handles: Vec<_> = list.iter().map(|allocation| allocation.handle()).collect();
            let request = Evict { device, count, reserved: 0 };
            self.session().call_with_list(&request, handles.as_bytes())?;
        }
        Ok(())
    }
}

impl Allocation {
    /// Evicts this allocation: see [`Device::evict`].
    ///
    /// # Errors
    /// As [`Device::evict`].
    pub fn evict(&self) -> Result<(), Error> {
        self.device().evict(&[self])
    }

    /// Makes this allocation resident: see [`Device::make_resident`].
    ///
    /// # Errors
    /// As [`Device::make_resident`].
    pub fn make_resident(&self) -> Result<(), Error> {
        self.device().make_resident(&[self])
    }
}
