//! The task that owns the kernels of all adapters: everybody else sends it messages.
//!
//! There is one owner and so no lock order. The mailbox is unbounded, and bounded all the same:
//! each request in it holds a descriptor of its guest's control queue until it is answered, and
//! interrupts are one flag, as all adapters have one interrupt line.

use crate::clock::RunningClock;
use crate::dxgkrnl::Adapters;
use crate::hardware::GuestId;
use crate::port::{
    AdapterId, Command, CommandError, CommandToken, Effect, GuestPort, GuestResources, Input,
    ListError, ListObjects, ObjectPage, RequestToken, TraceAction, TraceError, TracePage,
};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

enum Message {
    Attach { guest: GuestId, resources: GuestResources, port: Box<dyn GuestPort> },
    Request { guest: GuestId, token: RequestToken, request: Vec<u8>, room: usize },
    Detach { guest: GuestId, done: oneshot::Sender<()> },
    List { wanted: ListObjects, room: usize, done: oneshot::Sender<Result<ObjectPage, ListError>> },
    Command { command: Command, done: oneshot::Sender<Result<(), CommandError>> },
    Trace { action: TraceAction, done: oneshot::Sender<Result<TracePage, TraceError>> },
}

/// How to reach the kernel of an adapter, from any thread.
#[derive(Clone)]
pub struct KernelHandle {
    adapter: AdapterId,
    messages: mpsc::UnboundedSender<(AdapterId, Message)>,
    interrupt: Arc<Notify>,
}

/// Where messages wait for [`run`].
pub struct Mailbox {
    messages: mpsc::UnboundedReceiver<(AdapterId, Message)>,
    interrupt: Arc<Notify>,
}

/// Makes both ends; the handle is the first adapter's. The kernels come later: the hardware under them
/// needs [`KernelHandle::interrupt`] before there can be a kernel.
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
    /// The same for another adapter of the host.
    #[must_use]
    pub fn of(&self, adapter: AdapterId) -> Self {
        Self { adapter, ..self.clone() }
    }

    /// A guest came. Its port is dropped when it is detached.
    pub fn attach(&self, guest: GuestId, resources: GuestResources, port: Box<dyn GuestPort>) {
        self.send(Message::Attach { guest, resources, port });
    }

    /// A guest asks for something; `request` is the host's own copy. The answer comes through the
    /// guest's port, and is no longer than `room` where that takes a reply's header.
    pub fn request(&self, guest: GuestId, token: RequestToken, request: Vec<u8>, room: usize) {
        self.send(Message::Request { guest, token, request, room });
    }

    /// A guest went. Returns when no engine touches anything of it any more, or when the kernel
    /// has stopped.
    pub async fn detach(&self, guest: GuestId) {
        // An error means that the kernel has stopped, and with it everything of the guest.
        let _ = self.begin_detach(guest).await;
    }

    /// [`Self::detach`] for a thread outside of any async runtime.
    pub fn detach_blocking(&self, guest: GuestId) {
        let _ = self.begin_detach(guest).blocking_recv();
    }

    fn begin_detach(&self, guest: GuestId) -> oneshot::Receiver<()> {
        let (done, receiver) = oneshot::channel();
        self.send(Message::Detach { guest, done });
        receiver
    }

    /// Asks for something on the host's behalf. Returns when it is done.
    ///
    /// # Errors
    /// When it is refused, or the kernel has stopped.
    pub async fn command(&self, command: Command) -> Result<(), CommandError> {
        self.begin_command(command).await.unwrap_or_else(|_| Err(stopped()))
    }

    /// [`Self::command`] for a thread outside of any async runtime.
    ///
    /// # Errors
    /// When it is refused, or the kernel has stopped.
    pub fn command_blocking(&self, command: Command) -> Result<(), CommandError> {
        self.begin_command(command).blocking_recv().unwrap_or_else(|_| Err(stopped()))
    }

    fn begin_command(&self, command: Command) -> oneshot::Receiver<Result<(), CommandError>> {
        let (done, receiver) = oneshot::channel();
        self.send(Message::Command { command, done });
        receiver
    }

    /// What was recorded of the adapter. Whoever has begun a trace ends it.
    ///
    /// # Errors
    /// When somebody else traces, there is no such adapter, or the kernel has stopped.
    pub async fn trace(&self, action: TraceAction) -> Result<TracePage, TraceError> {
        let (done, receiver) = oneshot::channel();
        self.send(Message::Trace { action, done });
        receiver.await.unwrap_or(Err(TraceError::Stopped))
    }

    /// Ends a trace whose tool has gone.
    pub fn end_trace(&self) {
        let (done, _) = oneshot::channel();
        self.send(Message::Trace { action: TraceAction::End, done });
    }

    /// Some of the objects of a list, in no more than `room` bytes: see [`Adapters::list`].
    ///
    /// # Errors
    /// When there is no such list or nothing whose objects it could be, or the kernel has stopped.
    pub async fn list(&self, wanted: ListObjects, room: usize) -> Result<ObjectPage, ListError> {
        let (done, receiver) = oneshot::channel();
        self.send(Message::List { wanted, room, done });
        receiver.await.unwrap_or_else(|_| {
            Err(ListError { gone: false, why: "the kernel has stopped".to_owned() })
        })
    }

    /// The hardware has interrupts. Callable from an engine thread: it neither allocates nor waits
    /// for the kernel. Several before the kernel looks are one; pairs with `notified` in [`run`],
    /// after which the kernel takes all interrupts raised before this call.
    pub fn interrupt(&self) {
        self.interrupt.notify_one();
    }

    fn send(&self, message: Message) {
        if self.messages.send((self.adapter, message)).is_err() {
            tracing::debug!("a message for a kernel that has stopped");
        }
    }
}

/// Runs the kernels until every [`KernelHandle`] is gone.
pub async fn run(adapters: Adapters, mut mailbox: Mailbox) {
    // What is everybody's.
    let any = AdapterId::default();
    let mut actor = Actor {
        adapters,
        start: Instant::now(),
        clock: RunningClock::default(),
        guests: HashMap::new(),
        commands: HashMap::new(),
        traces: HashMap::new(),
        last_command: 0,
        effects: Vec::new(),
    };
    loop {
        let look = actor.clock.wait_for(actor.adapters.deadline());
        let look = look.map(|look| actor.start + look);
        tokio::select! {
            message = mailbox.messages.recv() => match message {
                Some((adapter, message)) => actor.receive(adapter, message),
                None => return,
            },
            () = mailbox.interrupt.notified() => actor.handle(any, Input::Interrupt),
            () = due(look) => actor.look_at_the_clock(),
        }
    }
}

/// Returns at a time, or never.
async fn due(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

fn stopped() -> CommandError {
    CommandError("the kernel has stopped".to_owned())
}

struct AttachedGuest {
    port: Box<dyn GuestPort>,
    /// Who waits for it to be detached.
    detaching: Vec<oneshot::Sender<()>>,
}

struct Actor {
    adapters: Adapters,
    /// Zero of the clock that the kernels' clock looks at.
    start: Instant,
    /// The kernels' clock: all their time-outs are on it.
    clock: RunningClock,
    guests: HashMap<GuestId, AttachedGuest>,
    /// Who waits for which command.
    commands: HashMap<CommandToken, oneshot::Sender<Result<(), CommandError>>>,
    traces: HashMap<CommandToken, oneshot::Sender<Result<TracePage, TraceError>>>,
    last_command: u64,
    effects: Vec<Effect>,
}

impl Actor {
    fn receive(&mut self, adapter: AdapterId, message: Message) {
        match message {
            Message::Attach { guest, resources, port } => {
                if self.guests.contains_key(&guest) {
                    tracing::error!(guest = guest.0, "attached twice");
                    return;
                }
                self.guests.insert(guest, AttachedGuest { port, detaching: Vec::new() });
                self.handle(adapter, Input::Attach { guest, resources });
            }
            Message::Request { guest, token, request, room } => {
                self.handle(adapter, Input::Request { guest, token, request, room });
            }
            Message::List { wanted, room, done } => {
                // An error means that nobody waits any more.
                let _ = done.send(self.adapters.list(adapter, wanted, room));
            }
            Message::Detach { guest, done } => match self.guests.get_mut(&guest) {
                Some(attached) => {
                    attached.detaching.push(done);
                    self.handle(adapter, Input::Detach { guest });
                }
                // Nothing of it is left. An error means that nobody waits any more.
                None => {
                    let _ = done.send(());
                }
            },
            Message::Command { command, done } => {
                self.last_command += 1;
                let token = CommandToken(self.last_command);
                self.commands.insert(token, done);
                self.handle(adapter, Input::Command { token, command });
            }
            Message::Trace { action, done } => {
                self.last_command += 1;
                let token = CommandToken(self.last_command);
                self.traces.insert(token, done);
                self.handle(adapter, Input::Trace { token, action });
            }
        }
    }

    /// Handles what is due, if anything is.
    fn look_at_the_clock(&mut self) {
        let now = self.clock.look(self.start.elapsed());
        if self.adapters.deadline().is_some_and(|deadline| deadline <= now) {
            self.handle(AdapterId::default(), Input::Timeout);
        }
    }

    fn handle(&mut self, adapter: AdapterId, input: Input) {
        self.adapters.set_time(self.clock.look(self.start.elapsed()));
        self.adapters.handle(adapter, input, &mut self.effects);
        for effect in self.effects.drain(..) {
            match effect {
                Effect::Reply { guest, token, reply } => {
                    if let Some(guest) = self.guests.get(&guest) {
                        guest.port.reply(token, &reply);
                    }
                }
                Effect::Event { guest, event } => {
                    if let Some(guest) = self.guests.get(&guest) {
                        guest.port.event(event);
                    }
                }
                Effect::CommandDone { token, result } => {
                    if let Some(done) = self.commands.remove(&token) {
                        // An error means that nobody waits any more.
                        let _ = done.send(result);
                    }
                }
                Effect::Traced { token, result } => {
                    if let Some(done) = self.traces.remove(&token) {
                        // An error means that nobody waits any more.
                        let _ = done.send(result);
                    }
                }
                Effect::Detached { guest } => {
                    let Some(AttachedGuest { port, detaching }) = self.guests.remove(&guest) else {
                        continue;
                    };
                    // Before anybody is told: the port may hold what they want to take down.
                    drop(port);
                    for done in detaching {
                        // An error means that nobody waits any more.
                        let _ = done.send(());
                    }
                }
            }
        }
    }
}
