// SPDX-License-Identifier: MIT OR Apache-2.0

//! Displays: there is none.

use super::Gpu;
use bellhop_host_kmd::hardware::{
    Display, DisplayCaps, DisplayPath, DisplayTicket, GuestId, Monitor, PointerShape,
    SourceAddress, UnknownId,
};
use bellhop_protocol::control::flip::ScanLine;

impl Display for Gpu {
    fn display_caps(&self) -> DisplayCaps {
        DisplayCaps::default()
    }

    fn monitor(&self, _: GuestId, _: u32) -> Option<Monitor> {
        None
    }

    fn commit_vidpn(&self, guest: GuestId, _: &[DisplayPath]) -> Result<(), UnknownId> {
        Err(UnknownId::Guest(guest))
    }

    fn set_source_visibility(&self, guest: GuestId, _: u32, _: bool) -> Result<(), UnknownId> {
        Err(UnknownId::Guest(guest))
    }

    fn set_source_address(
        &self,
        guest: GuestId,
        _: u32,
        _: Option<SourceAddress>,
    ) -> Result<Option<u64>, UnknownId> {
        Err(UnknownId::Guest(guest))
    }

    fn scan_line(&self, guest: GuestId, _: u32) -> Result<ScanLine, UnknownId> {
        Err(UnknownId::Guest(guest))
    }

    fn control_vsync(&self, guest: GuestId, _: u32, _: bool) -> Result<(), UnknownId> {
        Err(UnknownId::Guest(guest))
    }

    fn set_pointer(
        &self,
        guest: GuestId,
        _: u32,
        _: Option<PointerShape>,
    ) -> Result<(), UnknownId> {
        Err(UnknownId::Guest(guest))
    }

    fn move_pointer(
        &self,
        guest: GuestId,
        _: u32,
        _: (i32, i32),
        _: bool,
    ) -> Result<(), UnknownId> {
        Err(UnknownId::Guest(guest))
    }

    fn set_display_power(&self, _: bool) {}

    fn reset_display(&self, guest: GuestId) -> Result<(), UnknownId> {
        Err(UnknownId::Guest(guest))
    }

    fn quiesce_display(&self, guest: GuestId) -> Result<DisplayTicket, UnknownId> {
        Err(UnknownId::Guest(guest))
    }
}
