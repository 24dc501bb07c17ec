// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the operator asks of a guest's agent.

use crate::control_plane::KernelHandle;
use bellhop_host_kmd::hardware::GuestId;
use bellhop_protocol::control::agent::{AgentResult, AskAgent, PowerPolicy, printable};
use bellhop_protocol::operator::{self, WantedTopology, Wish};

/// Asks the agent of a guest. Returns what it answered.
///
/// # Errors
/// The agent's refusal, or why there is no answer.
pub(super) async fn ask(
    kernel: &KernelHandle,
    guest: GuestId,
    wish: Wish,
) -> Result<String, String> {
    let answer = kernel.ask_agent(guest, request(wish)).await;
    let answer = answer.ok_or("the kernel has stopped")?;
    // Its words are a guest's.
    let said = printable(&answer);
    match answer.result {
        AgentResult::DONE => Ok(format!("the agent of guest {} says: {said}", guest.0)),
        AgentResult::FAILED => Err(format!("the agent of guest {} failed: {said}", guest.0)),
        AgentResult::NO_AGENT => Err(format!(
            "{said}; start `bellhop-guest agent` there, which its package does at boot"
        )),
        _ => Err(said),
    }
}

/// The request for a wish.
fn request(wish: Wish) -> AskAgent {
    match wish {
        Wish::Topology(wanted) => AskAgent::topology(wanted),
        Wish::PowerPolicy(operator::PowerPolicy::Balanced) => {
            AskAgent::power_policy(PowerPolicy::BALANCED)
        }
        Wish::PowerPolicy(operator::PowerPolicy::Performance) => {
            AskAgent::power_policy(PowerPolicy::PERFORMANCE)
        }
        Wish::PowerPolicy(operator::PowerPolicy::Saving) => {
            AskAgent::power_policy(PowerPolicy::SAVING)
        }
        Wish::Stop => AskAgent::stop(),
        Wish::Start => AskAgent::start(),
    }
}

/// What was asked, for tools.
pub(super) fn describe(wish: Wish) -> String {
    match wish {
        Wish::Topology(WantedTopology::Mode { connector, width, height, refresh }) => {
            format!("topology {connector}={width}x{height}@{}", f64::from(refresh) / 1000.0)
        }
        Wish::Topology(topology) => format!("topology {topology:?}").to_lowercase(),
        Wish::PowerPolicy(policy) => format!("power policy {policy:?}").to_lowercase(),
        Wish::Stop => "stop".to_owned(),
        Wish::Start => "start".to_owned(),
    }
}
