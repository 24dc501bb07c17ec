// SPDX-License-Identifier: MIT OR Apache-2.0

//! What programs may have.

use super::config::{BrokerConfig, UserConfig};
use std::collections::BTreeMap;

/// What programs may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Programs at once.
    pub programs: usize,
    /// What each user has of whom nothing else is said.
    pub each: UserLimits,
    /// What others have.
    pub users: BTreeMap<u32, UserLimits>,
}

/// What a user and the user's programs may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserLimits {
    /// Programs of the user at once.
    pub programs: usize,
    /// Processes on the device of each program.
    pub processes: usize,
    /// Requests in flight of each program, at least 2.
    pub requests: usize,
    /// Bytes of memory for allocations of each program.
    pub memory: u64,
    /// Doorbells of each program.
    pub doorbells: u32,
    /// Fences of each program.
    pub fences: u32,
    /// The user's part of an engine beside other users, not 0.
    pub weight: u32,
}

impl Limits {
    /// What a user may have.
    #[must_use]
    pub fn of(&self, user: u32) -> &UserLimits {
        self.users.get(&user).unwrap_or(&self.each)
    }

    /// Most requests in flight that any program may have.
    pub(super) fn most_requests(&self) -> usize {
        let all = self.users.values().chain([&self.each]);
        all.map(|limits| limits.requests).max().unwrap_or_default()
    }
}

impl Default for Limits {
    fn default() -> Self {
        BrokerConfig::default().limits(&[])
    }
}

impl BrokerConfig {
    /// The limits, where the tables of `[[user]]` are for these users, in their order. Of several tables for a user, the first one
    /// counts.
    #[must_use]
    pub fn limits(&self, members: &[Vec<u32>]) -> Limits {
        let own = &self.default;
        let each = UserLimits {
            programs: own.programs.get() as usize,
            processes: own.processes.get() as usize,
            requests: own.requests.get() as usize,
            memory: own.memory.get(),
            doorbells: own.doorbells.get(),
            fences: own.fences.get(),
            weight: own.weight.get(),
        };
        let mut users = BTreeMap::new();
        for (table, members) in self.user.iter().zip(members) {
            for user in members {
                users.entry(*user).or_insert_with(|| each.but(table));
            }
        }
        Limits { programs: self.broker.programs.get() as usize, each, users }
    }
}

impl UserLimits {
    /// These, but for what a table says.
    fn but(self, table: &UserConfig) -> Self {
        let count = |of: Option<u32>, otherwise: usize| of.map_or(otherwise, |of| of as usize);
        Self {
            programs: count(table.programs.map(|of| of.get()), self.programs),
            processes: count(table.processes.map(|of| of.get()), self.processes),
            requests: count(table.requests.map(|of| of.get()), self.requests),
            memory: table.memory.map_or(self.memory, |of| of.get()),
            doorbells: table.doorbells.map_or(self.doorbells, |of| of.get()),
            fences: table.fences.map_or(self.fences, |of| of.get()),
            weight: table.weight.map_or(self.weight, |of| of.get()),
        }
    }
}
