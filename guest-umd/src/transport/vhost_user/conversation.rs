// SPDX-License-Identifier: MIT OR Apache-2.0

//! The conversation of a front end with its device: what each side can do, the memory, the queues.
//!
//! Source: QEMU's `vhost-user.rst`.

use super::notifications::EventFds;
use super::place::Place;
use super::ram::GuestRam;
use super::requests::RequestServer;
use super::window::Window;
use crate::transport::TransportError;
use crate::transport::device_queues::DeviceQueue;
use bellhop_protocol::config::{ConfigSpace, QUEUE_COUNT};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vhost::vhost_user::message::{
    VhostUserConfigFlags, VhostUserHeaderFlag, VhostUserProtocolFeatures, VhostUserVirtioFeatures,
};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use virtio_bindings::bindings::virtio_config::VIRTIO_F_VERSION_1;
use zerocopy::{FromZeros, IntoBytes};

/// The virtio features that every driver takes.
pub const VIRTIO_FEATURES: u64 =
    1 << VIRTIO_F_VERSION_1 | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();

/// The vhost-user protocol features that this front end takes, if the device offers them.
const PROTOCOL_FEATURES: VhostUserProtocolFeatures = VhostUserProtocolFeatures::MQ
    .union(VhostUserProtocolFeatures::CONFIG)
    .union(VhostUserProtocolFeatures::REPLY_ACK)
    .union(VhostUserProtocolFeatures::BACKEND_REQ)
    .union(VhostUserProtocolFeatures::BACKEND_SEND_FD)
    .union(VhostUserProtocolFeatures::SHMEM);

/// A front end that has learned what its device is.
pub(super) struct Conversation {
    socket: UnixStream,
    front_end: Frontend,
    config: ConfigSpace,
    /// The window of the BAR, if the device has shared memory.
    window: Option<Arc<Mutex<Window>>>,
    _requests: Option<RequestServer>,
}

/// Names the step that failed in an error.
///
/// # Errors
/// That of the step.
pub fn during<T, E: Into<vhost::Error>>(
    what: &'static str,
    result: Result<T, E>,
) -> Result<T, TransportError> {
    result.map_err(|error| TransportError::VhostUser { what, reason: error.into().to_string() })
}

/// A vhost-user front end over a connection.
///
/// # Errors
/// If there are no descriptors left.
pub fn speaker(socket: &UnixStream) -> Result<Frontend, TransportError> {
    let stream = socket.try_clone().map_err(|error| TransportError::Io("the connection", error))?;
    Ok(Frontend::from_stream(stream, u64::from(QUEUE_COUNT)))
}

fn refused(why: String) -> TransportError {
    TransportError::Protocol(why)
}

impl Conversation {
    /// Learns what the device is and can do, and says what this front end can do.
    pub(super) fn begin(socket: UnixStream) -> Result<Self, TransportError> {
        let mut front_end = speaker(&socket)?;
        during("SET_OWNER", front_end.set_owner())?;
        let offered = during("GET_FEATURES", front_end.get_features())?;
        if offered & VIRTIO_FEATURES != VIRTIO_FEATURES {
            let why = format!("it offers features {offered:#x}, of {VIRTIO_FEATURES:#x} required");
            return Err(refused(why));
        }
        let offered = during("GET_PROTOCOL_FEATURES", front_end.get_protocol_features())?;
        let protocol = offered & PROTOCOL_FEATURES;
        during("SET_PROTOCOL_FEATURES", front_end.set_protocol_features(protocol))?;
        let has = |feature| protocol.contains(feature);
        if has(VhostUserProtocolFeatures::REPLY_ACK) {
            // A step that fails is then known by its name.
            front_end.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        }
        let queues = during("GET_QUEUE_NUM", front_end.get_queue_num())?;
        if queues < u64::from(QUEUE_COUNT) {
            return Err(refused(format!("it has {queues} virtqueues")));
        }
        let config = read_config(&mut front_end)?;
        let window =
            if has(VhostUserProtocolFeatures::SHMEM) { window(&mut front_end)? } else { None };
        let requests = match &window {
            Some(window) if has(VhostUserProtocolFeatures::BACKEND_REQ) => {
                Some(RequestServer::start(&mut front_end, Arc::clone(window))?)
            }
            _ => None,
        };
        Ok(Self { socket, front_end, config, window, _requests: requests })
    }

    pub(super) fn socket(&self) -> &UnixStream {
        &self.socket
    }

    pub(super) fn config(&self) -> ConfigSpace {
        self.config
    }

    /// The address space of the BAR, if the device has one.
    pub(super) fn bar(&self) -> Option<Place> {
        let window = self.window.as_ref()?;
        Some(lock(window).place().clone())
    }

    /// Gives the device its memory and its queues, and starts it.
    pub(super) fn start(
        &mut self,
        ram: &GuestRam,
        queues: &[DeviceQueue<'_, EventFds>],
    ) -> Result<(), TransportError> {
        let front_end = &mut self.front_end;
        during("SET_FEATURES", front_end.set_features(VIRTIO_FEATURES))?;
        during("SET_MEM_TABLE", front_end.set_mem_table(&ram.region_infos()))?;
        for DeviceQueue { index, size, addresses, notifications } in queues {
            let index = usize::from(*index);
            let config = VringConfigData {
                queue_max_size: *size,
                queue_size: *size,
                flags: 0,
                desc_table_addr: ram.address_here(addresses.descriptors),
                used_ring_addr: ram.address_here(addresses.used),
                avail_ring_addr: ram.address_here(addresses.available),
                log_addr: None,
            };
            during("SET_VRING_NUM", front_end.set_vring_num(index, *size))?;
            during("SET_VRING_BASE", front_end.set_vring_base(index, 0))?;
            during("SET_VRING_ADDR", front_end.set_vring_addr(index, &config))?;
            during("SET_VRING_KICK", front_end.set_vring_kick(index, notifications.kick_fd()))?;
            during("SET_VRING_CALL", front_end.set_vring_call(index, notifications.call_fd()))?;
            during("SET_VRING_ENABLE", front_end.set_vring_enable(index, true))?;
        }
        Ok(())
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // The front end and the queues have duplicates, which would keep the connection. It may have ended already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl Conversation {
    /// Announces the guest's memory while the device runs.
    pub(super) fn announce(
        &mut self,
        regions: &[VhostUserMemoryRegionInfo],
    ) -> Result<(), TransportError> {
        during("SET_MEM_TABLE", self.front_end.set_mem_table(regions)).map(drop)
    }
}

/// Locks the window. No code panics while it holds the lock, so a poisoned window is whole.
fn lock(window: &Mutex<Window>) -> MutexGuard<'_, Window> {
    window.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read_config(front_end: &mut Frontend) -> Result<ConfigSpace, TransportError> {
    let mut config = ConfigSpace::new_zeroed();
    let length = size_of::<ConfigSpace>() as u32;
    let flags = VhostUserConfigFlags::empty();
    let read = front_end.get_config(0, length, flags, config.as_bytes());
    let (_, read) = during("GET_CONFIG", read)?;
    let read = read.get(..size_of::<ConfigSpace>());
    let read = read.ok_or_else(|| refused("its configuration is too short".into()))?;
    config.as_mut_bytes().copy_from_slice(read);
    Ok(config)
}

/// The window for the one region that the device may have.
fn window(front_end: &mut Frontend) -> Result<Option<Arc<Mutex<Window>>>, TransportError> {
    let config = during("GET_SHMEM_CONFIG", front_end.get_shmem_config())?;
    match config.nregions {
        0 => Ok(None),
        1 => Ok(Some(Arc::new(Mutex::new(Window::new(config.memory_sizes[0])?)))),
        regions => Err(refused(format!("it has {regions} shared-memory regions"))),
    }
}
