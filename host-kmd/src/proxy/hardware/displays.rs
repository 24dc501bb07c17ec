// SPDX-License-Identifier: MIT OR Apache-2.0

//! Displays: each GPU has its own, and the chain numbers sources and children through.

use super::LinkedHardware;
use crate::hardware::{
    ConnectorUse, Display, DisplayCaps, DisplayPath, DisplayTicket, GpuOrdinal, GuestId, Hardware,
    Monitor, PointerShape, SourceAddress, UnknownId,
};
use crate::proxy::display::caps_of_chain;
use bellhop_protocol::control::flip::ScanLine;

impl LinkedHardware {
    /// The GPU of a source, and the source's number there. The master reports what no GPU has.
    fn of_source(&self, source: u32) -> (&dyn Hardware, u32) {
        let own = self.shared.displays().sources.own(source);
        own.map_or((self.master(), source), |(gpu, own)| (self.gpu(gpu), own))
    }

    /// The GPU of a child, and the child's number there. The master reports what no GPU has.
    fn of_child(&self, child: u32) -> (&dyn Hardware, u32) {
        let own = self.shared.displays().children.own(child);
        own.map_or((self.master(), child), |(gpu, own)| (self.gpu(gpu), own))
    }

    /// The GPUs with displays.
    fn with_displays(&self) -> impl Iterator<Item = (GpuOrdinal, &dyn Hardware)> {
        let all = self.each().map(|(ordinal, _, gpu)| (ordinal, gpu));
        all.filter(|(_, gpu)| gpu.display_caps().sources > 0)
    }
}

impl Display for LinkedHardware {
    fn display_caps(&self) -> DisplayCaps {
        let caps: Vec<_> = self.gpus.iter().map(|gpu| gpu.display_caps()).collect();
        caps_of_chain(&caps)
    }

    fn monitor(&self, guest: GuestId, child: u32) -> Option<Monitor> {
        let (gpu, child) = self.of_child(child);
        gpu.monitor(guest, child)
    }

    fn connector_use(&self, guest: GuestId, child: u32) -> Result<ConnectorUse, UnknownId> {
        let (gpu, child) = self.of_child(child);
        gpu.connector_use(guest, child)
    }

    fn commit_vidpn(&self, guest: GuestId, paths: &[DisplayPath]) -> Result<(), UnknownId> {
        for (ordinal, gpu) in self.with_displays() {
            gpu.commit_vidpn(guest, &self.shared.displays().own_paths(ordinal, paths))?;
        }
        Ok(())
    }

    fn set_source_visibility(
        &self,
        guest: GuestId,
        source: u32,
        visible: bool,
    ) -> Result<(), UnknownId> {
        let (gpu, source) = self.of_source(source);
        gpu.set_source_visibility(guest, source, visible)
    }

    fn set_source_address(
        &self,
        guest: GuestId,
        source: u32,
        address: Option<SourceAddress>,
    ) -> Result<Option<u64>, UnknownId> {
        let (gpu, source) = self.of_source(source);
        gpu.set_source_address(guest, source, address)
    }

    fn scan_line(&self, guest: GuestId, source: u32) -> Result<ScanLine, UnknownId> {
        let (gpu, source) = self.of_source(source);
        gpu.scan_line(guest, source)
    }

    fn control_vsync(
        &self,
        guest: GuestId,
        source: u32,
        known_as: u32,
        wanted_by: &[u32],
    ) -> Result<(), UnknownId> {
        let (gpu, source) = self.of_source(source);
        gpu.control_vsync(guest, source, known_as, wanted_by)
    }

    fn set_pointer(
        &self,
        guest: GuestId,
        source: u32,
        shape: Option<PointerShape>,
    ) -> Result<(), UnknownId> {
        let (gpu, source) = self.of_source(source);
        gpu.set_pointer(guest, source, shape)
    }

    fn move_pointer(
        &self,
        guest: GuestId,
        source: u32,
        position: (i32, i32),
        visible: bool,
    ) -> Result<(), UnknownId> {
        let (gpu, source) = self.of_source(source);
        gpu.move_pointer(guest, source, position, visible)
    }

    fn set_display_power(&self, on: bool) {
        self.gpus.iter().for_each(|gpu| gpu.set_display_power(on));
    }

    fn reset_display(&self, guest: GuestId) -> Result<(), UnknownId> {
        for (_, gpu) in self.with_displays() {
            gpu.reset_display(guest)?;
        }
        Ok(())
    }

    fn quiesce_display(&self, guest: GuestId) -> Result<DisplayTicket, UnknownId> {
        let mut drawn = Vec::new();
        for (ordinal, gpu) in self.with_displays() {
            drawn.push((ordinal, gpu.quiesce_display(guest)?));
        }
        if drawn.is_empty() {
            // The master reports a guest without a display.
            return self.master().quiesce_display(guest);
        }
        Ok(self.shared.draw_ticket(guest, drawn))
    }
}
