// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of what an administrator declares.

use super::*;
use crate::broker::{Limits, UserLimits};
use bellhop_config::{ConfigError, ConfigFile};

fn file(text: &str) -> Result<ConfigFile<BrokerConfig>, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("broker.toml");
    std::fs::write(&path, text).unwrap();
    ConfigFile::read(&path)
}

fn limits(text: &str) -> Limits {
    let config = file(text).unwrap().config;
    let members = config.members(&Accounts::read().unwrap()).unwrap();
    config.limits(&members)
}

/// The error of a faulty file.
fn fault(text: &str) -> String {
    let error = file(text)
        .and_then(|file| {
            let members = file.config.members(&Accounts::default());
            members.map_err(|fault| file.error(fault))
        })
        .unwrap_err()
        .to_string();
    assert!(!error.contains('\n') && error.contains("broker.toml, line "), "{error}");
    error
}

#[test]
fn an_empty_file_is_the_default() {
    assert_eq!(file("").unwrap().config, BrokerConfig::default());
    assert_eq!(limits(""), Limits::default());
}

#[test]
fn a_table_of_a_user_says_what_differs_from_what_each_has() {
    let limits = limits(
        "[broker]\nprograms = 3\n[default]\nprograms = 2\nmemory = \"8MiB\"\n\
         [[user]]\nname = \"root\"\nweight = 300\nmemory = \"1MiB\"\n\
         [[user]]\nname = \"4711\"\nfences = 9\n",
    );
    assert_eq!((limits.programs, limits.users.len()), (3, 2));
    assert_eq!((limits.each.programs, limits.each.memory, limits.each.weight), (2, 8 << 20, 100));
    let root = UserLimits { weight: 300, memory: 1 << 20, ..limits.each };
    assert_eq!(*limits.of(0), root);
    assert_eq!(*limits.of(4711), UserLimits { fences: 9, ..limits.each });
    assert_eq!(*limits.of(4712), limits.each);
}

#[test]
fn the_first_table_for_a_user_counts() {
    let limits = limits(
        "[[user]]\nname = \"root\"\nweight = 2\n[[user]]\ngroup = \"root\"\nweight = 3\n\
         [[user]]\nname = \"0\"\nweight = 4\n",
    );
    assert_eq!(limits.of(0).weight, 2);
}

#[test]
fn the_most_requests_of_any_program_are_counted_for() {
    let text = "[default]\nrequests = 3\n[[user]]\nname = \"7\"\nrequests = 12\n";
    assert_eq!(limits(text).most_requests(), 12);
    assert_eq!(limits("[default]\nrequests = 3\n").most_requests(), 3);
}

#[test]
fn what_cannot_be_is_refused_with_line_and_key() {
    for (text, why) in [
        (
            "[default]\nrequests = 1\n",
            "line 2, column 12: default.requests is 1; it must be 2 to 16",
        ),
        ("[default]\nmemory = 64\n", "default.memory is 64; it must be 1MiB to 1GiB in whole MiB"),
        ("[broker]\nmode = \"1777\"\n", "broker.mode is \"1777\"; it must be \"0\" to \"777\""),
        ("[broker]\nmode = \"rw\"\n", "broker.mode is \"rw\"; it must be \"0\" to \"777\""),
        (
            "[[user]]\nname = \"root\"\nweight = 0\n",
            "line 3, column 10: user[0].weight is 0; it must be 1 to 10000",
        ),
        ("[[user]]\nweight = 7\n", "user[0] is a table of nobody; it must be with either"),
        (
            "[[user]]\nname = \"0\"\n[[user]]\nname = \"0\"\ngroup = \"0\"\n",
            "line 5, column 1: user[1].group is there beside a name",
        ),
        (
            "[[user]]\nname = \"no such user\"\n",
            "line 2, column 1: user[0].name is \"no such user\"; it must be a user of this system",
        ),
        ("[[user]]\ngroup = \"none\"\n", "user[0].group is \"none\"; it must be a group of this"),
        ("[[user]]\nnmae = \"0\"\n", "line 2, column 1: unknown field `nmae`"),
    ] {
        let error = fault(text);
        assert!(error.contains(why), "{error}\n{why}");
    }
}

#[test]
fn what_is_printed_reads_back_to_the_same() {
    let text =
        "[broker]\nmode = \"600\"\n[default]\nweight = 7\n[[user]]\ngroup = \"7\"\nfences = 3\n";
    let written = file(text).unwrap();
    let printed = written.to_toml().unwrap();
    assert_eq!(file(&printed).unwrap().config, written.config, "{printed}");
}
