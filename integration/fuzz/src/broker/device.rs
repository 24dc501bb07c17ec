// SPDX-License-Identifier: MIT OR Apache-2.0

//! A device that does nothing, and panics when it is asked for what the speaking program must not have.

use bellhop_guest::hostile::programs::{OF_GUEST, OF_NOBODY};
use bellhop_guest_umd::transport::{
    BarMapping, Donations, SystemMemory, Transport, TransportError,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::config::ConfigSpace;
use bellhop_protocol::control::adapter::{AdapterInfo, OpenAdapter};
use bellhop_protocol::control::allocation::{CreateAllocation, Extent};
use bellhop_protocol::control::process::{
    CreateProcessReply, CreateProcessWithBar, DescribeProcess, SetProcessShare,
};
use bellhop_protocol::control::{ReplyHeader, RequestCode, RequestHeader};
use bellhop_protocol::event::Event;
use bellhop_protocol::features::{Features, Version};
use bellhop_protocol::status::Status;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use vm_memory::{FileOffset, MmapRegion};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Processes of one program.
pub const PROCESSES: usize = 3;

/// What is about the adapter, and names no process.
const OF_ADAPTER: [RequestCode; 18] = [
    RequestCode::GET_NODE_METADATA,
    RequestCode::QUERY_USER_MODE_SUBMISSION_CAPS,
    RequestCode::QUERY_NATIVE_FENCE_CAPS,
    RequestCode::QUERY_CLOCK_CALIBRATION,
    RequestCode::QUERY_STATISTICS,
    RequestCode::QUERY_POWER,
    RequestCode::QUERY_GPU_POWER,
    RequestCode::QUERY_KERNEL_CAPS,
    RequestCode::QUERY_VIDEO_CAPS,
    RequestCode::QUERY_SECURITY_CAPS,
    RequestCode::QUERY_CHILD_RELATIONS,
    RequestCode::QUERY_CHILD_STATUS,
    RequestCode::QUERY_DEVICE_DESCRIPTOR,
    RequestCode::RECOMMEND_MONITOR_MODES,
    RequestCode::GET_SCAN_LINE,
    RequestCode::QUERY_AGENT,
    RequestCode::OPEN_ADAPTER,
    RequestCode::ESCAPE,
];

/// Memory of a program's file, in two pieces.
struct Memory {
    region: Arc<MmapRegion>,
    extents: Vec<Extent>,
    length: usize,
}

impl SystemMemory for Memory {
    fn region(&self) -> &Arc<MmapRegion> {
        &self.region
    }

    fn offset(&self) -> usize {
        0
    }

    fn len(&self) -> usize {
        self.length
    }

    fn extents(&self) -> &[Extent] {
        &self.extents
    }
}

#[derive(Default)]
struct State {
    /// The program that speaks, and its user; none while the broker opens the device.
    speaking: Option<(usize, u32)>,
    /// Programs of processes.
    processes: BTreeMap<u32, usize>,
    last: u32,
    /// The files of programs.
    memory: BTreeMap<usize, Vec<Extent>>,
    answer: u8,
    asked: usize,
    is_gone: bool,
}

/// The device.
#[derive(Default)]
pub struct Device {
    state: Mutex<State>,
    donations: Donations,
}

impl Device {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// From now on, what is asked is asked for this program. The device refuses nothing until [`Self::answers`].
    pub fn speaks(&self, program: usize, user: u32) {
        let mut state = self.lock();
        state.speaking = Some((program, user));
        (state.answer, state.asked, state.is_gone) = (0, 0, false);
    }

    /// How the device answers from now on.
    pub fn answers(&self, answer: u8) {
        self.lock().answer = answer;
    }

    /// How often the device was asked since a program speaks.
    pub fn asked(&self) -> usize {
        self.lock().asked
    }

    /// Whether it has said that it is gone since.
    pub fn is_gone(&self) -> bool {
        self.lock().is_gone
    }

    /// A process that lives, or none.
    pub fn living(&self, index: usize) -> u32 {
        let state = self.lock();
        let count = state.processes.len().max(1);
        state.processes.keys().nth(index % count).copied().unwrap_or(0)
    }

    /// Where a program's memory begins.
    pub fn memory_of(&self, program: usize) -> u64 {
        let state = self.lock();
        state.memory.get(&program).and_then(|extents| Some(extents.first()?.address)).unwrap_or(0)
    }

    /// Whether an event of this process is one of the program's.
    pub fn concerns(&self, program: usize, process: u32) -> bool {
        let state = self.lock();
        match process {
            0 => state.processes.values().any(|owner| *owner == program),
            process => state.processes.get(&process) == Some(&program),
        }
    }

    /// Asserts that all processes of a program have ended.
    pub fn has_nothing_of(&self, program: usize) {
        let mut state = self.lock();
        assert!(state.processes.values().all(|owner| *owner != program), "a process is left");
        state.memory.remove(&program);
    }

    /// Asserts that no program is left.
    pub fn is_empty(&self) {
        let state = self.lock();
        assert!(state.processes.is_empty() && state.memory.is_empty());
    }
}

impl State {
    /// Panics if the program that speaks must not ask this. Returns the program.
    fn check(&self, header: RequestHeader, body: &[u8]) -> usize {
        let RequestHeader { code, process, .. } = header;
        let (program, user) = self.speaking.expect("a program speaks");
        let is_own = self.processes.get(&process) == Some(&program);
        assert!(!OF_NOBODY.contains(&code), "{code} was let through");
        assert!(!OF_GUEST.contains(&code) || user == 0, "{code} of user {user}");
        assert!(RequestCode::ALL.contains(&code), "{code} is no request");
        if code == RequestCode::CREATE_PROCESS_WITH_BAR {
            let (create, extents) = CreateProcessWithBar::read_from_prefix(body).unwrap();
            assert_eq!(process, 0);
            let count = self.processes.values().filter(|owner| **owner == program).count();
            assert!(count < PROCESSES, "a program has too many processes");
            let extents = <[Extent]>::ref_from_bytes(extents).unwrap();
            assert_eq!(create.extent_count as usize, extents.len());
            if create.beside == 0 {
                assert!(!extents.is_empty() && count == 0);
                extents.iter().for_each(|extent| self.is_of(program, *extent));
            } else {
                assert_eq!(self.processes.get(&create.beside), Some(&program));
                assert!(extents.is_empty());
            }
            return program;
        }
        assert!(code != RequestCode::CREATE_PROCESS && code != RequestCode::OPEN_ADAPTER);
        assert!(is_own || OF_ADAPTER.contains(&code), "{code} of process {process}");
        if code == RequestCode::DESCRIBE_PROCESS {
            let DescribeProcess { user: told, .. } =
                DescribeProcess::read_from_bytes(body).unwrap();
            assert_eq!(told, user, "a process is another user's");
        }
        if code == RequestCode::SET_PROCESS_SHARE {
            let SetProcessShare { group, .. } = SetProcessShare::read_from_bytes(body).unwrap();
            assert_eq!(group, user + 1, "a process has another user's part");
        }
        if code == RequestCode::CREATE_ALLOCATION {
            let extents = body.get(size_of::<CreateAllocation>()..).unwrap_or_default();
            for bytes in extents.chunks_exact(size_of::<Extent>()) {
                self.is_of(program, Extent::read_from_bytes(bytes).unwrap());
            }
        }
        program
    }

    /// Panics if a program has no such memory.
    #[track_caller]
    fn is_of(&self, program: usize, extent: Extent) {
        let first = u128::from(extent.address);
        let end = first + u128::from(extent.length);
        let within = |own: &Extent| {
            let start = u128::from(own.address);
            start <= first && end <= start + u128::from(own.length)
        };
        let own = self.memory.get(&program).expect("it has memory");
        assert!(own.iter().any(within), "{extent:x?} is not of {own:x?}");
    }
}

/// Writes a reply; returns its length.
fn write(reply: &mut [u8], status: Status, body: &[u8]) -> usize {
    let length = size_of::<ReplyHeader>() + body.len();
    let header = ReplyHeader { status, length: length as u32, detail: 0 };
    reply[..length].copy_from_slice(&[header.as_bytes(), body].concat());
    length
}

impl Transport for Device {
    fn config(&self) -> ConfigSpace {
        let mut config = ConfigSpace::new_zeroed();
        config.version = Version::CURRENT;
        (config.doorbell_count, config.fence_count) = (4, 4);
        config.features = self.features().bits();
        config
    }

    fn features(&self) -> Features {
        Features::all()
    }

    fn bar(&self) -> Option<BarMapping> {
        None
    }

    fn donations(&self) -> &Donations {
        &self.donations
    }

    fn request(&self, request: &[u8], reply: &mut [u8]) -> Result<usize, TransportError> {
        let (header, body) = RequestHeader::read_from_prefix(request).unwrap();
        assert_eq!(header.length as usize, request.len());
        let mut state = self.lock();
        if state.speaking.is_none() {
            let open = OpenAdapter::read_from_bytes(body).unwrap();
            let mut info = AdapterInfo::new_zeroed();
            (info.version, info.features) = (open.version, open.features);
            return Ok(write(reply, Status::SUCCESS, info.as_bytes()));
        }
        let program = state.check(header, body);
        state.asked += 1;
        match state.answer % 8 {
            6 => return Ok(write(reply, Status::INSUFFICIENT_RESOURCES, &[])),
            7 => {
                state.is_gone = true;
                // Its end must not fail, too.
                state.answer = 0;
                return Err(TransportError::Disconnected("it is gone".into()));
            }
            _ => {}
        }
        if header.code == RequestCode::DESTROY_PROCESS {
            state.processes.remove(&header.process);
        }
        let mut body = vec![0; usize::from(state.answer) * 8];
        if header.code == RequestCode::CREATE_PROCESS_WITH_BAR {
            state.last += 1;
            let process = state.last;
            state.processes.insert(process, program);
            let mut made = CreateProcessReply::new_zeroed();
            made.process = process;
            body = made.as_bytes().to_vec();
        }
        Ok(write(reply, Status::SUCCESS, &body))
    }

    fn post(&self, _request: &[u8]) -> Result<(), TransportError> {
        panic!("the broker waits for replies")
    }

    fn kick(&self) -> Result<(), TransportError> {
        Ok(())
    }

    fn next_event(&self, _timeout: Option<Duration>) -> Result<Option<Event>, TransportError> {
        Ok(None)
    }

    fn allocate(&self, size: u64) -> Result<Box<dyn SystemMemory>, TransportError> {
        Err(TransportError::OutOfMemory(size))
    }

    fn allocate_file(&self, size: u64) -> Result<Box<dyn SystemMemory>, TransportError> {
        let mut state = self.lock();
        let (program, _) = state.speaking.expect("a program connects");
        let file = memfd_create("program", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, size).unwrap();
        let length = size as usize;
        let region = MmapRegion::from_file(FileOffset::new(File::from(file), 0), length).unwrap();
        // The files of neighbours touch each other.
        let first = 3 * PAGE_SIZE;
        let (number, rest) = (program as u64, size - first);
        let extents = vec![
            Extent { address: 16 * PAGE_SIZE + number * first, length: first },
            Extent { address: (1 << 40) + number * rest, length: rest },
        ];
        state.memory.insert(program, extents.clone());
        Ok(Box::new(Memory { region: Arc::new(region), extents, length }))
    }

    fn check(&self) -> Result<(), TransportError> {
        Ok(())
    }
}
