// SPDX-License-Identifier: MIT OR Apache-2.0

//! The window into which the device maps its BAR.

use super::place::Place;
use crate::transport::TransportError;
use bellhop_protocol::config::BAR_SHMID;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd};
use vhost::vhost_user::message::{VhostUserMMap, VhostUserMMapFlags};
use vhost::vhost_user::{HandlerResult, VhostUserFrontendReqHandlerMut};

/// The window: its address space, and the device's mappings there.
pub struct Window {
    place: Place,
    mappings: Mappings,
}

/// The device's mappings in a window of so many bytes.
pub struct Mappings {
    size: u64,
    /// Lengths by offset.
    lengths: BTreeMap<u64, u64>,
}

impl Mappings {
    /// No mappings.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self { size, lengths: BTreeMap::new() }
    }

    /// The number of mappings.
    #[cfg(feature = "raw")]
    #[must_use]
    pub fn count(&self) -> usize {
        self.lengths.len()
    }

    /// Removes all.
    #[cfg(feature = "raw")]
    pub fn clear(&mut self) {
        self.lengths.clear();
    }

    /// Accepts a mapping that the device asks for.
    ///
    /// # Errors
    /// If it lies outside the window, overlaps another, or is read-only.
    pub fn add(&mut self, request: &VhostUserMMap) -> io::Result<()> {
        self.check(request)?;
        let VhostUserMMap { shm_offset, len, flags, .. } = *request;
        let overlaps = |(offset, length): (&u64, &u64)| {
            *offset < shm_offset + len && shm_offset < *offset + *length
        };
        if self.lengths.iter().any(overlaps) {
            return Err(refusal("something is mapped there already"));
        }
        if flags != VhostUserMMapFlags::WRITABLE.bits() {
            return Err(refusal("the guest must be able to write the BAR"));
        }
        self.lengths.insert(shm_offset, len);
        Ok(())
    }

    /// Accepts the end of a mapping.
    ///
    /// # Errors
    /// If there is no such mapping.
    pub fn remove(&mut self, request: &VhostUserMMap) -> io::Result<()> {
        self.check(request)?;
        let VhostUserMMap { shm_offset, len, .. } = *request;
        if self.lengths.get(&shm_offset) != Some(&len) {
            return Err(refusal("no mapping has that offset and length"));
        }
        self.lengths.remove(&shm_offset);
        Ok(())
    }

    /// The rules for every request.
    fn check(&self, request: &VhostUserMMap) -> io::Result<()> {
        let VhostUserMMap { shmid, shm_offset, len, .. } = *request;
        if shmid != BAR_SHMID {
            return Err(refusal(format_args!("there is no shared-memory region {shmid}")));
        }
        if len == 0 || shm_offset.checked_add(len).is_none_or(|end| end > self.size) {
            let problem = format_args!("{len} bytes at {shm_offset} are outside the region");
            return Err(refusal(problem));
        }
        Ok(())
    }
}

fn refusal(why: impl std::fmt::Display) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, why.to_string())
}

impl Window {
    /// A window without mappings.
    ///
    /// # Errors
    /// If this process has no address space left.
    pub fn new(size: u64) -> Result<Self, TransportError> {
        Ok(Self { place: Place::reserve(size)?, mappings: Mappings::new(size) })
    }

    /// Its address space.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }
}

impl VhostUserFrontendReqHandlerMut for Window {
    fn shmem_map(&mut self, request: &VhostUserMMap, file: &dyn AsRawFd) -> HandlerResult<u64> {
        self.mappings.add(request)?;
        let VhostUserMMap { shm_offset, len, fd_offset, .. } = *request;
        // SAFETY: vhost's request handler keeps the file open during this call.
        #[expect(unsafe_code, reason = "the trait passes a raw descriptor")]
        let file = unsafe { BorrowedFd::borrow_raw(file.as_raw_fd()) };
        self.place.replace(shm_offset, len, Some((file, fd_offset)))?;
        Ok(0)
    }

    fn shmem_unmap(&mut self, request: &VhostUserMMap) -> HandlerResult<u64> {
        self.mappings.remove(request)?;
        self.place.replace(request.shm_offset, request.len, None)?;
        Ok(0)
    }
}
