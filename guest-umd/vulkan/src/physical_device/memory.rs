// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory: the guest's own, which GPU and program both reach.

use crate::pages::Counter;
use ash::vk;
use bellhop_guest_umd::Adapter;
use std::fs;
use std::sync::Arc;

/// Most bytes of an allocation: what the kernel of a VM pins in one piece.
pub const MAX_ALLOCATION: u64 = 1 << 30;

/// What the memory of the one type does.
const TYPE: vk::MemoryType = vk::MemoryType {
    property_flags: vk::MemoryPropertyFlags::from_raw(
        vk::MemoryPropertyFlags::DEVICE_LOCAL.as_raw()
            | vk::MemoryPropertyFlags::HOST_VISIBLE.as_raw()
            | vk::MemoryPropertyFlags::HOST_COHERENT.as_raw()
            | vk::MemoryPropertyFlags::HOST_CACHED.as_raw(),
    ),
    heap_index: 0,
};

/// The one heap, and what this program has of it.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Bytes.
    size: u64,
    /// Whether the guest's system has the memory, and others may take it too.
    is_system: bool,
    used: Arc<Counter>,
}

impl Memory {
    /// The memory that an adapter's allocations are in.
    pub(super) fn of(adapter: &Adapter) -> Self {
        let own = adapter.system_memory();
        // A system needs memory itself.
        let size = own.unwrap_or_else(|| system("MemTotal:").unwrap_or(MAX_ALLOCATION) / 2);
        Self { size, is_system: own.is_none(), used: Arc::default() }
    }

    /// Counts what this program has.
    pub(crate) fn counter(&self) -> &Arc<Counter> {
        &self.used
    }

    /// What this program may have, and what it has.
    fn budget(&self) -> (u64, u64) {
        let used = self.used.bytes();
        let free = if self.is_system { system("MemAvailable:") } else { None };
        (free.map_or(self.size, |free| self.size.min(used.saturating_add(free))), used)
    }

    /// The heap and the type.
    pub(super) fn properties(&self) -> vk::PhysicalDeviceMemoryProperties {
        let heap = vk::MemoryHeap { size: self.size, flags: vk::MemoryHeapFlags::DEVICE_LOCAL };
        let mut properties = vk::PhysicalDeviceMemoryProperties {
            memory_type_count: 1,
            memory_heap_count: 1,
            ..Default::default()
        };
        if let (Some(first_type), Some(first_heap)) =
            (properties.memory_types.first_mut(), properties.memory_heaps.first_mut())
        {
            (*first_type, *first_heap) = (TYPE, heap);
        }
        properties
    }

    /// The fields of `VkPhysicalDeviceMemoryBudgetPropertiesEXT`.
    pub(super) fn budget_fields(&self) -> Vec<u8> {
        let (budget, used) = self.budget();
        let mut words = [0; 2 * vk::MAX_MEMORY_HEAPS];
        for (at, value) in [(0, budget), (vk::MAX_MEMORY_HEAPS, used)] {
            if let Some(word) = words.get_mut(at) {
                *word = value;
            }
        }
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

/// Bytes that Linux says of its memory.
fn system(name: &str) -> Option<u64> {
    parse(&fs::read_to_string("/proc/meminfo").ok()?, name)
}

fn parse(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(is_system: bool) -> Memory {
        Memory { size: 1 << 40, is_system, used: Arc::default() }
    }

    #[test]
    fn there_is_one_heap_with_one_type() {
        let properties = memory(false).properties();
        assert_eq!((properties.memory_type_count, properties.memory_heap_count), (1, 1));
        assert_eq!(properties.memory_heaps[0].size, 1 << 40);
        assert!(properties.memory_types[0].property_flags.contains(
            vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT
        ));
    }

    #[test]
    fn a_budget_counts_what_the_program_has() {
        let own = memory(false);
        own.counter().take(4096);
        own.counter().take(8192);
        own.counter().give_back(4096);
        assert_eq!(own.budget(), (1 << 40, 8192));
        let fields = own.budget_fields();
        assert_eq!(fields.len(), 2 * 16 * 8);
        assert_eq!(fields[16 * 8..][..8], 8192u64.to_ne_bytes());
        let (budget, used) = memory(true).budget();
        assert!(budget < 1 << 40 && used == 0, "{budget}");
    }

    #[test]
    fn linux_says_kilobytes() {
        let text = "MemTotal:       16307484 kB\nMemFree:         1 kB\n";
        assert_eq!(parse(text, "MemTotal:"), Some(16_307_484 * 1024));
        assert_eq!(parse(text, "MemAvailable:"), None);
    }
}
