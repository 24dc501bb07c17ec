// SPDX-License-Identifier: MIT OR Apache-2.0

//! Monitors: whether there is one, what it says about itself, and its modes.
//!
//! Source: Windows KMD overview, "Display".

use super::error::DisplayError;
use super::object::Display;
use crate::error::Error;
use bellhop_protocol::control::Request;
use bellhop_protocol::control::display::{
    ChildStatus, DeviceDescriptor, EDID_BLOCK, MONITOR_MODES_PAGE, MonitorModes, QueryChildStatus,
    QueryDeviceDescriptor, RecommendMonitorModes, TargetMode,
};

/// An EDID's blocks: the first one counts the others in a byte.
const MOST_BLOCKS: u32 = 256;
/// Most modes that are read, however many a device claims.
const MOST_MODES: u32 = 4096;

impl Display {
    /// Whether a monitor is plugged into a connector (`QueryChildStatus`).
    ///
    /// # Errors
    /// None but those of every request.
    pub fn child_status(&self, child: u32) -> Result<ChildStatus, DisplayError> {
        let reply = self.adapter_call(&QueryChildStatus { child, reserved: 0 });
        reply.map_err(DisplayError::of_child(child))
    }

    /// What a monitor says about itself (`QueryDeviceDescriptor`): its EDID, a multiple of 128 bytes.
    ///
    /// # Errors
    /// [`DisplayError::NoMonitor`]
    pub fn edid(&self, child: u32) -> Result<Vec<u8>, DisplayError> {
        let mut edid = Vec::new();
        loop {
            let offset = edid.len() as u32;
            let reply = self.adapter_call(&QueryDeviceDescriptor { child, offset });
            let DeviceDescriptor { length, data, .. } =
                reply.map_err(DisplayError::of_child(child))?;
            let has_whole_blocks = length.is_multiple_of(EDID_BLOCK);
            if length > MOST_BLOCKS * EDID_BLOCK || length <= offset || !has_whole_blocks {
                return Err(Error::BadReply(QueryDeviceDescriptor::CODE).into());
            }
            edid.extend(data);
            if edid.len() == length as usize {
                return Ok(edid);
            }
        }
    }

    /// The modes of a monitor, the preferred one first (`RecommendMonitorModes`).
    ///
    /// # Errors
    /// [`DisplayError::NoMonitor`]
    pub fn monitor_modes(&self, child: u32) -> Result<Vec<TargetMode>, DisplayError> {
        let mut modes = Vec::new();
        loop {
            let first = modes.len() as u32;
            let reply = self.adapter_call(&RecommendMonitorModes { child, first });
            let MonitorModes { count, modes: page, .. } =
                reply.map_err(DisplayError::of_child(child))?;
            if count > MOST_MODES || count < first {
                return Err(Error::BadReply(RecommendMonitorModes::CODE).into());
            }
            let here = (count - first).min(MONITOR_MODES_PAGE);
            modes.extend(page.iter().take(here as usize));
            if modes.len() == count as usize {
                return Ok(modes);
            }
        }
    }
}
