// SPDX-License-Identifier: MIT OR Apache-2.0

//! The model's displays. A test says when a VSYNC is, and what is plugged in.

use crate::model::Model;
use crate::model::displays::ModelSource;
use bellhop_host_kmd::hardware::{
    Display, DisplayCaps, DisplayPath, DisplayTicket, GuestId, Interrupt, Monitor, PointerShape,
    SourceAddress, UnknownId,
};
use bellhop_protocol::control::flip::ScanLine;
use std::collections::{BTreeMap, BTreeSet};

impl Display for Model {
    fn display_caps(&self) -> DisplayCaps {
        self.display_caps.clone()
    }

    fn monitor(&self, guest: GuestId, child: u32) -> Option<Monitor> {
        self.state().displays.monitors.get(&(guest, child)).cloned()
    }

    fn commit_vidpn(&self, guest: GuestId, paths: &[DisplayPath]) -> Result<(), UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        let displays = &mut self.state().displays;
        displays.commits += 1;
        let mut by_source: BTreeMap<u32, Vec<DisplayPath>> = BTreeMap::new();
        let mut targets = BTreeSet::new();
        for path in paths {
            assert!(path.source < self.display_caps.sources, "a source that exists");
            assert!((path.target as usize) < self.display_caps.connectors.len());
            assert!(targets.insert(path.target), "a target has one path");
            by_source.entry(path.source).or_default().push(*path);
        }
        let rates = paths.iter().map(|path| path.target_mode.pixel_rate());
        assert!(rates.sum::<u64>() <= self.display_caps.total_pixel_rate, "too many pixels");
        let before: Vec<_> = displays.sources.extract_if(.., |(of, _), _| *of == guest).collect();
        for ((_, index), source) in before {
            let mode = source.paths[0].source_mode;
            match by_source.get(&index) {
                Some(paths) if paths[0].source_mode == mode => {
                    let source = ModelSource { paths: paths.clone(), ..source };
                    displays.sources.insert((guest, index), source);
                }
                _ => displays.linger(guest, &source),
            }
        }
        for (index, paths) in by_source {
            assert!(paths.iter().all(|path| path.source_mode == paths[0].source_mode));
            displays.sources.entry((guest, index)).or_insert(ModelSource {
                paths,
                visible: true,
                pending: None,
                shown: None,
                known_as: index,
                wanted_by: Vec::new(),
                count: 0,
                pointer: None,
                position: ((0, 0), false),
            });
        }
        Ok(())
    }

    fn set_source_visibility(
        &self,
        guest: GuestId,
        source: u32,
        visible: bool,
    ) -> Result<(), UnknownId> {
        self.state().displays.source(guest, source).visible = visible;
        self.flip_unseen(guest, source);
        Ok(())
    }

    fn set_source_address(
        &self,
        guest: GuestId,
        source: u32,
        address: Option<SourceAddress>,
    ) -> Result<Option<u64>, UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        let mut replaced = None;
        {
            let displays = &mut self.state().displays;
            if let Some(address) = address {
                let last = displays.last_flips.insert(guest, address.flip).unwrap_or(0);
                assert!(address.flip > last, "numbers of flips grow");
                let source = displays.source(guest, source);
                replaced = source.pending.replace(address);
            } else {
                let mut before = displays.source(guest, source).clone();
                displays.linger(guest, &before);
                replaced = before.pending.take().or(replaced);
                let source = displays.source(guest, source);
                (source.pending, source.shown) = (None, None);
            }
        }
        if address.is_some_and(|address| address.immediate) {
            self.flip(guest, source);
        } else {
            self.flip_unseen(guest, source);
        }
        Ok(replaced.map(|address| address.flip))
    }

    fn scan_line(&self, guest: GuestId, source: u32) -> Result<ScanLine, UnknownId> {
        let line = self.state().displays.source(guest, source).count as u32;
        Ok(ScanLine { line, in_vertical_blank: 0 })
    }

    fn control_vsync(
        &self,
        guest: GuestId,
        source: u32,
        known_as: u32,
        wanted_by: &[u32],
    ) -> Result<(), UnknownId> {
        let displays = &mut self.state().displays;
        let source = displays.source(guest, source);
        (source.known_as, source.wanted_by) = (known_as, wanted_by.to_vec());
        Ok(())
    }

    fn set_pointer(
        &self,
        guest: GuestId,
        source: u32,
        shape: Option<PointerShape>,
    ) -> Result<(), UnknownId> {
        self.state().displays.source(guest, source).pointer = shape;
        Ok(())
    }

    fn move_pointer(
        &self,
        guest: GuestId,
        source: u32,
        position: (i32, i32),
        visible: bool,
    ) -> Result<(), UnknownId> {
        self.state().displays.source(guest, source).position = (position, visible);
        Ok(())
    }

    fn set_display_power(&self, on: bool) {
        self.state().displays.without_power = !on;
    }

    fn reset_display(&self, guest: GuestId) -> Result<(), UnknownId> {
        let displays = &mut self.state().displays;
        displays.resets += 1;
        let of_guest: Vec<_> =
            displays.sources.keys().filter(|(of, _)| *of == guest).copied().collect();
        for (_, index) in of_guest {
            let before = displays.source(guest, index).clone();
            displays.linger(guest, &before);
            displays.source(guest, index).pending = None;
        }
        Ok(())
    }

    fn quiesce_display(&self, guest: GuestId) -> Result<DisplayTicket, UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        let ticket = {
            let displays = &mut self.state().displays;
            let ticket = displays.tickets.entry(guest).or_insert(0);
            *ticket += 1;
            DisplayTicket(*ticket)
        };
        if !self.state().displays.lets_go_late {
            self.let_go(guest);
        }
        Ok(ticket)
    }
}

impl Model {
    /// A model with displays: these connectors, as many sources, and monitors plugged in as a test says.
    pub fn with_displays(caps: DisplayCaps) -> Self {
        Self { display_caps: caps, ..Self::new(2) }
    }

    /// The guest's display passes all tickets.
    pub fn let_go(&self, guest: GuestId) {
        let ticket = {
            let displays = &mut self.state().displays;
            displays.lingering.remove(&guest);
            displays.tickets.get(&guest).copied()
        };
        if let Some(ticket) = ticket {
            let ticket = DisplayTicket(ticket);
            self.raise(Interrupt::DisplayQuiesced { guest, ticket });
        }
    }

    fn flip(&self, guest: GuestId, source: u32) {
        let latched = {
            let displays = &mut self.state().displays;
            let source = displays.source(guest, source);
            source.latch().map(|flip| (flip, source.count))
        };
        if let Some((flip, count)) = latched {
            self.raise(Interrupt::Flipped { guest, source, flip, count, time: 1000 + count });
        }
    }

    fn flip_unseen(&self, guest: GuestId, source: u32) {
        if !self.state().displays.source(guest, source).visible {
            self.flip(guest, source);
        }
    }

    /// A VSYNC of a source.
    pub fn vsync(&self, guest: GuestId, source: u32) {
        let raised = {
            let displays = &mut self.state().displays;
            let has_power = !displays.without_power;
            let Some(state) = displays.sources.get_mut(&(guest, source)) else { return };
            if !state.visible || !has_power {
                return;
            }
            state.count += 1;
            let latched = state.latch();
            let (target, count) = (state.paths[0].target, state.count);
            let time = 1000 + count;
            latched.map(|flip| Interrupt::CrtcVsync { guest, source, target, flip, count, time })
        };
        if let Some(raised) = raised {
            self.raise(raised);
        }
    }

    /// A monitor is plugged in, or unplugged.
    pub fn plug(&self, guest: GuestId, child: u32, monitor: Option<Monitor>) {
        {
            let monitors = &mut self.state().displays.monitors;
            match monitor {
                Some(monitor) => monitors.insert((guest, child), monitor),
                None => monitors.remove(&(guest, child)),
            };
        }
        self.raise(Interrupt::ChildStatusChanged { guest, child });
    }
}
