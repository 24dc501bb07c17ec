// SPDX-License-Identifier: MIT OR Apache-2.0

//! The task that owns the kernels: it feeds them inputs and executes their effects.

use super::clock::RunningClock;
use super::handle::{Mailbox, Message};
use bellhop_host_kmd::dxgkrnl::Adapters;
use bellhop_host_kmd::hardware::GuestId;
use bellhop_host_kmd::port::{
    AdapterId, CommandError, CommandToken, Effect, GuestPort, Input, ListError, ListObjects,
    ObjectPage, TraceError, TracePage,
};
use bellhop_protocol::control::agent::AgentAnswer;
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Span;

/// The state machine that the task runs: the kernels of all adapters.
pub trait Kernels {
    /// Sets the time, before each input.
    fn set_time(&mut self, now: Duration);

    /// The time at which [`Input::Timeout`] is due if no other input comes.
    fn deadline(&self) -> Option<Duration>;

    /// Handles one input and appends its effects.
    fn handle(&mut self, adapter: AdapterId, input: Input, effects: &mut Vec<Effect>);

    /// Lists objects.
    ///
    /// # Errors
    /// If the list or the parent that it names does not exist.
    fn list(
        &self,
        adapter: AdapterId,
        wanted: ListObjects,
        room: usize,
    ) -> Result<ObjectPage, ListError>;
}

impl Kernels for Adapters {
    fn set_time(&mut self, now: Duration) {
        Self::set_time(self, now);
    }

    fn deadline(&self) -> Option<Duration> {
        Self::deadline(self)
    }

    fn handle(&mut self, adapter: AdapterId, input: Input, effects: &mut Vec<Effect>) {
        Self::handle(self, adapter, input, effects);
    }

    fn list(
        &self,
        adapter: AdapterId,
        wanted: ListObjects,
        room: usize,
    ) -> Result<ObjectPage, ListError> {
        Self::list(self, adapter, wanted, room)
    }
}

/// Runs the kernels until every [`KernelHandle`](super::KernelHandle) is dropped.
pub async fn run(kernels: impl Kernels, mut mailbox: Mailbox) {
    // Interrupts and time-outs concern all adapters, whichever is named.
    let any = AdapterId::default();
    let mut task = Task {
        kernels,
        start: Instant::now(),
        clock: RunningClock::default(),
        guests: HashMap::new(),
        commands: HashMap::new(),
        traces: HashMap::new(),
        asked: HashMap::new(),
        last_command: 0,
        effects: Vec::new(),
    };
    loop {
        let look = task.clock.wait_for(task.kernels.deadline());
        let look = look.map(|look| task.start + look);
        tokio::select! {
            message = mailbox.messages.recv() => match message {
                Some((adapter, message)) => task.receive(adapter, message),
                None => return,
            },
            () = mailbox.interrupt.notified() => task.handle(any, Input::Interrupt),
            () = due(look) => task.look_at_the_clock(),
        }
    }
}

/// Returns at this time, or never.
async fn due(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

struct AttachedGuest {
    port: Box<dyn GuestPort>,
    /// The span for the guest's log lines.
    span: Span,
    /// Callers that wait until the guest is detached.
    detaching: Vec<oneshot::Sender<()>>,
}

struct Task<K> {
    kernels: K,
    /// The epoch of the real clock that the kernels' clock follows.
    start: Instant,
    /// The kernels' clock, which measures all their time-outs.
    clock: RunningClock,
    guests: HashMap<GuestId, AttachedGuest>,
    /// Callers that wait for the results of commands.
    commands: HashMap<CommandToken, oneshot::Sender<Result<(), CommandError>>>,
    /// Callers that wait for trace records.
    traces: HashMap<CommandToken, oneshot::Sender<Result<TracePage, TraceError>>>,
    /// Callers that wait for guests' agents.
    asked: HashMap<CommandToken, oneshot::Sender<AgentAnswer>>,
    last_command: u64,
    effects: Vec<Effect>,
}

impl<K: Kernels> Task<K> {
    fn receive(&mut self, adapter: AdapterId, message: Message) {
        match message {
            Message::Attach { guest, resources, port, span } => {
                if self.guests.contains_key(&guest) {
                    tracing::error!(guest = guest.0, "attached twice");
                    return;
                }
                self.guests.insert(guest, AttachedGuest { port, span, detaching: Vec::new() });
                self.handle(adapter, Input::Attach { guest, resources });
            }
            Message::Request { guest, token, request, room } => {
                self.handle(adapter, Input::Request { guest, token, request, room });
            }
            Message::List { wanted, room, done } => {
                // An error means that the caller has given up waiting.
                let _ = done.send(self.kernels.list(adapter, wanted, room));
            }
            Message::Detach { guest, done } => match self.guests.get_mut(&guest) {
                Some(attached) => {
                    attached.detaching.push(done);
                    self.handle(adapter, Input::Detach { guest });
                }
                // The guest is already detached. An error means that the caller has given up waiting.
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
            Message::AskAgent { guest, request, done } => {
                self.last_command += 1;
                let token = CommandToken(self.last_command);
                self.asked.insert(token, done);
                self.handle(adapter, Input::AskAgent { token, guest, request });
            }
            Message::Note { guest, change } => {
                self.handle(adapter, Input::Note { guest, change });
            }
            Message::Trace { action, done } => {
                self.last_command += 1;
                let token = CommandToken(self.last_command);
                self.traces.insert(token, done);
                self.handle(adapter, Input::Trace { token, action });
            }
        }
    }

    /// Handles a time-out, if one is due.
    fn look_at_the_clock(&mut self) {
        let now = self.clock.look(self.start.elapsed());
        if self.kernels.deadline().is_some_and(|deadline| deadline <= now) {
            self.handle(AdapterId::default(), Input::Timeout);
        }
    }

    /// The span of the guest that an input concerns.
    fn span(&self, input: &Input) -> Span {
        let (Input::Attach { guest, .. } | Input::Request { guest, .. } | Input::Detach { guest }) =
            input
        else {
            return Span::none();
        };
        self.guests.get(guest).map_or_else(Span::none, |guest| guest.span.clone())
    }

    fn handle(&mut self, adapter: AdapterId, input: Input) {
        self.kernels.set_time(self.clock.look(self.start.elapsed()));
        let span = self.span(&input);
        span.in_scope(|| self.kernels.handle(adapter, input, &mut self.effects));
        for effect in self.effects.drain(..) {
            match effect {
                Effect::Reply { guest, token, reply } => {
                    if let Some(guest) = self.guests.get(&guest) {
                        guest.span.in_scope(|| guest.port.reply(token, reply));
                    }
                }
                Effect::Event { guest, event } => {
                    if let Some(guest) = self.guests.get(&guest) {
                        guest.span.in_scope(|| guest.port.event(event));
                    }
                }
                Effect::CommandDone { token, result } => {
                    if let Some(done) = self.commands.remove(&token) {
                        // An error means that the caller has given up waiting.
                        let _ = done.send(result);
                    }
                }
                Effect::AgentAnswered { token, answer } => {
                    if let Some(done) = self.asked.remove(&token) {
                        // An error means that the caller has given up waiting.
                        let _ = done.send(answer);
                    }
                }
                Effect::Traced { token, result } => {
                    if let Some(done) = self.traces.remove(&token) {
                        // An error means that the caller has given up waiting.
                        let _ = done.send(result);
                    }
                }
                Effect::Detached { guest } => {
                    let Some(AttachedGuest { port, detaching, .. }) = self.guests.remove(&guest)
                    else {
                        continue;
                    };
                    // First: the port may hold resources that the callers release next.
                    drop(port);
                    for done in detaching {
                        // An error means that the caller has given up waiting.
                        let _ = done.send(());
                    }
                }
            }
        }
    }
}
