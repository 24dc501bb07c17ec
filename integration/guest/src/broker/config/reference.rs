// SPDX-License-Identifier: MIT OR Apache-2.0

//! Files generated from the declared keys: the table in `docs/programs.md`, and the installed `broker.toml`.

use super::{BrokerConfig, UserConfig, at};
use bellhop_config::ConfigFile;
use bellhop_config::reference::Generated;
use std::path::Path;

const INSTALLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/dist/broker.toml");

fn files() -> Generated<'static> {
    let defaults = toml::Table::try_from(UserConfig::default()).unwrap();
    Generated {
        document: concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/programs.md"),
        installed: INSTALLED,
        heading: [
            "The configuration of bellhop-guest broker. What is commented out is the default, or for users an example; remove the \
             `#` to change it.",
            "A change takes effect at the next start, which tells all programs that their device is gone.",
        ],
        listed: vec![("user", defaults)],
        examples: vec![("user", example())],
    }
}

fn example() -> toml::Table {
    let user = UserConfig {
        name: Some("ann".into()),
        programs: Some(at(2)),
        memory: Some(at(256)),
        weight: Some(at(300)),
        ..UserConfig::default()
    };
    toml::Table::try_from(user).unwrap()
}

#[test]
fn the_reference_and_the_installed_file_show_every_key_as_it_is_declared() {
    files().compare::<BrokerConfig>().unwrap();
}

#[test]
fn the_installed_file_changes_nothing_and_its_example_can_be_used() {
    let file = ConfigFile::<BrokerConfig>::read(Path::new(INSTALLED)).unwrap();
    assert_eq!(file.config, BrokerConfig::default());
    let shown = files().uncommented::<BrokerConfig>().unwrap();
    let shown: BrokerConfig = bellhop_config::read(&shown).unwrap();
    assert_eq!(toml::Table::try_from(&shown.user[0]).unwrap(), example());
    assert_eq!(BrokerConfig { user: Vec::new(), ..shown }, BrokerConfig::default());
}
