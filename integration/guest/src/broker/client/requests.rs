// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a program asks for, and what it gets.

use super::Client;
use crate::broker::access::{self, Access};
use crate::broker::device::DeviceError;
use crate::listener::Peer;
use crate::output::note;
use bellhop_protocol::control::adapter::OpenAdapter;
use bellhop_protocol::control::allocation::{CreateAllocation, Extent};
use bellhop_protocol::control::process::{
    CreateProcess, CreateProcessReply, CreateProcessWithBar, DescribeProcess, SetProcessShare,
};
use bellhop_protocol::control::{MAX_REPLY_SIZE, ReplyHeader, RequestHeader};
use bellhop_protocol::features::{Features, Version};
use bellhop_protocol::status::Status;
use rustix::process::geteuid;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Why a program does not get what it asked for.
enum Refusal {
    /// It is refused, with this status and this detail.
    With(Status, u64),
    /// The device is gone, and so is the program's connection.
    Gone,
}

impl From<DeviceError> for Refusal {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::Refused(status, detail) => Self::With(status, detail),
            DeviceError::Transport(_) | DeviceError::BadReply => Self::Gone,
        }
    }
}

type Answer = Result<Vec<u8>, Refusal>;

impl Client {
    /// The reply to a request; `None` if the device is gone.
    pub(super) fn reply(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        match self.answer(bytes) {
            Ok(reply) => Some(reply),
            Err(Refusal::With(status, detail)) => {
                let length = size_of::<ReplyHeader>() as u32;
                Some(ReplyHeader { status, length, detail }.as_bytes().to_vec())
            }
            Err(Refusal::Gone) => None,
        }
    }

    fn answer(&self, bytes: &[u8]) -> Answer {
        let wrong_size = Refusal::With(Status::INVALID_BUFFER_SIZE, bytes.len() as u64);
        let Ok((header, body)) = RequestHeader::read_from_prefix(bytes) else {
            return Err(wrong_size);
        };
        if header.length as usize != bytes.len() {
            return Err(wrong_size);
        }
        let unknown = Refusal::With(Status::INVALID_DEVICE_REQUEST, header.code.0.into());
        match access::of(header.code).ok_or(unknown)? {
            Access::Open => self.open(body),
            Access::Adapter => self.pass_on(bytes),
            Access::CreateProcess => self.create_process(header, body),
            Access::DestroyProcess => {
                self.check_process(header)?;
                let reply = self.pass_on(bytes)?;
                let status = ReplyHeader::read_from_prefix(&reply).map(|(reply, _)| reply.status);
                if status.is_ok_and(Status::is_success) {
                    self.processes().remove(&header.process);
                    self.shared.routes.remove(header.process);
                }
                Ok(reply)
            }
            Access::NamesMemory => {
                self.check_process(header)?;
                self.check_memory(body)?;
                self.pass_on(bytes)
            }
            Access::Process => {
                self.check_process(header)?;
                self.pass_on(bytes)
            }
            Access::Guest if self.is_administrator() => {
                self.check_process(header)?;
                self.pass_on(bytes)
            }
            Access::Lists if self.is_administrator() => self.pass_on(bytes),
            Access::Guest | Access::Lists | Access::Nobody => {
                Err(Refusal::With(Status::NOT_SUPPORTED, 0))
            }
        }
    }

    /// Whether the program's user may do what concerns the whole guest.
    fn is_administrator(&self) -> bool {
        self.peer.user == 0 || self.peer.user == geteuid().as_raw()
    }

    fn pass_on(&self, bytes: &[u8]) -> Answer {
        let mut reply = vec![0; MAX_REPLY_SIZE];
        let length = self.asks(|device| device.request(bytes, &mut reply));
        let length = length.map_err(DeviceError::from)?;
        reply.truncate(length);
        Ok(reply)
    }

    fn open(&self, body: &[u8]) -> Answer {
        let request = OpenAdapter::read_from_bytes(body);
        let OpenAdapter { version, features, .. } =
            request.map_err(|_| Refusal::With(Status::INVALID_BUFFER_SIZE, 0))?;
        let own = Version::CURRENT;
        if !version.is_compatible_with(own) {
            let detail = u64::from(own.major) | u64::from(own.minor) << 16;
            return Err(Refusal::With(Status::REVISION_MISMATCH, detail));
        }
        let offered = self.shared.device.features_of_programs();
        let wanted = Features::from_bits(features).filter(|wanted| offered.contains(*wanted));
        let wanted = wanted.ok_or(Refusal::With(Status::REVISION_MISMATCH, offered.bits()))?;
        // They rely on the features with which it was opened.
        let processes = self.processes().len();
        if processes > 0 {
            return Err(Refusal::With(Status::DEVICE_BUSY, processes as u64));
        }
        Ok(success(&self.shared.device.info_for(wanted)))
    }

    /// Refuses a process that is not the program's as one that nobody has.
    fn check_process(&self, header: RequestHeader) -> Result<(), Refusal> {
        if self.processes().contains(&header.process) {
            return Ok(());
        }
        Err(Refusal::With(Status::INVALID_HANDLE, header.process.into()))
    }

    /// Refuses memory that is not the program's.
    fn check_memory(&self, body: &[u8]) -> Result<(), Refusal> {
        let extents = body.get(size_of::<CreateAllocation>()..).unwrap_or_default();
        for bytes in extents.chunks_exact(size_of::<Extent>()) {
            let Ok(Extent { address, length }) = Extent::read_from_bytes(bytes) else { continue };
            let end = address.checked_add(length);
            let holds = |own: &Extent| {
                own.address <= address && end.is_some_and(|end| end <= own.address + own.length)
            };
            if !self.extents().iter().any(holds) {
                return Err(Refusal::With(Status::INVALID_PARAMETER, address));
            }
        }
        Ok(())
    }

    fn extents(&self) -> &[Extent] {
        self.memory.as_ref().map_or(&[], |memory| memory.extents())
    }

    /// Creates a process in the program's BAR.
    fn create_process(&self, header: RequestHeader, body: &[u8]) -> Answer {
        let request = CreateProcess::read_from_bytes(body);
        let CreateProcess { reserved } =
            request.map_err(|_| Refusal::With(Status::INVALID_BUFFER_SIZE, 0))?;
        if header.process != 0 || reserved != 0 {
            return Err(Refusal::With(Status::INVALID_PARAMETER, header.process.into()));
        }
        // Locked meanwhile: the program's other channel may create one, too.
        let mut processes = self.processes();
        if processes.len() >= self.place.limits().processes {
            return Err(Refusal::With(Status::QUOTA_EXCEEDED, processes.len() as u64));
        }
        let made = match processes.first() {
            Some(beside) => {
                let request = CreateProcessWithBar {
                    beside: *beside,
                    extent_count: 0,
                    doorbell_count: 0,
                    fence_count: 0,
                };
                self.asks(|device| device.call(0, &request, &[]))?
            }
            None => {
                let bar = beginning(self.extents(), self.layout.end());
                let request = CreateProcessWithBar {
                    beside: 0,
                    extent_count: bar.len() as u32,
                    doorbell_count: self.layout.doorbell_count,
                    fence_count: self.layout.fence_count,
                };
                self.asks(|device| device.call(0, &request, bar.as_bytes()))?
            }
        };
        let CreateProcessReply { process, .. } = made;
        let (Peer { user, process: pid }, command) = (self.peer, *self.name());
        let program = DescribeProcess { user, pid: pid as u32, command };
        if let Err(error) = self.asks(|device| device.call(process, &program, &[])) {
            note(format_args!("{}: the host does not learn of it: {error}", self.peer));
        }
        // All processes of a user have one part together. No user has the greatest number, which is none in Linux.
        let share =
            SetProcessShare { weight: self.place.limits().weight, group: user.wrapping_add(1) };
        if let Err(error) = self.asks(|device| device.call(process, &share, &[])) {
            note(format_args!("{}: its weight is the usual one: {error}", self.peer));
        }
        processes.insert(process);
        self.shared.routes.add(process, &self.connections);
        Ok(success(&made))
    }
}

/// A reply with this body.
fn success<T: IntoBytes + Immutable>(body: &T) -> Vec<u8> {
    let length = (size_of::<ReplyHeader>() + size_of::<T>()) as u32;
    let header = ReplyHeader { status: Status::SUCCESS, length, detail: 0 };
    [header.as_bytes(), body.as_bytes()].concat()
}

/// The extents of the first bytes.
fn beginning(extents: &[Extent], length: u64) -> Vec<Extent> {
    let mut left = length;
    let taken = extents.iter().map(|extent| {
        let length = extent.length.min(left);
        left -= length;
        Extent { address: extent.address, length }
    });
    taken.filter(|extent| extent.length > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_memory_ends_in_the_middle_of_an_extent_or_with_one() {
        let extent = |address, length| Extent { address, length };
        let extents = [extent(0x8000, 0x2000), extent(0x1000, 0x1000), extent(0x4000, 0x1000)];
        assert_eq!(beginning(&extents, 0x1000), [extent(0x8000, 0x1000)]);
        assert_eq!(beginning(&extents, 0x2000), extents[..1]);
        assert_eq!(beginning(&extents, 0x3000), extents[..2]);
        assert_eq!(beginning(&extents, 0), []);
    }
}
