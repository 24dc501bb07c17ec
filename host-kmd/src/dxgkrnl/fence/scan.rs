// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which fences a scan covers when no fence is named.

use crate::dxgkrnl::fence::state::FenceState;
use crate::dxgkrnl::fence::storage::FenceKind;

/// Which waiters a scan covers when no fence is named. "By default, [...] Dxgkrnl only scans all pending native fence
/// waiters and doesn't scan legacy monitored fence waiters."
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Scan {
    pub(crate) native: bool,
    pub(crate) monitored: bool,
}

impl Scan {
    /// Scans fences of both kinds.
    pub(crate) const ALL: Self = Self { native: true, monitored: true };

    /// Whether the scan covers a fence.
    pub(crate) fn includes(self, fence: &FenceState) -> bool {
        match fence.kind() {
            FenceKind::Native(_) => self.native,
            FenceKind::Monitored => self.monitored,
        }
    }
}
