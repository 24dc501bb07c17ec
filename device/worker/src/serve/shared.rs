// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the thread for memory shares with the one that follows the owner's other requests.

use super::progress::Progress as OfMemory;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

/// What the thread for memory and this one share.
#[derive(Default)]
pub struct Shared {
    /// How far the thread for memory has come.
    pub memory: OfMemory,
    /// Held while a device that cannot fault uses the window.
    pub in_use: Mutex<()>,
    /// How often memory of the window was taken back from such a device.
    pub taken_back: AtomicU64,
}
