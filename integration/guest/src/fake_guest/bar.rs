// SPDX-License-Identifier: MIT OR Apache-2.0

//! The window into which the device maps its BAR, and the VMM's rules for that.

use super::error::FakeGuestError;
use super::late::{Change, LateChanges};
use super::profile::VmmProfile;
use bellhop_guest_umd::raw::front_end::{Mappings, Place};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use vhost::vhost_user::message::VhostUserMMap;
use vhost::vhost_user::{HandlerResult, VhostUserFrontendReqHandlerMut};
use vm_memory::MmapRegion;

/// An action of the device that would have crashed the VMM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation(pub String);

/// The window, as the device's requests reach it.
pub(super) struct BarWindow {
    profile: &'static VmmProfile,
    place: Place,
    /// The file of the latest mapping.
    file: Option<File>,
    /// The parts that were mapped since the device started.
    shown: BTreeSet<u64>,
    /// Delays changes of the guest's view.
    late: Option<LateChanges>,
    mappings: Mappings,
    /// Whether the driver has started the device and not stopped it again.
    started: bool,
    violations: Vec<Violation>,
    /// Whether the VMM refuses to map anything more.
    refuses: bool,
    /// How often the device unmapped something.
    unmapped: u64,
}

impl BarWindow {
    /// A window of `size` bytes without mappings. As behind QEMU, it reads as zero, and stores to it are
    /// lost.
    pub(super) fn new(size: u64, profile: &'static VmmProfile) -> Result<Self, FakeGuestError> {
        Ok(Self {
            profile,
            place: Place::reserve(size)?,
            file: None,
            shown: BTreeSet::new(),
            late: None,
            mappings: Mappings::new(size),
            started: false,
            violations: Vec::new(),
            refuses: false,
            unmapped: 0,
        })
    }

    pub(super) fn region(&self) -> Arc<MmapRegion> {
        Arc::clone(self.place.region())
    }

    pub(super) fn violations(&self) -> Vec<Violation> {
        self.violations.clone()
    }

    pub(super) fn file(&self) -> Option<io::Result<File>> {
        self.file.as_ref().map(File::try_clone)
    }

    pub(super) fn unmapped(&self) -> u64 {
        self.unmapped
    }

    pub(super) fn refuse(&mut self, refuses: bool) {
        self.refuses = refuses;
    }

    /// Called when the device starts: it may map from now on.
    pub(super) fn start(&mut self) {
        self.started = true;
    }

    /// Called when the device stops: removes its mappings.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        self.started = false;
        self.mappings.clear();
        self.shown.clear();
        drop(self.late.take());
        self.place.replace(0, self.place.region().size() as u64, None)
    }

    fn refusal(&self, why: impl std::fmt::Display) -> io::Error {
        io::Error::new(ErrorKind::InvalidInput, format!("{} refuses: {why}", self.profile.name))
    }

    /// The rules for every request.
    fn check(&mut self, request: &VhostUserMMap, what: &str) -> io::Result<()> {
        if !self.started && self.profile.dies_of_early_mappings {
            let violation = format!("{what} while the device is not started");
            self.violations.push(Violation(violation.clone()));
            return Err(self.refusal(violation));
        }
        let shmid = request.shmid;
        if u32::from(shmid) >= self.profile.shared_memory_regions {
            return Err(self.refusal(format_args!("there is no shared-memory region {shmid}")));
        }
        Ok(())
    }

    /// Maps a file, or nothing, at a part of the window that `check` has accepted: at once, or, if the part has
    /// shown a file before, with the VMM's delay.
    fn replace(
        &mut self,
        offset: u64,
        length: u64,
        file: Option<(BorrowedFd<'_>, u64)>,
    ) -> io::Result<()> {
        let delay = self.profile.late_changes;
        if delay.is_zero() || self.shown.insert(offset) {
            return self.place.replace(offset, length, file);
        }
        let file = match file {
            Some((file, start)) => Some((file.try_clone_to_owned()?, start)),
            None => None,
        };
        let late = match self.late.take() {
            Some(late) => late,
            None => LateChanges::new(self.place.clone(), delay)?,
        };
        late.add(Change { offset, length, file });
        self.late = Some(late);
        Ok(())
    }
}

impl VhostUserFrontendReqHandlerMut for BarWindow {
    fn shmem_map(&mut self, request: &VhostUserMMap, file: &dyn AsRawFd) -> HandlerResult<u64> {
        self.check(request, "SHMEM_MAP")?;
        // Guest memory takes one entry of the table.
        if self.refuses || self.mappings.count() + 1 >= self.profile.memory_slots {
            return Err(self.refusal("the memory table is full"));
        }
        let VhostUserMMap { shm_offset, len, fd_offset, .. } = *request;
        self.mappings.add(request).map_err(|why| self.refusal(why))?;
        // SAFETY: vhost's request handler keeps the file open during this call.
        #[expect(unsafe_code, reason = "the trait passes a raw descriptor")]
        let file = unsafe { BorrowedFd::borrow_raw(file.as_raw_fd()) };
        self.replace(shm_offset, len, Some((file.as_fd(), fd_offset)))?;
        self.file = Some(file.try_clone_to_owned()?.into());
        Ok(0)
    }

    fn shmem_unmap(&mut self, request: &VhostUserMMap) -> HandlerResult<u64> {
        self.check(request, "SHMEM_UNMAP")?;
        let VhostUserMMap { shm_offset, len, .. } = *request;
        self.mappings.remove(request).map_err(|why| self.refusal(why))?;
        self.replace(shm_offset, len, None)?;
        self.unmapped += 1;
        Ok(0)
    }
}
