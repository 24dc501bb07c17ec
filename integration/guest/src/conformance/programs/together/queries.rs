// SPDX-License-Identifier: MIT OR Apache-2.0

//! `program.query.*`: what every program may ask about the adapter.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::programs::stage::Stage;
use crate::conformance::source;
use bellhop_protocol::control::Request;
use bellhop_protocol::control::adapter::{
    GetNodeMetadata, QueryClockCalibration, QueryNativeFenceCaps, QueryStatistics,
    QueryUserModeSubmissionCaps,
};
use bellhop_protocol::control::agent::QueryAgent;
use bellhop_protocol::control::power::QueryPower;

pub(super) const BEHAVIOURS: &[Behaviour<Stage>] = &[
    Behaviour::new("program.query.caps", source::UM_DISCOVERY, caps)
        .shows("all programs see the same nodes and the same capabilities"),
    Behaviour::new("program.query.statistics", source::PROTOCOL_REQUESTS, statistics)
        .shows("every program may ask for the guest's statistics, which count the work of all"),
    Behaviour::new("program.query.agent", source::PROTOCOL_REQUESTS, agent)
        .shows("every program may ask whether the guest has an agent, and hears the same"),
    Behaviour::new("program.query.power", source::PROTOCOL_REQUESTS, power)
        .shows("every program may ask for a node's power and for the GPU's clock"),
];

/// What both programs are answered to a request.
fn same<T: Request<Reply: PartialEq + std::fmt::Debug>>(
    stage: &Stage,
    request: &T,
) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    let answers = (one.call(0, request)?, other.call(0, request)?);
    require!(answers.0 == answers.1, "{}: {answers:?}", T::CODE);
    Ok(())
}

fn caps(stage: &Stage) -> Result<(), Mismatch> {
    for node in 0..stage.nodes().len() as u32 {
        same(stage, &GetNodeMetadata { node, reserved: 0 })?;
    }
    same(stage, &QueryUserModeSubmissionCaps { reserved: 0 })?;
    same(stage, &QueryNativeFenceCaps { reserved: 0 })
}

fn statistics(stage: &Stage) -> Result<(), Mismatch> {
    const SUBMISSIONS: u64 = 10;
    let [mut one, mut other] = stage.pair()?;
    other.expect_works()?;
    let query = QueryStatistics { reserved: 0 };
    let before = one.call(0, &query)?;
    for _ in 0..SUBMISSIONS {
        other.expect_works()?;
    }
    let after = one.call(0, &query)?;
    let packets = after.packets - before.packets;
    require!(packets >= SUBMISSIONS, "{SUBMISSIONS} submissions counted {packets} packets");
    let messages = after.control_messages - before.control_messages;
    require!(messages > 0, "no request was counted");
    Ok(())
}

fn agent(stage: &Stage) -> Result<(), Mismatch> {
    same(stage, &QueryAgent { reserved: 0 })
}

fn power(stage: &Stage) -> Result<(), Mismatch> {
    let [mut one, mut other] = stage.pair()?;
    for program in [&mut one, &mut other] {
        program.call(0, &QueryPower { node: 0, reserved: 0 })?;
    }
    let clock = QueryClockCalibration { reserved: 0 };
    let [first, second] = [one.call(0, &clock)?, other.call(0, &clock)?];
    require!(first.gpu_frequency == second.gpu_frequency, "{first:?} and {second:?}");
    let (earlier, later) = (first.gpu_clock_counter, second.gpu_clock_counter);
    require!(earlier < later, "the clock went from {earlier} to {later}");
    Ok(())
}
