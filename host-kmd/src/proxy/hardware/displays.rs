// SPDX-License-Identifier: MIT OR Apache-2.0

//! Displays: those of the master. "In LDA mode the OS interacts only with the Master."

use super::LinkedHardware;
use crate::hardware::{
    ConnectorUse, Display, DisplayCaps, DisplayPath, DisplayTicket, GuestId, Monitor, PointerShape,
    SourceAddress, UnknownId,
};
use bellhop_protocol::control::flip::ScanLine;
use delegate::delegate;

impl Display for LinkedHardware {
    delegate! {
        to self.master() {
            fn display_caps(&self) -> DisplayCaps;
            fn monitor(&self, guest: GuestId, child: u32) -> Option<Monitor>;
            fn connector_use(&self, guest: GuestId, child: u32) -> Result<ConnectorUse, UnknownId>;
            fn commit_vidpn(&self, guest: GuestId, paths: &[DisplayPath]) -> Result<(), UnknownId>;
            fn set_source_visibility(&self, guest: GuestId, source: u32, visible: bool) -> Result<(), UnknownId>;
            fn set_source_address(&self, guest: GuestId, source: u32, address: Option<SourceAddress>) -> Result<Option<u64>, UnknownId>;
            fn scan_line(&self, guest: GuestId, source: u32) -> Result<ScanLine, UnknownId>;
            fn control_vsync(&self, guest: GuestId, source: u32, wanted_by: &[u32]) -> Result<(), UnknownId>;
            fn set_pointer(&self, guest: GuestId, source: u32, shape: Option<PointerShape>) -> Result<(), UnknownId>;
            fn move_pointer(&self, guest: GuestId, source: u32, position: (i32, i32), visible: bool) -> Result<(), UnknownId>;
            fn set_display_power(&self, on: bool);
            fn reset_display(&self, guest: GuestId) -> Result<(), UnknownId>;
            fn quiesce_display(&self, guest: GuestId) -> Result<DisplayTicket, UnknownId>;
        }
    }
}
