// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the host's formats are good for, as far as programs that compute and copy use them.

use ash::vk;
use bellhop_protocol::vulkan::{CommandCaps, FORMATS, Image, ImageKind, Texel, Tiling};

type Features = vk::FormatFeatureFlags;
type Usage = vk::ImageUsageFlags;
type Flags = vk::ImageCreateFlags;

/// What an image may be used for, and the feature that its format has then.
const USES: [(Usage, Features); 4] = [
    (Usage::SAMPLED, Features::SAMPLED_IMAGE),
    (Usage::STORAGE, Features::STORAGE_IMAGE),
    (Usage::TRANSFER_SRC, Features::TRANSFER_SRC),
    (Usage::TRANSFER_DST, Features::TRANSFER_DST),
];

/// What images are used for without graphics.
const OF_IMAGES: u32 = Features::SAMPLED_IMAGE.as_raw()
    | Features::SAMPLED_IMAGE_FILTER_LINEAR.as_raw()
    | Features::SAMPLED_IMAGE_FILTER_MINMAX.as_raw()
    | Features::STORAGE_IMAGE.as_raw()
    | Features::STORAGE_IMAGE_ATOMIC.as_raw()
    | Features::TRANSFER_SRC.as_raw()
    | Features::TRANSFER_DST.as_raw();
/// What buffers of texels are used for.
const OF_BUFFERS: u32 = Features::UNIFORM_TEXEL_BUFFER.as_raw()
    | Features::STORAGE_TEXEL_BUFFER.as_raw()
    | Features::STORAGE_TEXEL_BUFFER_ATOMIC.as_raw();

/// The flags that an image may have. The others are of sparse, protected and shared memory, several planes, or graphics.
const FLAGS: u32 = Flags::MUTABLE_FORMAT.as_raw()
    | Flags::CUBE_COMPATIBLE.as_raw()
    | Flags::ALIAS.as_raw()
    | Flags::TYPE_2D_ARRAY_COMPATIBLE.as_raw()
    | Flags::BLOCK_TEXEL_VIEW_COMPATIBLE.as_raw()
    | Flags::EXTENDED_USAGE.as_raw();

/// Whether a host makes images of a process's memory.
pub(super) fn has_images(host: &CommandCaps) -> bool {
    host.formats.iter().flatten().any(|features| *features != 0)
}

/// The formats of Vulkan 1.0. Others have no features.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Formats([[u32; 3]; FORMATS]);

impl Formats {
    /// What a guest has on a host that can do this.
    pub(super) fn offered(host: &CommandCaps) -> Self {
        let mut formats = host.formats;
        for (format, [linear, optimal, buffer]) in (0..).zip(&mut formats) {
            // Depths and stencils are for graphics.
            let is_color = Texel::of(format).is_some();
            let (of_images, of_buffers) = if is_color { (OF_IMAGES, OF_BUFFERS) } else { (0, 0) };
            *linear &= of_images;
            *optimal &= of_images;
            *buffer &= of_buffers;
        }
        Self(formats)
    }

    /// The features of a format.
    pub(super) fn properties(&self, format: vk::Format) -> vk::FormatProperties {
        let all = usize::try_from(format.as_raw()).ok().and_then(|format| self.0.get(format));
        let [linear, optimal, buffer] = all.copied().unwrap_or_default().map(Features::from_raw);
        vk::FormatProperties {
            linear_tiling_features: linear,
            optimal_tiling_features: optimal,
            buffer_features: buffer,
        }
    }

    /// Whether the host may have such an image. If not, nobody needs to ask it.
    pub(crate) fn may_have(&self, image: &Image) -> bool {
        let properties = self.properties(vk::Format::from_raw(image.format as i32));
        let features = match image.tiling {
            Tiling::OPTIMAL => properties.optimal_tiling_features,
            Tiling::LINEAR => properties.linear_tiling_features,
            _ => return false,
        };
        // Views of an image with extended usage may have another format, which has the features.
        let is_extended = image.flags & Flags::EXTENDED_USAGE.as_raw() != 0;
        let has_use = |&(usage, feature): &(Usage, Features)| {
            image.usage & usage.as_raw() == 0 || is_extended || features.contains(feature)
        };
        let known = USES.iter().fold(Usage::empty(), |all, (usage, _)| all | *usage);
        image.kind.0 <= ImageKind::THREE.0
            && image.flags & !FLAGS == 0
            && image.usage != 0
            && image.usage & !known.as_raw() == 0
            && !features.is_empty()
            && USES.iter().all(has_use)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    /// Of a host with one format, which is there for everything in optimal images, and for copies in linear ones.
    fn formats() -> Formats {
        let mut host = CommandCaps::new_zeroed();
        assert!(!has_images(&host));
        let copies = Features::TRANSFER_SRC | Features::TRANSFER_DST;
        host.formats[126] = [u32::MAX; 3];
        host.formats[37] = [copies.as_raw(), u32::MAX, u32::MAX];
        assert!(has_images(&host));
        Formats::offered(&host)
    }

    fn image(usage: Usage) -> Image {
        let usage = usage.as_raw();
        Image { format: 37, kind: ImageKind::TWO, usage, ..Image::new_zeroed() }
    }

    #[test]
    fn formats_have_no_features_of_graphics() {
        let features = formats().properties(vk::Format::R8G8B8A8_UNORM);
        assert!(features.optimal_tiling_features.contains(Features::SAMPLED_IMAGE_FILTER_LINEAR));
        let graphics = Features::COLOR_ATTACHMENT | Features::BLIT_SRC | Features::VERTEX_BUFFER;
        assert!(!features.optimal_tiling_features.intersects(graphics));
        assert!(!features.buffer_features.intersects(graphics));
        assert!(features.buffer_features.contains(Features::STORAGE_TEXEL_BUFFER_ATOMIC));
        for absent in [vk::Format::R8_UNORM, vk::Format::D32_SFLOAT, vk::Format::G8B8G8R8_422_UNORM]
        {
            assert!(formats().properties(absent).optimal_tiling_features.is_empty());
        }
    }

    #[test]
    fn an_image_needs_the_features_of_its_uses() {
        let may_be = |image| formats().may_have(&image);
        assert!(may_be(image(Usage::SAMPLED | Usage::STORAGE | Usage::TRANSFER_DST)));
        assert!(!may_be(image(Usage::empty())));
        assert!(!may_be(image(Usage::SAMPLED | Usage::COLOR_ATTACHMENT)));
        assert!(!may_be(Image { format: 38, ..image(Usage::SAMPLED) }));
        assert!(!may_be(Image { format: u32::MAX, ..image(Usage::SAMPLED) }));
        let linear = |usage| Image { tiling: Tiling::LINEAR, ..image(usage) };
        assert!(may_be(linear(Usage::TRANSFER_SRC)) && !may_be(linear(Usage::SAMPLED)));
        let flags = Flags::EXTENDED_USAGE.as_raw();
        assert!(may_be(Image { flags, ..linear(Usage::SAMPLED) }));
        for flags in [Flags::SPARSE_BINDING, Flags::PROTECTED, Flags::DISJOINT] {
            assert!(!may_be(Image { flags: flags.as_raw(), ..image(Usage::SAMPLED) }));
        }
        let modifier = Tiling(vk::ImageTiling::DRM_FORMAT_MODIFIER_EXT.as_raw() as u32);
        assert!(!may_be(Image { tiling: modifier, ..image(Usage::SAMPLED) }));
    }
}
