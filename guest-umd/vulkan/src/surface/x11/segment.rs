// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory that X server and program share.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use vm_memory::{FileOffset, MmapRegion, VolatileMemory as _, VolatileSlice};
use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::errors::ReplyOrIdError;
use x11rb::protocol::shm::{self, ConnectionExt as _};
use x11rb::xcb_ffi::XCBConnection;

/// The first version in which a server takes a descriptor.
const VERSION: (u16, u16) = (1, 2);

/// A segment of memory that the server has, too.
pub(super) struct Segment {
    connection: Arc<XCBConnection>,
    /// The server's name of it.
    pub(super) id: u32,
    memory: MmapRegion,
}

impl Segment {
    /// Shares so many bytes with the server. `None` if that cannot be.
    pub(super) fn new(connection: &Arc<XCBConnection>, bytes: usize) -> Option<Self> {
        connection.extension_information(shm::X11_EXTENSION_NAME).ok()??;
        let version = connection.shm_query_version().ok()?.reply().ok()?;
        if (version.major_version, version.minor_version) < VERSION {
            return None;
        }
        let (file, memory) = memory(bytes).ok()?;
        let id = Self::attach(connection, file).ok()?;
        Some(Self { connection: Arc::clone(connection), id, memory })
    }

    fn attach(connection: &XCBConnection, file: OwnedFd) -> Result<u32, ReplyOrIdError> {
        let id = connection.generate_id()?;
        // A server of another machine takes none.
        connection.shm_attach_fd(id, file, true)?.check()?;
        Ok(id)
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> VolatileSlice<'_> {
        self.memory.as_volatile_slice()
    }
}

fn memory(bytes: usize) -> io::Result<(OwnedFd, MmapRegion)> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("vulkan-window", flags)?;
    ftruncate(&file, bytes as u64)?;
    // The server does not take it away from the program.
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::SEAL)?;
    let mapped = FileOffset::new(File::from(file.try_clone()?), 0);
    let memory = MmapRegion::from_file(mapped, bytes).map_err(io::Error::other)?;
    Ok((file, memory))
}

impl Drop for Segment {
    fn drop(&mut self) {
        // A connection that has failed has no segments any more.
        if let Ok(detached) = self.connection.shm_detach(self.id) {
            detached.ignore_error();
        }
    }
}
