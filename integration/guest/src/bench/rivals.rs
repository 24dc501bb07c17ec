// SPDX-License-Identifier: MIT OR Apache-2.0

//! Other ways to hand work to another process or to the kernel, with and without a wake-up.

use super::floor::ONE_PROCESSOR;
use super::partner::{LINE, Partner, SharedLines};
use crate::processors;
use crate::timing::{Latency, time};
use anyhow::Context as _;
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};
use std::hint::spin_loop;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::thread::yield_now;

/// Why io_uring is not measured.
const NO_IO_URING: &str =
    "the kernel offers this program no polling io_uring; see kernel.io_uring_disabled";
/// How long io_uring's thread polls before it sleeps, in milliseconds: longer than the time between two
/// operations.
const SQPOLL_IDLE: u32 = 1000;

/// Where another process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beside {
    /// On another processor, if there is one.
    Apart,
    /// On this thread's processor.
    Here,
}

/// Two processes that wake each other with an eventfd.
pub(super) fn eventfd_ping_pong(samples: u64, beside: Beside) -> anyhow::Result<Latency> {
    let echo = EventfdEcho::start(beside)?;
    time(samples, || echo.round_trip())
}

/// A process that sleeps on an eventfd, and wakes this one with another.
pub(super) struct EventfdEcho {
    _partner: Partner,
    there: OwnedFd,
    back: OwnedFd,
}

impl EventfdEcho {
    pub(super) fn start(beside: Beside) -> anyhow::Result<Self> {
        let (there, back) = (event()?, event()?);
        let answer = || while receive(&there).and_then(|()| send(&back)).is_ok() {};
        let partner = match beside {
            Beside::Apart => Partner::start(answer),
            Beside::Here => Partner::start_here(answer),
        }?;
        Ok(Self { _partner: partner, there, back })
    }

    /// Wakes the process, and sleeps until it answers.
    pub(super) fn round_trip(&self) -> rustix::io::Result<()> {
        send(&self.there)?;
        receive(&self.back)
    }
}

/// A process that sleeps on an eventfd, and stores to memory when it wakes.
pub(super) struct EventfdWake {
    _partner: Partner,
    event: OwnedFd,
    lines: SharedLines,
    woken: u64,
}

impl EventfdWake {
    pub(super) fn start() -> anyhow::Result<Self> {
        let (event, lines) = (event()?, SharedLines::new(1)?);
        let partner = Partner::start(|| {
            let [woken, ..] = lines.words() else { return };
            while receive(&event).is_ok() {
                // Relaxed: the number publishes no other data.
                woken.fetch_add(1, Ordering::Relaxed);
            }
        })?;
        Ok(Self { _partner: partner, event, lines, woken: 0 })
    }

    /// Wakes the process, and waits until it is awake.
    pub(super) fn wake(&mut self) -> rustix::io::Result<()> {
        let [woken, ..] = self.lines.words() else { return Ok(()) };
        self.woken += 1;
        send(&self.event)?;
        while woken.load(Ordering::Relaxed) < self.woken {
            match processors::pair() {
                Some(_) => spin_loop(),
                // The process may need this processor to wake on.
                None => yield_now(),
            }
        }
        Ok(())
    }
}

fn event() -> anyhow::Result<OwnedFd> {
    eventfd(0, EventfdFlags::empty()).context("cannot create an eventfd")
}

fn send(event: &OwnedFd) -> rustix::io::Result<()> {
    write(event, &1u64.to_ne_bytes()).map(drop)
}

fn receive(event: &OwnedFd) -> rustix::io::Result<()> {
    read(event, &mut [0; size_of::<u64>()]).map(drop)
}

/// Times a null operation of io_uring, handed to a kernel thread through memory and polled for; or says why
/// there is none.
pub(super) fn io_uring_nop(samples: u64) -> anyhow::Result<Result<Latency, &'static str>> {
    let mut builder = IoUring::<squeue::Entry, cqueue::Entry>::builder();
    builder.setup_sqpoll(SQPOLL_IDLE);
    let Some((_, processor)) = processors::pair() else { return Ok(Err(ONE_PROCESSOR)) };
    builder.setup_sqpoll_cpu(u32::try_from(processor)?);
    let Ok(mut ring) = builder.build(LINE as u32) else { return Ok(Err(NO_IO_URING)) };
    time(samples, || {
        let nop = opcode::Nop::new().build();
        // SAFETY: a null operation refers to no memory that would have to stay valid.
        #[expect(unsafe_code, reason = "what an operation names must stay until it is done")]
        unsafe { ring.submission().push(&nop) }?;
        // This is a system call only if the kernel's thread sleeps.
        ring.submit()?;
        while ring.completion().next().is_none() {
            spin_loop();
        }
        Ok::<_, anyhow::Error>(())
    })
    .map(Ok)
}
