// SPDX-License-Identifier: MIT OR Apache-2.0

//! Licences, bans and sources of the crates that Bellhop is built from: `deny.toml`.

use crate::command::{cargo, output, run};

/// Runs cargo-deny where it is installed. Building it takes longer than the whole check, so the check
/// does not install it.
///
/// # Errors
/// When a crate breaks a rule of `deny.toml`.
pub fn check() -> Result<(), String> {
    if output(&mut cargo(&["deny", "--version"])).is_err() {
        println!(
            "without cargo-deny: licences, bans and sources of crates are not checked; to have it: \
             cargo install cargo-deny --locked"
        );
        return Ok(());
    }
    run(&mut cargo(&[
        "deny",
        "--offline",
        "--locked",
        "check",
        "--hide-inclusion-graph",
        "licenses",
        "bans",
        "sources",
    ]))?;
    println!("advisories need a network: cargo deny check advisories");
    Ok(())
}
