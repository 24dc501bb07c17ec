//! The task that owns the kernel.

use crate::bench::{RESOURCES, bytes};
use crate::model::Model;
use bellhop_host_kmd::actor::{self, KernelHandle};
use bellhop_host_kmd::dxgkrnl::{Kernel, Limits, OsFeatures};
use bellhop_host_kmd::hardware::GuestId;
use bellhop_host_kmd::port::{GuestPort, RequestToken};
use bellhop_protocol::control::adapter::OpenAdapter;
use bellhop_protocol::control::process::{CreateProcess, DestroyProcess};
use bellhop_protocol::control::{MAX_REPLY_SIZE, ReplyHeader, Request};
use bellhop_protocol::event::Event;
use bellhop_protocol::features::Version;
use bellhop_protocol::status::Status;
use std::sync::Arc;
use tokio::sync::mpsc;
use zerocopy::FromBytes;

/// Passes replies on; the channel closes when it is dropped.
struct Port(mpsc::UnboundedSender<(RequestToken, Vec<u8>)>);

impl GuestPort for Port {
    fn reply(&self, token: RequestToken, reply: &[u8]) {
        self.0.send((token, reply.to_vec())).unwrap();
    }

    fn event(&self, event: Event) {
        panic!("nobody waits for {event:?}");
    }
}

const GUEST: GuestId = GuestId(1);

struct Fixture {
    model: Arc<Model>,
    kernel: KernelHandle,
    replies: mpsc::UnboundedReceiver<(RequestToken, Vec<u8>)>,
}

impl Fixture {
    fn send<T: Request>(&self, token: u64, process: u32, request: &T) {
        self.kernel.request(GUEST, RequestToken(token), bytes(process, request), MAX_REPLY_SIZE);
    }

    async fn reply(&mut self) -> (u64, Status, Vec<u8>) {
        let (token, reply) = self.replies.recv().await.unwrap();
        let (header, body) = ReplyHeader::read_from_prefix(&reply).unwrap();
        (token.0, header.status, body.to_vec())
    }
}

/// A kernel in a task of its own and a guest that has opened the adapter and made process 1.
async fn new() -> Fixture {
    let model = Arc::new(Model::new(1));
    let (handle, mailbox) = actor::channel();
    let kernel =
        Kernel::new(Arc::clone(&model) as _, OsFeatures::default(), Limits::default()).unwrap();
    tokio::spawn(actor::run(kernel.into(), mailbox));
    let (sender, replies) = mpsc::unbounded_channel();
    handle.attach(GUEST, RESOURCES, Box::new(Port(sender)));
    let mut fixture = Fixture { model, kernel: handle, replies };
    fixture.send(1, 0, &OpenAdapter { version: Version::CURRENT, reserved: 0, features: 0 });
    fixture.send(2, 0, &CreateProcess { reserved: 0 });
    let (token, status, _) = fixture.reply().await;
    assert_eq!((token, status), (1, Status::SUCCESS));
    let (token, status, process) = fixture.reply().await;
    assert_eq!((token, status, process[0]), (2, Status::SUCCESS, 1));
    fixture
}

#[tokio::test]
async fn an_interrupt_releases_the_reply_that_waits_for_engines() {
    let mut fixture = new().await;
    fixture.model.state().prompt = false;
    fixture.send(3, 1, &DestroyProcess { flags: 0 });
    fixture.send(4, 0, &CreateProcess { reserved: 0 });
    assert_eq!(fixture.reply().await.0, 4);
    fixture.model.pass_tickets();
    fixture.kernel.interrupt();
    let (token, status, _) = fixture.reply().await;
    assert_eq!((token, status), (3, Status::SUCCESS));
}

#[tokio::test]
async fn a_port_is_dropped_before_its_guest_is_said_to_be_detached() {
    let mut fixture = new().await;
    fixture.model.state().prompt = false;
    let kernel = fixture.kernel.clone();
    let detached = tokio::spawn(async move { kernel.detach(GUEST).await });
    // Answered by nobody: the guest is on its way out when the kernel comes to it.
    while fixture.model.take_log().is_empty() {
        tokio::task::yield_now().await;
    }
    fixture.send(3, 0, &CreateProcess { reserved: 0 });
    assert!(!detached.is_finished());
    // Once for the contexts to be left, and once for what they had.
    fixture.model.take_log();
    fixture.model.pass_tickets();
    fixture.kernel.interrupt();
    while fixture.model.take_log().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(!detached.is_finished());
    fixture.model.pass_tickets();
    fixture.kernel.interrupt();
    detached.await.unwrap();
    assert!(matches!(fixture.replies.try_recv(), Err(mpsc::error::TryRecvError::Disconnected)));
    assert!(fixture.model.is_empty());
}

#[tokio::test]
async fn a_thread_can_wait_for_the_detach_too() {
    let fixture = new().await;
    let kernel = fixture.kernel.clone();
    tokio::task::spawn_blocking(move || kernel.detach_blocking(GUEST)).await.unwrap();
    assert!(fixture.model.is_empty());
    // Whoever is gone already, or never came, is detached.
    fixture.kernel.detach(GUEST).await;
    fixture.kernel.detach(GuestId(9)).await;
}

#[tokio::test]
async fn a_kernel_that_has_stopped_keeps_nobody_waiting() {
    let (handle, mailbox) = actor::channel();
    drop(mailbox);
    handle.interrupt();
    handle.detach(GUEST).await;
}

#[tokio::test]
async fn the_task_ends_when_every_handle_is_gone() {
    let (handle, mailbox) = actor::channel();
    let kernel =
        Kernel::new(Arc::new(Model::new(1)), OsFeatures::default(), Limits::default()).unwrap();
    let task = tokio::spawn(actor::run(kernel.into(), mailbox));
    drop(handle);
    task.await.unwrap();
}
