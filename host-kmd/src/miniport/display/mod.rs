// SPDX-License-Identifier: MIT OR Apache-2.0

//! The display part of the driver. The hardware does what it is told; the driver knows what it can do.

mod vidpn;

use crate::ddi::display::{DisplayDdi, Modality, VidPn, VidPnRefusal};
use crate::hardware::{
    DisplayCaps, DisplayPath, DisplayTicket, Gpu, GuestId, PointerShape, Reported as _,
    SourceAddress,
};
use bellhop_protocol::control::display::{Pivot, TargetMode};
use bellhop_protocol::control::flip::ScanLine;
use std::sync::Arc;
use vidpn::Problem;

/// The driver of a GPU's displays.
pub(super) struct DisplayDriver {
    gpu: Arc<dyn Gpu>,
    caps: DisplayCaps,
}

impl DisplayDriver {
    /// The driver, if the GPU has displays.
    pub(super) fn new(gpu: Arc<dyn Gpu>) -> Option<Self> {
        let caps = gpu.display_caps();
        (caps.sources > 0).then_some(Self { gpu, caps })
    }

    /// Gives the displays power, or takes it.
    pub(super) fn set_power(&self, on: bool) {
        self.gpu.set_display_power(on);
    }

    fn problem<'a>(&'a self, guest: GuestId, vidpn: VidPn<'a>) -> Problem<'a> {
        let modes = |target| self.recommend_monitor_modes(guest, target);
        let monitors = vidpn.paths.iter().map(|path| modes(path.target)).collect();
        Problem::new(&self.caps, vidpn, monitors)
    }
}

impl DisplayDdi for DisplayDriver {
    fn query_child_relations(&self) -> DisplayCaps {
        self.caps.clone()
    }

    fn query_child_status(&self, guest: GuestId, child: u32) -> bool {
        self.gpu.monitor(guest, child).is_some()
    }

    fn query_device_descriptor(&self, guest: GuestId, child: u32) -> Option<Vec<u8>> {
        self.gpu.monitor(guest, child).map(|monitor| monitor.edid)
    }

    fn recommend_monitor_modes(&self, guest: GuestId, child: u32) -> Option<Vec<TargetMode>> {
        self.gpu.monitor(guest, child).map(|monitor| monitor.modes)
    }

    fn is_supported_vidpn(&self, guest: GuestId, vidpn: VidPn<'_>) -> Result<(), VidPnRefusal> {
        self.problem(guest, vidpn).solve()
    }

    fn enum_vidpn_cofunc_modality(
        &self,
        guest: GuestId,
        vidpn: VidPn<'_>,
        pivot_path: u32,
        pivot: Pivot,
    ) -> Vec<Modality> {
        self.problem(guest, vidpn).enumerate(pivot_path as usize, pivot)
    }

    fn commit_vidpn(&self, guest: GuestId, paths: &[DisplayPath]) {
        self.gpu.commit_vidpn(guest, paths).reported();
    }

    fn set_vidpn_source_visibility(&self, guest: GuestId, source: u32, visible: bool) {
        self.gpu.set_source_visibility(guest, source, visible).reported();
    }

    fn set_vidpn_source_address(
        &self,
        guest: GuestId,
        source: u32,
        address: Option<SourceAddress>,
    ) -> Option<u64> {
        self.gpu.set_source_address(guest, source, address).reported()
    }

    fn get_scan_line(&self, guest: GuestId, source: u32) -> ScanLine {
        let nowhere = ScanLine { line: 0, in_vertical_blank: 1 };
        self.gpu.scan_line(guest, source).reported_or(nowhere)
    }

    fn control_interrupt(&self, guest: GuestId, source: u32, known_as: u32, wanted_by: &[u32]) {
        self.gpu.control_vsync(guest, source, known_as, wanted_by).reported();
    }

    fn set_pointer_shape(&self, guest: GuestId, source: u32, shape: Option<PointerShape>) {
        self.gpu.set_pointer(guest, source, shape).reported();
    }

    fn set_pointer_position(
        &self,
        guest: GuestId,
        source: u32,
        position: (i32, i32),
        visible: bool,
    ) {
        self.gpu.move_pointer(guest, source, position, visible).reported();
    }

    fn reset_from_timeout(&self, guest: GuestId, _source: u32) {
        self.gpu.reset_display(guest).reported();
    }

    fn quiesce(&self, guest: GuestId) -> Option<DisplayTicket> {
        self.gpu.quiesce_display(guest).map(Some).reported()
    }
}
