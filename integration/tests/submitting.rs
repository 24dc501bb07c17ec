//! A submission that fails, over the real transport: what was refused was not submitted.

mod support;

use bellhop_guest::fake_guest::FakeGuest;
use bellhop_guest_umd::transport::{
    BarMapping, Donations, SystemMemory, Transport, TransportError,
};
use bellhop_guest_umd::{Adapter, CommandBuffer, Error};
use bellhop_protocol::config::ConfigSpace;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::control::{ReplyHeader, RequestCode, RequestHeader};
use bellhop_protocol::event::Event;
use bellhop_protocol::features::Features;
use bellhop_protocol::packet::dispatch::Kernel;
use bellhop_protocol::status::Status;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::Daemon;
use zerocopy::{FromBytes, IntoBytes};

const TIMEOUT: Duration = Duration::from_secs(30);

/// A guest whose device, while it is told to, refuses to connect doorbells.
struct Refusing {
    guest: Arc<FakeGuest>,
    refuses: AtomicBool,
}

impl Transport for Refusing {
    fn config(&self) -> ConfigSpace {
        self.guest.config()
    }

    fn features(&self) -> Features {
        self.guest.features()
    }

    fn bar(&self) -> Option<BarMapping> {
        self.guest.bar()
    }

    fn donations(&self) -> &Donations {
        self.guest.donations()
    }

    fn request(&self, request: &[u8], reply: &mut [u8]) -> Result<usize, TransportError> {
        let (header, _) = RequestHeader::read_from_prefix(request).unwrap();
        if header.code != RequestCode::CONNECT_DOORBELL || !self.refuses.load(Ordering::Relaxed) {
            return self.guest.request(request, reply);
        }
        let length = size_of::<ReplyHeader>();
        let status = Status::INSUFFICIENT_RESOURCES;
        let refusal = ReplyHeader { status, length: length as u32, detail: 0 };
        reply[..length].copy_from_slice(refusal.as_bytes());
        Ok(length)
    }

    fn post(&self, request: &[u8]) -> Result<(), TransportError> {
        self.guest.post(request)
    }

    fn next_event(&self, timeout: Option<Duration>) -> Result<Option<Event>, TransportError> {
        self.guest.next_event(timeout)
    }

    fn allocate(&self, size: u64) -> Result<Box<dyn SystemMemory>, TransportError> {
        self.guest.allocate(size)
    }

    fn check(&self) -> Result<(), TransportError> {
        self.guest.check()
    }
}

/// What the buffers of these tests do is undone when it is done twice.
#[test]
fn what_was_refused_is_executed_once_however_often_it_is_tried() {
    let daemon = Daemon::start(1);
    let guest = support::guest(&daemon, 0);
    let transport = Arc::new(Refusing { guest, refuses: true.into() });
    let adapter = Adapter::open(Arc::clone(&transport) as Arc<dyn Transport>).unwrap();
    let device = adapter.create_device().unwrap();
    let memory = device.create_allocation(AllocationKind::SYSTEM, 4096).unwrap();
    let memory = memory.map(Protection::WRITE).unwrap();
    let context = device.create_context(0).unwrap();
    let mut queue = context.create_user_mode_queue(4096).unwrap();
    let mut fallback = context.create_fallback_queue(4096).unwrap();
    let word = || memory.allocation().word(0).unwrap().load(Ordering::Acquire);
    let mut commands = CommandBuffer::new(&device, 256).unwrap();
    let at = memory.gpu_va();
    commands.dispatch(Kernel::XOR_STREAM, at, at, 8, 0x5eed).unwrap();
    for _ in 0..3 {
        let refused = queue.submit(&mut commands).unwrap_err();
        assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    }
    transport.refuses.store(false, Ordering::Relaxed);
    let value = queue.submit(&mut commands).unwrap();
    queue.progress_fence().wait(value, TIMEOUT).unwrap();
    let once = word();
    assert_ne!(once, 0, "it was executed an even number of times");

    // A queue that falls back does so at the first refusal, and what it was given runs once.
    transport.refuses.store(true, Ordering::Relaxed);
    let submission = fallback.submit(&mut commands).unwrap();
    assert!(!submission.user_mode);
    fallback.wait(submission, TIMEOUT).unwrap();
    assert_eq!(word(), 0);
    drop(fallback);
    assert_eq!(word(), 0);
}
