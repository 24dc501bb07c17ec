// SPDX-License-Identifier: MIT OR Apache-2.0

//! Steps about agents: true ones and false ones, those who ask them, and what the host's operator does meanwhile.

use super::seen::{Seen, Step};
use crate::bench::{Bench, bytes};
use bellhop_host_kmd::hardware::{GpuOrdinal, GuestId};
use bellhop_host_kmd::port::{Command, GuestLimit};
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::control::agent::consent::{AnnounceStop, AnswerConsent, AskForConsent};
use bellhop_protocol::control::agent::{
    AGENT_VERSION, ALL_WISHES, AgentResult, AgentTopology, AgentWish, AnswerAgentRequest, AskAgent,
    DevicePresence, PowerPolicy, QueryAgent, RegisterAgent, SetDevicePresence, SetPowerPolicy,
    UnregisterAgent, answer,
};
use std::time::Duration;

/// The kind of step that is an escape.
pub(super) const ESCAPE: u8 = 74;
/// The kind of step that the operator takes.
pub(super) const OPERATE: u8 = 75;
/// An agent's patience, after which those who asked are answered.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

fn wish(choice: usize) -> AskAgent {
    let wish = AgentWish(choice as u32 % 5);
    let argument = match wish {
        AgentWish::TOPOLOGY => choice as u32 / 8 % 8,
        AgentWish::POWER_POLICY => choice as u32 / 8 % 4,
        _ => choice as u32 / 128,
    };
    AskAgent { wish, argument, connector: 0, width: 0, height: 0, refresh: 0 }
}

/// The request of a step.
pub(super) fn request(step: &Step, seen: &Seen) -> Vec<u8> {
    let [a, b, c, d] = step.choice;
    let (process, _) = seen.pick(RequestCode::CREATE_PROCESS, a);
    match b % 11 {
        0 => {
            let wishes = if c % 4 == 3 { c as u32 } else { ALL_WISHES };
            bytes(process, &RegisterAgent { version: AGENT_VERSION, wishes })
        }
        1 => bytes(process, &UnregisterAgent { reserved: 0 }),
        2 | 3 => bytes(process, &wish(c)),
        4 => {
            let answer = answer(AgentResult(d as u32 % 4), "done");
            bytes(process, &AnswerAgentRequest { number: c as u64 % 16, answer })
        }
        5 => bytes(process, &SetPowerPolicy { policy: PowerPolicy(c as u32 % 5), reserved: 0 }),
        6 => {
            let presence = DevicePresence(c as u32 % 4);
            bytes(process, &SetDevicePresence { presence, reserved: 0 })
        }
        8 => {
            let AskAgent { argument, connector, width, height, refresh, .. } = wish(c);
            let (topology, patience_ms) = (AgentTopology(argument), d as u32 % 4 * 1000);
            let question =
                AskForConsent { topology, connector, width, height, refresh, patience_ms };
            bytes(process, &question)
        }
        9 => {
            let answer = answer(AgentResult(d as u32 % 3), "as you like");
            bytes(process, &AnswerConsent { number: c as u64 % 8, answer })
        }
        10 => bytes(process, &AnnounceStop { patience_ms: c as u32 % 4 * 1000, reserved: 0 }),
        _ => bytes(0, &QueryAgent { reserved: 0 }),
    }
}

/// The operator does something.
pub(super) fn operate(bench: &mut Bench, guest: GuestId, [a, b, c, _]: [usize; 4]) {
    let limits = [
        GuestLimit::Objects,
        GuestLimit::Allocations,
        GuestLimit::HwQueues,
        GuestLimit::Waits,
        GuestLimit::CrossAdapterFences,
        GuestLimit::Kernels,
    ];
    let gpu = GpuOrdinal((b % bench.gpus()) as u8);
    match a % 8 {
        0 | 1 => {
            bench.operator_asks(guest, wish(b));
        }
        2 => {
            bench.command(Command::TakeGpu(guest, gpu));
        }
        3 | 4 => {
            bench.command(Command::GiveGpu(guest, gpu));
        }
        5 => {
            let (limit, most) = (limits[b % limits.len()], c as u32);
            bench.command(Command::SetLimit { guest, limit, most });
        }
        _ => bench.later(PATIENCE / 4),
    }
}
