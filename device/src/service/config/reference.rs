// SPDX-License-Identifier: MIT OR Apache-2.0

//! Files generated from the declared keys: the table in `docs/service.md`, and the installed `bellhop.toml`.

use super::declare::{Key, Kind, Setting};
use super::{Config, ConfigFile, DisplaySettings};
use std::fs;
use std::path::Path;

/// The environment variable that makes the tests rewrite a differing file.
const BLESS: &str = "BELLHOP_BLESS";
/// The maximum line width of `bellhop.toml`.
const WIDTH: usize = 100;

const INSTALLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/dist/bellhop.toml");
const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/service.md");

fn sections() -> &'static [Key] {
    match Config::KIND {
        Kind::Section(sections) => sections,
        _ => panic!("a configuration has sections"),
    }
}

fn keys(section: &Key) -> &'static [Key] {
    match section.kind {
        Kind::Section(keys) => keys,
        _ => &[],
    }
}

fn range(key: &Key) -> String {
    match key.kind {
        Kind::Value { range, .. } => range(),
        _ => String::new(),
    }
}

fn about(key: &Key) -> String {
    key.about.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

fn default(section: &Key, key: &Key) -> toml::Value {
    toml::Table::try_from(Config::default()).unwrap()[section.name][key.name].clone()
}

/// The keys of the entries of a list of tables.
fn keys_of_entries(key: &Key) -> &'static [Key] {
    match key.kind {
        Kind::Map(Kind::Section(keys)) => keys,
        _ => &[],
    }
}

/// The defaults of an entry of a list of tables.
fn entry() -> toml::Table {
    toml::Table::try_from(DisplaySettings::default()).unwrap()
}

fn table() -> String {
    let mut table = "| key | default | range | what it is |\n|---|---|---|---|\n".to_owned();
    for section in sections() {
        for key in keys(section) {
            let name = format!("{}.{}", section.name, key.name);
            let (default, range, about) = (default(section, key), range(key), about(key));
            table += &format!("| `{name}` | `{default}` | {range} | {about} |\n");
            for inner in keys_of_entries(key) {
                let name = format!("{name}[].{}", inner.name);
                let (default, range, about) =
                    (&entry()[inner.name], self::range(inner), self::about(inner));
                table += &format!("| `{name}` | `{default}` | {range} | {about} |\n");
            }
        }
    }
    table
}

fn comment(text: &str) -> String {
    let mut lines = vec!["#".to_owned()];
    for word in text.split(' ') {
        let line = lines.last_mut().unwrap();
        if line.len() + 1 + word.len() > WIDTH {
            lines.push(format!("# {word}"));
        } else {
            *line += &format!(" {word}");
        }
    }
    lines.join("\n") + "\n"
}

fn installed() -> String {
    let mut text = comment(
        "The configuration of bellhopd. What is commented out is the default; remove the `#` to change it.",
    );
    text += &comment("A change takes effect at the next start, which disconnects all guests.");
    for section in sections() {
        text += &format!("\n{}[{}]\n", comment(&about(section)), section.name);
        for key in keys(section) {
            let (default, range) = (default(section, key), range(key));
            text += &comment(&about(key));
            if !default.is_bool() && !range.is_empty() {
                text += &comment(&format!("Range: {range}."));
            }
            text += &format!("#{} = {default}\n", key.name);
        }
    }
    text
}

/// Compares a part of a file with its expected content.
fn check(path: &str, part: impl Fn(&str) -> (usize, usize), wanted: &str) {
    let text = fs::read_to_string(path).unwrap();
    let (start, end) = part(&text);
    if std::env::var_os(BLESS).is_some() {
        fs::write(path, [&text[..start], wanted, &text[end..]].concat()).unwrap();
        return;
    }
    for (line, wanted) in text[start..end].lines().zip(wanted.lines()) {
        assert_eq!(line, wanted, "{path} tells otherwise; {BLESS}=1 rewrites it");
    }
    assert_eq!(end - start, wanted.len(), "{path} has more or less; {BLESS}=1 rewrites it");
}

#[test]
fn the_reference_shows_every_key_as_it_is_declared() {
    let table_of_keys = |text: &str| {
        let start = text.find("| key | default |").expect("a table of keys");
        (start, start + text[start..].find("\n\n").expect("its end") + 1)
    };
    check(REFERENCE, table_of_keys, &table());
}

#[test]
fn the_installed_file_shows_every_key_as_it_is_declared() {
    check(INSTALLED, |text| (0, text.len()), &installed());
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
