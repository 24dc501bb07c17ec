// SPDX-License-Identifier: MIT OR Apache-2.0

//! Maps a guest's BAR through the front end: whole, or in pieces, some of which are moved later.
//!
//!
//! Every call here waits for the VMM: a millisecond, or until the connection ends. A thread of the guest's own
//! therefore makes all of them, without holding a lock.
//!
//! QEMU has rules, which `fake_guest` enforces too: no call from within a vhost callback, none before the driver's
//! first request or after the control queue was stopped, and a piece must be unmapped exactly as it was mapped.
//! QEMU's acknowledgement is no barrier: see `gpu::shared::rotation`.

use super::channel::Channel;
use crate::gpu::{Gpu, Move, Moved, Page, Rotation};
use bellhop_host_kmd::hardware::GuestId;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::config::BAR_SHMID;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::{debug, warn};
use vhost::vhost_user::VhostUserFrontendReqHandler;
use vhost::vhost_user::message::{VhostUserMMap, VhostUserMMapFlags};

/// A part of the BAR, and the part of the file mapped there.
#[derive(Debug, Clone, Copy)]
struct Piece {
    offset: u64,
    length: u64,
    of_file: u64,
}

/// The BAR of one guest, as its VMM maps it.
pub(super) struct BarPages {
    pub(super) gpu: Arc<Gpu>,
    pub(super) guest: GuestId,
    pub(super) layout: BarLayout,
    pub(super) file: Arc<File>,
    pub(super) front_end: Arc<Channel>,
    /// Whether a refusal by the front end was logged.
    pub(super) has_refused: AtomicBool,
}

impl BarPages {
    /// Maps the whole BAR at once; returns whether it is mapped.
    pub(super) fn map_whole(&self) -> bool {
        let whole = Piece { offset: 0, length: self.layout.bar_size(), of_file: 0 };
        let mapped = self.map(whole);
        if let Err(error) = &mapped {
            warn!(%error, "the front end did not map the BAR; the guest can use only its own memory");
        }
        mapped.is_ok()
    }

    /// Maps the BAR in pieces: the part before the doorbells, a dummy page for each doorbell, and the part after
    /// them. Returns whether all pieces are mapped; if one fails, none stays mapped.
    pub(super) fn map_pieces(&self, is_wanted: impl Fn() -> bool) -> bool {
        let Some(dummy) = self.gpu.doorbell_page(self.guest, Page::Dummy) else { return false };
        let [doorbells, rest, ..] = self.layout.areas();
        let before = Piece { offset: 0, length: doorbells.offset, of_file: 0 };
        let behind = Piece {
            offset: rest.offset,
            length: self.layout.bar_size() - rest.offset,
            of_file: rest.offset,
        };
        let slots = (0..self.layout.doorbell_count).map(|slot| self.doorbell(slot, dummy));
        let pieces: Vec<_> = [before, behind].into_iter().chain(slots).collect();
        for (mapped, piece) in pieces.iter().enumerate() {
            if !is_wanted() {
                return false;
            }
            let Err(error) = self.map(*piece) else { continue };
            warn!(
                %error,
                mapped,
                wanted = pieces.len(),
                "the front end did not map all pieces of the BAR, so the guest has its own memory \
                 only; with fewer doorbells (guest.doorbells) it may have room for all"
            );
            for piece in pieces.iter().take(mapped) {
                if !is_wanted() || self.unmap(*piece).is_err() {
                    break;
                }
            }
            return false;
        }
        true
    }

    /// Moves doorbell pages until the rotation is stopped.
    pub(super) fn rotate(&self, rotation: &Rotation) {
        while let Some(next) = rotation.next() {
            let moved = self.move_page(next, rotation);
            rotation.moved(next, moved);
        }
    }

    fn move_page(&self, Move { slot, is_mapped, to, .. }: Move, rotation: &Rotation) -> Moved {
        // Unmapping a piece uses only its place in the BAR.
        if is_mapped && let Err(error) = self.unmap(self.doorbell(slot, 0)) {
            self.complain(&error, slot, "unmap");
            return Moved::StillMapped;
        }
        // The guest may have been reset meanwhile.
        let page = self.gpu.doorbell_page(self.guest, to).filter(|_| !rotation.is_stopped());
        let mapped = page.map(|of_file| self.map(self.doorbell(slot, of_file)));
        match mapped {
            Some(Ok(())) => Moved::Done,
            Some(Err(error)) => {
                self.complain(&error, slot, "map");
                Moved::NothingMapped
            }
            None => Moved::NothingMapped,
        }
    }

    /// Logs a refusal by the front end. Only the first one is a warning, since a guest can cause any number of
    /// requests.
    fn complain(&self, error: &io::Error, slot: u32, what: &str) {
        if self.has_refused.swap(true, Ordering::Relaxed) {
            debug!(slot, %error, "the front end did not {what} a doorbell's page");
        } else {
            warn!(slot, %error, "the front end did not {what} a doorbell's page");
        }
    }

    /// The page of a logical doorbell.
    fn doorbell(&self, slot: u32, of_file: u64) -> Piece {
        let [doorbells, ..] = self.layout.areas();
        let offset = doorbells.offset + u64::from(slot) * PAGE_SIZE;
        Piece { offset, length: PAGE_SIZE, of_file }
    }

    #[expect(clippy::disallowed_methods, reason = "the thread that talks to one guest's VMM")]
    fn map(&self, piece: Piece) -> io::Result<()> {
        self.front_end.ask(|front_end| front_end.shmem_map(&request(piece), &*self.file)).map(drop)
    }

    #[expect(clippy::disallowed_methods, reason = "the thread that talks to one guest's VMM")]
    fn unmap(&self, piece: Piece) -> io::Result<()> {
        self.front_end.ask(|front_end| front_end.shmem_unmap(&request(piece))).map(drop)
    }
}

fn request(Piece { offset, length, of_file }: Piece) -> VhostUserMMap {
    VhostUserMMap {
        shmid: BAR_SHMID,
        shm_offset: offset,
        len: length,
        fd_offset: of_file,
        flags: VhostUserMMapFlags::WRITABLE.bits(),
        ..Default::default()
    }
}
