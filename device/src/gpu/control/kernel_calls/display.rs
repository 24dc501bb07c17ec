// SPDX-License-Identifier: MIT OR Apache-2.0

//! Displays.

use super::Gpu;
use crate::gpu::display::GuestDisplay;
use crate::gpu::shared::partition::Partition;
use bellhop_host_kmd::hardware::{
    Display, DisplayCaps, DisplayPath, DisplayTicket, GuestId, Monitor, PointerShape,
    SourceAddress, UnknownId,
};
use bellhop_protocol::control::flip::ScanLine;
use std::sync::Arc;

impl Gpu {
    pub(in crate::gpu::control) fn display(
        &self,
        guest: GuestId,
    ) -> Result<Arc<GuestDisplay>, UnknownId> {
        self.displays.get(guest).ok_or(UnknownId::Guest(guest))
    }
}

impl Display for Gpu {
    fn display_caps(&self) -> DisplayCaps {
        self.displays.caps()
    }

    fn monitor(&self, guest: GuestId, child: u32) -> Option<Monitor> {
        self.display(guest).ok()?.monitor(child)
    }

    fn commit_vidpn(&self, guest: GuestId, paths: &[DisplayPath]) -> Result<(), UnknownId> {
        self.display(guest)?.commit(paths);
        Ok(())
    }

    fn set_source_visibility(
        &self,
        guest: GuestId,
        source: u32,
        visible: bool,
    ) -> Result<(), UnknownId> {
        self.display(guest)?.set_visible(source, visible);
        Ok(())
    }

    fn set_source_address(
        &self,
        guest: GuestId,
        source: u32,
        address: Option<SourceAddress>,
    ) -> Result<Option<u64>, UnknownId> {
        Ok(self.display(guest)?.set_address(source, address))
    }

    fn scan_line(&self, guest: GuestId, source: u32) -> Result<ScanLine, UnknownId> {
        Ok(self.display(guest)?.scan_line(source))
    }

    fn control_vsync(
        &self,
        guest: GuestId,
        source: u32,
        known_as: u32,
        wanted_by: &[u32],
    ) -> Result<(), UnknownId> {
        self.display(guest)?.control_vsync(source, known_as, wanted_by);
        Ok(())
    }

    fn set_pointer(
        &self,
        guest: GuestId,
        source: u32,
        shape: Option<PointerShape>,
    ) -> Result<(), UnknownId> {
        let display = self.display(guest)?;
        // It reads the shape. A guest that is given up shows no pointer.
        let set = move |_: &Arc<Partition>| display.set_pointer(source, shape);
        let _ = self.hand.touch(&self.guest(guest)?, set);
        Ok(())
    }

    fn move_pointer(
        &self,
        guest: GuestId,
        source: u32,
        at: (i32, i32),
        visible: bool,
    ) -> Result<(), UnknownId> {
        self.display(guest)?.move_pointer(source, at, visible);
        Ok(())
    }

    fn set_display_power(&self, on: bool) {
        self.displays.set_power(on);
    }

    fn reset_display(&self, guest: GuestId) -> Result<(), UnknownId> {
        self.display(guest)?.reset();
        Ok(())
    }

    fn quiesce_display(&self, guest: GuestId) -> Result<DisplayTicket, UnknownId> {
        Ok(self.display(guest)?.quiesce())
    }
}
