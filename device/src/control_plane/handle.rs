// SPDX-License-Identifier: MIT OR Apache-2.0

//! Access to the control plane for other threads and tasks.

use bellhop_host_kmd::hardware::GuestId;
use bellhop_host_kmd::port::{
    AdapterId, Command, CommandError, GuestPort, GuestResources, ListError, ListObjects,
    ObjectPage, RequestToken, TraceAction, TraceError, TracePage,
};
use bellhop_protocol::control::agent::{AgentAnswer, AskAgent};
use bellhop_protocol::snapshot::Change;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc, oneshot};
use tracing::Span;

/// A message from a handle to the task.
pub(super) enum Message {
    Attach { guest: GuestId, resources: GuestResources, port: Box<dyn GuestPort>, span: Span },
    Request { guest: GuestId, token: RequestToken, request: Vec<u8>, room: usize },
    Detach { guest: GuestId, done: oneshot::Sender<()> },
    List { wanted: ListObjects, room: usize, done: oneshot::Sender<Result<ObjectPage, ListError>> },
    Command { command: Command, done: oneshot::Sender<Result<(), CommandError>> },
    Note { guest: Option<GuestId>, change: Change },
    AskAgent { guest: GuestId, request: AskAgent, done: oneshot::Sender<AgentAnswer> },
    Trace { action: TraceAction, done: oneshot::Sender<Result<TracePage, TraceError>> },
}

/// A handle to the kernel of one adapter, for any thread.
#[derive(Clone)]
pub struct KernelHandle {
    adapter: AdapterId,
    messages: mpsc::UnboundedSender<(AdapterId, Message)>,
    interrupt: Arc<Notify>,
}

/// The queue of messages for [`run`](super::run).
pub struct Mailbox {
    pub(super) messages: mpsc::UnboundedReceiver<(AdapterId, Message)>,
    pub(super) interrupt: Arc<Notify>,
}

/// Creates both ends; the handle is the first adapter's. The kernels come later: the hardware below them needs
/// [`KernelHandle::interrupt`] before a kernel can exist.
#[must_use]
pub fn channel() -> (KernelHandle, Mailbox) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let interrupt = Arc::new(Notify::new());
    (
        KernelHandle {
            adapter: AdapterId::default(),
            messages: sender,
            interrupt: Arc::clone(&interrupt),
        },
        Mailbox { messages: receiver, interrupt },
    )
}

impl KernelHandle {
    /// A handle to another adapter of the host.
    #[must_use]
    pub fn of(&self, adapter: AdapterId) -> Self {
        Self { adapter, ..self.clone() }
    }

    /// Attaches a guest. Its port is dropped when the guest is detached. Log lines for the guest go to the caller's
    /// current span.
    pub fn attach(&self, guest: GuestId, resources: GuestResources, port: Box<dyn GuestPort>) {
        let span = Span::current();
        self.send(Message::Attach { guest, resources, port, span });
    }

    /// Hands over a request of a guest; `request` is the host's own copy. The reply comes through the guest's port,
    /// and is at most `room` bytes long if a reply's header fits into that.
    pub fn request(&self, guest: GuestId, token: RequestToken, request: Vec<u8>, room: usize) {
        self.send(Message::Request { guest, token, request, room });
    }

    /// Detaches a guest. Returns when no engine accesses its memory any more, or when the kernel has stopped.
    pub async fn detach(&self, guest: GuestId) {
        // An error means that the kernel has stopped, and the guest's objects with it.
        let _ = self.begin_detach(guest).await;
    }

    /// [`Self::detach`] for a thread outside any async runtime.
    pub fn detach_blocking(&self, guest: GuestId) {
        // As above.
        let _ = wait(self.begin_detach(guest));
    }

    fn begin_detach(&self, guest: GuestId) -> oneshot::Receiver<()> {
        let (done, receiver) = oneshot::channel();
        self.send(Message::Detach { guest, done });
        receiver
    }

    /// Makes the kernel execute a host command. Returns when it is done.
    ///
    /// # Errors
    /// If the command is refused, or the kernel has stopped.
    pub async fn command(&self, command: Command) -> Result<(), CommandError> {
        end_of(self.begin_command(command)).await
    }

    /// [`Self::command`] for a thread outside any async runtime.
    ///
    /// # Errors
    /// If the command is refused, or the kernel has stopped.
    pub fn command_blocking(&self, command: Command) -> Result<(), CommandError> {
        wait(self.begin_command(command)).unwrap_or_else(|| Err(stopped()))
    }

    /// Sends a command now; the receiver gets its end. Without a result the kernel has stopped.
    pub(crate) fn begin_command(
        &self,
        command: Command,
    ) -> oneshot::Receiver<Result<(), CommandError>> {
        let (done, receiver) = oneshot::channel();
        self.send(Message::Command { command, done });
        receiver
    }

    /// Sends a command whose end nobody waits for.
    pub(crate) fn post(&self, command: Command) {
        drop(self.begin_command(command));
    }

    /// Asks the agent of a guest. Returns its answer, or the kernel's in its place; `None` if the kernel has stopped.
    pub async fn ask_agent(&self, guest: GuestId, request: AskAgent) -> Option<AgentAnswer> {
        let (done, receiver) = oneshot::channel();
        self.send(Message::AskAgent { guest, request, done });
        receiver.await.ok()
    }

    /// Has tools see a change of the host's operator: of a guest, or of the adapter.
    pub fn note(&self, guest: Option<GuestId>, change: Change) {
        self.send(Message::Note { guest, change });
    }

    /// Begins, reads or ends a trace of the adapter. The tool that began a trace ends it.
    ///
    /// # Errors
    /// If another tool traces, the adapter does not exist, or the kernel has stopped.
    pub async fn trace(&self, action: TraceAction) -> Result<TracePage, TraceError> {
        let (done, receiver) = oneshot::channel();
        self.send(Message::Trace { action, done });
        receiver.await.unwrap_or(Err(TraceError::Stopped))
    }

    /// Ends a trace after its tool disconnected without doing so.
    pub fn end_trace(&self) {
        let (done, _) = oneshot::channel();
        self.send(Message::Trace { action: TraceAction::End, done });
    }

    /// Returns some of the objects of a list, in at most `room` bytes: see
    /// [`Adapters::list`](bellhop_host_kmd::dxgkrnl::Adapters::list).
    ///
    /// # Errors
    /// If the list or the parent that it names does not exist, or the kernel has stopped.
    pub async fn list(&self, wanted: ListObjects, room: usize) -> Result<ObjectPage, ListError> {
        let (done, receiver) = oneshot::channel();
        self.send(Message::List { wanted, room, done });
        receiver.await.unwrap_or_else(|_| {
            Err(ListError { gone: false, why: "the kernel has stopped".to_owned() })
        })
    }

    /// Tells the kernel that the hardware has interrupts. An engine thread may call this: it neither allocates nor
    /// waits for the kernel. Several calls before the kernel looks count as one. Pairs with `notified` in
    /// [`run`](super::run), after which the kernel takes all interrupts raised before this call.
    pub fn interrupt(&self) {
        self.interrupt.notify_one();
    }

    fn send(&self, message: Message) {
        if self.messages.send((self.adapter, message)).is_err() {
            tracing::debug!("message dropped: the kernel has stopped");
        }
    }
}

/// Waits for an answer of the control plane, on a thread outside any async runtime. Without one the kernel has stopped.
#[expect(
    clippy::disallowed_methods,
    reason = "the thread of the guest that goes, or of the operator who asked: until the control plane has done it"
)]
fn wait<T>(
    #[cfg_attr(not(feature = "stepped"), expect(unused_mut, reason = "only steps look again"))]
    mut answer: oneshot::Receiver<T>,
) -> Option<T> {
    #[cfg(feature = "stepped")]
    while super::stepped::step() {
        match answer.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => {}
            answered => return answered.ok(),
        }
    }
    answer.blocking_recv().ok()
}

/// The end of a command that was sent.
///
/// # Errors
/// If the command is refused, or the kernel has stopped.
pub(crate) async fn end_of(
    command: oneshot::Receiver<Result<(), CommandError>>,
) -> Result<(), CommandError> {
    command.await.unwrap_or_else(|_| Err(stopped()))
}

fn stopped() -> CommandError {
    CommandError("the kernel has stopped".to_owned())
}
