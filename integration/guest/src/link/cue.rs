// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a job in a guest wants of its host, a word in a line of its standard output.

use std::fmt;
use std::str::FromStr;

/// What the host is to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cue {
    /// Take the GPU away: it works.
    Unplug,
    /// Bring it back.
    Plug,
    /// Look at what the monitors show, and then answer with a line.
    Look,
}

impl fmt::Display for Cue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unplug => "unplug",
            Self::Plug => "plug",
            Self::Look => "look",
        })
    }
}

impl FromStr for Cue {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let cues = [Self::Unplug, Self::Plug, Self::Look];
        cues.into_iter().find(|cue| cue.to_string() == text).ok_or(())
    }
}
