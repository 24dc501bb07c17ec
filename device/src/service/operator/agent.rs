// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the operator asks of a guest's agent.

use crate::control_plane::KernelHandle;
use bellhop_host_kmd::hardware::GuestId;
use bellhop_protocol::control::agent::{
    AgentResult, AgentTopology, AgentWish, AskAgent, PowerPolicy, printable,
};
use bellhop_protocol::operator::{self, Topology, Wish};

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
    let plain =
        |wish, argument| AskAgent { wish, argument, connector: 0, width: 0, height: 0, refresh: 0 };
    match wish {
        Wish::Topology(topology) => {
            let topology_wanted = |of: AgentTopology| plain(AgentWish::TOPOLOGY, of.0);
            match topology {
                Topology::Extend => topology_wanted(AgentTopology::EXTEND),
                Topology::Clone => topology_wanted(AgentTopology::CLONE),
                Topology::Single => topology_wanted(AgentTopology::SINGLE),
                Topology::Off => topology_wanted(AgentTopology::OFF),
                Topology::Enumerate => topology_wanted(AgentTopology::ENUMERATE),
                Topology::Mode { connector, width, height, refresh } => AskAgent {
                    connector,
                    width,
                    height,
                    refresh,
                    ..topology_wanted(AgentTopology::MODE)
                },
            }
        }
        Wish::PowerPolicy(policy) => {
            let policy = match policy {
                operator::PowerPolicy::Balanced => PowerPolicy::BALANCED,
                operator::PowerPolicy::Performance => PowerPolicy::PERFORMANCE,
                operator::PowerPolicy::Saving => PowerPolicy::SAVING,
            };
            plain(AgentWish::POWER_POLICY, policy.0)
        }
        Wish::Stop => plain(AgentWish::STOP, 0),
        Wish::Start => plain(AgentWish::START, 0),
    }
}

/// What was asked, for tools.
pub(super) fn describe(wish: Wish) -> String {
    match wish {
        Wish::Topology(Topology::Mode { connector, width, height, refresh }) => {
            format!("topology {connector}={width}x{height}@{}", f64::from(refresh) / 1000.0)
        }
        Wish::Topology(topology) => format!("topology {topology:?}").to_lowercase(),
        Wish::PowerPolicy(policy) => format!("power policy {policy:?}").to_lowercase(),
        Wish::Stop => "stop".to_owned(),
        Wish::Start => "start".to_owned(),
    }
}
