// SPDX-License-Identifier: MIT OR Apache-2.0

//! One program of the guest's, as the suite has it: a process that does what it is asked.

use super::wire::{
    Ask, Command, CreateFence, Failure, FenceAt, FenceKind, Finish, Introduce, Introduction, Read,
    Step, Submit,
};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::raw;
use crate::conformance::scene::TIMEOUT;
use bellhop_protocol::control::Request;
use bellhop_protocol::status::Status;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::marker::PhantomData;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How long the suite waits for an answer: longer than a program waits for the device.
const PATIENCE: Duration = Duration::from_secs(90);

impl From<Failure> for Mismatch {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotOffered(why) => Self::NotOffered(why),
            failure => Self::Seen(format!("a program: {failure}")),
        }
    }
}

/// A program. It is killed when this is dropped.
pub(super) struct Program {
    child: Child,
    asks: Option<ChildStdin>,
    answers: Receiver<String>,
}

/// Something that a program does at the moment.
#[must_use = "the program answers"]
pub(super) struct Doing<'p, C> {
    program: &'p Program,
    command: PhantomData<C>,
}

impl Program {
    /// Starts a program; `None` if the broker has no place for it.
    pub(super) fn start(mut command: std::process::Command) -> Result<Option<Self>, Mismatch> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let cannot = |error| Mismatch::Seen(format!("a program cannot be started: {error}"));
        let mut child = command.spawn().map_err(cannot)?;
        let asks = child.stdin.take();
        let answers = child.stdout.take().map_or_else(|| channel().1, lines);
        let program = Self { child, asks, answers };
        match program.answers.recv_timeout(PATIENCE) {
            Ok(ready) if ready == "ready" => Ok(Some(program)),
            Ok(other) => Err(Mismatch::Seen(format!("a program begins with {other:?}"))),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(Mismatch::Seen("a program hangs".into())),
        }
    }

    /// Has it begin to do something.
    pub(super) fn begin<C: Command>(&mut self, command: C) -> Result<Doing<'_, C>, Mismatch> {
        let ask: Ask = command.into();
        let line =
            serde_json::to_string(&ask).map_err(|error| Mismatch::Seen(error.to_string()))?;
        let asks = self.asks.as_mut().ok_or(Mismatch::Seen("a program has no input".into()))?;
        let told = writeln!(asks, "{line}").and_then(|()| asks.flush());
        told.map_err(|error| Mismatch::Seen(format!("a program is gone: {error}")))?;
        Ok(Doing { program: self, command: PhantomData })
    }

    /// Has it try something, which may fail.
    pub(super) fn attempt<C: Command>(
        &mut self,
        command: C,
    ) -> Result<Result<C::Answer, Failure>, Mismatch> {
        self.begin(command)?.outcome()
    }

    /// Has it do something.
    pub(super) fn ask<C: Command>(&mut self, command: C) -> Result<C::Answer, Mismatch> {
        Ok(self.attempt(command)??)
    }

    /// Who it is.
    pub(super) fn introduction(&mut self) -> Result<Introduction, Mismatch> {
        self.ask(Introduce {})
    }

    /// Sends a request with a list, as it is; returns how it ended.
    pub(super) fn status_with_list<T: Request>(
        &mut self,
        process: u32,
        request: &T,
        list: &[u8],
    ) -> Result<Status, Mismatch> {
        let request = raw::encode(process, request, list);
        Ok(raw::parse(&self.ask(super::wire::Send { request })?)?.status)
    }

    /// Sends a request as it is; returns how it ended.
    pub(super) fn status<T: Request>(
        &mut self,
        process: u32,
        request: &T,
    ) -> Result<Status, Mismatch> {
        self.status_with_list(process, request, &[])
    }

    /// Sends a request as it is, which must end like this.
    pub(super) fn expect_status<T: Request>(
        &mut self,
        process: u32,
        request: &T,
        expected: Status,
    ) -> Result<(), Mismatch> {
        let status = self.status(process, request)?;
        require!(status == expected, "{} ended with {status}, not {expected}", T::CODE);
        Ok(())
    }

    /// Sends a request that must succeed.
    pub(super) fn call<T: Request>(
        &mut self,
        process: u32,
        request: &T,
    ) -> Result<T::Reply, Mismatch> {
        let request = raw::encode(process, request, &[]);
        raw::successful::<T>(&self.ask(super::wire::Send { request })?)
    }

    /// Creates a fence.
    pub(super) fn fence(&mut self, kind: FenceKind, shared: bool) -> Result<FenceAt, Mismatch> {
        self.ask(CreateFence { kind, shared })
    }

    /// Submits steps to its first queue.
    pub(super) fn submit(&mut self, steps: &[Step]) -> Result<u64, Mismatch> {
        self.ask(Submit { queue: 0, steps: steps.to_vec(), times: 1 })
    }

    /// Waits until its first queue has executed this submission.
    pub(super) fn finish(&mut self, value: u64) -> Result<(), Mismatch> {
        self.ask(Finish { queue: 0, value })
    }

    /// Submits steps to its first queue, and waits until they are executed.
    pub(super) fn run(&mut self, steps: &[Step]) -> Result<(), Mismatch> {
        let value = self.submit(steps)?;
        self.finish(value)
    }

    /// Asserts that its queue works.
    pub(super) fn expect_works(&mut self) -> Result<(), Mismatch> {
        self.run(&[Step::Nothing])
    }

    /// A word of its memory.
    pub(super) fn word(&mut self, offset: u64) -> Result<u64, Mismatch> {
        let bytes = self.ask(Read { offset, length: 8 })?;
        let bytes = <[u8; 8]>::try_from(&*bytes);
        Ok(u64::from_le_bytes(bytes.map_err(|_| Mismatch::Seen("no word".into()))?))
    }

    /// Waits until a word of its memory, which an engine stores, is not zero.
    pub(super) fn await_word(&mut self, offset: u64) -> Result<(), Mismatch> {
        let start = std::time::Instant::now();
        while self.word(offset)? == 0 {
            require!(start.elapsed() < TIMEOUT, "an engine never begins");
        }
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<(), Mismatch> {
        let killed = kill_process(Pid::from_child(&self.child), signal);
        killed.map_err(|error| Mismatch::Seen(format!("{signal:?}: {error}")))
    }

    /// Stops it where it stands.
    pub(super) fn stop(&self) -> Result<(), Mismatch> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on.
    pub(super) fn go_on(&self) -> Result<(), Mismatch> {
        self.signal(Signal::CONT)
    }

    /// Kills it, whatever it does.
    pub(super) fn kill(self) {
        drop(self);
    }

    /// Has it end as programs do.
    pub(super) fn leave(mut self) -> Result<(), Mismatch> {
        self.ask(super::wire::Leave {})?;
        drop(self.asks.take());
        // Its output ends with it.
        match self.answers.recv_timeout(PATIENCE) {
            Err(RecvTimeoutError::Disconnected) => {}
            other => return Err(Mismatch::Seen(format!("a program does not end: {other:?}"))),
        }
        let status = self.child.wait().map_err(|error| Mismatch::Seen(error.to_string()))?;
        require!(status.success(), "a program ended with {status}");
        Ok(())
    }
}

impl<C: Command> Doing<'_, C> {
    /// How it ended.
    pub(super) fn outcome(self) -> Result<Result<C::Answer, Failure>, Mismatch> {
        let line = self.program.answers.recv_timeout(PATIENCE);
        let line = line.map_err(|error| Mismatch::Seen(format!("a program: {error}")))?;
        let wrong = |error| Mismatch::Seen(format!("a program answers {line:?}: {error}"));
        let answer: Result<serde_json::Value, Failure> =
            serde_json::from_str(&line).map_err(wrong)?;
        match answer {
            Ok(answer) => Ok(Ok(serde_json::from_value(answer).map_err(wrong)?)),
            Err(failure) => Ok(Err(failure)),
        }
    }

    /// The answer, which must be one.
    pub(super) fn answer(self) -> Result<C::Answer, Mismatch> {
        Ok(self.outcome()??)
    }
}

/// The lines of a program's output, until it ends.
fn lines(output: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    lines
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
