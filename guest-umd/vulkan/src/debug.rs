// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the driver says, to those who ask for it.

use std::fmt::Display;
use std::io::Write as _;
use std::sync::LazyLock;

/// The variable that makes the driver say why something is not there.
const VARIABLE: &str = "BELLHOP_VULKAN_DEBUG";

static IS_ON: LazyLock<bool> =
    LazyLock::new(|| std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty()));

/// Says something on standard error, if the variable is set.
pub(crate) fn say(what: impl Display) {
    if *IS_ON {
        // Nobody may read it.
        let _ = writeln!(std::io::stderr(), "bellhop: {what}");
    }
}
