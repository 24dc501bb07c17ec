// SPDX-License-Identifier: MIT OR Apache-2.0

//! Users and groups of the guest, as its files say.
//!
//! A static program cannot ask the C library, which loads parts of itself for that. So users whom only a directory service
//! knows have numbers here.

use std::io::{self, ErrorKind};
use std::path::Path;

/// The lines of `passwd` and `group`.
#[derive(Debug, Default)]
pub struct Accounts {
    passwd: String,
    group: String,
}

impl Accounts {
    /// Reads the files of this system. One that is not there has no lines.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn read() -> io::Result<Self> {
        let read = |path| match std::fs::read_to_string(Path::new(path)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
            text => text,
        };
        Ok(Self { passwd: read("/etc/passwd")?, group: read("/etc/group")? })
    }

    /// The number of a user, by name or number.
    pub(super) fn user(&self, name: &str) -> Option<u32> {
        name.parse().ok().or_else(|| self.number_of(name))
    }

    fn number_of(&self, name: &str) -> Option<u32> {
        let mut users = fields(&self.passwd);
        users.find(|fields| fields.first() == Some(&name))?.get(2)?.parse().ok()
    }

    /// The members of a group, by its name or number: those whose own group it is, and those whom it lists.
    pub(super) fn members(&self, name: &str) -> Option<Vec<u32>> {
        let number = name.parse().ok();
        let is_it = |fields: &Vec<&str>| match number {
            Some(_) => fields.get(2).and_then(|of| of.parse::<u32>().ok()) == number,
            None => fields.first() == Some(&name),
        };
        let line = fields(&self.group).find(is_it);
        let number: u32 = match &line {
            Some(fields) => fields.get(2)?.parse().ok()?,
            None => number?,
        };
        let own = fields(&self.passwd).filter_map(|fields| {
            let (user, group): (u32, u32) =
                (fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?);
            (group == number).then_some(user)
        });
        let listed = line.and_then(|fields| fields.get(3).copied()).unwrap_or_default();
        let listed = listed.split(',').filter_map(|name| self.number_of(name));
        let mut members: Vec<_> = own.chain(listed).collect();
        members.sort_unstable();
        members.dedup();
        Some(members)
    }
}

/// The fields of each line.
fn fields(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().map(|line| line.split(':').collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts() -> Accounts {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:100::/:/bin/sh\n\
                      bob:x:1001:1001::/:/bin/sh\nbroken:x\n";
        let group = "root:x:0:\nusers:x:100:bob,ann,nobody\nrender:x:105:\nbroken\n";
        Accounts { passwd: passwd.into(), group: group.into() }
    }

    #[test]
    fn a_user_is_known_by_name_and_by_number() {
        let user = |name| accounts().user(name);
        assert_eq!([user("ann"), user("root"), user("4711")], [Some(1000), Some(0), Some(4711)]);
        assert_eq!([user("users"), user("broken"), user(""), user("-1")], [None; 4]);
    }

    #[test]
    fn a_group_has_those_whom_it_lists_and_those_whose_own_it_is() {
        let members = |name| accounts().members(name);
        assert_eq!(members("users"), Some(vec![1000, 1001]));
        assert_eq!(members("100"), members("users"));
        assert_eq!(members("render"), Some(vec![]));
        assert_eq!(members("1001"), Some(vec![1001]), "a user's own, which has no line");
        assert_eq!([members("ann"), members("broken")], [None, None]);
    }

    #[test]
    fn this_systems_files_have_root() {
        assert_eq!(Accounts::read().unwrap().user("root"), Some(0));
    }
}
