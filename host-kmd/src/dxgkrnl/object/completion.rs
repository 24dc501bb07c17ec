// SPDX-License-Identifier: MIT OR Apache-2.0

//! What happens when something that was asked for has been done.

use crate::port::{CommandToken, RequestToken};

/// What happens when the ticket has passed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Completion {
    /// Nothing more.
    Nothing,
    /// A request is answered.
    Reply(RequestToken),
    /// A command of the host's is answered.
    Command(CommandToken),
    /// The guest is detached.
    Detached,
}
