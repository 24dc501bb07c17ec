// SPDX-License-Identifier: MIT OR Apache-2.0

//! The conformance suite: named behaviours that every guest may rely on.
//!
//! Each is a function that runs inside the guest, over the guest's own transport, and knows nothing of the
//! host. Ids are `area.object.behaviour`; a file holds those of one area, and a folder the files of one
//! subject. `catalog` lists them all but those of `programs`, each of which has several programs of the guest's. Raw access to rings and descriptors comes from the driver's feature
//! `raw`.

mod adapter;
mod agent;
mod behaviour;
mod catalog;
mod desk;
mod display;
mod fence;
mod handle;
mod kernel;
mod km;
mod link;
mod memory;
mod name;
mod packet;
mod power;
mod process;
mod programs;
mod queue;
mod raw;
mod report;
mod run;
mod scarce_doorbells;
mod scene;
mod scheduling;
mod security;
mod source;
mod video;
mod virtqueue;

pub use programs::{Start, perform};
pub use report::{Check, Outcome, Report};
pub use run::{Selection, list, run, run_programs};
