// SPDX-License-Identifier: MIT OR Apache-2.0

//! What every subsystem uses: handles, quotas, names, faults, and why a request is refused.

pub(crate) mod changes;
pub(crate) mod completion;
pub(crate) mod device;
pub(crate) mod error;
pub(crate) mod faults;
pub(crate) mod handles;
pub(crate) mod limits;
pub(crate) mod names;
pub(crate) mod pool;
pub(crate) mod presence;
pub(crate) mod process_ids;
pub(crate) mod promises;
pub(crate) mod quotas;
pub(crate) mod recorder;
pub(crate) mod resource;
pub(crate) mod target;
