// SPDX-License-Identifier: MIT OR Apache-2.0

//! A heap for tests, on a device that does nothing but agree.

use crate::heap::Heap;
use bellhop_guest_umd::Adapter;
use bellhop_guest_umd::transport::{
    BarMapping, Donations, SystemMemory, Transport, TransportError,
};
use bellhop_protocol::config::{CONFIG_MAGIC, ConfigSpace};
use bellhop_protocol::control::adapter::AdapterInfo;
use bellhop_protocol::control::allocation::{CreateAllocationReply, Extent, NOT_IN_BAR};
use bellhop_protocol::control::gpu_va::{GPU_VA_START, MapGpuVirtualAddressReply};
use bellhop_protocol::control::process::CreateProcessReply;
use bellhop_protocol::control::{Handle, ReplyHeader, RequestCode, RequestHeader};
use bellhop_protocol::event::Event;
use bellhop_protocol::features::{Features, Version};
use bellhop_protocol::status::Status;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use vm_memory::MmapRegion;
use zerocopy::{FromBytes, IntoBytes};

/// A heap that lives as long as the test's process.
pub(crate) fn heap() -> &'static Heap {
    let agreeing = Agreeing { donations: Donations::default(), next: AtomicU64::new(1) };
    let adapter = Adapter::open(Arc::new(agreeing)).unwrap();
    Box::leak(Box::new(Heap::new(adapter.create_device().unwrap())))
}

/// The device.
struct Agreeing {
    donations: Donations,
    /// The next handle, and how many mebibytes of addresses are in use.
    next: AtomicU64,
}

impl Transport for Agreeing {
    fn config(&self) -> ConfigSpace {
        ConfigSpace {
            magic: CONFIG_MAGIC,
            version: Version::CURRENT,
            node_count: 1,
            bar_size: 0,
            doorbell_count: 0,
            fence_count: 0,
            features: 0,
            reserved: [0; 3],
        }
    }

    fn features(&self) -> Features {
        Features::empty()
    }

    fn bar(&self) -> Option<BarMapping> {
        None
    }

    fn donations(&self) -> &Donations {
        &self.donations
    }

    fn request(&self, request: &[u8], reply: &mut [u8]) -> Result<usize, TransportError> {
        let (header, _) = RequestHeader::read_from_prefix(request).unwrap();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let gpu_va = GPU_VA_START + (number << 20);
        let body = match header.code {
            RequestCode::OPEN_ADAPTER => AdapterInfo {
                version: Version::CURRENT,
                node_count: 1,
                features: 0,
                local_memory: 0,
                flags: 0,
            }
            .as_bytes()
            .to_vec(),
            RequestCode::CREATE_PROCESS => {
                CreateProcessReply { process: number as u32, reserved: 0 }.as_bytes().to_vec()
            }
            RequestCode::CREATE_DEVICE => Handle(number).as_bytes().to_vec(),
            RequestCode::CREATE_ALLOCATION => {
                let allocation = Handle(number);
                CreateAllocationReply { allocation, bar_offset: NOT_IN_BAR }.as_bytes().to_vec()
            }
            RequestCode::MAP_GPU_VIRTUAL_ADDRESS => {
                MapGpuVirtualAddressReply { gpu_va }.as_bytes().to_vec()
            }
            _ => Vec::new(),
        };
        let length = size_of::<ReplyHeader>() + body.len();
        let header = ReplyHeader { status: Status::SUCCESS, length: length as u32, detail: 0 };
        reply[..length].copy_from_slice(&[header.as_bytes(), &body].concat());
        Ok(length)
    }

    fn post(&self, _request: &[u8]) -> Result<(), TransportError> {
        Ok(())
    }

    fn kick(&self) -> Result<(), TransportError> {
        Ok(())
    }

    fn next_event(&self, _timeout: Option<Duration>) -> Result<Option<Event>, TransportError> {
        Ok(None)
    }

    fn allocate(&self, size: u64) -> Result<Box<dyn SystemMemory>, TransportError> {
        let region = Arc::new(MmapRegion::new(size as usize).unwrap());
        Ok(Box::new(Pages { region, extents: [Extent { address: 1 << 32, length: size }] }))
    }

    fn check(&self) -> Result<(), TransportError> {
        Ok(())
    }
}

/// Memory of the test's process.
struct Pages {
    region: Arc<MmapRegion>,
    extents: [Extent; 1],
}

impl SystemMemory for Pages {
    fn region(&self) -> &Arc<MmapRegion> {
        &self.region
    }

    fn offset(&self) -> usize {
        0
    }

    fn len(&self) -> usize {
        self.extents[0].length as usize
    }

    fn extents(&self) -> &[Extent] {
        &self.extents
    }
}
