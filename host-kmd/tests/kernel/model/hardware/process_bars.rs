// SPDX-License-Identifier: MIT OR Apache-2.0

//! The model's BARs of processes' own.

use crate::model::Model;
use bellhop_host_kmd::hardware::{GuestId, ProcessBarId, ProcessBarPlace, ProcessBars, UnknownId};
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::control::allocation::Extent;

impl ProcessBars for Model {
    fn add_process_bar(
        &self,
        guest: GuestId,
        bar: ProcessBarId,
        layout: BarLayout,
        extents: &[Extent],
    ) -> Result<bool, UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        let mut state = self.state();
        if state.places_nothing {
            return Ok(false);
        }
        let length: u64 = extents.iter().map(|extent| extent.length).sum();
        assert_eq!(length, layout.end(), "a BAR and its memory");
        assert!(state.process_bars.insert((guest, bar)), "{bar:?} was there already");
        Ok(true)
    }

    fn remove_process_bar(&self, guest: GuestId, bar: ProcessBarId) -> Result<(), UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        let mut state = self.state();
        assert!(state.process_bars.remove(&(guest, bar)), "{bar:?} was not there");
        let in_it = |place: &ProcessBarPlace| place.bar == bar;
        assert!(!state.own_doorbells.values().any(in_it), "a doorbell is in it");
        assert!(!state.own_fences.values().any(in_it), "a fence is in it");
        Ok(())
    }

    fn place_doorbell(
        &self,
        guest: GuestId,
        slot: u32,
        place: Option<ProcessBarPlace>,
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        let mut state = self.state();
        match place {
            Some(place) => state.own_doorbells.insert((guest, slot), place),
            None => state.own_doorbells.remove(&(guest, slot)),
        };
        Ok(())
    }

    fn place_fence(
        &self,
        guest: GuestId,
        slot: u32,
        place: Option<ProcessBarPlace>,
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::Guest(guest))?;
        let mut state = self.state();
        match place {
            Some(place) => state.own_fences.insert((guest, slot), place),
            None => state.own_fences.remove(&(guest, slot)),
        };
        Ok(())
    }
}
