// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a worker is for.

/// What a worker is for: what it does with the batches or tasks of its owner. Sandbox, window, memory and the end are the
/// same for all roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Compiles and runs guests' kernels, with Vulkan. It keeps nothing that another worker could not have.
    Kernels,
    /// Decodes or encodes the pictures of one video session.
    Video,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 2] = [Self::Kernels, Self::Video];

    /// The number in `Start`.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Self::Kernels => 1,
            Self::Video => 2,
        }
    }

    /// The role with this number.
    #[must_use]
    pub fn of_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.number() == number)
    }

    /// What people and snapshots call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernels => "kernels",
            Self::Video => "video",
        }
    }

    /// Whether a worker remembers what no other one can have: it is never ended to make room for another, and its tenant
    /// is lost with it.
    #[must_use]
    pub fn remembers(self) -> bool {
        match self {
            Self::Kernels => false,
            Self::Video => true,
        }
    }
}
