// SPDX-License-Identifier: MIT OR Apache-2.0

//! A GPU that is taken away under work, and brought back.
//!
//! The host's operator does both. Meanwhile the program is the guest's agent, since that is told of GPUs that leave and
//! arrive. Another GPU works all the while, draws the frames again that were lost, and has a queue wait for a fence of the
//! GPU that leaves.

use super::chain::Chain;
use super::detach_report::{DetachReport, Phase};
use super::painter::{Painter, queue};
use super::tunnel::Tunnel;
use super::{Cue, PATIENCE, progress};
use crate::canvas::Canvas;
use anyhow::{Context as _, bail, ensure};
use bellhop_guest_umd::agent::{Agent, AgentEvent};
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{CommandBuffer, Error, PlacementPolicy, QueueFault, UserModeQueue};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::status::Status;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The size of what is drawn, which does not matter here.
const SIZE: [u32; 2] = [160, 90];

/// Frames that the GPU draws in a row before it is taken away.
const UNDER_WORK: u32 = 8;

/// What is to be seen of a GPU that leaves and comes back.
#[derive(Debug, Clone, Copy)]
pub struct Detach {
    /// The GPU's ordinal.
    pub gpu: u8,
    /// Frames that each GPU draws before, meanwhile and afterwards.
    pub frames: u32,
    /// How long the operator may take for each of both.
    pub patience: Duration,
}

/// Works on a GPU until the operator takes it away, and again when the operator brings it back.
///
/// # Errors
/// If there is no such GPU beside the master, another agent runs, the operator takes too long, or something else is lost.
pub fn detach(
    transport: Arc<dyn Transport>,
    placement: PlacementPolicy,
    job: &Detach,
    mut cue: impl FnMut(Cue) -> anyhow::Result<()>,
) -> anyhow::Result<DetachReport> {
    let chain = Chain::open(transport, placement)?;
    ensure!(
        (1..chain.gpus).contains(&job.gpu),
        "GPU {} is none of the chain's slaves, which are 1 to {}",
        job.gpu,
        chain.gpus - 1
    );
    let agent = chain.adapter.register_agent(0);
    let agent = agent.context("the guest's agent cannot be this program; end the one that runs")?;
    let tunnel = Tunnel { width: SIZE[0], height: SIZE[1], frames: job.frames };
    let textures = chain.textures()?;
    let expected = tunnel.render(|| ());
    let progress = progress(5);
    let mut stays = Painter::new(&chain, 0, tunnel, &textures)?;
    let mut leaves = Painter::new(&chain, job.gpu, tunnel, &textures)?;
    progress.set_message("both draw");
    let before = phase(job, &expected, &mut stays, Some(&mut leaves))?;
    progress.inc(1);
    progress.set_message("GPU works until it is taken away");
    let lost = work_until_lost(&chain, job, &mut stays, &mut leaves, || cue(Cue::Unplug))?;
    await_event(&agent, AgentEvent::GpuLeft(job.gpu.into()), job.patience)?;
    // Its queue, its context and its memory.
    drop(leaves);
    progress.inc(1);
    progress.set_message("the other draws what was lost");
    for frame in &lost.frames {
        ensure!(stays.draws(*frame, &expected)?, "frame {frame} is not drawn again as it was");
    }
    let refused = refusal(&chain, job.gpu)?;
    let away = phase(job, &expected, &mut stays, None)?;
    progress.inc(1);
    progress.set_message("until the GPU is brought back");
    cue(Cue::Plug)?;
    await_event(&agent, AgentEvent::GpuArrived(job.gpu.into()), job.patience)?;
    progress.inc(1);
    let mut back = Painter::new(&chain, job.gpu, tunnel, &textures)?;
    let after = phase(job, &expected, &mut stays, Some(&mut back))?;
    progress.finish_and_clear();
    let LostWork { fault, frames, worked, released } = lost;
    Ok(DetachReport {
        gpu: job.gpu,
        before,
        away,
        after,
        under_work: worked,
        reason: fault.reason.to_string(),
        redrawn: frames.len() as u32,
        released_ms: released.as_secs_f64() * 1e3,
        refused: refused.to_string(),
    })
}

/// Has each GPU draw all frames.
fn phase(
    job: &Detach,
    expected: &[Canvas],
    stays: &mut Painter,
    leaves: Option<&mut Painter>,
) -> anyhow::Result<Phase> {
    let mut all = |painter: &mut Painter| -> anyhow::Result<u32> {
        let mut right = 0;
        for frame in 0..job.frames {
            right += u32::from(painter.draws(frame, expected)?);
        }
        Ok(right)
    };
    let right = [Some(all(stays)?), leaves.map(&mut all).transpose()?];
    Ok(Phase { frames: job.frames, right })
}

/// What was lost with a GPU.
struct LostWork {
    fault: QueueFault,
    /// The frames that it had been given and had not drawn.
    frames: Vec<u32>,
    /// Frames that it drew before.
    worked: u32,
    /// How long a queue of another GPU waited from when the loss was told until it was let go.
    released: Duration,
}

/// A queue of the GPU that stays, which waits for fences of the other.
struct Waiter {
    queue: UserModeQueue,
    commands: Vec<CommandBuffer>,
}

/// Gives a GPU frame after frame until it is lost. A queue of the other waits for each of them.
fn work_until_lost(
    chain: &Chain,
    job: &Detach,
    stays: &mut Painter,
    leaves: &mut Painter,
    cue: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<LostWork> {
    let mut waiter = Waiter {
        queue: queue(chain, 0, EngineType::COPY)?,
        commands: CommandBuffer::many(&chain.device, 256, Painter::AHEAD)?,
    };
    let end = Instant::now() + job.patience;
    let mut cue = Some(cue);
    let mut given = VecDeque::new();
    let (mut worked, mut waits) = (0, 0);
    for frame in 0u32.. {
        ensure!(Instant::now() < end, "the operator did not take GPU {} away", job.gpu);
        let lost = match leaves.draw(frame, |_, _| Ok(())) {
            Ok(value) => {
                given.push_back((frame, value));
                let (turn, before) = (frame as usize % Painter::AHEAD, u64::from(frame) + 1);
                let before = before.saturating_sub(Painter::AHEAD as u64);
                waiter.queue.progress_fence().wait(before, PATIENCE)?;
                let commands = &mut waiter.commands[turn];
                commands.reset();
                commands.wait_fence(leaves.progress(), value)?;
                waits = waiter.queue.submit(commands)?;
                None
            }
            Err(error) => Some(error),
        };
        // Work elsewhere goes on.
        let value = stays.draw(frame, |_, _| Ok(()))?;
        stays.progress().wait(value, PATIENCE)?;
        let lost = match (lost, given.front().copied()) {
            (None, Some((_, value))) if given.len() == Painter::AHEAD => {
                let waited = leaves.progress().wait(value, PATIENCE);
                if waited.is_ok() {
                    given.pop_front();
                    worked += 1;
                }
                waited.err()
            }
            (lost, _) => lost,
        };
        if let Some(error) = lost {
            let Error::QueueLost { fault: Some(fault), .. } = error else {
                return Err(error.into());
            };
            let told = Instant::now();
            waiter.queue.progress_fence().wait(waits, PATIENCE)?;
            let frames = given.into_iter().map(|(frame, _)| frame).collect();
            return Ok(LostWork { fault, frames, worked, released: told.elapsed() });
        }
        if worked >= UNDER_WORK
            && let Some(cue) = cue.take()
        {
            cue()?;
        }
    }
    bail!("the frames have run out")
}

/// The status with which a new context on a GPU that is away is refused.
fn refusal(chain: &Chain, gpu: u8) -> anyhow::Result<Status> {
    match queue(chain, gpu, EngineType::THREE_D) {
        Err(Error::Refused { status, .. }) => Ok(status),
        Err(error) => Err(error.into()),
        Ok(_) => bail!("GPU {gpu} is away, and a new context on it was not refused"),
    }
}

/// Waits until the agent is told of something, and forgets what it is told before.
fn await_event(agent: &Agent, wanted: AgentEvent, patience: Duration) -> anyhow::Result<()> {
    let end = Instant::now() + patience;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match agent.next_event(left)? {
            Some(event) if event == wanted => return Ok(()),
            Some(_) => {}
            None => bail!("nothing told of {wanted:?}"),
        }
    }
}
