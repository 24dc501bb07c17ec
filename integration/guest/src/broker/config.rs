// SPDX-License-Identifier: MIT OR Apache-2.0

//! The configuration of the broker, `/etc/bellhop/broker.toml`: every key, declared once.
//!
//! The table in `docs/programs.md` and the installed file are generated from this file.

mod accounts;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

pub use accounts::Accounts;

use bellhop_config::{Configuration, Count, Fault, KeyPath, Kind, Mib, Setting, at, section};
use bellhop_protocol::broker::USUAL_SOCKET;
use serde::de::{self, Deserialize, Deserializer};
use serde::{Serialize, Serializer};
use std::path::PathBuf;
use std::str::FromStr;

/// Where a guest's administrator has the file.
pub const USUAL_FILE: &str = "/etc/bellhop/broker.toml";

type Programs = Count<1, 1024>;
type Processes = Count<1, 4096>;
type Requests = Count<2, 16>;
type Memory = Mib<1, 1024>;
type Doorbells = Count<1, 16_384>;
type Fences = Count<1, 65_536>;
type Weight = Count<1, 10_000>;

section! {
    /// The whole configuration.
    pub struct BrokerConfig {
        /// The broker, and all programs together.
        broker: ServingConfig;
        /// What each user has, and each program of the user's.
        default: DefaultConfig;
        /// Users who have something else; what a table does not say is as in `[default]`. Of several tables for a user, the first
        /// one counts.
        user: Vec<UserConfig>;
    }
}

section! {
    /// The broker, and all programs together.
    pub struct ServingConfig {
        /// Path of the socket where programs connect. The option `--listen` takes precedence.
        listen: PathBuf = USUAL_SOCKET.into();
        /// The socket's mode, in octal: who may connect. The option `--mode` takes precedence.
        mode: SocketMode;
        /// Programs at once. The option `--programs` takes precedence.
        programs: Programs = at(16);
    }
}

section! {
    /// What each user has, and each program of the user's.
    pub struct DefaultConfig {
        /// Programs of one user at once. The option `--programs-of-user` takes precedence.
        programs: Programs = at(8);
        /// Processes on the device of each program.
        processes: Processes = at(16);
        /// Requests in flight of each program.
        requests: Requests = at(8);
        /// Memory of each program, for its allocations. In a VM it is pinned while the program is connected.
        memory: Memory = at(64);
        /// Doorbells of each program, one for each HW queue.
        doorbells: Doorbells = at(64);
        /// Fences of each program, those of queues included.
        fences: Fences = at(256);
        /// The user's part of an engine, beside other users of this guest who have work there.
        weight: Weight = at(100);
    }
}

section! {
    /// A user who has something else.
    pub struct UserConfig {
        /// The user, by name or number. A table has either this or `group`.
        name: Option<String>;
        /// All members of a group, by name or number, as they are when the broker starts.
        group: Option<String>;
        /// As in `[default]`, for this user or each of these users.
        programs: Option<Programs>;
        /// As in `[default]`.
        processes: Option<Processes>;
        /// As in `[default]`.
        requests: Option<Requests>;
        /// As in `[default]`.
        memory: Option<Memory>;
        /// As in `[default]`.
        doorbells: Option<Doorbells>;
        /// As in `[default]`.
        fences: Option<Fences>;
        /// As in `[default]`.
        weight: Option<Weight>;
    }
}

/// The mode of a socket's file, three octal digits in quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketMode(u32);

/// Why a text is no mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a mode is octal, 0 to 777, such as 660")]
pub struct NoMode;

impl SocketMode {
    /// Its bits.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }
}

impl Default for SocketMode {
    fn default() -> Self {
        Self(0o660)
    }
}

impl FromStr for SocketMode {
    type Err = NoMode;

    fn from_str(text: &str) -> Result<Self, NoMode> {
        let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o777);
        bits.map(Self).ok_or(NoMode)
    }
}

impl Setting for SocketMode {
    const KIND: Kind = Kind::value(|| "\"0\" to \"777\"".into());
}

impl Serialize for SocketMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:o}", self.0))
    }
}

impl<'de> Deserialize<'de> for SocketMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl Configuration for BrokerConfig {
    fn validate(&self) -> Result<(), Fault> {
        for (table, place) in self.user.iter().zip(0_usize..) {
            let key = KeyPath::new(["user"]).child(place);
            let expected = "with either a name or a group";
            match (&table.name, &table.group) {
                (Some(_), None) | (None, Some(_)) => {}
                (None, None) => return Err(Fault::new(key, "a table of nobody", expected)),
                (Some(_), Some(_)) => {
                    let key = key.child("group");
                    return Err(Fault::new(key, "there beside a name", "left out, or the name"));
                }
            }
        }
        Ok(())
    }
}

impl BrokerConfig {
    /// The users of each table of `[[user]]`.
    ///
    /// # Errors
    /// For the first table of somebody who is not in the accounts.
    pub fn members(&self, accounts: &Accounts) -> Result<Vec<Vec<u32>>, Fault> {
        let tables = self.user.iter().zip(0_usize..);
        tables
            .map(|(table, place)| {
                let key = |name| KeyPath::new(["user"]).child(place).child(name);
                let unknown = |name: &'static str, value: &str, what: &str| {
                    let expected = format!("a {what} of this system, see `getent`, or a number");
                    Fault::new(key(name), format!("{value:?}"), expected)
                };
                match (&table.name, &table.group) {
                    (Some(name), _) => accounts
                        .user(name)
                        .map(|user| vec![user])
                        .ok_or_else(|| unknown("name", name, "user")),
                    (None, Some(group)) => {
                        accounts.members(group).ok_or_else(|| unknown("group", group, "group"))
                    }
                    (None, None) => Ok(Vec::new()),
                }
            })
            .collect()
    }
}
