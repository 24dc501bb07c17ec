// SPDX-License-Identifier: MIT OR Apache-2.0

//! Handles a front end's messages, one by one.

use super::backend::GuestBackend;
use super::event::{FrontEndEvent, NotAnEvent};
use super::memory::{AnnouncedMemory, MemoryError};
use super::ring::Ring;
use bellhop_protocol::config::{MAX_QUEUE_SIZE, QUEUE_COUNT};
use std::fs::File;
use std::io;
use std::sync::Arc;
use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVirtioFeatures,
    VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Backend, Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};

/// Why a message is refused, which ends the connection.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// The connection already has an owner.
    #[error("the device already has an owner")]
    Owned,
    /// The front end accepts features that were not offered.
    #[error("the front end accepts features {taken:#x}; the device offers {offered:#x}")]
    Features {
        /// The features accepted.
        taken: u64,
        /// The features offered.
        offered: u64,
    },
    /// The queue does not exist.
    #[error("there is no queue {0}; the device has {QUEUE_COUNT} queues")]
    Queue(u32),
    /// The number is no valid queue size.
    #[error("a queue cannot have {0} entries; use a power of two up to {MAX_QUEUE_SIZE}")]
    Size(u32),
    /// The front end has no memory at the address.
    #[error("the front end has announced no memory at {0:#x}")]
    Address(u64),
    /// A queue cannot be placed at the address.
    #[error("a queue cannot be placed at this address: {0}")]
    Place(#[source] virtio_queue::Error),
    /// A descriptor is of the wrong kind.
    #[error(transparent)]
    Event(#[from] NotAnEvent),
    /// The memory cannot be used.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The front end did not accept features that the device requires.
    #[error("VHOST_USER_F_PROTOCOL_FEATURES was not negotiated")]
    NoProtocolFeatures,
    /// The device does not offer the message.
    #[error("the device does not offer this message")]
    NotOffered,
}

impl From<MessageError> for Error {
    fn from(error: MessageError) -> Self {
        Self::ReqHandlerError(io::Error::other(error))
    }
}

/// One connection's front end, as the device knows it.
pub(super) struct Messages {
    backend: GuestBackend,
    memory: AnnouncedMemory,
    is_owned: bool,
    features: u64,
    protocol: VhostUserProtocolFeatures,
}

impl Messages {
    /// The state before the first message. `limit` is the guest's memory limit in bytes.
    pub(super) fn new(backend: GuestBackend, limit: u64) -> Self {
        let protocol = VhostUserProtocolFeatures::empty();
        let memory = AnnouncedMemory::new(limit);
        Self { backend, memory, is_owned: false, features: 0, protocol }
    }

    /// The protocol features that the front end accepted.
    pub(super) fn protocol_features_taken(&self) -> VhostUserProtocolFeatures {
        self.protocol
    }

    /// Returns whether a part of the announced memory disappeared.
    pub(super) fn has_lost_memory(&self) -> bool {
        self.memory.is_lost()
    }

    fn ring(&self, index: u32) -> Result<&Arc<Ring>> {
        let ring = self.backend.rings().get(index as usize);
        Ok(ring.ok_or(MessageError::Queue(index))?)
    }

    fn physical(&self, address: u64) -> Result<u64> {
        Ok(self.memory.physical(address).ok_or(MessageError::Address(address))?)
    }

    fn event(file: Option<File>) -> Result<Option<FrontEndEvent>> {
        Ok(file.map(FrontEndEvent::new).transpose().map_err(MessageError::Event)?)
    }
}

/// Refuses a message that the device does not offer.
fn not_offered<T>() -> Result<T> {
    Err(MessageError::NotOffered.into())
}

impl VhostUserBackendReqHandlerMut for Messages {
    fn set_owner(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_owned, true) {
            return Err(MessageError::Owned.into());
        }
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        (self.is_owned, self.features) = (false, 0);
        self.protocol = VhostUserProtocolFeatures::empty();
        Ok(())
    }

    fn reset_device(&mut self) -> Result<()> {
        not_offered()
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.backend.features())
    }

    fn set_features(&mut self, taken: u64) -> Result<()> {
        let offered = self.backend.features();
        if taken & !offered != 0 {
            return Err(MessageError::Features { taken, offered }.into());
        }
        self.features = taken;
        self.backend.take_features(taken);
        // Without this feature no message enables queues.
        if taken & VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() == 0 {
            self.backend.rings().iter().for_each(|ring| ring.set_enabled(true));
        }
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        table: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        let memory = self.memory.announce(table, files).map_err(MessageError::Memory)?;
        self.backend.update_memory(memory);
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, size: u32) -> Result<()> {
        if !self.ring(index)?.set_size(size) {
            return Err(MessageError::Size(size).into());
        }
        Ok(())
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        table: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        let [table, used, available] = [table, used, available].map(|at| self.physical(at));
        let (table, used, available) = (table?, used?, available?);
        let placed = self.ring(index)?.set_addresses(table, available, used);
        Ok(placed.map_err(MessageError::Place)?)
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        self.ring(index)?.set_next_available(base as u16);
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let ring = self.ring(index)?;
        ring.stop();
        self.backend.ring_stopped(index);
        ring.forget();
        Ok(VhostUserVringState::new(index, ring.next_available().into()))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let kick = Self::event(file)?;
        self.ring(index.into())?.set_kick(kick);
        Ok(())
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let call = Self::event(file)?;
        self.ring(index.into())?.set_call(call);
        Ok(())
    }

    /// The device reports errors in replies, so it only checks the descriptor and closes it.
    fn set_vring_err(&mut self, index: u8, file: Option<File>) -> Result<()> {
        Self::event(file)?;
        self.ring(index.into()).map(drop)
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(self.backend.protocol_features())
    }

    fn set_protocol_features(&mut self, taken: u64) -> Result<()> {
        let offered = self.backend.protocol_features();
        let known = VhostUserProtocolFeatures::from_bits(taken);
        let known = known.filter(|taken| offered.contains(*taken));
        self.protocol = known.ok_or(MessageError::Features { taken, offered: offered.bits() })?;
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(QUEUE_COUNT.into())
    }

    fn set_vring_enable(&mut self, index: u32, is_enabled: bool) -> Result<()> {
        if self.features & VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() == 0 {
            return Err(MessageError::NoProtocolFeatures.into());
        }
        self.ring(index)?.set_enabled(is_enabled);
        Ok(())
    }

    fn get_config(
        &mut self,
        offset: u32,
        size: u32,
        _flags: VhostUserConfigFlags,
    ) -> Result<Vec<u8>> {
        Ok(self.backend.config(offset, size))
    }

    /// Writes have no effect. A refusal would end the VM under some VMMs.
    fn set_config(
        &mut self,
        _offset: u32,
        _bytes: &[u8],
        _flags: VhostUserConfigFlags,
    ) -> Result<()> {
        Ok(())
    }

    /// Never called with effect: `channel` receives this message.
    fn set_backend_req_fd(&mut self, _channel: Backend) {}

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Ok(self.backend.shared_memory())
    }

    fn set_gpu_socket(&mut self, _gpu: GpuBackend) -> Result<()> {
        not_offered()
    }

    fn get_shared_object(&mut self, _uuid: VhostUserSharedMsg) -> Result<File> {
        not_offered()
    }

    fn get_inflight_fd(
        &mut self,
        _inflight: &VhostUserInflight,
    ) -> Result<(VhostUserInflight, File)> {
        not_offered()
    }

    fn set_inflight_fd(&mut self, _inflight: &VhostUserInflight, _file: File) -> Result<()> {
        not_offered()
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        not_offered()
    }

    fn add_mem_region(
        &mut self,
        _region: &VhostUserSingleMemoryRegion,
        _file: File,
        _postcopy: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        not_offered()
    }

    fn remove_mem_region(&mut self, _region: &VhostUserSingleMemoryRegion) -> Result<()> {
        not_offered()
    }

    fn set_device_state_fd(
        &mut self,
        _direction: VhostTransferStateDirection,
        _phase: VhostTransferStatePhase,
        _file: File,
    ) -> Result<Option<File>> {
        not_offered()
    }

    fn check_device_state(&mut self) -> Result<()> {
        not_offered()
    }

    fn set_log_base(&mut self, _log: &VhostUserLog, _file: File) -> Result<()> {
        not_offered()
    }
}
