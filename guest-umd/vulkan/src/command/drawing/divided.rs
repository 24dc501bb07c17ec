// SPDX-License-Identifier: MIT OR Apache-2.0

//! Renderings that are for some GPUs of a device, each perhaps with an area of its own (`VkDeviceGroupRenderPassBeginInfo`).

use super::super::drawn::Divided;
use super::super::recording::Recording;
use crate::rendering::OfGroup;

impl Recording {
    /// Has what is begun next be for these GPUs.
    pub(super) fn begin_divided(&mut self, of_group: Option<OfGroup>) {
        let Some(OfGroup { devices, areas }) = of_group else { return };
        let before = self.stream.devices();
        self.set_devices(devices);
        if !areas.is_empty() {
            self.do_apart(true, |recording| recording.stream.new_chunk());
        }
        let from = self.stream.chunks().len();
        self.drawing().divided = Some(Divided { before, from, areas });
    }

    /// Ends that: each GPU has the commands with its area.
    pub(super) fn end_divided(&mut self) {
        let Some(Divided { before, from, areas }) = self.drawing().divided.take() else { return };
        if !areas.is_empty() {
            self.do_apart(true, |recording| {
                recording.stream.new_chunk();
                let outcome = recording.stream.divide(recording.heap, from, &areas);
                recording.note(outcome);
            });
        }
        self.set_devices(before);
    }
}
