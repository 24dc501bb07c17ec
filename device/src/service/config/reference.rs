// SPDX-License-Identifier: MIT OR Apache-2.0

//! Files generated from the declared keys: the table in `docs/service.md`, and the installed `bellhop.toml`.

use super::{Config, ConfigFile, DisplaySettings};
use bellhop_config::reference;
use std::path::Path;

const INSTALLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/dist/bellhop.toml");
const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/service.md");
const HEADING: [&str; 2] = [
    "The configuration of bellhopd. What is commented out is the default; remove the `#` to change it.",
    "A change takes effect at the next start, which disconnects all guests.",
];

fn installed() -> String {
    reference::installed::<Config>(&HEADING, &[]).unwrap()
}

#[test]
fn the_reference_shows_every_key_as_it_is_declared() {
    let display = toml::Table::try_from(DisplaySettings::default()).unwrap();
    let table = reference::table::<Config>(&[("adapter.displays", display)]).unwrap();
    reference::compare(Path::new(REFERENCE), reference::table_in, &table).unwrap();
}

#[test]
fn the_installed_file_shows_every_key_as_it_is_declared() {
    let whole = |text: &str| Some(0..text.len());
    reference::compare(Path::new(INSTALLED), whole, &installed()).unwrap();
}

#[test]
fn the_installed_file_changes_nothing() {
    assert_eq!(ConfigFile::read(Path::new(INSTALLED)).unwrap().config, Config::default());
}

#[test]
fn the_installed_file_has_every_key_with_its_default() {
    // A comment has a space after the `#`, a default has none.
    let shown = installed().replace("\n#", "\n").replace("\n ", "\n# ");
    let shown: toml::Table = toml::from_str(&shown).unwrap();
    assert_eq!(shown, toml::Table::try_from(Config::default()).unwrap());
}
