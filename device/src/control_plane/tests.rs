// SPDX-License-Identifier: MIT OR Apache-2.0

//! The task with scripted kernels.

use super::{KernelHandle, Kernels, channel, run};
use bellhop_host_kmd::hardware::{GuestId, SegmentSizes};
use bellhop_host_kmd::port::{
    AdapterId, Effect, GuestPort, GuestResources, Input, ListError, ListObjects, ObjectPage,
    RequestToken, SharingGroups,
};
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::event::Event;
use bellhop_protocol::features::Features;
use std::sync::mpsc::{Sender, channel as log_channel};
use std::time::Duration;
use tokio::sync::mpsc;

const GUEST: GuestId = GuestId(1);
/// A request that is answered at the next interrupt; all others are answered at once.
const SLOW: &[u8] = b"slow";
const QUICK: &[u8] = b"quick";

/// Kernels that answer slow requests at the next interrupt, and finish detaching a guest at the second interrupt.
struct Script {
    inputs: Sender<Input>,
    held: Vec<(GuestId, RequestToken)>,
    detaching: Option<(GuestId, u32)>,
}

impl Kernels for Script {
    fn set_time(&mut self, _: Duration) {}

    fn deadline(&self) -> Option<Duration> {
        None
    }

    fn handle(&mut self, _: AdapterId, input: Input, effects: &mut Vec<Effect>) {
        match &input {
            Input::Request { guest, token, request, .. } if request == SLOW => {
                self.held.push((*guest, *token));
            }
            Input::Request { guest, .. } if self.detaching.is_some_and(|(id, _)| id == *guest) => {}
            Input::Request { guest, token, request, .. } => {
                let reply = request.clone();
                effects.push(Effect::Reply { guest: *guest, token: *token, reply });
            }
            Input::Detach { guest } => self.detaching = Some((*guest, 2)),
            Input::Interrupt => {
                for (guest, token) in self.held.drain(..) {
                    effects.push(Effect::Reply { guest, token, reply: SLOW.to_vec() });
                }
                if let Some((guest, left)) = self.detaching.as_mut() {
                    *left -= 1;
                    if *left == 0 {
                        effects.push(Effect::Detached { guest: *guest });
                        self.detaching = None;
                    }
                }
            }
            _ => {}
        }
        // An error means that the test no longer looks at inputs.
        let _ = self.inputs.send(input);
    }

    fn list(&self, _: AdapterId, _: ListObjects, _: usize) -> Result<ObjectPage, ListError> {
        Ok(ObjectPage { next: 0, objects: Vec::new() })
    }
}

/// Forwards replies; the channel closes on drop.
struct Port(mpsc::UnboundedSender<(u64, Vec<u8>)>);

impl GuestPort for Port {
    fn reply(&self, token: RequestToken, reply: Vec<u8>) {
        self.0.send((token.0, reply.to_vec())).unwrap();
    }

    fn event(&self, event: Event) {
        panic!("the script has no event, and not {event:?}");
    }
}

struct Fixture {
    kernel: KernelHandle,
    inputs: std::sync::mpsc::Receiver<Input>,
    replies: mpsc::UnboundedReceiver<(u64, Vec<u8>)>,
}

impl Fixture {
    /// A new task with a guest attached.
    fn new() -> Self {
        let (kernel, mailbox) = channel();
        let (sender, inputs) = log_channel();
        tokio::spawn(run(Script { inputs: sender, held: Vec::new(), detaching: None }, mailbox));
        let (sender, replies) = mpsc::unbounded_channel();
        let resources = GuestResources {
            bar: BarLayout { doorbell_count: 1, fence_count: 1, local_memory: 0 },
            segments: SegmentSizes::default(),
            bar_mapped: false,
            features: Features::empty(),
            sharing: SharingGroups::NONE,
        };
        kernel.attach(GUEST, resources, Box::new(Port(sender)));
        Self { kernel, inputs, replies }
    }

    fn send(&self, token: u64, request: &[u8]) {
        self.kernel.request(GUEST, RequestToken(token), request.to_vec(), usize::MAX);
    }

    /// Waits until the kernels have handled such an input.
    async fn handled(&self, wanted: impl Fn(&Input) -> bool) {
        while !self.inputs.try_iter().any(|input| wanted(&input)) {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn an_interrupt_releases_the_reply_that_waits_for_engines() {
    let mut fixture = Fixture::new();
    fixture.send(3, SLOW);
    fixture.send(4, QUICK);
    assert_eq!(fixture.replies.recv().await.unwrap(), (4, QUICK.to_vec()));
    fixture.kernel.interrupt();
    assert_eq!(fixture.replies.recv().await.unwrap(), (3, SLOW.to_vec()));
}

#[tokio::test]
async fn a_port_is_dropped_before_its_guest_is_said_to_be_detached() {
    let mut fixture = Fixture::new();
    let kernel = fixture.kernel.clone();
    let detached = tokio::spawn(async move { kernel.detach(GUEST).await });
    fixture.handled(|input| matches!(input, Input::Detach { .. })).await;
    // No reply comes: the guest is being detached when the kernel handles this.
    fixture.send(3, QUICK);
    assert!(!detached.is_finished());
    fixture.kernel.interrupt();
    fixture.handled(|input| *input == Input::Interrupt).await;
    assert!(!detached.is_finished());
    fixture.kernel.interrupt();
    detached.await.unwrap();
    assert!(matches!(fixture.replies.try_recv(), Err(mpsc::error::TryRecvError::Disconnected)));
}

#[tokio::test]
async fn a_thread_can_wait_for_the_detach_too() {
    let fixture = Fixture::new();
    let kernel = fixture.kernel.clone();
    let waiting = tokio::task::spawn_blocking(move || kernel.detach_blocking(GUEST));
    fixture.handled(|input| matches!(input, Input::Detach { .. })).await;
    fixture.kernel.interrupt();
    fixture.handled(|input| *input == Input::Interrupt).await;
    fixture.kernel.interrupt();
    waiting.await.unwrap();
    // A guest that is already gone and one that never came both count as detached.
    fixture.kernel.detach(GUEST).await;
    fixture.kernel.detach(GuestId(9)).await;
}

#[tokio::test]
async fn a_kernel_that_has_stopped_keeps_no_caller_waiting() {
    let (handle, mailbox) = channel();
    drop(mailbox);
    handle.interrupt();
    handle.detach(GUEST).await;
}

#[tokio::test]
async fn the_task_ends_when_every_handle_is_gone() {
    let (handle, mailbox) = channel();
    let (inputs, _) = log_channel();
    let task = tokio::spawn(run(Script { inputs, held: Vec::new(), detaching: None }, mailbox));
    drop(handle);
    task.await.unwrap();
}
