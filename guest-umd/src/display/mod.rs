// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest's display: monitors, topology, flips, VSYNC, the pointer, and what its viewers do.
//!
//! [`Adapter::display`](crate::Adapter::display) opens it, where the host has given the guest one. A program commits a
//! [`Topology`], which shows *sources* (pictures that it draws) on *targets* (connectors with monitors), and then flips
//! [`Primary`] surfaces, mostly through a [`SwapChain`].
//!
//! Source: Windows KMD overview, "Display" and "Flip/Present".

mod clock;
mod consent;
mod error;
mod flip;
mod monitor;
mod object;
mod pointer;
mod primary;
mod statistics;
mod swap_chain;
mod topology;
mod window;

pub use crate::link::display_events::{
    ConsentRequest, Flipped, HotPlug, Input, TopologyWanted, Vsync,
};
pub use bellhop_protocol::control::agent::topology::WantedTopology;
pub use bellhop_protocol::control::display::{
    ChildDescriptor, ChildStatus, ConnectorKind, Constraint, Rotation, Scaling, SourceMode,
    TargetMode,
};
pub use bellhop_protocol::control::flip::ScanLine;
pub use bellhop_protocol::event::FlipOutcome;
pub use bellhop_protocol::pixel_format::PixelFormat;
pub use clock::GpuClock;
pub use error::{DisplayError, Refusal};
pub use flip::Flip;
pub use object::Display;
pub use pointer::PointerShape;
pub use primary::{Primary, Surface};
pub use statistics::{Frame, FrameStatistics};
pub use swap_chain::{Acquired, PresentMode, SwapChain};
pub use topology::{Path, Topology};
pub use window::{COMPOSITOR_VARIABLE, Window, compositor};
