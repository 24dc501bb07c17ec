// SPDX-License-Identifier: MIT OR Apache-2.0

//! Far more queues than physical doorbells.

use super::report::Measured;
use super::set_up::{TIMEOUT, null_commands};
use crate::output::note;
use crate::timing::time_all;
use anyhow::Context as _;
use bellhop_guest_umd::{Adapter, Context, Error, UserModeQueue};
use bellhop_protocol::control::adapter::EngineType;

const QUEUES: usize = 10_000;
/// Submissions of each queue, one in each pass over all queues: each needs a doorbell anew.
const PASSES: usize = 3;
/// The interval of progress lines: this suite takes a while.
const NOTED: usize = 2_500;

/// A context on each compute node, all of one device.
fn compute_contexts(adapter: &Adapter) -> anyhow::Result<Vec<Context>> {
    let nodes = adapter.nodes().context("cannot query the nodes")?;
    let compute = nodes.iter().filter(|node| node.engine_type == EngineType::THREE_D).count();
    let device = adapter.create_device()?;
    let mut contexts = Vec::new();
    for _ in 0..compute.max(1) {
        contexts.push(device.create_context(adapter.least_used_node(EngineType::THREE_D)?)?);
    }
    Ok(contexts)
}

pub(super) fn run(adapter: &Adapter, measured: &mut Measured) -> anyhow::Result<()> {
    let before = adapter.statistics()?;
    // One on each compute node, so that all engines of that type share the work.
    let contexts = compute_contexts(adapter)?;
    let mut commands = null_commands(contexts[0].device())?;
    let mut queues = (0..QUEUES)
        .map(|number| {
            if number > 0 && number.is_multiple_of(NOTED) {
                note(format_args!("queues: {number} of {QUEUES} created"));
            }
            contexts[number % contexts.len()].create_user_mode_queue(4096)
        })
        .collect::<Result<Vec<UserModeQueue>, Error>>()
        .context("cannot create 10,000 queues; raise guest.doorbells and guest.local_memory")?;
    let alone = QUEUES.min(adapter.user_mode_submission_caps()?.physical_doorbells as usize);
    let mut at = 0usize;
    let mut submit = |queues: &mut [UserModeQueue]| {
        if at > 0 && at.is_multiple_of(NOTED) {
            note(format_args!("queues: {at} of {} submissions done", QUEUES * PASSES));
        }
        let queue = &mut queues[at % QUEUES];
        at += 1;
        let value = queue.submit(&mut commands)?;
        queue.progress_fence().poll(value, TIMEOUT)
    };
    // Connects while there are free doorbells, and connects that take a victim.
    let connect = time_all(alone as u64, || submit(&mut queues))?;
    let victimise = time_all((QUEUES * PASSES - alone) as u64, || submit(&mut queues))?;
    let submitted = (QUEUES * PASSES) as u64;
    let done = queues.iter().map(|queue| queue.progress_fence().current_value());
    let done = done.sum::<Result<u64, Error>>()?;
    let victims = adapter.statistics()?.victims - before.victims;
    measured.figure("lost_submissions_10000_queues", (submitted - done) as f64);
    measured.figure("victimised_doorbells_10000_queues", victims as f64);
    measured.figure("connect_and_submit_ns_p50", connect.p50 as f64);
    measured.figure("victimise_connect_and_submit_ns_p50", victimise.p50 as f64);
    measured.figure("victimise_connect_and_submit_ns_p99", victimise.p99 as f64);
    Ok(())
}
