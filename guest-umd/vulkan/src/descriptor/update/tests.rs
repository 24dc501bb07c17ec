// SPDX-License-Identifier: MIT OR Apache-2.0

//! What writes of each kind store.

use super::super::layout::Asked;
use super::super::template::Template;
use super::*;
use crate::buffer::Buffer;
use crate::buffer::BufferView;
use crate::command::test_heap;
use crate::numbered::Numbered;

type Kind = vk::DescriptorType;

/// A handle that is the address of nothing.
const WILD: u64 = 0xDEAD_BEEF;

/// A target that keeps what is written.
struct Kept {
    layout: SetLayout,
    descriptors: Vec<Descriptor>,
}

impl Kept {
    fn new(kind: Kind, samplers: Vec<Descriptor>) -> Self {
        let flags = vk::DescriptorBindingFlags::empty();
        let mut asked = [Asked { number: 0, kind, count: 2, flags, samplers }];
        let layout = SetLayout::new(&mut asked, false).unwrap();
        Self { layout, descriptors: vec![Descriptor::default(); 2] }
    }
}

impl Target for &mut Kept {
    fn layout(&self) -> &SetLayout {
        &self.layout
    }

    fn put(&mut self, index: u32, descriptor: Descriptor) {
        self.descriptors[index as usize] = descriptor;
    }

    fn put_block(&mut self, _number: u32, _offset: u32, _bytes: &[u8]) {}
}

/// The handle of a view or a sampler, and its address.
fn numbered(serial: u64) -> (u64, u64) {
    let made = Numbered::new(test_heap::heap(), serial, &[serial; 2]).unwrap();
    let address = made.address();
    (handle::create(made), address)
}

/// Writes images and samplers to all descriptors of a set, whose samplers may be the layout's.
fn written(
    kind: Kind,
    samplers: Vec<Descriptor>,
    images: &[vk::DescriptorImageInfo; 2],
) -> Vec<Descriptor> {
    let mut kept = Kept::new(kind, samplers);
    let change = vk::WriteDescriptorSet::default().descriptor_type(kind).image_info(images);
    // SAFETY: what the kind uses is live.
    unsafe { write(&mut kept, &change) };
    kept.descriptors
}

#[test]
fn each_kind_uses_what_is_its_own_and_looks_at_nothing_else() {
    let ((view, view_at), (sampler, sampler_at)) = (numbered(7), numbered(8));
    let information = |view, sampler| {
        let image_view = vk::ImageView::from_raw(view);
        let sampler = vk::Sampler::from_raw(sampler);
        vk::DescriptorImageInfo { sampler, image_view, image_layout: vk::ImageLayout::GENERAL }
    };
    let nothing = Descriptor::default();
    let of_view = Descriptor { address: view_at, length: 7, ..nothing };
    let of_sampler = Descriptor { sampler: sampler_at, about: 8, ..nothing };
    let of_both = Descriptor { sampler: sampler_at, about: 8, ..of_view };

    let images = [information(view, WILD), information(0, WILD)];
    for kind in [Kind::SAMPLED_IMAGE, Kind::STORAGE_IMAGE] {
        assert_eq!(written(kind, Vec::new(), &images), [of_view, nothing]);
    }
    let samplers = [information(WILD, sampler), information(WILD, 0)];
    assert_eq!(written(Kind::SAMPLER, Vec::new(), &samplers), [of_sampler, nothing]);
    let both = [information(view, sampler), information(0, sampler)];
    let combined = Kind::COMBINED_IMAGE_SAMPLER;
    assert_eq!(written(combined, Vec::new(), &both), [of_both, of_sampler]);

    let own = |sampler| Descriptor { sampler, about: 1, ..nothing };
    let owns = vec![own(64), own(128)];
    let expected = [64, 128].map(|sampler| Descriptor { sampler, about: 1, ..of_view });
    let images = [information(view, WILD), information(view, WILD)];
    assert_eq!(written(combined, owns.clone(), &images), expected);
    let wild = [information(WILD, WILD); 2];
    assert_eq!(written(Kind::SAMPLER, owns, &wild), [nothing; 2], "the set keeps what it has");
}

#[test]
fn a_buffer_of_texels_is_its_view_s_and_a_buffer_has_no_more_than_a_range() {
    let view =
        BufferView { descriptor: Descriptor { address: 9, length: 8, sampler: 0, about: 98 } };
    let texels = [vk::BufferView::from_raw(handle::create(view)), vk::BufferView::null()];
    let kind = Kind::UNIFORM_TEXEL_BUFFER;
    let mut kept = Kept::new(kind, Vec::new());
    let change = vk::WriteDescriptorSet::default().descriptor_type(kind).texel_buffer_view(&texels);
    // SAFETY: the view is live.
    unsafe { write(&mut kept, &change) };
    let expected = Descriptor { address: 9, length: 8, sampler: 0, about: 98 };
    assert_eq!(kept.descriptors, [expected, Descriptor::default()]);

    let buffer = vk::Buffer::from_raw(handle::create(Buffer::bound(0x1000, 256)));
    let range = |offset, range| vk::DescriptorBufferInfo { buffer, offset, range };
    let buffers = [range(64, vk::WHOLE_SIZE), range(128, 16)];
    let kind = Kind::STORAGE_BUFFER;
    let mut kept = Kept::new(kind, Vec::new());
    let change = vk::WriteDescriptorSet::default().descriptor_type(kind).buffer_info(&buffers);
    // SAFETY: the buffer is live.
    unsafe { write(&mut kept, &change) };
    let of_buffer = |address, length| Descriptor { address, length, sampler: 0, about: 0 };
    assert_eq!(kept.descriptors, [of_buffer(0x1040, 192), of_buffer(0x1080, 16)]);
}

#[test]
fn a_template_takes_images_from_where_it_says() {
    let (view, address) = numbered(7);
    let image_view = vk::ImageView::from_raw(view);
    let image = vk::DescriptorImageInfo { image_view, ..Default::default() };
    let data = [(0u64, image), (0u64, vk::DescriptorImageInfo::default())];
    let entry = vk::DescriptorUpdateTemplateEntry {
        dst_binding: 0,
        dst_array_element: 0,
        descriptor_count: 2,
        descriptor_type: Kind::STORAGE_IMAGE,
        offset: (&raw const data[0].1).addr() - data.as_ptr().addr(),
        stride: size_of_val(&data[0]),
    };
    let mut kept = Kept::new(Kind::STORAGE_IMAGE, Vec::new());
    // SAFETY: the data is what the entry says, and the view is live.
    unsafe { Template::new(vec![entry], false).apply(&mut kept, data.as_ptr().cast()) };
    let of_view = Descriptor { address, length: 7, ..Default::default() };
    assert_eq!(kept.descriptors, [of_view, Descriptor::default()]);
}
