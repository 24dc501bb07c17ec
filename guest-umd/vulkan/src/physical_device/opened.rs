// SPDX-License-Identifier: MIT OR Apache-2.0

//! The adapter, which all instances of a program share: a socket of the device or of a broker serves one connection.

use super::gpu::Gpu;
use super::memory::Memory;
use bellhop_guest_umd::protocol::control::power::GPU_POWER_WHEN_NEEDED;
use bellhop_guest_umd::protocol::features::Features;
use bellhop_guest_umd::{Adapter, Error};
use bellhop_protocol::control::kernel::unpadded;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// An open adapter.
pub(crate) struct Opened {
    pub(crate) adapter: Adapter,
    pub(crate) memory: Memory,
    /// At least one.
    pub(crate) gpus: Vec<Gpu>,
}

/// The adapter of this program, as long as an instance or a device uses it.
static OPENED: Mutex<Weak<Opened>> = Mutex::new(Weak::new());

impl Opened {
    /// The adapter of this program, opened if it is not.
    ///
    /// # Errors
    /// Why there is none that serves Vulkan programs.
    pub(crate) fn get() -> Result<Arc<Self>, String> {
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = opened.upgrade() {
            return Ok(opened);
        }
        let new = Arc::new(Self::open()?);
        *opened = Arc::downgrade(&new);
        Ok(new)
    }

    /// Whether a GPU has power only while something needs it. One that does not say so may.
    pub(crate) fn has_power_when_needed(&self, gpu: u8) -> bool {
        let power = self.adapter.gpu_power(gpu);
        power.map_or(true, |power| power.flags & GPU_POWER_WHEN_NEEDED != 0)
    }

    fn open() -> Result<Self, String> {
        let text = |error: Error| error.to_string();
        let adapter = Adapter::open_default().map_err(text)?;
        let kernels = adapter.kernel_caps().map_err(text)?;
        if !kernels.are_supported() {
            return Err(format!("the device runs no kernels: {}", unpadded(&kernels.missing)));
        }
        let needed = Features::USER_MODE_SUBMISSION | Features::NATIVE_FENCES;
        let missing = needed.difference(adapter.features());
        if !missing.is_empty() {
            return Err(format!("the device offers this guest no {missing}"));
        }
        let gpus = Gpu::all(&adapter, &kernels)?;
        let memory = Memory::of(&adapter);
        Ok(Self { adapter, memory, gpus })
    }
}
