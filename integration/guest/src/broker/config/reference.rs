// SPDX-License-Identifier: MIT OR Apache-2.0

//! Files generated from the declared keys: the table in `docs/programs.md`, and the installed `broker.toml`.

use super::{BrokerConfig, UserConfig, at};
use bellhop_config::{ConfigFile, reference};
use std::path::Path;

const INSTALLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/dist/broker.toml");
const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/programs.md");
const HEADING: [&str; 2] = [
    "The configuration of bellhop-guest broker. What is commented out is the default, or for users an example; remove the `#` to \
     change it.",
    "A change takes effect at the next start, which tells all programs that their device is gone.",
];

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

fn installed() -> String {
    reference::installed::<BrokerConfig>(&HEADING, &[("user", example())]).unwrap()
}

#[test]
fn the_reference_shows_every_key_as_it_is_declared() {
    let user = toml::Table::try_from(UserConfig::default()).unwrap();
    let table = reference::table::<BrokerConfig>(&[("user", user)]).unwrap();
    reference::compare(Path::new(REFERENCE), reference::table_in, &table).unwrap();
}

#[test]
fn the_installed_file_shows_every_key_as_it_is_declared() {
    let whole = |text: &str| Some(0..text.len());
    reference::compare(Path::new(INSTALLED), whole, &installed()).unwrap();
}

#[test]
fn the_installed_file_changes_nothing_and_its_example_can_be_used() {
    let file = ConfigFile::<BrokerConfig>::read(Path::new(INSTALLED)).unwrap();
    assert_eq!(file.config, BrokerConfig::default());
    // A comment has a space after the `#`, a default has none.
    let shown = installed().replace("\n#", "\n").replace("\n ", "\n# ");
    let shown: BrokerConfig = bellhop_config::read(&shown).unwrap();
    assert_eq!(toml::Table::try_from(&shown.user[0]).unwrap(), example());
    assert_eq!(BrokerConfig { user: Vec::new(), ..shown }, BrokerConfig::default());
}
