// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Pools of descriptor sets.
//!
//! A pool takes memory for all of its sets at once. A set with fewer descriptors than its layout has memory of its own, and so
//! has one for which no gap between others is large enough: a pool is never too fragmented.

use super::layout::{ALIGNMENT, DESCRIPTOR, SetLayout};
use super::needs::Needs;
use super::places::Places;
use super::set::DescriptorSet;
use crate::device::Device;
use crate::heap::{Heap, Piece};
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A pool.
struct Pool {
    heap: &'static Heap,
    /// Memory for its sets.
    memory: Arc<Piece>,
    most_sets: u32,
    most: Needs,
    state: Mutex<State>,
}

/// What of a pool is taken.
struct State {
    places: Places,
    left: Needs,
    /// The handles of its sets, and what each has taken.
    sets: BTreeMap<u64, Taken>,
}

/// What a set has taken.
struct Taken {
    needs: Needs,
    /// Whether its bytes are the pool's.
    is_in_pool: bool,
}

impl Pool {
    fn new(
        heap: &'static Heap,
        most_sets: u32,
        most: Needs,
        blocks: u32,
    ) -> Result<Self, vk::Result> {
        let gaps = (u64::from(most_sets) + u64::from(blocks)) * u64::from(ALIGNMENT);
        let descriptors = (most.descriptors() + u64::from(blocks)) * u64::from(DESCRIPTOR);
        let bytes = gaps + descriptors + most.block_bytes();
        let bytes = usize::try_from(bytes).map_err(|_| vk::Result::ERROR_OUT_OF_DEVICE_MEMORY)?;
        let memory = heap.take(bytes.next_multiple_of(ALIGNMENT as usize))?;
        let places = Places::new(memory.size());
        let state = State { places, left: most, sets: BTreeMap::new() };
        Ok(Self { heap, memory: Arc::new(memory), most_sets, most, state: Mutex::new(state) })
    }

    /// Makes a set whose last binding has `variable` descriptors, if it has a number of its own.
    fn allocate(&self, layout: &Arc<SetLayout>, variable: u32) -> Result<u64, vk::Result> {
        let needs = layout.needs(variable);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let left =
            state.left.without(&needs).filter(|_| state.sets.len() < self.most_sets as usize);
        let left = left.ok_or(vk::Result::ERROR_OUT_OF_POOL_MEMORY)?;
        let bytes = layout.bytes() as usize;
        let start = if layout.is_variable() { None } else { state.places.take(bytes) };
        let (memory, start, is_in_pool) = match start {
            Some(start) => (Arc::clone(&self.memory), start, true),
            None => (Arc::new(self.heap.take(bytes)?), 0, false),
        };
        state.left = left;
        let set = handle::create(DescriptorSet::new(Arc::clone(layout), memory, start));
        state.sets.insert(set, Taken { needs, is_in_pool });
        Ok(set)
    }

    /// Frees sets.
    fn free(&self, sets: impl IntoIterator<Item = u64>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for set in sets {
            let Some(Taken { needs, is_in_pool }) = state.sets.remove(&set) else { continue };
            state.left = state.left.with(&needs);
            // SAFETY: the pool had made it, and forgot it just now. Its program uses it no more.
            unsafe {
                if is_in_pool {
                    state.places.give_back(handle::get::<DescriptorSet>(set).place());
                }
                handle::destroy::<DescriptorSet>(set);
            }
        }
    }

    /// Frees all sets.
    fn reset(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for set in std::mem::take(&mut state.sets).into_keys() {
            // SAFETY: the pool had made it, and forgot it just now. Its program uses it no more.
            unsafe { handle::destroy::<DescriptorSet>(set) };
        }
        state.places = Places::new(self.memory.size());
        state.left = self.most;
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.reset();
    }
}

unsafe extern "system" fn create(
    device: vk::Device,
    information: *const vk::DescriptorPoolCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    pool: *mut vk::DescriptorPool,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it. The device outlives the pool.
    unsafe {
        type Blocks<'a> = vk::DescriptorPoolInlineUniformBlockCreateInfo<'a>;
        let information = &*information;
        let mut most = Needs::default();
        for size in raw::slice(information.p_pool_sizes, information.pool_size_count) {
            most.add(size.ty, size.descriptor_count);
        }
        let blocks = raw::find::<Blocks<'_>>(information.p_next);
        let blocks = blocks.map_or(0, |blocks| blocks.max_inline_uniform_block_bindings);
        match Pool::new(&Device::get(device).heap, information.max_sets, most, blocks) {
            Ok(made) => *pool = vk::DescriptorPool::from_raw(handle::create(made)),
            Err(error) => return error,
        }
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy(
    _device: vk::Device,
    pool: vk::DescriptorPool,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program destroys it once.
    unsafe { handle::destroy::<Pool>(pool.as_raw()) };
}

unsafe extern "system" fn reset(
    _device: vk::Device,
    pool: vk::DescriptorPool,
    _flags: vk::DescriptorPoolResetFlags,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { handle::get::<Pool>(pool.as_raw()) }.reset();
    vk::Result::SUCCESS
}

unsafe extern "system" fn allocate(
    _device: vk::Device,
    information: *const vk::DescriptorSetAllocateInfo<'_>,
    sets: *mut vk::DescriptorSet,
) -> vk::Result {
    type Variable<'a> = vk::DescriptorSetVariableDescriptorCountAllocateInfo<'a>;
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let (pool, layouts, variable, sets) = unsafe {
        let information = &*information;
        let variable = raw::find::<Variable<'_>>(information.p_next);
        let variable = variable
            .map(|counts| raw::slice(counts.p_descriptor_counts, counts.descriptor_set_count));
        (
            handle::get::<Pool>(information.descriptor_pool.as_raw()),
            raw::slice(information.p_set_layouts, information.descriptor_set_count),
            variable.unwrap_or_default(),
            raw::slice_mut(sets, information.descriptor_set_count),
        )
    };
    for (at, layout) in layouts.iter().enumerate() {
        // SAFETY: as above.
        let layout = unsafe { handle::get::<Arc<SetLayout>>(layout.as_raw()) };
        let made = pool.allocate(layout, variable.get(at).copied().unwrap_or(0));
        match (made, sets.get_mut(at)) {
            (Ok(made), Some(set)) => *set = vk::DescriptorSet::from_raw(made),
            (made, _) => {
                pool.free(sets.iter().take(at).map(|set| set.as_raw()));
                sets.fill(vk::DescriptorSet::null());
                return made.err().unwrap_or(vk::Result::ERROR_UNKNOWN);
            }
        }
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn free(
    _device: vk::Device,
    pool: vk::DescriptorPool,
    count: u32,
    sets: *const vk::DescriptorSet,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let (pool, sets) = unsafe { (handle::get::<Pool>(pool.as_raw()), raw::slice(sets, count)) };
    pool.free(sets.iter().map(|set| set.as_raw()));
    vk::Result::SUCCESS
}

crate::entry::entry_points! {
    vkCreateDescriptorPool = create,
    vkDestroyDescriptorPool = destroy,
    vkResetDescriptorPool = reset,
    vkAllocateDescriptorSets = allocate,
    vkFreeDescriptorSets = free,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::test_heap;
    use crate::descriptor::Target;
    use crate::descriptor::layout::Asked;
    use bellhop_protocol::vulkan::Descriptor;

    const KIND: vk::DescriptorType = vk::DescriptorType::STORAGE_BUFFER;

    fn layout(count: u32, flags: vk::DescriptorBindingFlags) -> Arc<SetLayout> {
        let mut asked = [Asked { number: 0, kind: KIND, count, flags, samplers: Vec::new() }];
        Arc::new(SetLayout::new(&mut asked, false).unwrap())
    }

    fn pool(sets: u32, descriptors: u32) -> Pool {
        let mut most = Needs::default();
        most.add(KIND, descriptors);
        Pool::new(test_heap::heap(), sets, most, 0).unwrap()
    }

    fn address(set: u64) -> u64 {
        // SAFETY: the tests look at sets that are allocated.
        unsafe { handle::get::<DescriptorSet>(set) }.address()
    }

    #[test]
    fn a_pool_gives_what_it_has_and_no_more() {
        let pool = pool(3, 6);
        let two = layout(2, vk::DescriptorBindingFlags::empty());
        let sets = [0; 3].map(|_| pool.allocate(&two, 0).unwrap());
        let mut addresses = sets.map(address).to_vec();
        addresses.dedup();
        assert_eq!(addresses.len(), 3);
        assert!(addresses.iter().all(|address| address.is_multiple_of(64)));
        let out = vk::Result::ERROR_OUT_OF_POOL_MEMORY;
        assert_eq!(pool.allocate(&two, 0), Err(out));
        pool.free([sets[1], 0]);
        let three = layout(3, vk::DescriptorBindingFlags::empty());
        assert_eq!(pool.allocate(&three, 0), Err(out));
        assert_eq!(address(pool.allocate(&two, 0).unwrap()), addresses[1]);
        pool.reset();
        assert_eq!(address(pool.allocate(&three, 0).unwrap()), addresses[0]);
    }

    #[test]
    fn a_set_that_fits_no_gap_has_memory_of_its_own() {
        let pool = pool(4, 32);
        let eight = layout(8, vk::DescriptorBindingFlags::empty());
        let sixteen = layout(16, vk::DescriptorBindingFlags::empty());
        let sets = [0; 4].map(|_| pool.allocate(&eight, 0).unwrap());
        pool.free([sets[0], sets[2]]);
        let large = pool.allocate(&sixteen, 0).unwrap();
        let start = pool.memory.gpu_va();
        let inside = start..start + pool.memory.size() as u64;
        assert!(!inside.contains(&address(large)) && inside.contains(&address(sets[3])));
        pool.free([large, sets[1], sets[3]]);
        let mut state = pool.state.lock().unwrap();
        assert_eq!(state.left, pool.most);
        assert_eq!(state.places.take(pool.memory.size()), Some(0));
    }

    #[test]
    fn a_set_with_fewer_descriptors_takes_fewer() {
        let pool = pool(2, 10);
        let variable = vk::DescriptorBindingFlags::VARIABLE_DESCRIPTOR_COUNT;
        let layout = layout(1000, variable);
        pool.allocate(&layout, 6).unwrap();
        let out = vk::Result::ERROR_OUT_OF_POOL_MEMORY;
        assert_eq!(pool.allocate(&layout, 5), Err(out));
        pool.allocate(&layout, 4).unwrap();
    }

    #[test]
    fn a_new_set_is_empty_and_a_copy_is_what_it_was_copied_from() {
        let pool = pool(2, 80);
        let layout = layout(40, vk::DescriptorBindingFlags::empty());
        let sets = [0; 2].map(|_| pool.allocate(&layout, 0).unwrap());
        // SAFETY: they are allocated.
        let [mut one, other] = sets.map(|set| unsafe { handle::get::<DescriptorSet>(set) });
        assert!((0..40).all(|index| one.load(index) == Descriptor::default()));
        let descriptor = |address| Descriptor { address, length: 4, ..Default::default() };
        one.put_all(0, 38, [descriptor(8), descriptor(16), descriptor(24)]);
        other.copy_from(one, (0, 38), (0, 1), 2);
        let seen = [0, 1, 2, 3].map(|index| other.load(index).address);
        assert_eq!(seen, [0, 8, 16, 0]);
    }

    #[test]
    fn a_set_has_the_samplers_of_its_layout_whatever_is_copied_there() {
        let kind = vk::DescriptorType::COMBINED_IMAGE_SAMPLER;
        let flags = vk::DescriptorBindingFlags::empty();
        let sampler = |sampler| Descriptor { sampler, about: 5, ..Default::default() };
        let layout = |samplers| {
            let mut asked = [Asked { number: 0, kind, count: 2, flags, samplers }];
            Arc::new(SetLayout::new(&mut asked, false).unwrap())
        };
        let mut most = Needs::default();
        most.add(kind, 4);
        let pool = Pool::new(test_heap::heap(), 2, most, 0).unwrap();
        let own = pool.allocate(&layout(vec![sampler(64), sampler(128)]), 0).unwrap();
        let other = pool.allocate(&layout(Vec::new()), 0).unwrap();
        // SAFETY: they are allocated.
        let [own, mut other] = [own, other].map(|set| unsafe { handle::get::<DescriptorSet>(set) });
        assert_eq!([0, 1].map(|index| own.load(index)), [sampler(64), sampler(128)]);
        let view = Descriptor { address: 8, length: 9, ..sampler(512) };
        other.put_all(0, 0, [view, view]);
        own.copy_from(other, (0, 0), (0, 0), 2);
        let expected = [64, 128].map(|sampler| Descriptor { sampler, ..view });
        assert_eq!([0, 1].map(|index| own.load(index)), expected);
    }
}
