// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Buffers and their memory.

use super::{Failure, Gpu, Outcome};
use ash::vk;
use std::sync::atomic::{AtomicU32, Ordering};

/// A buffer of 32-bit words, with memory of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffer<'g> {
    pub(super) raw: vk::Buffer,
    /// The address of its first word.
    pub(crate) address: u64,
    /// Bytes.
    pub(crate) size: u64,
    /// Where the processor sees it; nothing, if it does not.
    pub(crate) words: &'g [AtomicU32],
}

impl Buffer<'_> {
    /// Stores words, from this one on.
    pub(crate) fn write_at(&self, first: usize, values: &[u32]) {
        for (word, value) in self.words.iter().skip(first).zip(values) {
            word.store(*value, Ordering::Relaxed);
        }
    }

    /// Stores words at the beginning.
    pub(crate) fn write(&self, values: &[u32]) {
        self.write_at(0, values);
    }

    /// All words.
    pub(crate) fn read(&self) -> Vec<u32> {
        self.words.iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }

    /// The first words.
    pub(crate) fn first(&self, count: usize) -> Vec<u32> {
        self.words.iter().take(count).map(|word| word.load(Ordering::Relaxed)).collect()
    }

    /// A word, or one that no test stores if the buffer is not so long.
    pub(crate) fn word(&self, index: usize) -> u32 {
        self.words.get(index).map_or(0xdead_0bad, |word| word.load(Ordering::Relaxed))
    }
}

/// What the processor sees, as it is stored.
const VISIBLE: vk::MemoryPropertyFlags = vk::MemoryPropertyFlags::from_raw(
    vk::MemoryPropertyFlags::HOST_VISIBLE.as_raw()
        | vk::MemoryPropertyFlags::HOST_COHERENT.as_raw(),
);

impl Gpu<'_> {
    /// A buffer of so many words that the processor sees, filled with zeroes.
    pub(crate) fn buffer(&self, words: usize) -> Outcome<Buffer<'_>> {
        let made = self.buffer_with(words, VISIBLE)?;
        made.write(&vec![0; words]);
        Ok(made)
    }

    /// A buffer with these words.
    pub(crate) fn buffer_of(&self, words: &[u32]) -> Outcome<Buffer<'_>> {
        let made = self.buffer_with(words.len(), VISIBLE)?;
        made.write(words);
        Ok(made)
    }

    /// A buffer in the device's own memory, which the processor may not see.
    pub(crate) fn local(&self, words: usize) -> Outcome<Buffer<'_>> {
        self.buffer_with(words, vk::MemoryPropertyFlags::DEVICE_LOCAL)
    }

    /// A buffer in the first memory that is like this.
    pub(crate) fn buffer_with(
        &self,
        words: usize,
        like: vk::MemoryPropertyFlags,
    ) -> Outcome<Buffer<'_>> {
        let (raw, needs) = self.bare_buffer(words as u64 * 4)?;
        let index = self.memory_type(needs.memory_type_bits, like)?;
        self.bind_new(raw, needs, index, words)
    }

    /// A buffer in memory of this type.
    pub(crate) fn buffer_of_type(&self, words: usize, index: u32) -> Outcome<Buffer<'_>> {
        let (raw, needs) = self.bare_buffer(words as u64 * 4)?;
        require_type(needs, index)?;
        self.bind_new(raw, needs, index, words)
    }

    /// A buffer without memory, and what it needs.
    pub(crate) fn bare_buffer(&self, size: u64) -> Outcome<(vk::Buffer, vk::MemoryRequirements)> {
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::UNIFORM_BUFFER
            | vk::BufferUsageFlags::INDIRECT_BUFFER
            | vk::BufferUsageFlags::UNIFORM_TEXEL_BUFFER
            | vk::BufferUsageFlags::STORAGE_TEXEL_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST
            | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        let drawn = vk::BufferUsageFlags::VERTEX_BUFFER | vk::BufferUsageFlags::INDEX_BUFFER;
        let usage = if self.draws() { usage | drawn | self.usage } else { usage };
        let information = vk::BufferCreateInfo::default()
            .size(size)
            .usage(usage)
            .sharing_mode(vk::SharingMode::EXCLUSIVE);
        // SAFETY: the device is open. The structure lives until the call returns.
        let raw = unsafe { self.raw.create_buffer(&information, None) }?;
        // SAFETY: nothing executes when this is called, and nobody else destroys it.
        self.later(move |device| unsafe { device.destroy_buffer(raw, None) });
        // SAFETY: the buffer was made just now.
        Ok((raw, unsafe { self.raw.get_buffer_memory_requirements(raw) }))
    }

    /// The first type of memory among these that is like this.
    pub(crate) fn memory_type(&self, among: u32, like: vk::MemoryPropertyFlags) -> Outcome<u32> {
        let fits = |(index, kind): &(u32, &vk::MemoryType)| {
            among & (1 << index) != 0 && kind.property_flags.contains(like)
        };
        let found = (0..).zip(&self.memory_types).find(fits);
        found.map(|(index, _)| index).ok_or_else(|| {
            Failure::seen(format!("no memory of {among:#b} has the flags {:#b}", like.as_raw()))
        })
    }

    /// Memory of its own.
    pub(crate) fn allocate(&self, size: u64, index: u32) -> Result<vk::DeviceMemory, vk::Result> {
        self.allocate_as(size, index, vk::MemoryAllocateFlagsInfo::default())
    }

    /// Memory of its own, which has addresses and these flags.
    pub(super) fn allocate_as(
        &self,
        size: u64,
        index: u32,
        flags: vk::MemoryAllocateFlagsInfo<'_>,
    ) -> Result<vk::DeviceMemory, vk::Result> {
        let memory = self.allocate_bare(size, index, flags)?;
        // SAFETY: nothing executes when this is called. What was mapped is not used any more: it borrows the device.
        self.later(move |device| unsafe { device.free_memory(memory, None) });
        Ok(memory)
    }

    /// Memory that [`Self::give_back`] takes back.
    pub(super) fn allocate_to_give_back(
        &self,
        size: u64,
        index: u32,
    ) -> Result<vk::DeviceMemory, vk::Result> {
        self.allocate_bare(size, index, vk::MemoryAllocateFlagsInfo::default())
    }

    /// Gives memory back that the device does not, whatever uses it: a driver of Bellhop's bears that.
    pub(crate) fn give_back(&self, memory: vk::DeviceMemory) {
        // SAFETY: the memory is the device's, and nobody else gives it back. Nothing of this process is there: it was never
        // mapped.
        unsafe { self.raw.free_memory(memory, None) };
    }

    fn allocate_bare(
        &self,
        size: u64,
        index: u32,
        flags: vk::MemoryAllocateFlagsInfo<'_>,
    ) -> Result<vk::DeviceMemory, vk::Result> {
        let mut flags = flags.flags(flags.flags | vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let information = vk::MemoryAllocateInfo::default()
            .allocation_size(size)
            .memory_type_index(index)
            .push_next(&mut flags);
        // SAFETY: the device is open. The structures live until the call returns.
        unsafe { self.raw.allocate_memory(&information, None) }
    }

    /// Binds memory to a buffer of so many bytes, from an offset on. The processor sees it in these words.
    pub(crate) fn bind<'g>(
        &'g self,
        (raw, size): (vk::Buffer, u64),
        memory: vk::DeviceMemory,
        offset: u64,
        words: &'g [AtomicU32],
    ) -> Outcome<Buffer<'g>> {
        // SAFETY: the caller names a buffer and a memory of the device's, and the buffer has none yet.
        unsafe { self.raw.bind_buffer_memory(raw, memory, offset) }?;
        Ok(Buffer { words, ..self.bound_buffer(raw, size) })
    }

    /// A buffer of so many bytes that is bound to memory which the processor does not see.
    pub(crate) fn bound_buffer(&self, raw: vk::Buffer, size: u64) -> Buffer<'_> {
        let named = vk::BufferDeviceAddressInfo::default().buffer(raw);
        // SAFETY: the buffer was made with addresses, and has memory.
        let address = unsafe { self.raw.get_buffer_device_address(&named) };
        Buffer { raw, address, size, words: &[] }
    }

    /// Lends a buffer of so many bytes in memory of the device's own, and destroys both.
    pub(crate) fn with_short_lived(
        &self,
        size: u64,
        act: impl FnOnce(&Buffer<'_>) -> Outcome,
    ) -> Outcome {
        let transfer = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        let usage = transfer
            | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS
            | vk::BufferUsageFlags::VERTEX_BUFFER;
        let information = vk::BufferCreateInfo::default().size(size).usage(usage);
        // SAFETY: the device is open. The structure lives until the call returns.
        let raw = unsafe { self.raw.create_buffer(&information, None) }?;
        // SAFETY: the buffer was made just now.
        let needs = unsafe { self.raw.get_buffer_memory_requirements(raw) };
        let local = vk::MemoryPropertyFlags::DEVICE_LOCAL;
        let index = self.memory_type(needs.memory_type_bits, local)?;
        let mut flags =
            vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let information = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(index)
            .push_next(&mut flags);
        // SAFETY: the device is open. The structures live until the call returns.
        let memory = unsafe { self.raw.allocate_memory(&information, None) }?;
        act(&self.bind((raw, size), memory, 0, &[])?)?;
        self.wait_idle()?;
        // SAFETY: the device was waited for, and the buffer was lent for the call alone.
        unsafe { self.raw.destroy_buffer(raw, None) };
        // SAFETY: as above.
        unsafe { self.raw.free_memory(memory, None) };
        Ok(())
    }

    /// Maps memory.
    pub(crate) fn map(&self, memory: vk::DeviceMemory, size: u64) -> Outcome<&[AtomicU32]> {
        let flags = vk::MemoryMapFlags::empty();
        // SAFETY: the memory is the device's, visible, and not mapped.
        let start = unsafe { self.raw.map_memory(memory, 0, size, flags) }?;
        super::require!(!start.is_null(), "memory is mapped at no address");
        // SAFETY: so many bytes are mapped there until the memory is freed, with the device, which this borrows. Vulkan aligns
        // them to 64 bytes at least. Others change them meanwhile, so they are atomic.
        Ok(unsafe { std::slice::from_raw_parts(start.cast::<AtomicU32>(), size as usize / 4) })
    }

    /// Maps memory, has this read or change its words, and ends the mapping.
    pub(crate) fn while_mapped<T>(
        &self,
        memory: vk::DeviceMemory,
        size: u64,
        act: impl FnOnce(&[AtomicU32]) -> T,
    ) -> Outcome<T> {
        let result = act(self.map(memory, size)?);
        // SAFETY: the memory is mapped, and the words were lent for the call alone.
        unsafe { self.raw.unmap_memory(memory) };
        Ok(result)
    }

    fn bind_new(
        &self,
        raw: vk::Buffer,
        needs: vk::MemoryRequirements,
        index: u32,
        words: usize,
    ) -> Outcome<Buffer<'_>> {
        let memory = self.allocate(needs.size, index)?;
        let kind = self.memory_types.get(index as usize).copied().unwrap_or_default();
        let seen =
            if kind.property_flags.contains(VISIBLE) { self.map(memory, needs.size)? } else { &[] };
        self.bind((raw, words as u64 * 4), memory, 0, seen.get(..words).unwrap_or_default())
    }
}

fn require_type(needs: vk::MemoryRequirements, index: u32) -> Outcome {
    if needs.memory_type_bits & (1 << index) != 0 {
        return Ok(());
    }
    Err(Failure::not_offered(format!("no buffer may be in memory of type {index}")))
}
