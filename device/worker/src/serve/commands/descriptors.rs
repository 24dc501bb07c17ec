// SPDX-License-Identifier: MIT OR Apache-2.0

//! The contents of descriptors. Each is read once, and checked with the view and the sampler that it names.

use super::images::{Names, check_image, check_sampler, check_texels, check_view};
use super::wrong::Why;
use crate::serve::memory::Memory;
use crate::vulkan::{Bounds, OfBuffers};
use bellhop_protocol::vulkan::{Descriptor, DescriptorKind, Image, ImageView, Sampler};
use zerocopy::IntoBytes;

/// Most descriptors of a stream. Sets that several dispatches of one pipeline have in common count once.
const MAX_DESCRIPTORS: usize = 1 << 18;
/// Most views of a stream.
const MAX_VIEWS: usize = 1 << 14;
/// Most samplers of a stream: the device's share of each stream whose command buffer is kept.
const MAX_SAMPLERS: usize = 1 << 11;

/// The descriptors of a stream, in the order in which they were added, and what they name.
pub struct Descriptors {
    /// With their offsets added, and without what has ended.
    all: Vec<Descriptor>,
    views: Names<ImageView>,
    samplers: Names<Sampler>,
}

impl Descriptors {
    /// Has none.
    pub fn new() -> Self {
        let (views, samplers) = (Names::new(MAX_VIEWS), Names::new(MAX_SAMPLERS));
        Self { all: Vec::new(), views, samplers }
    }

    /// All of them.
    pub fn all(&self) -> &[Descriptor] {
        &self.all
    }

    /// Whether there is no room for so many more.
    pub fn are_full(&self, more: usize) -> bool {
        self.all.len() + more > MAX_DESCRIPTORS
    }

    /// The view that a descriptor of a view names, if it has one.
    pub fn view(&self, of: &Descriptor) -> Option<&ImageView> {
        self.views.get([of.address, of.length])
    }

    /// The sampler that a descriptor of a sampler names, if it has one.
    pub fn sampler(&self, of: &Descriptor) -> Option<&Sampler> {
        self.samplers.get([of.sampler, of.about])
    }

    /// Reads the view of an attachment, and checks its image.
    ///
    /// # Errors
    /// When it has ended, or its image is none.
    pub fn attach(&mut self, name: [u64; 2], memory: &Memory) -> Result<ImageView, Why> {
        let view = self.views.read(name, memory)?.copied();
        let view = view.ok_or("an attachment whose view has ended")?;
        check_image(&view.image, memory)?;
        Ok(view)
    }

    /// The memory that a descriptor of a kind reaches.
    pub fn memory(&self, of: &Descriptor, kind: DescriptorKind) -> Option<[u64; 2]> {
        if kind.has_view() {
            return self.view(of).map(|ImageView { image, .. }| [image.address, image.size]);
        }
        (of.address != 0).then_some([of.address, of.length])
    }

    /// Adds the bytes that tell them from others.
    pub fn tell(&self, key: &mut Vec<u8>) {
        key.extend_from_slice(self.all.as_bytes());
        self.views.tell(key);
        self.samplers.tell(key);
    }

    /// Checks a descriptor of a kind, and adds it. `image` makes the images of views, whose descriptions have been
    /// checked.
    ///
    /// # Errors
    /// What is wrong with it, or why `image` failed.
    pub fn add(
        &mut self,
        descriptor: Descriptor,
        kind: DescriptorKind,
        offset: u32,
        memory: &Memory,
        bounds: &Bounds,
        image: impl FnOnce(&Image) -> Result<(), Why>,
    ) -> Result<(), Why> {
        let Descriptor { address, length, sampler, about } = descriptor;
        let has_sampler = kind.has_sampler();
        if (!has_sampler && sampler != 0)
            || (!has_sampler && !kind.has_texels() && about != 0)
            || (kind == DescriptorKind::SAMPLER && [address, length] != [0; 2])
        {
            return Err("a descriptor with a field that is not 0, and not its kind's".into());
        }
        let mut checked = Descriptor::default();
        if sampler != 0
            && let Some(found) = self.samplers.read([sampler, about], memory)?
        {
            check_sampler(found, &bounds.samplers)?;
            checked = Descriptor { sampler, about, ..checked };
        }
        if address == 0 {
            // There is nothing but perhaps a sampler.
        } else if kind.has_view() {
            if let Some(view) = self.views.read([address, length], memory)? {
                check_image(&view.image, memory)?;
                check_view(view, kind, bounds)?;
                image(&view.image)?;
                checked = Descriptor { address, length, ..checked };
            }
        } else if kind.has_texels() {
            check_texels(&descriptor, kind, bounds)?;
            memory.check(address, length)?;
            checked = descriptor;
        } else {
            checked = buffer(address, length, kind, offset, memory, bounds)?;
        }
        self.all.push(checked);
        Ok(())
    }
}

/// Checks a descriptor of a buffer, and adds its offset.
fn buffer(
    address: u64,
    length: u64,
    kind: DescriptorKind,
    offset: u32,
    memory: &Memory,
    bounds: &Bounds,
) -> Result<Descriptor, Why> {
    let OfBuffers { alignment, longest } = match kind {
        DescriptorKind::UNIFORM_BUFFER | DescriptorKind::UNIFORM_BUFFER_DYNAMIC => bounds.uniform,
        _ => bounds.storage,
    };
    let address = address.checked_add(offset.into()).ok_or("a descriptor beyond all addresses")?;
    if !address.is_multiple_of(alignment) {
        return Err(Why::Malformed(format!(
            "a descriptor at {address:#x}, which is no multiple of {alignment}"
        )));
    }
    if !(1..=longest).contains(&length) {
        return Err(Why::Malformed(format!(
            "a descriptor of {length} bytes, on a device that takes 1 to {longest}"
        )));
    }
    memory.check(address, length)?;
    Ok(Descriptor { address, length, ..Descriptor::default() })
}
