// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guest memory in files of its own, beside the guest's other memory.

use super::VhostUser;
use super::conversation::Conversation;
use super::ram::GuestRam;
use crate::transport::file::memory_file;
use crate::transport::{SystemMemory, TransportError};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::Extent;
use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use vhost::VhostUserMemoryRegionInfo;
use vm_memory::MmapRegion;

/// Maximum number of files: with the guest's other memory they are the entries of a memory table.
const MOST: usize = 31;
/// Guest-physical address of the first file: behind all other memory.
const FIRST: u64 = 1 << 40;
/// Guest-physical addresses of a file: more than it can be long.
const SPACE: u64 = 1 << 36;

/// Who announces the files to the device.
pub(super) struct Files {
    announcer: Mutex<Announcer>,
    ram: Arc<GuestRam>,
}

struct Announcer {
    conversation: Conversation,
    /// By place.
    files: BTreeMap<u64, Arc<MmapRegion>>,
}

impl Announcer {
    fn announce(&mut self, ram: &GuestRam) -> Result<(), TransportError> {
        let mut regions = ram.region_infos();
        regions.extend(self.files.iter().filter_map(|(place, region)| {
            Some(VhostUserMemoryRegionInfo {
                guest_phys_addr: address(*place),
                memory_size: region.size() as u64,
                userspace_addr: region.as_ptr() as u64,
                mmap_offset: 0,
                mmap_handle: region.file_offset()?.file().as_raw_fd(),
            })
        }));
        self.conversation.announce(&regions)
    }
}

fn address(place: u64) -> u64 {
    FIRST + place * SPACE
}

impl Files {
    pub(super) fn new(conversation: Conversation, ram: Arc<GuestRam>) -> Self {
        let announcer = Announcer { conversation, files: BTreeMap::new() };
        Self { announcer: Mutex::new(announcer), ram }
    }

    /// No code panics while it holds the lock, so a poisoned table is whole.
    fn lock(&self) -> MutexGuard<'_, Announcer> {
        self.announcer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Memory in a file of its own. The device loses it on drop.
struct InFile {
    device: Weak<VhostUser>,
    place: u64,
    region: Arc<MmapRegion>,
    extent: Extent,
}

impl VhostUser {
    /// Makes a file, and announces it.
    pub(super) fn make_file(&self, size: u64) -> Result<Box<dyn SystemMemory>, TransportError> {
        let size = size.checked_next_multiple_of(PAGE_SIZE).filter(|size| *size <= SPACE);
        let size = size.filter(|size| *size > 0).ok_or(TransportError::OutOfMemory(u64::MAX))?;
        let region = Arc::new(memory_file(size as usize)?);
        let mut announcer = self.files.lock();
        let place = (0..MOST as u64).find(|place| !announcer.files.contains_key(place));
        let place = place.ok_or(TransportError::OutOfMemory(size))?;
        announcer.files.insert(place, Arc::clone(&region));
        if let Err(error) = announcer.announce(&self.files.ram) {
            announcer.files.remove(&place);
            return Err(error);
        }
        let extent = Extent { address: address(place), length: size };
        Ok(Box::new(InFile { device: self.this.clone(), place, region, extent }))
    }
}

impl SystemMemory for InFile {
    fn region(&self) -> &Arc<MmapRegion> {
        &self.region
    }

    fn offset(&self) -> usize {
        0
    }

    fn len(&self) -> usize {
        self.region.size()
    }

    fn extents(&self) -> &[Extent] {
        std::slice::from_ref(&self.extent)
    }
}

impl Drop for InFile {
    fn drop(&mut self) {
        let Some(device) = self.device.upgrade() else { return };
        let mut announcer = device.files.lock();
        announcer.files.remove(&self.place);
        // A device that is gone has forgotten it.
        let _ = announcer.announce(&device.files.ram);
    }
}
