// SPDX-License-Identifier: MIT OR Apache-2.0

//! What an owner asks a worker with the role of kernels beside batches: to execute a stream of commands
//! ([`bellhop_protocol::vulkan`]); and what the worker answers.

use super::{MAX_ANSWER, Malformed};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Most bytes of a reason.
const MAX_REASON: usize = MAX_ANSWER - 12;

/// Most pipelines that a worker keeps, and so the most that a stream can lack.
pub const MOST_PIPELINES: u32 = 4096;

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct CommandsTaskKind(pub u16);

impl CommandsTaskKind {
    /// Execute the stream if all its pipelines are made. If not, the answer is [`CommandsResult::LACKS`], and the worker
    /// remembers what it lacks.
    pub const EXECUTE: Self = Self(0);
    /// Execute the stream, and make its pipelines meanwhile.
    pub const MAKE_AND_EXECUTE: Self = Self(1);
    /// Make one of the pipelines that were lacked last, as it was described then. There is no stream: address and length are
    /// 0. The answer is [`CommandsResult::LACKS`] if there are others.
    pub const MAKE: Self = Self(2);
    /// As [`Self::EXECUTE`], of a task that is sent before the last one is done. If that is done otherwise than wholly, the answer
    /// is [`CommandsResult::NOT_BEGUN`].
    pub const FOLLOW: Self = Self(3);
}

/// What commands of a stream may be about, which depends on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Scope(pub u16);

impl Scope {
    /// All that the device can do.
    pub const ALL: Self = Self(0);
    /// Anything but drawing.
    pub const COMPUTE: Self = Self(1);
}

/// A task: a stream to execute, or what has to be done before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CommandsTask {
    /// Its address, a multiple of 8.
    pub address: u64,
    /// Its bytes, a multiple of 8.
    pub length: u32,
    /// What is to be done.
    pub kind: CommandsTaskKind,
    /// What its commands may be about.
    pub scope: Scope,
}

impl CommandsTask {
    /// Makes a pipeline that a stream lacked.
    pub const MAKE: Self =
        Self { address: 0, length: 0, kind: CommandsTaskKind::MAKE, scope: Scope::ALL };

    /// Reads a task's bytes.
    ///
    /// # Errors
    /// When they have another length, or a field that no task has.
    pub fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let task = Self::read_from_bytes(bytes).map_err(|_| Malformed::Length(bytes.len()))?;
        let is_known = match task.kind {
            CommandsTaskKind::EXECUTE
            | CommandsTaskKind::MAKE_AND_EXECUTE
            | CommandsTaskKind::FOLLOW => matches!(task.scope, Scope::ALL | Scope::COMPUTE),
            _ => task == Self::MAKE,
        };
        if is_known { Ok(task) } else { Err(Malformed::Field("task of commands")) }
    }
}

/// What came of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct CommandsResult(pub u32);

impl CommandsResult {
    /// Everything is done.
    pub const DONE: Self = Self(1);
    /// It is no stream. Nothing of it was executed.
    pub const MALFORMED: Self = Self(2);
    /// Vulkan refused it, or failed. Parts of it may have been executed.
    pub const FAILED: Self = Self(3);
    /// It names pipelines that have yet to be made. Nothing of it was executed.
    pub const LACKS: Self = Self(4);
    /// It was to follow a stream that was not wholly executed. Nothing of it was executed.
    pub const NOT_BEGUN: Self = Self(5);

    fn is_known(self) -> bool {
        (Self::DONE.0..=Self::NOT_BEGUN.0).contains(&self.0)
    }
}

/// The answer to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CommandsAnswer {
    /// What came of the stream.
    pub result: CommandsResult,
    /// The byte of the stream at which the command begins that was wrong, or failed.
    pub offset: u32,
    /// Bytes of the reason.
    length: u32,
    reason: [u8; MAX_REASON],
}

impl CommandsAnswer {
    /// An answer with the beginning of this reason.
    #[must_use]
    pub fn new(result: CommandsResult, offset: u32, reason: &str) -> Self {
        let mut bytes = [0; MAX_REASON];
        let length = reason.len().min(MAX_REASON);
        bytes[..length].copy_from_slice(&reason.as_bytes()[..length]);
        Self { result, offset, length: length as u32, reason: bytes }
    }

    /// Reads an answer's bytes, of a worker that may have been taken over.
    ///
    /// # Errors
    /// When they have another length, or a field that no answer has.
    pub fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let answer = Self::read_from_bytes(bytes).map_err(|_| Malformed::Length(bytes.len()))?;
        if answer.result.is_known() && answer.length as usize <= MAX_REASON {
            Ok(answer)
        } else {
            Err(Malformed::Field("answer about commands"))
        }
    }

    /// Why the stream was not executed.
    #[must_use]
    pub fn text(&self) -> String {
        let reason = self.reason.get(..self.length as usize).unwrap_or_default();
        String::from_utf8_lossy(reason).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_back_as_what_was_sent_and_a_long_reason_is_cut() {
        let answer = CommandsAnswer::new(CommandsResult::FAILED, 8, &"x".repeat(1000));
        assert_eq!(answer.as_bytes().len(), MAX_ANSWER);
        assert_eq!(CommandsAnswer::read(answer.as_bytes()), Ok(answer));
        assert_eq!(answer.text(), "x".repeat(MAX_REASON));
        assert_eq!(CommandsAnswer::new(CommandsResult::MALFORMED, 0, "why").text(), "why");
    }

    #[test]
    fn an_answer_that_says_what_none_can_say_is_not_believed() {
        let good = CommandsAnswer::new(CommandsResult::DONE, 0, "");
        for bad in [
            CommandsAnswer { result: CommandsResult(0), ..good },
            CommandsAnswer { result: CommandsResult(6), ..good },
            CommandsAnswer { length: MAX_REASON as u32 + 1, ..good },
        ] {
            let wrong = Malformed::Field("answer about commands");
            assert_eq!(CommandsAnswer::read(bad.as_bytes()), Err(wrong));
        }
        assert!(CommandsAnswer::read(&good.as_bytes()[1..]).is_err());
    }

    #[test]
    fn a_task_of_another_length_or_of_an_unknown_kind_is_none() {
        let (kind, scope) = (CommandsTaskKind::EXECUTE, Scope::COMPUTE);
        let good = CommandsTask { address: 4096, length: 64, kind, scope };
        for good in [good, CommandsTask::MAKE] {
            assert_eq!(CommandsTask::read(good.as_bytes()), Ok(good));
            assert!(CommandsTask::read(&good.as_bytes()[1..]).is_err());
        }
        for kind in [CommandsTaskKind::MAKE, CommandsTaskKind(4)] {
            assert!(CommandsTask::read(CommandsTask { kind, ..good }.as_bytes()).is_err());
        }
        let beyond = CommandsTask { scope: Scope(2), ..good };
        assert!(CommandsTask::read(beyond.as_bytes()).is_err());
    }
}
