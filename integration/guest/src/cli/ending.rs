// SPDX-License-Identifier: MIT OR Apache-2.0

//! How work ended.

/// How the work ended, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ending {
    Succeeded,
    /// A benchmark is worse than an earlier one.
    Regressed,
    Failed,
}

impl Ending {
    pub(super) fn of(succeeded: bool) -> Self {
        if succeeded { Self::Succeeded } else { Self::Failed }
    }

    pub(super) fn of_bench(regressed: bool) -> Self {
        if regressed { Self::Regressed } else { Self::Succeeded }
    }
}
