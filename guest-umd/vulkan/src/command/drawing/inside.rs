// SPDX-License-Identifier: MIT OR Apache-2.0

//! The rendering that a recording is in. What cannot be in one interrupts it: what was drawn is kept, and it goes on after that.

use super::super::drawn::{Instance, Open, Scene};
use super::super::recording::Recording;
use super::super::stream::HEADER;
use crate::device::DeviceMask;
use crate::rendering::{Rendering, count_views};
use bellhop_protocol::vulkan::{BeginRendering, EndRendering};

impl Recording {
    /// Has what comes next wait for everything before it.
    pub(in super::super) fn barrier(&mut self) {
        if self.stream.is_held() {
            return self.barrier_inside();
        }
        self.barrier_now();
    }

    /// Has what comes next wait for everything before it on all GPUs that execute it.
    pub(in super::super) fn meet(&mut self) {
        if self.stream.is_held() {
            return self.interrupt(true, Self::meet_now);
        }
        self.meet_now();
    }

    /// Has these GPUs execute what comes next, and no others.
    pub(in super::super) fn set_devices(&mut self, devices: DeviceMask) {
        if self.stream.is_held() {
            return self.set_devices_inside(devices);
        }
        self.set_devices_now(devices);
    }

    /// Appends what a secondary command buffer has recorded.
    pub(in super::super) fn execute(&mut self, other: &Self) {
        let apart = self.take_cold(other);
        if self.stream.is_held() {
            self.execute_inside(other);
        } else {
            let outcome = self.stream.append(self.heap, &other.stream, apart);
            self.note(outcome);
        }
        if other.drawing.is_some() {
            self.renew();
        }
    }

    /// Where the recording is.
    pub(super) fn scene(&mut self) -> &mut Scene {
        &mut self.drawing().scene
    }

    /// Begins a rendering, of a render pass or of none.
    pub(super) fn begin_rendering(&mut self, rendering: Rendering, instance: Option<Instance>) {
        self.hold();
        let (command, colors) = rendering.command(HEADER);
        let attachments = rendering.attachments();
        self.stream.uses.add_targets(rendering.views_drawn_on());
        self.push(colors, command, [attachments]);
        let place = self.stream.last(size_of::<BeginRendering>() + attachments.len());
        let turn = self.stream.turn();
        let drawing = self.drawing();
        drawing.scene = Scene::Open(Box::new(Open { rendering, place, since: None, instance }));
        if std::mem::replace(&mut drawing.turn, turn) != turn {
            self.renew();
        }
    }

    /// Ends the rendering. Returns the render pass that it was of.
    pub(super) fn end_rendering(&mut self) -> Option<Instance> {
        let Scene::Open(open) = std::mem::take(self.scene()) else { return None };
        self.push(0, EndRendering { header: HEADER }, []);
        self.let_go();
        self.tell_later();
        open.instance
    }

    /// Records in the rendering of whoever executes this, which has a mask of views.
    pub(in super::super) fn inherit(&mut self, view_mask: u32) {
        self.hold();
        self.drawing().scene = Scene::Inherited { views: count_views(view_mask) };
        self.renew();
    }

    /// Has what comes next stay in one chunk.
    pub(super) fn hold(&mut self) {
        let outcome = self.stream.hold(self.heap);
        self.note(outcome);
    }

    /// Lets what comes next be in another chunk, unless something else is counted, or there is a condition.
    pub(super) fn let_go(&mut self) {
        let drawing = self.drawing();
        if drawing.counting.is_empty() && drawing.condition.is_none() {
            self.stream.let_go();
        }
    }

    /// Does something that cannot be in a rendering. `is_apart`: nor while anything is counted or depends on a condition, since a chunk ends.
    fn interrupt(&mut self, is_apart: bool, between: impl FnOnce(&mut Self)) {
        match std::mem::take(self.scene()) {
            Scene::Open(open) => {
                self.suspend(true);
                self.stream.rewrite(
                    open.place,
                    // The attachments follow the command.
                    size_of::<BeginRendering>(),
                    open.rendering.interrupted().attachments(),
                );
                self.push(0, EndRendering { header: HEADER }, []);
                self.do_apart(is_apart, between);
                self.begin_rendering(open.rendering.resumed(), open.instance);
                self.resume(true);
                let since = self.stream.last(0);
                if let Scene::Open(open) = self.scene() {
                    open.since = Some(since);
                }
            }
            Scene::Inherited { views } => {
                // Whoever executes it interrupts its rendering between chunks.
                self.suspend(true);
                self.suspend(false);
                between(self);
                self.stream.new_chunk();
                let drawing = self.drawing();
                drawing.scene = Scene::Inherited { views };
                drawing.has_barriers = true;
                self.renew();
                self.resume(false);
                self.resume(true);
            }
            Scene::Outside => self.do_apart(is_apart, between),
        }
    }

    /// Does something outside of renderings.
    pub(super) fn do_apart(&mut self, is_apart: bool, between: impl FnOnce(&mut Self)) {
        if !is_apart {
            return between(self);
        }
        self.suspend(false);
        self.stream.let_go();
        between(self);
        if self.drawing().goes_on_outside() {
            self.hold();
        }
        self.resume(false);
    }

    /// Has what comes next wait for everything before it, while the stream is held.
    #[cold]
    fn barrier_inside(&mut self) {
        let last = self.stream.last(0);
        match self.scene() {
            // Nothing was drawn since the last one.
            Scene::Open(open) if open.since == Some(last) => {}
            Scene::Inherited { .. } => self.interrupt(false, |_| ()),
            _ => self.interrupt(false, Self::barrier_now),
        }
    }

    /// Has other GPUs execute what comes next, while the stream is held.
    #[cold]
    fn set_devices_inside(&mut self, devices: DeviceMask) {
        if devices != self.stream.devices() {
            self.interrupt(true, |recording| recording.set_devices_now(devices));
        }
    }

    /// Waits until words have values, while the stream is held. Who executes this in a rendering waits for no event in it.
    #[cold]
    pub(in super::super) fn wait_inside(&mut self, words: &[(u64, u32)]) {
        if matches!(self.scene(), Scene::Inherited { .. }) {
            return self.barrier_inside();
        }
        self.interrupt(true, |recording| {
            for (address, value) in words {
                recording.wait(*address, *value);
            }
            recording.barrier_now();
        });
    }

    /// Ends the chunk in spite of the rendering, since nothing more has room.
    #[cold]
    pub(super) fn make_room(&mut self) {
        self.interrupt(true, |recording| recording.stream.new_chunk());
    }

    /// Appends what a secondary command buffer has recorded, while the stream is held: most often for the rendering that this is in.
    #[cold]
    fn execute_inside(&mut self, other: &Self) {
        let has_barriers = other.drawing.as_ref().is_some_and(|drawing| drawing.has_barriers);
        let devices = self.stream.devices();
        self.stream.uses.add_all(&other.stream.uses);
        for chunk in other.stream.chunks() {
            if has_barriers {
                self.barrier();
            }
            self.set_devices(devices & chunk.devices);
            if self.stream.left() < other.stream.size_of(chunk) {
                self.make_room();
            }
            let outcome = self.stream.append_chunk(self.heap, &other.stream, chunk);
            self.note(outcome);
        }
        self.set_devices(devices);
        if has_barriers {
            self.barrier();
        }
        if let Some(other) = &other.drawing {
            self.drawing().later.extend_from_slice(&other.later);
        }
    }
}
