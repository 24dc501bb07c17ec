// SPDX-License-Identifier: MIT OR Apache-2.0

//! The action that follows when an operation is done.

use crate::dxgkrnl::object::promises::Promise;
use crate::port::CommandToken;

/// The action when the ticket has passed.
#[derive(Debug)]
pub(crate) enum Completion {
    /// Nothing more.
    Nothing,
    /// A request is answered.
    Reply(Promise),
    /// A command of the host is answered.
    Command(CommandToken),
    /// The guest is detached.
    Detached,
}
