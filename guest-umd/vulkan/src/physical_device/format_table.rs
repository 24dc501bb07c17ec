// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the host's formats are good for, as far as programs use them.

use ash::vk;
use bellhop_protocol::vulkan::{CommandCaps, FORMATS, Image, ImageKind, Texel, Tiling};

type Features = vk::FormatFeatureFlags;
type Usage = vk::ImageUsageFlags;
type Flags = vk::ImageCreateFlags;

/// What an image may be used for, and the feature that its format has then.
const USES: [(Usage, Features); 6] = [
    (Usage::SAMPLED, Features::SAMPLED_IMAGE),
    (Usage::STORAGE, Features::STORAGE_IMAGE),
    (Usage::TRANSFER_SRC, Features::TRANSFER_SRC),
    (Usage::TRANSFER_DST, Features::TRANSFER_DST),
    (Usage::COLOR_ATTACHMENT, Features::COLOR_ATTACHMENT),
    (Usage::DEPTH_STENCIL_ATTACHMENT, Features::DEPTH_STENCIL_ATTACHMENT),
];

/// What only an attachment of any kind may be used for.
const OF_ATTACHMENTS: u32 = Usage::INPUT_ATTACHMENT.as_raw() | Usage::TRANSIENT_ATTACHMENT.as_raw();
/// The features of formats of attachments.
const ATTACHMENTS: Features = Features::from_raw(
    Features::COLOR_ATTACHMENT.as_raw() | Features::DEPTH_STENCIL_ATTACHMENT.as_raw(),
);

/// What images are used for without graphics.
const OF_IMAGES: u32 = Features::SAMPLED_IMAGE.as_raw()
    | Features::SAMPLED_IMAGE_FILTER_LINEAR.as_raw()
    | Features::SAMPLED_IMAGE_FILTER_MINMAX.as_raw()
    | Features::STORAGE_IMAGE.as_raw()
    | Features::STORAGE_IMAGE_ATOMIC.as_raw()
    | Features::TRANSFER_SRC.as_raw()
    | Features::TRANSFER_DST.as_raw();
/// What images of colours are used for with graphics.
const OF_COLORS: u32 = OF_IMAGES
    | Features::COLOR_ATTACHMENT.as_raw()
    | Features::COLOR_ATTACHMENT_BLEND.as_raw()
    | Features::BLIT_SRC.as_raw()
    | Features::BLIT_DST.as_raw();
/// What images of depths and stencils are used for.
const OF_DEPTHS: u32 = Features::SAMPLED_IMAGE.as_raw()
    | Features::SAMPLED_IMAGE_FILTER_LINEAR.as_raw()
    | Features::SAMPLED_IMAGE_FILTER_MINMAX.as_raw()
    | Features::DEPTH_STENCIL_ATTACHMENT.as_raw()
    | Features::BLIT_SRC.as_raw()
    | Features::BLIT_DST.as_raw()
    | Features::TRANSFER_SRC.as_raw()
    | Features::TRANSFER_DST.as_raw();
/// What buffers of texels are used for.
const OF_BUFFERS: u32 = Features::UNIFORM_TEXEL_BUFFER.as_raw()
    | Features::STORAGE_TEXEL_BUFFER.as_raw()
    | Features::STORAGE_TEXEL_BUFFER_ATOMIC.as_raw();

/// The flags that an image may have. The others are of sparse, protected and shared memory, or several planes.
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

/// Whether a host draws.
pub(super) fn has_graphics(host: &CommandCaps) -> bool {
    vk::QueueFlags::from_raw(host.queue_flags).contains(vk::QueueFlags::GRAPHICS)
}

/// Whether a format of Vulkan 1.0 is one of depths or stencils.
pub(crate) fn is_of_depth(format: vk::Format) -> bool {
    (vk::Format::D16_UNORM..=vk::Format::D32_SFLOAT_S8_UINT).contains(&format)
}

/// The formats of Vulkan 1.0. Others have no features.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Formats([[u32; 3]; FORMATS]);

impl Formats {
    /// What a guest has on a host that can do this.
    pub(super) fn offered(host: &CommandCaps) -> Self {
        let mut formats = host.formats;
        let draws = has_graphics(host);
        let of_vertices = if draws { Features::VERTEX_BUFFER.as_raw() } else { 0 };
        for (format, [linear, optimal, buffer]) in (0..).zip(&mut formats) {
            let is_color = Texel::of(format).is_some();
            let of_images = match (is_color, draws) {
                (true, true) => OF_COLORS,
                (true, false) => OF_IMAGES,
                (false, true) if is_of_depth(vk::Format::from_raw(format as i32)) => OF_DEPTHS,
                // Depths and stencils are for graphics.
                (false, _) => 0,
            };
            let of_buffers = if is_color { OF_BUFFERS | of_vertices } else { 0 };
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
        let is_attachment =
            image.usage & OF_ATTACHMENTS == 0 || is_extended || features.intersects(ATTACHMENTS);
        let known = USES.iter().fold(OF_ATTACHMENTS, |all, (usage, _)| all | usage.as_raw());
        image.kind.0 <= ImageKind::THREE.0
            && image.flags & !FLAGS == 0
            && image.usage != 0
            && image.usage & !known == 0
            && is_attachment
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
    fn a_host_that_draws_has_attachments() {
        let mut host = CommandCaps::new_zeroed();
        host.queue_flags = vk::QueueFlags::GRAPHICS.as_raw();
        host.formats[37] = [0, u32::MAX, u32::MAX];
        host.formats[126] = [0, u32::MAX, u32::MAX];
        host.formats[23] = [0, Features::SAMPLED_IMAGE.as_raw(), 0];
        let formats = Formats::offered(&host);
        let color = formats.properties(vk::Format::R8G8B8A8_UNORM);
        let drawn = Features::COLOR_ATTACHMENT_BLEND | Features::BLIT_DST;
        assert!(color.optimal_tiling_features.contains(drawn));
        assert!(!color.optimal_tiling_features.contains(Features::DEPTH_STENCIL_ATTACHMENT));
        assert!(color.buffer_features.contains(Features::VERTEX_BUFFER));
        let depth = formats.properties(vk::Format::D32_SFLOAT);
        assert!(depth.optimal_tiling_features.contains(Features::DEPTH_STENCIL_ATTACHMENT));
        assert!(!depth.optimal_tiling_features.contains(Features::COLOR_ATTACHMENT));
        assert!(depth.buffer_features.is_empty());
        let depths = |usage| Image { format: 126, ..image(usage) };
        let attached = Usage::DEPTH_STENCIL_ATTACHMENT | Usage::INPUT_ATTACHMENT;
        assert!(formats.may_have(&depths(attached)));
        assert!(!formats.may_have(&depths(Usage::COLOR_ATTACHMENT)));
        let transient = Usage::COLOR_ATTACHMENT | Usage::TRANSIENT_ATTACHMENT;
        assert!(formats.may_have(&image(transient)));
        let input = Usage::SAMPLED | Usage::INPUT_ATTACHMENT;
        assert!(!formats.may_have(&Image { format: 23, ..image(input) }));
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
