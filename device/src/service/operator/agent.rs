// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the operator asks of a guest's agent.

use crate::control_plane::KernelHandle;
use bellhop_host_kmd::hardware::GuestId;
use bellhop_protocol::operator::Wish;

/// Asks the agent of a guest. Returns what it answered.
///
/// # Errors
/// The agent's refusal, or why there is no answer.
pub(super) async fn ask(
    _kernel: &KernelHandle,
    _guest: GuestId,
    _wish: Wish,
) -> Result<String, String> {
    Err("no agent is running in the guest".to_owned())
}

/// What was asked, for tools.
pub(super) fn describe(wish: Wish) -> String {
    format!("{wish:?}").to_lowercase()
}
