// SPDX-License-Identifier: MIT OR Apache-2.0

//! The suite of programs against devices and brokers that break a promise: each behaviour about the promise fails.
//!
//! An interceptor between the broker and its device breaks them: so a request of a program's is not carried out, is carried
//! out in another way, or two programs are to the device what one is.

use crate::support::{DISPLAYS, Daemon, quick};
use bellhop_guest::broker::{self, Limits};
use bellhop_guest::conformance::{self, Outcome, Selection, Start};
use bellhop_guest::intercepted::{Intercept, Intercepted};
use bellhop_guest_umd::transport::SystemMemory;
use bellhop_guest_umd::transport::vhost_user::{Options, VhostUser};
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::control::adapter::{NativeFenceCaps, Statistics};
use bellhop_protocol::control::allocation::{AllocationFlags, CreateAllocation, Extent};
use bellhop_protocol::control::fence::{
    CreateMonitoredFence, CreateNativeFence, FenceFlags, NativeFenceType, NtHandle,
    OpenNativeFence, OpenedFence,
};
use bellhop_protocol::control::process::CreateProcessReply;
use bellhop_protocol::event::Event;
use bellhop_protocol::status::Status;
use std::sync::{Arc, Mutex};
use std::thread;
use vm_memory::MmapRegion;
use zerocopy::{FromBytes, IntoBytes};

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Break {
    /// Nothing.
    Nothing,
    /// This request is answered with success, and nothing happens.
    Ignores(RequestCode),
    /// All programs have one file.
    OneFile,
    /// All programs have one process and one file.
    OneProcess,
    /// Events name no process, so that they are for all programs.
    TellsAll,
    /// Whatever a program creates is there to be shared.
    SharesAll,
    /// A shared fence is called 1.
    NamesFencesOne,
    /// Fences begin with all values that the suite waits for.
    HoldsNobody,
    /// A fence of another program's has a value to read, at the beginning of the BAR.
    PublishesToAll,
    /// Nothing is counted.
    CountsNothing,
    /// Capabilities differ each time that somebody asks.
    ChangesCaps,
}

/// Memory that several have.
struct OfAll(Arc<dyn SystemMemory>);

impl SystemMemory for OfAll {
    fn region(&self) -> &Arc<MmapRegion> {
        self.0.region()
    }

    fn offset(&self) -> usize {
        self.0.offset()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn extents(&self) -> &[Extent] {
        self.0.extents()
    }
}

/// A break, and what it has come about so far.
struct Broken {
    how: Break,
    file: Mutex<Option<Arc<dyn SystemMemory>>>,
    process: Mutex<Option<u32>>,
    name: Mutex<u64>,
    asked: Mutex<u32>,
}

impl Intercept for Broken {
    fn answer(&self, code: RequestCode, _: &[u8]) -> Option<Status> {
        let ignored = match self.how {
            Break::Ignores(ignored) => ignored,
            Break::OneProcess => RequestCode::DESTROY_PROCESS,
            _ => return None,
        };
        (code == ignored).then_some(Status::SUCCESS)
    }

    fn change(&self, code: RequestCode, body: &mut [u8]) {
        match (self.how, code) {
            (Break::SharesAll, RequestCode::CREATE_NATIVE_FENCE) => {
                let (fence, _) = CreateNativeFence::mut_from_prefix(body).unwrap();
                fence.flags |= FenceFlags::SHARED.bits();
            }
            (Break::SharesAll, RequestCode::CREATE_MONITORED_FENCE) => {
                let (fence, _) = CreateMonitoredFence::mut_from_prefix(body).unwrap();
                fence.flags |= FenceFlags::SHARED.bits();
            }
            (Break::SharesAll, RequestCode::CREATE_ALLOCATION) => {
                let (allocation, _) = CreateAllocation::mut_from_prefix(body).unwrap();
                if allocation.extent_count == 0 {
                    allocation.flags |= AllocationFlags::SHARED.bits();
                }
            }
            (Break::NamesFencesOne, RequestCode::OPEN_NATIVE_FENCE) => {
                let (open, _) = OpenNativeFence::mut_from_prefix(body).unwrap();
                if open.nt_handle == NtHandle(1) {
                    open.nt_handle = NtHandle(*self.name.lock().unwrap());
                }
            }
            (Break::HoldsNobody, RequestCode::CREATE_NATIVE_FENCE) => {
                let (fence, _) = CreateNativeFence::mut_from_prefix(body).unwrap();
                assert_eq!(fence.fence_type, NativeFenceType::DEFAULT);
                fence.initial_value = 1000;
            }
            _ => {}
        }
    }

    fn alter(&self, code: RequestCode, body: &mut [u8]) {
        match (self.how, code) {
            (Break::OneProcess, RequestCode::CREATE_PROCESS_WITH_BAR) => {
                let (reply, _) = CreateProcessReply::mut_from_prefix(body).unwrap();
                reply.process = *self.process.lock().unwrap().get_or_insert(reply.process);
            }
            (Break::NamesFencesOne, RequestCode::SHARE_NATIVE_FENCE) => {
                let (name, _) = NtHandle::mut_from_prefix(body).unwrap();
                *self.name.lock().unwrap() = std::mem::replace(&mut name.0, 1);
            }
            (Break::PublishesToAll, RequestCode::OPEN_NATIVE_FENCE) => {
                let (opened, _) = OpenedFence::mut_from_prefix(body).unwrap();
                opened.mapping.current_value_offset = 0;
            }
            (Break::CountsNothing, RequestCode::QUERY_STATISTICS) => {
                body.copy_from_slice(Statistics::default().as_bytes());
            }
            (Break::ChangesCaps, RequestCode::QUERY_NATIVE_FENCE_CAPS) => {
                let (caps, _) = NativeFenceCaps::mut_from_prefix(body).unwrap();
                let mut asked = self.asked.lock().unwrap();
                *asked += 1;
                caps.monitored_value_stride += *asked;
            }
            _ => {}
        }
    }

    fn tell(&self, event: &mut Event) {
        if self.how == Break::TellsAll {
            event.process = 0;
        }
    }

    fn allocated(&self, memory: Box<dyn SystemMemory>) -> Box<dyn SystemMemory> {
        match self.how {
            Break::OneFile | Break::OneProcess => {
                let mut file = self.file.lock().unwrap();
                Box::new(OfAll(Arc::clone(file.get_or_insert_with(|| Arc::from(memory)))))
            }
            _ => memory,
        }
    }
}

/// Asserts that a behaviour fails where this is broken, and passes where nothing is.
#[track_caller]
fn assert_noticed(behaviour: &str, how: Break) {
    assert_eq!(outcome(behaviour, Break::Nothing), Outcome::Passed, "{behaviour}");
    assert_eq!(outcome(behaviour, how), Outcome::Failed, "{behaviour}, {how:?}");
}

fn outcome(behaviour: &str, how: Break) -> Outcome {
    let daemon = Daemon::start_with(1, &format!("{}{DISPLAYS}", quick("", "")));
    let device = VhostUser::connect(&daemon.socket(0), Options::default()).unwrap();
    let intercept = Broken {
        how,
        file: Mutex::default(),
        process: Mutex::default(),
        name: Mutex::default(),
        asked: Mutex::default(),
    };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("broker.sock");
    let mut limits = Limits::default();
    limits.each.memory = 8 << 20;
    let socket_of_it = socket.clone();
    let options = broker::Options { socket: socket_of_it, mode: 0o600, limits, is_confined: false };
    let broken = Arc::new(Intercepted { intercept, guest: device });
    let server = broker::Server::listen(broken, &options).unwrap();
    let serves = thread::spawn(move || server.serve());
    let start = Start {
        executable: env!("CARGO_BIN_EXE_bellhop").into(),
        words: vec!["guest".into()],
        broker: socket,
        several_users: false,
    };
    let selection = Selection { filter: Some(behaviour), skip: &[] };
    let report = conformance::run_programs(start, selection, false).unwrap();
    let check = report.checks.iter().find(|check| check.id == behaviour).expect(behaviour);
    eprintln!("{behaviour}, {how:?}: {:?}: {}", check.outcome, check.detail);
    // The broker ends with its device.
    drop(daemon);
    serves.join().unwrap().unwrap_err();
    check.outcome
}

#[test]
fn programs_that_are_not_kept_apart_are_noticed() {
    for (behaviour, how) in [
        ("program.memory.own-file", Break::OneFile),
        ("program.memory.zeroed", Break::OneFile),
        ("program.process.unknown", Break::OneProcess),
        ("program.process.ended", Break::OneProcess),
        ("program.handle.apart", Break::OneProcess),
        ("program.fence.names", Break::NamesFencesOne),
        ("program.fence.unshared", Break::SharesAll),
        ("program.shared-memory.unshared", Break::SharesAll),
        ("program.shared-fence.published", Break::PublishesToAll),
        ("program.event.own", Break::TellsAll),
        ("program.event.process", Break::TellsAll),
    ] {
        assert_noticed(behaviour, how);
    }
}

#[test]
fn programs_that_do_not_get_what_they_have_together_are_noticed() {
    for (behaviour, how) in [
        ("program.shared-fence.order", Break::HoldsNobody),
        ("program.shared-fence.lifetime", Break::Ignores(RequestCode::DESTROY_NATIVE_FENCE)),
        ("program.query.statistics", Break::CountsNothing),
        ("program.query.caps", Break::ChangesCaps),
    ] {
        assert_noticed(behaviour, how);
    }
}
