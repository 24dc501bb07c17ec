// SPDX-License-Identifier: MIT OR Apache-2.0

//! Names of guests, contexts and queues, and patterns that match them.

/// A part of a path: a name, and a number where there are several of that name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::harness) struct Name {
    base: String,
    number: Option<u32>,
}

impl Name {
    /// Number `number` of `count` with this name.
    pub(in crate::harness) fn of(base: &str, number: u32, count: u32) -> Self {
        Self { base: base.into(), number: (count > 1).then_some(number) }
    }

    fn matches(&self, pattern: &str) -> bool {
        pattern == "*" || pattern == self.base || pattern == self.to_string()
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.base)?;
        match self.number {
            Some(number) => write!(f, ".{number}"),
            None => Ok(()),
        }
    }
}

/// Whether `pattern` matches this path or its beginning. Its parts are names, names with numbers, or `*`.
pub(in crate::harness) fn matches(pattern: &str, path: &[&Name]) -> bool {
    let parts: Vec<_> = pattern.split('/').collect();
    parts.len() <= path.len() && parts.iter().zip(path).all(|(part, name)| name.matches(part))
}

/// Whether a name is valid.
pub(in crate::harness) fn is_valid(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|character| character.is_alphanumeric() || "-_".contains(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_names_one_all_of_a_kind_or_what_is_inside() {
        let (guest, context) = (Name::of("vm", 1, 3), Name::of("main", 0, 1));
        let path = [&guest, &context];
        for pattern in ["vm.1/main", "vm/main", "*/main", "vm.1", "vm", "*/*"] {
            assert!(matches(pattern, &path), "{pattern}");
        }
        for pattern in ["vm.2", "vm.1/other", "vm/main/q", "", "v"] {
            assert!(!matches(pattern, &path), "{pattern}");
        }
    }

    #[test]
    fn a_name_has_no_separators() {
        assert!(is_valid("node-0_a") && !is_valid("a/b") && !is_valid("a.1") && !is_valid("*"));
    }
}
