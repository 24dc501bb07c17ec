// SPDX-License-Identifier: MIT OR Apache-2.0

//! Allocations that the device places. It counts residency and locks, and an imbalance is a mistake of the
//! driver.

use super::script::{Sent, reply, success};
use super::{LAYOUT, State};
use bellhop_protocol::control::allocation::{
    CloseAllocation, CreateAllocation, CreateAllocationReply, Evict, LockReply, MakeResident,
    NOT_IN_BAR, OpenAllocation, OpenSharedAllocation, OpenedAllocation, VideoMemoryInfo,
};
use bellhop_protocol::control::fence::NtHandle;
use bellhop_protocol::control::gpu_va::{
    MapGpuVirtualAddressReply, ReserveGpuVirtualAddress, UpdateGpuVirtualAddress,
};
use bellhop_protocol::control::{Handle, RequestCode};
use bellhop_protocol::status::Status;
use std::collections::BTreeMap;
use zerocopy::FromBytes;

/// An allocation.
pub(super) struct Paged {
    size: u64,
    /// How often each device that has it open made it resident.
    wanted: BTreeMap<Handle, u32>,
    locks: u32,
    /// Where it is in the BAR; `NOT_IN_BAR` if it is in the guest's own pages.
    pub(super) bar_offset: u64,
}

impl State {
    pub(super) fn describe(
        &mut self,
        allocation: Handle,
        request: &CreateAllocation,
        extents: &[u8],
    ) -> Vec<u8> {
        let bar_offset = match extents {
            [] => {
                self.next_local += request.size;
                self.next_local - request.size
            }
            _ => NOT_IN_BAR,
        };
        let wanted = BTreeMap::from([(request.device, 0)]);
        self.paged.insert(allocation, Paged { size: request.size, wanted, locks: 0, bar_offset });
        success(&CreateAllocationReply { allocation, bar_offset: NOT_IN_BAR })
    }

    pub(super) fn forget_paged(&mut self, allocation: Handle) {
        if let Some(Paged { locks: 1.., .. }) = self.paged.remove(&allocation) {
            self.mistakes.push(format!("{allocation} goes while it is locked"));
        }
    }

    /// How often a device made an allocation resident.
    pub(super) fn wanted(&self, device: Handle, allocation: Handle) -> Option<u32> {
        self.paged.get(&allocation)?.wanted.get(&device).copied()
    }

    /// Changes the residency counts of a device's allocations, all or none.
    fn count(&mut self, device: Handle, list: &[u8], by: i32) -> Vec<u8> {
        let list: Vec<_> =
            list.chunks_exact(8).map(|bytes| Handle::read_from_bytes(bytes).unwrap()).collect();
        let mut counts = BTreeMap::new();
        for allocation in list {
            // Only paged allocations are counted.
            if !self.paged.contains_key(&allocation) {
                continue;
            }
            let before = self.wanted(device, allocation);
            let count = counts.entry(allocation).or_insert(before);
            *count = count.and_then(|count| count.checked_add_signed(by));
            if count.is_none() {
                return reply(Status::INVALID_PARAMETER, 0, &[]);
            }
        }
        for (allocation, count) in counts {
            let paged = self.paged.get_mut(&allocation).unwrap();
            paged.wanted.insert(device, count.unwrap());
        }
        success(&())
    }

    pub(super) fn answer_paged(&mut self, sent: &Sent) -> Vec<u8> {
        match sent.code {
            RequestCode::MAKE_RESIDENT => {
                let request = sent.read::<MakeResident>();
                self.count(request.device, sent.following::<MakeResident>(), 1)
            }
            RequestCode::EVICT => {
                let request = sent.read::<Evict>();
                self.count(request.device, sent.following::<Evict>(), -1)
            }
            RequestCode::OPEN_ALLOCATION => {
                let OpenAllocation { device, allocation } = sent.read();
                self.paged.get_mut(&allocation).unwrap().wanted.insert(device, 0);
                success(&())
            }
            RequestCode::CLOSE_ALLOCATION => {
                let CloseAllocation { device, allocation } = sent.read();
                let paged = self.paged.get_mut(&allocation).unwrap();
                paged.wanted.remove(&device);
                if paged.wanted.is_empty() {
                    self.forget_paged(allocation);
                    self.destroy(allocation.0)
                } else {
                    success(&())
                }
            }
            RequestCode::SHARE_ALLOCATION => success(&NtHandle(sent.named() << 8)),
            RequestCode::OPEN_SHARED_ALLOCATION => {
                let OpenSharedAllocation { device, nt_handle } = sent.read();
                let Some(original) = self.paged.get(&Handle(nt_handle.0 >> 8)) else {
                    return reply(Status::INVALID_PARAMETER, nt_handle.0, &[]);
                };
                let (size, bar_offset) = (original.size, original.bar_offset);
                self.next_handle += 1;
                let allocation = Handle(self.next_handle);
                self.create(allocation.0, sent.code, &[sent.process.into(), device.0]);
                let wanted = BTreeMap::from([(device, 0)]);
                self.paged.insert(allocation, Paged { size, wanted, locks: 0, bar_offset });
                success(&OpenedAllocation { allocation, size })
            }
            RequestCode::LOCK => {
                let paged = self.paged.get_mut(&Handle(sent.named())).unwrap();
                paged.locks += 1;
                success(&LockReply { bar_offset: paged.bar_offset })
            }
            RequestCode::UNLOCK => match self.paged.get_mut(&Handle(sent.named())) {
                Some(paged @ Paged { locks: 1.., .. }) => {
                    paged.locks -= 1;
                    success(&())
                }
                _ => {
                    self.mistakes.push("what is not locked is unlocked".into());
                    reply(Status::INVALID_PARAMETER, 0, &[])
                }
            },
            RequestCode::SET_ALLOCATION_PRIORITY => success(&()),
            RequestCode::QUERY_VIDEO_MEMORY_INFO => {
                let usage = self.paged.values().map(|paged| paged.size).sum();
                let size = LAYOUT.local_memory;
                success(&VideoMemoryInfo { size, budget: size / 2, usage })
            }
            RequestCode::RESERVE_GPU_VIRTUAL_ADDRESS => {
                let ReserveGpuVirtualAddress { base, size } = sent.read();
                let gpu_va = if base == 0 { self.next_va } else { base };
                self.next_va = self.next_va.max(gpu_va + size);
                self.create(gpu_va, sent.code, &[sent.process.into()]);
                success(&MapGpuVirtualAddressReply { gpu_va })
            }
            RequestCode::UPDATE_GPU_VIRTUAL_ADDRESS => {
                let request = sent.read::<UpdateGpuVirtualAddress>();
                let is_known =
                    request.allocation == Handle(0) || self.paged.contains_key(&request.allocation);
                if is_known {
                    success(&())
                } else {
                    reply(Status::INVALID_HANDLE, request.allocation.0, &[])
                }
            }
            code => panic!("no request has code {code}"),
        }
    }
}
