// SPDX-License-Identifier: MIT OR Apache-2.0

//! The displays of a chain. Each GPU scans what its own connectors show; the guest numbers sources and children through.
//!
//! | call about | goes to |
//! |---|---|
//! | a source or a child | the driver of the GPU that has it |
//! | a VidPN | the driver of each GPU, with the paths that are on it |
//! | tickets | all drivers |
//!
//! A CRTC reads its own GPU's connectors alone, so no path leads from one GPU to another. What it scans may be in the
//! memory of any GPU: a primary's physical address is unique in the chain.
//!
//! Source: Windows KMD overview, "MGPU": "'Local Display' allows displays to be driven from a slave GPU".

mod numbering;
#[cfg(test)]
mod tests;
mod tickets;

use super::Proxy;
use crate::ddi::display::{DisplayDdi, Modality, VidPn, VidPnRefusal};
use crate::hardware::{
    DisplayCaps, DisplayPath, DisplayTicket, GpuOrdinal, GuestId, PointerShape, SourceAddress,
};
use bellhop_protocol::control::display::{Constraint, Pivot, TargetMode, VidPnPath};
use bellhop_protocol::control::flip::ScanLine;
pub(super) use numbering::{Numbers, caps_of_chain};
pub(super) use tickets::Tickets;

/// A GPU's paths of a VidPN, by its own numbers, each with its place in the VidPN.
#[derive(Debug, Default)]
struct Part {
    places: Vec<usize>,
    paths: Vec<VidPnPath>,
}

impl Proxy {
    /// Whether a GPU has displays.
    pub(super) fn has_displays(&self) -> bool {
        self.displays().next().is_some()
    }

    /// The displays of the GPUs that have any.
    fn displays(&self) -> impl Iterator<Item = (GpuOrdinal, &dyn DisplayDdi)> {
        let drivers = (0..).map(GpuOrdinal).zip(&self.drivers);
        drivers.filter_map(|(gpu, driver)| Some((gpu, driver.miniport.display()?)))
    }

    /// The display of a source, and the source's number there.
    fn of_source(&self, source: u32) -> Option<(&dyn DisplayDdi, u32)> {
        let (gpu, own) = self.shared.displays().sources.own(source)?;
        Some((self.driver(gpu).display()?, own))
    }

    /// The display of a child, and the child's number there.
    fn of_child(&self, child: u32) -> Option<(&dyn DisplayDdi, u32)> {
        let (gpu, own) = self.shared.displays().children.own(child)?;
        Some((self.driver(gpu).display()?, own))
    }

    /// The paths of each GPU. Refuses a path that is on none.
    fn parts(&self, paths: &[VidPnPath]) -> Result<Vec<Part>, VidPnRefusal> {
        let numbers = self.shared.displays();
        let mut parts: Vec<Part> = self.drivers.iter().map(|_| Part::default()).collect();
        for (place, path) in paths.iter().enumerate() {
            let refuse = |constraint, limit: u32| refusal(constraint, place, limit.into());
            let (gpu, source) = numbers
                .sources
                .own(path.source)
                .ok_or_else(|| refuse(Constraint::NO_SUCH_SOURCE, numbers.sources.count()))?;
            let (of_target, target) = numbers
                .children
                .own(path.target)
                .ok_or_else(|| refuse(Constraint::NO_SUCH_TARGET, numbers.children.count()))?;
            if of_target != gpu {
                return Err(refuse(Constraint::OTHER_GPU, gpu.0.into()));
            }
            if let Some(part) = parts.get_mut(gpu.index()) {
                part.places.push(place);
                part.paths.push(VidPnPath { source, target, ..*path });
            }
        }
        Ok(parts)
    }

    /// Why a GPU cannot show its part.
    fn check_part(
        &self,
        guest: GuestId,
        (gpu, ddi): (GpuOrdinal, &dyn DisplayDdi),
        part: &Part,
        others: &[DisplayPath],
    ) -> Result<(), VidPnRefusal> {
        let others = self.shared.displays().own_paths(gpu, others);
        let checked = ddi.is_supported_vidpn(guest, VidPn { paths: &part.paths, others: &others });
        checked.map_err(|own| {
            let place = part.places.get(own.path as usize).copied().unwrap_or(usize::MAX);
            refusal(own.constraint, place, own.limit)
        })
    }
}

fn refusal(constraint: Constraint, path: usize, limit: u64) -> VidPnRefusal {
    VidPnRefusal { constraint, path: u32::try_from(path).unwrap_or(u32::MAX), limit }
}

impl DisplayDdi for Proxy {
    fn query_child_relations(&self) -> DisplayCaps {
        let caps: Vec<_> = self.displays().map(|(_, ddi)| ddi.query_child_relations()).collect();
        caps_of_chain(&caps)
    }

    fn gpu_of_source(&self, source: u32) -> GpuOrdinal {
        let own = self.shared.displays().sources.own(source);
        own.map_or(GpuOrdinal::MASTER, |(gpu, _)| gpu)
    }

    fn gpu_of_child(&self, child: u32) -> GpuOrdinal {
        let own = self.shared.displays().children.own(child);
        own.map_or(GpuOrdinal::MASTER, |(gpu, _)| gpu)
    }

    fn query_child_status(&self, guest: GuestId, child: u32) -> bool {
        self.of_child(child).is_some_and(|(ddi, child)| ddi.query_child_status(guest, child))
    }

    fn query_device_descriptor(&self, guest: GuestId, child: u32) -> Option<Vec<u8>> {
        let (ddi, child) = self.of_child(child)?;
        ddi.query_device_descriptor(guest, child)
    }

    fn recommend_monitor_modes(&self, guest: GuestId, child: u32) -> Option<Vec<TargetMode>> {
        let (ddi, child) = self.of_child(child)?;
        ddi.recommend_monitor_modes(guest, child)
    }

    fn is_supported_vidpn(&self, guest: GuestId, vidpn: VidPn<'_>) -> Result<(), VidPnRefusal> {
        let parts = self.parts(vidpn.paths)?;
        let checked = self.displays().filter_map(|(gpu, ddi)| {
            let part = parts.get(gpu.index())?;
            self.check_part(guest, (gpu, ddi), part, vidpn.others).err()
        });
        // The first path that offends, whichever GPU has it.
        checked.min_by_key(|refusal| refusal.path).map_or(Ok(()), Err)
    }

    fn enum_vidpn_cofunc_modality(
        &self,
        guest: GuestId,
        vidpn: VidPn<'_>,
        pivot_path: u32,
        pivot: Pivot,
    ) -> Vec<Modality> {
        let Ok(parts) = self.parts(vidpn.paths) else { return Vec::new() };
        let mut values = Vec::new();
        for (gpu, ddi) in self.displays() {
            let Some(part) = parts.get(gpu.index()) else { continue };
            let mut places = part.places.iter();
            if let Some(own) = places.position(|place| *place == pivot_path as usize) {
                let others = self.shared.displays().own_paths(gpu, vidpn.others);
                let own_vidpn = VidPn { paths: &part.paths, others: &others };
                let own = u32::try_from(own).unwrap_or(u32::MAX);
                values = ddi.enum_vidpn_cofunc_modality(guest, own_vidpn, own, pivot);
            } else if self.check_part(guest, (gpu, ddi), part, vidpn.others).is_err() {
                // No value makes a VidPN functional of which another GPU cannot show its part.
                return Vec::new();
            }
        }
        values
    }

    fn commit_vidpn(&self, guest: GuestId, paths: &[DisplayPath]) {
        for (gpu, ddi) in self.displays() {
            ddi.commit_vidpn(guest, &self.shared.displays().own_paths(gpu, paths));
        }
    }

    fn set_vidpn_source_visibility(&self, guest: GuestId, source: u32, visible: bool) {
        if let Some((ddi, source)) = self.of_source(source) {
            ddi.set_vidpn_source_visibility(guest, source, visible);
        }
    }

    fn set_vidpn_source_address(
        &self,
        guest: GuestId,
        source: u32,
        address: Option<SourceAddress>,
    ) -> Option<u64> {
        let (ddi, source) = self.of_source(source)?;
        ddi.set_vidpn_source_address(guest, source, address)
    }

    fn get_scan_line(&self, guest: GuestId, source: u32) -> ScanLine {
        let nowhere = ScanLine { line: 0, in_vertical_blank: 1 };
        self.of_source(source).map_or(nowhere, |(ddi, source)| ddi.get_scan_line(guest, source))
    }

    fn control_interrupt(&self, guest: GuestId, source: u32, known_as: u32, wanted_by: &[u32]) {
        if let Some((ddi, source)) = self.of_source(source) {
            ddi.control_interrupt(guest, source, known_as, wanted_by);
        }
    }

    fn set_pointer_shape(&self, guest: GuestId, source: u32, shape: Option<PointerShape>) {
        if let Some((ddi, source)) = self.of_source(source) {
            ddi.set_pointer_shape(guest, source, shape);
        }
    }

    fn set_pointer_position(
        &self,
        guest: GuestId,
        source: u32,
        position: (i32, i32),
        visible: bool,
    ) {
        if let Some((ddi, source)) = self.of_source(source) {
            ddi.set_pointer_position(guest, source, position, visible);
        }
    }

    fn reset_from_timeout(&self, guest: GuestId, source: u32) {
        if let Some((ddi, source)) = self.of_source(source) {
            ddi.reset_from_timeout(guest, source);
        }
    }

    fn quiesce(&self, guest: GuestId) -> Option<DisplayTicket> {
        let drawn = self.displays().filter_map(|(gpu, ddi)| Some((gpu, ddi.quiesce(guest)?)));
        let drawn: Vec<_> = drawn.collect();
        (!drawn.is_empty()).then(|| self.shared.draw_ticket(guest, drawn))
    }
}
