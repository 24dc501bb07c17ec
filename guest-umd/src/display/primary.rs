// SPDX-License-Identifier: MIT OR Apache-2.0

//! Primaries: surfaces that a display can show.

use super::error::DisplayError;
use crate::device::Device;
use crate::error::Error;
use crate::memory::allocation::{Allocation, pages};
use crate::memory::lock::LockedBytes;
use crate::memory::mapping::GpuMapping;
use bellhop_protocol::control::allocation::SegmentSet;
use bellhop_protocol::control::display::SourceMode;
use bellhop_protocol::control::fence::NtHandle;
use bellhop_protocol::control::flip::PITCH_ALIGNMENT;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::pixel_format::PixelFormat;
use std::sync::Arc;

/// The widest and highest surface that this driver makes, in pixels.
const MOST: u32 = 1 << 14;

/// The size and the pixels of a surface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Surface {
    /// Pixels of a line.
    pub width: u32,
    /// Lines.
    pub height: u32,
    /// How it stores pixels.
    pub format: PixelFormat,
}

impl From<SourceMode> for Surface {
    fn from(SourceMode { width, height, format, .. }: SourceMode) -> Self {
        Self { width, height, format }
    }
}

impl Surface {
    /// Bytes of a pixel.
    ///
    /// # Errors
    /// [`DisplayError::BadSurface`] for a format without a name, and for one without pixels or with too many.
    pub fn pixel(&self) -> Result<u32, DisplayError> {
        if !(1..=MOST).contains(&self.width) || !(1..=MOST).contains(&self.height) {
            return Err(DisplayError::BadSurface("a surface has 1 to 16,384 pixels each way"));
        }
        self.format.bytes().ok_or(DisplayError::BadSurface("a pixel format without a name"))
    }

    /// Bytes from one line to the next: a multiple of 64.
    ///
    /// # Errors
    /// As [`Self::pixel`].
    pub fn pitch(&self) -> Result<u32, DisplayError> {
        Ok((self.width * self.pixel()?).next_multiple_of(PITCH_ALIGNMENT))
    }

    /// Bytes of the surface, whole pages.
    ///
    /// # Errors
    /// As [`Self::pixel`].
    pub fn size(&self) -> Result<u64, DisplayError> {
        Ok(pages(u64::from(self.pitch()?) * u64::from(self.height)))
    }
}

/// A surface that a display can show: resident, in one piece in local memory, and mapped for the GPU to draw on.
pub struct Primary {
    // Dropped in this order.
    mapping: GpuMapping,
    allocation: Arc<Allocation>,
    surface: Surface,
}

impl Device {
    /// Creates a primary. Where no CPU reaches local memory, as behind a broker, only the GPU draws on it.
    ///
    /// # Errors
    /// [`DisplayError::BadSurface`]; a refusal if there is no room for it.
    pub fn create_primary(&self, surface: Surface) -> Result<Primary, DisplayError> {
        let allocation = self.allocation(surface.size()?).primary().cpu_visible().create()?;
        Primary::over(allocation, surface)
    }

    /// Creates a primary in the local memory of a GPU of the chain, which no CPU reaches: 0 is the master. The displays of
    /// all GPUs can show it.
    ///
    /// # Errors
    /// As [`Self::create_primary`].
    pub fn create_primary_on(&self, surface: Surface, gpu: u8) -> Result<Primary, DisplayError> {
        let allocation = self.allocation(surface.size()?).primary();
        let allocation = allocation.segments(SegmentSet::PRIVATE).on_gpu(gpu);
        Primary::over(allocation.create()?, surface)
    }

    /// Creates a primary that other processes of the guest may open ([`Self::open_shared_primary`]) by the name that its
    /// [`allocation`](Primary::allocation) has.
    ///
    /// # Errors
    /// As [`Self::create_primary`].
    pub fn create_shared_primary(&self, surface: Surface) -> Result<Primary, DisplayError> {
        let allocation = self.allocation(surface.size()?).primary().cpu_visible().shared();
        Primary::over(allocation.create()?, surface)
    }

    /// Opens a primary of another process, which may be shown as one of this process.
    ///
    /// # Errors
    /// As [`Self::create_primary`]; a refusal if nothing has the name.
    pub fn open_shared_primary(
        &self,
        name: NtHandle,
        surface: Surface,
    ) -> Result<Primary, DisplayError> {
        let allocation = self.open_shared_allocation(name)?;
        if allocation.size() < surface.size()? {
            return Err(DisplayError::BadSurface("the surface is larger than its allocation"));
        }
        Primary::over(allocation, surface)
    }
}

impl Primary {
    fn over(allocation: Arc<Allocation>, surface: Surface) -> Result<Self, DisplayError> {
        allocation.make_resident()?;
        let mapping = allocation.map(Protection::WRITE)?;
        Ok(Self { mapping, allocation, surface })
    }

    /// Its allocation.
    #[must_use]
    pub fn allocation(&self) -> &Arc<Allocation> {
        &self.allocation
    }

    /// Its size and pixels.
    #[must_use]
    pub fn surface(&self) -> Surface {
        self.surface
    }

    /// Bytes from one line to the next.
    ///
    /// # Errors
    /// As [`Surface::pixel`].
    pub fn pitch(&self) -> Result<u32, DisplayError> {
        self.surface.pitch()
    }

    /// GPU virtual address of the first pixel.
    #[must_use]
    pub fn gpu_va(&self) -> u64 {
        self.mapping.gpu_va()
    }

    /// Its bytes, for the CPU.
    ///
    /// # Errors
    /// As [`Allocation::lock_bytes`].
    pub fn lock_bytes(&self) -> Result<LockedBytes, Error> {
        self.allocation.lock_bytes()
    }

    /// Copies all lines out, without what lies between them.
    ///
    /// # Errors
    /// As [`Allocation::lock_bytes`].
    pub fn pixels(&self) -> Result<Vec<u8>, DisplayError> {
        let (line, pitch) = self.line()?;
        let locked = self.lock_bytes()?;
        let mut pixels = vec![0; line * self.surface.height as usize];
        for (row, pixels) in pixels.chunks_exact_mut(line).enumerate() {
            locked.read(row * pitch, pixels)?;
        }
        Ok(pixels)
    }

    /// Copies all lines in: as many bytes as [`Self::pixels`] returns.
    ///
    /// # Errors
    /// [`DisplayError::BadSurface`] for another number of bytes; as [`Allocation::lock_bytes`].
    pub fn set_pixels(&self, pixels: &[u8]) -> Result<(), DisplayError> {
        let (line, pitch) = self.line()?;
        if pixels.len() != line * self.surface.height as usize {
            return Err(DisplayError::BadSurface("not as many bytes as the surface has"));
        }
        let locked = self.lock_bytes()?;
        for (row, pixels) in pixels.chunks_exact(line).enumerate() {
            locked.write(row * pitch, pixels)?;
        }
        Ok(())
    }

    /// Bytes of a line's pixels, and from it to the next.
    fn line(&self) -> Result<(usize, usize), DisplayError> {
        let line = self.surface.width as usize * self.surface.pixel()? as usize;
        Ok((line, self.pitch()? as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_begin_at_multiples_of_64_bytes_and_surfaces_have_whole_pages() {
        let surface = |width, height, format| Surface { width, height, format };
        let hd = surface(1366, 768, PixelFormat::X8R8G8B8);
        // 5,464 bytes of pixels; 768 lines of 5,504 are 1,032 pages exactly.
        assert_eq!((hd.pitch().unwrap(), hd.size().unwrap()), (5504, 4_227_072));
        let small = surface(3, 1, PixelFormat::R5G6B5);
        assert_eq!((small.pitch().unwrap(), small.size().unwrap()), (64, 4096));
        assert!(surface(0, 1, PixelFormat::R5G6B5).size().is_err());
        assert!(surface(1, 16_385, PixelFormat::R5G6B5).size().is_err());
        assert!(surface(1, 1, PixelFormat(9)).size().is_err());
    }
}
