// SPDX-License-Identifier: MIT OR Apache-2.0

//! Files generated from the declared keys: the table in `docs/external-events.md`, and the installed `agent.toml`.

use super::AgentConfig;
use bellhop_config::{ConfigFile, reference};
use std::path::Path;

const INSTALLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/dist/agent.toml");
const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/external-events.md");
const HEADING: [&str; 2] = [
    "The configuration of bellhop-guest agent. What is commented out is the default; remove the `#` to change it.",
    "A change takes effect at the next start.",
];

fn installed() -> String {
    reference::installed::<AgentConfig>(&HEADING, &[]).unwrap()
}

#[test]
fn the_reference_shows_every_key_as_it_is_declared() {
    let table = reference::table::<AgentConfig>(&[]).unwrap();
    reference::compare(Path::new(REFERENCE), reference::table_in, &table).unwrap();
}

#[test]
fn the_installed_file_shows_every_key_as_it_is_declared() {
    let whole = |text: &str| Some(0..text.len());
    reference::compare(Path::new(INSTALLED), whole, &installed()).unwrap();
}

#[test]
fn the_installed_file_changes_nothing() {
    let file = ConfigFile::<AgentConfig>::read(Path::new(INSTALLED)).unwrap();
    assert_eq!(file.config, AgentConfig::default());
}
