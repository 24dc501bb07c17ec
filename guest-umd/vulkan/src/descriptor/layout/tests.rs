// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where what a set has is in its memory.

use super::*;

const STORAGE: vk::DescriptorType = vk::DescriptorType::STORAGE_BUFFER;
const DYNAMIC: vk::DescriptorType = vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC;
const BLOCK: vk::DescriptorType = vk::DescriptorType::INLINE_UNIFORM_BLOCK;

fn asked(number: u32, kind: vk::DescriptorType, count: u32) -> Asked {
    let flags = vk::DescriptorBindingFlags::empty();
    Asked { number, kind, count, flags, samplers: Vec::new() }
}

fn sampler(address: u64) -> Descriptor {
    Descriptor { sampler: address, about: address + 1, ..Default::default() }
}

#[test]
fn bindings_lie_in_the_order_of_their_numbers() {
    let mut bindings = [asked(9, DYNAMIC, 2), asked(1, STORAGE, 3), asked(4, STORAGE, 0)];
    let layout = SetLayout::new(&mut bindings, false).unwrap();
    let places = layout.bindings().iter().map(|b| (b.number, b.first, b.count));
    assert_eq!(places.collect::<Vec<_>>(), [(1, 0, 3), (9, 3, 2)]);
    assert_eq!((layout.descriptors(), layout.dynamic(), layout.bytes()), (5, 2, 192));
    assert_eq!(layout.descriptor(1, 2), Some(2));
    assert_eq!(layout.descriptor(1, 3), Some(3), "goes on in the next binding");
    assert_eq!(layout.descriptor(4, 0), Some(3), "a binding without descriptors is left out");
    assert_eq!(layout.descriptor(9, 2), None);
    assert_eq!(layout.descriptor(10, 0), None);
}

#[test]
fn blocks_lie_behind_the_descriptors() {
    let mut bindings = [asked(0, BLOCK, 12), asked(1, STORAGE, 1), asked(2, BLOCK, 68)];
    let layout = SetLayout::new(&mut bindings, false).unwrap();
    let blocks: Vec<_> = layout.bindings().iter().filter_map(|b| b.block).collect();
    assert_eq!(blocks, [Block { offset: 128, bytes: 12 }, Block { offset: 192, bytes: 68 }]);
    assert_eq!((layout.descriptors(), layout.bytes()), (3, 128 + 64 + 128));
    assert_eq!(layout.needs(0).block_bytes(), 80);
    assert_eq!(layout.needs(0).descriptors(), 1);
}

#[test]
fn a_set_takes_what_it_has_in_its_last_binding() {
    let mut last = asked(7, STORAGE, 100);
    last.flags = vk::DescriptorBindingFlags::VARIABLE_DESCRIPTOR_COUNT;
    let layout = SetLayout::new(&mut [last, asked(0, STORAGE, 2)], false).unwrap();
    assert!(layout.is_variable());
    assert_eq!(layout.needs(30).descriptors(), 32);
    assert_eq!(layout.most_variable(), MAX_DESCRIPTORS - 2);
    assert_eq!(layout.bytes(), 102 * 32);
}

#[test]
fn a_set_that_cannot_be_is_refused() {
    let mutable = vk::DescriptorType::MUTABLE_EXT;
    assert!(SetLayout::new(&mut [asked(0, mutable, 1)], false).is_none());
    let attachment = vk::DescriptorType::INPUT_ATTACHMENT;
    assert!(SetLayout::new(&mut [asked(0, attachment, 1)], false).is_some());
    let mut many = [asked(0, STORAGE, MAX_DESCRIPTORS), asked(1, STORAGE, 1)];
    assert!(SetLayout::new(&mut many[..1], false).is_some());
    assert!(SetLayout::new(&mut many, false).is_none());
    assert!(SetLayout::new(&mut [asked(0, STORAGE, u32::MAX)], false).is_none());
    assert!(SetLayout::new(&mut [asked(0, BLOCK, MAX_BLOCK + 4)], false).is_none());
    assert!(SetLayout::new(&mut [asked(0, STORAGE, 32)], true).is_some());
    assert!(SetLayout::new(&mut [asked(0, STORAGE, 33)], true).is_none());
    assert!(SetLayout::new(&mut [asked(0, DYNAMIC, 1)], true).is_none());
}

#[test]
fn kinds_of_images_and_texels_are_counted_each_for_itself() {
    let kinds = (0..10).map(vk::DescriptorType::from_raw);
    let mut bindings: Vec<_> = kinds.zip(1..).map(|(kind, at)| asked(at, kind, at)).collect();
    let layout = SetLayout::new(&mut bindings, false).unwrap();
    assert_eq!((layout.descriptors(), layout.dynamic()), (55, 9 + 10));
    let kinds: Vec<_> = layout.bindings().iter().map(|binding| binding.kind.0).collect();
    assert_eq!(kinds, (0..10).collect::<Vec<_>>());
    let mut pool = Needs::default();
    for (kind, count) in (0..10).map(vk::DescriptorType::from_raw).zip(1..) {
        pool.add(kind, count);
    }
    assert_eq!(pool.without(&layout.needs(0)), Some(Needs::default()));
    let mut less = pool;
    less.add(vk::DescriptorType::STORAGE_IMAGE, 1);
    assert!(less.without(&layout.needs(0)).is_some() && pool.without(&less).is_none());
}

#[test]
fn samplers_of_a_layout_stay_what_they_are() {
    let combined = vk::DescriptorType::COMBINED_IMAGE_SAMPLER;
    let of_layout = |address| {
        let samplers = vec![sampler(address), sampler(address + 64)];
        let own = Asked { samplers, ..asked(3, combined, 2) };
        SetLayout::new(&mut [own, asked(1, combined, 1)], false).unwrap()
    };
    let layout = of_layout(64);
    assert_eq!(layout.samplers(), [(1, sampler(64)), (2, sampler(128))]);
    assert_eq!((layout.sampler(0), layout.sampler(2)), (None, Some(&sampler(128))));
    let written = Descriptor { address: 8, length: 9, ..sampler(512) };
    assert_eq!(layout.complete(0, written), written);
    let completed = Descriptor { address: 8, length: 9, ..sampler(128) };
    assert_eq!(layout.complete(2, written), completed);
    assert!(layout == of_layout(64) && layout != of_layout(256));
}
