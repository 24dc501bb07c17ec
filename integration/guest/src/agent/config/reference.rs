// SPDX-License-Identifier: MIT OR Apache-2.0

//! Files generated from the declared keys: the table in `docs/external-events.md`, and the installed `agent.toml`.

use super::AgentConfig;
use bellhop_config::ConfigFile;
use bellhop_config::reference::Generated;
use std::path::Path;

const FILES: Generated<'_> = Generated {
    document: concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/external-events.md"),
    installed: concat!(env!("CARGO_MANIFEST_DIR"), "/dist/agent.toml"),
    heading: [
        "The configuration of bellhop-guest agent. What is commented out is the default; remove the `#` to change it.",
        "A change takes effect at the next start.",
    ],
    listed: Vec::new(),
    examples: Vec::new(),
};

#[test]
fn the_reference_and_the_installed_file_show_every_key_as_it_is_declared() {
    FILES.compare::<AgentConfig>().unwrap();
}

#[test]
fn the_installed_file_changes_nothing() {
    let file = ConfigFile::<AgentConfig>::read(Path::new(FILES.installed)).unwrap();
    assert_eq!(file.config, AgentConfig::default());
}
