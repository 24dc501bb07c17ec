// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests with fewer physical doorbells than queues.

use super::behaviour::Mismatch;
use super::scene::{Bench, Scene, TIMEOUT};
use bellhop_guest_umd::{CommandBuffer, UserModeQueue};
use bellhop_protocol::control::adapter::CAPS_GLOBAL_DOORBELL;

/// Whether all queues ring one doorbell word.
pub(super) fn is_global(bench: &Bench) -> Result<bool, Mismatch> {
    Ok(bench.process.user_mode_submission_caps()?.flags & CAPS_GLOBAL_DOORBELL != 0)
}

/// The number of physical doorbells, if queues can outnumber them.
pub(super) fn too_few_doorbells(scene: &Scene, bench: &Bench) -> Result<usize, Mismatch> {
    if is_global(bench)? {
        return Err(Mismatch::NotOffered("queues share a global doorbell".into()));
    }
    let physical = bench.process.user_mode_submission_caps()?.physical_doorbells;
    if physical + 2 >= scene.transport().config().doorbell_count {
        let many = format!("{physical} physical doorbells are too many to run out of");
        return Err(Mismatch::NotOffered(many));
    }
    Ok(physical as usize)
}

/// Takes all physical doorbells for queues of another context.
pub(super) fn take_all_doorbells(
    scene: &Scene,
    bench: &Bench,
) -> Result<Vec<UserModeQueue>, Mismatch> {
    let physical = too_few_doorbells(scene, bench)?;
    let context = bench.device.create_context(bench.context.node())?;
    let mut commands = CommandBuffer::new(&bench.device, 64)?;
    commands.nop()?;
    let mut queues = Vec::new();
    for _ in 0..physical {
        let mut queue = context.create_user_mode_queue(4096)?;
        let value = queue.submit(&mut commands)?;
        queue.progress_fence().poll(value, TIMEOUT)?;
        queues.push(queue);
    }
    Ok(queues)
}
