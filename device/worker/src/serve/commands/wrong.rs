// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why a stream was not executed.

use crate::messages::commands::{CommandsAnswer, CommandsResult};
use crate::serve::memory::Outside;
use crate::vulkan::VulkanError;
use bellhop_protocol::vulkan::CommandError;

/// Why a command was not executed.
#[derive(Debug, thiserror::Error)]
pub enum Why {
    /// The guest's mistake.
    #[error("{0}")]
    Malformed(String),
    /// Vulkan's refusal.
    #[error("{0:#}")]
    Failed(anyhow::Error),
    /// A pipeline has yet to be made, which takes longer than a stream may.
    #[error("a pipeline that has yet to be made")]
    Lacks,
}

impl From<&'static str> for Why {
    fn from(why: &'static str) -> Self {
        Self::Malformed(why.into())
    }
}

impl From<Outside> for Why {
    fn from(outside: Outside) -> Self {
        Self::Malformed(outside.to_string())
    }
}

impl From<VulkanError> for Why {
    fn from(error: VulkanError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<anyhow::Error> for Why {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl Why {
    /// Says where the command begins in its stream.
    pub fn at(self, offset: u32) -> Wrong {
        Wrong { offset, why: self }
    }
}

/// Why a stream was not executed, or not to its end.
#[derive(Debug, thiserror::Error)]
#[error("the command at byte {offset}: {why}")]
pub struct Wrong {
    /// Where the command begins.
    pub offset: u32,
    /// What is wrong with it.
    pub why: Why,
}

impl From<CommandError> for Wrong {
    fn from(error: CommandError) -> Self {
        Why::Malformed(error.to_string()).at(error.offset() as u32)
    }
}

impl Wrong {
    /// What the owner is told.
    pub fn answer(&self) -> CommandsAnswer {
        let result = match self.why {
            Why::Malformed(_) => CommandsResult::MALFORMED,
            Why::Failed(_) => CommandsResult::FAILED,
            Why::Lacks => CommandsResult::LACKS,
        };
        CommandsAnswer::new(result, self.offset, &self.why.to_string())
    }
}
