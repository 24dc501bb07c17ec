// SPDX-License-Identifier: MIT OR Apache-2.0

//! Files generated from the declared keys: the table in `docs/service.md`, and the installed `bellhop.toml`.

use super::{Config, ConfigFile, DisplaySettings};
use bellhop_config::reference::Generated;
use std::path::Path;

const INSTALLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/dist/bellhop.toml");

fn files() -> Generated<'static> {
    let display = toml::Table::try_from(DisplaySettings::default()).unwrap();
    Generated {
        document: concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/service.md"),
        installed: INSTALLED,
        heading: [
            "The configuration of bellhopd. What is commented out is the default; remove the `#` to change it.",
            "A change takes effect at the next start, which disconnects all guests.",
        ],
        listed: vec![("adapter.displays", display)],
        examples: Vec::new(),
    }
}

#[test]
fn the_reference_and_the_installed_file_show_every_key_as_it_is_declared() {
    files().compare::<Config>().unwrap();
}

#[test]
fn the_installed_file_changes_nothing() {
    assert_eq!(ConfigFile::read(Path::new(INSTALLED)).unwrap().config, Config::default());
}

#[test]
fn the_installed_file_has_every_key_with_its_default() {
    let shown: toml::Table = toml::from_str(&files().uncommented::<Config>().unwrap()).unwrap();
    assert_eq!(shown, toml::Table::try_from(Config::default()).unwrap());
}
