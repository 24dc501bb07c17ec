// SPDX-License-Identifier: MIT OR Apache-2.0

//! What an administrator says of single programs, in a file of rules.

use crate::debug;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The variable that names the file.
const VARIABLE: &str = "BELLHOP_VULKAN_PROFILES";
/// Where it is otherwise, if it is there.
const USUAL_FILE: &str = "/etc/bellhop/vulkan.toml";
/// Most bytes of a file that is read.
const MOST: u64 = 1 << 20;

/// Which GPUs of a chain draw the frames of a program that asks for one GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Frames {
    /// All, unless one of them has power only when it is needed.
    #[default]
    Automatic,
    /// The one that it asks for.
    One,
    /// All that can do the same, in turns.
    Alternate,
}

/// What is so for a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) frames: Frames,
    /// The ordinal of the GPU that is its first physical device.
    pub(crate) gpu: Option<u8>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    program: Vec<Rule>,
}

/// What is so for programs with these names.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// The file's name.
    executable: Option<String>,
    /// The name by which it introduces itself to Vulkan.
    application: Option<String>,
    frames: Option<Frames>,
    gpu: Option<u8>,
}

impl Rule {
    fn is_for(&self, executable: &str, application: &str) -> bool {
        let is = |wanted: &Option<String>, name| wanted.as_deref().is_none_or(|it| it == name);
        is(&self.executable, executable) && is(&self.application, application)
    }
}

impl Profile {
    /// That of this program, which calls itself so. A file that cannot be used says nothing of any.
    pub(crate) fn of(application: &str) -> Self {
        let chosen = std::env::var_os(VARIABLE).filter(|path| !path.is_empty());
        let path = chosen.map_or_else(|| PathBuf::from(USUAL_FILE), PathBuf::from);
        let Some(text) = read(&path) else { return Self::default() };
        let executable = std::env::current_exe().unwrap_or_default();
        let executable = executable.file_name().unwrap_or_default().to_string_lossy();
        match Self::find(&text, &executable, application) {
            Ok(profile) => profile,
            Err(error) => {
                debug::say(format_args!("{}: {error}", path.display()));
                Self::default()
            }
        }
    }

    /// What the first rule says that is for these names.
    fn find(text: &str, executable: &str, application: &str) -> Result<Self, toml::de::Error> {
        let file: File = toml::from_str(text)?;
        let rule = file.program.iter().find(|rule| rule.is_for(executable, application));
        let said = |rule: &Rule| {
            // Who says which GPU it is means that one.
            let otherwise = if rule.gpu.is_some() { Frames::One } else { Frames::Automatic };
            Self { frames: rule.frames.unwrap_or(otherwise), gpu: rule.gpu }
        };
        Ok(rule.map(said).unwrap_or_default())
    }
}

/// The text of a file, if it is there and no longer than it may be.
fn read(path: &Path) -> Option<String> {
    let is_short = std::fs::metadata(path).ok()?.len() <= MOST;
    std::fs::read_to_string(path).ok().filter(|_| is_short)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "
        [[program]]
        executable = \"cube\"
        application = \"old\"
        [[program]]
        executable = \"cube\"
        frames = \"alternate\"
        [[program]]
        application = \"game\"
        gpu = 1
        [[program]]
        application = \"old\"
        frames = \"one\"
    ";

    #[test]
    fn the_first_rule_counts_that_is_for_all_names_of_a_program() {
        let find = |executable, application| Profile::find(RULES, executable, application).unwrap();
        let alternate = Profile { frames: Frames::Alternate, gpu: None };
        assert_eq!(find("cube", "new"), alternate);
        assert_eq!(find("cube", "old"), Profile::default());
        assert_eq!(find("other", "game"), Profile { frames: Frames::One, gpu: Some(1) });
        assert_eq!(find("other", "old"), Profile { frames: Frames::One, gpu: None });
        assert_eq!(find("other", "other"), Profile::default());
    }

    #[test]
    fn a_rule_with_an_unknown_word_is_refused() {
        for wrong in ["[[program]]\nframe = \"one\"", "[[program]]\nframes = \"both\"", "["] {
            assert!(Profile::find(wrong, "", "").is_err(), "{wrong}");
        }
    }
}
