// SPDX-License-Identifier: MIT OR Apache-2.0

//! The commands of a stream.

use super::{Image, Layers, MAX_DYNAMIC_OFFSETS, MAX_PUSH_CONSTANTS, MAX_SETS, MAX_UPDATE, Range};
use crate::packet::UNIT;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The first 8 bytes of every command.
#[derive(
    Debug, Clone, ::core::marker::Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct CommandHeader {
    /// What it does.
    pub code: CommandCode,
    /// The command's length in 8-byte units, including this header; at least 1.
    pub units: u16,
    /// The command's argument; 0 if it has none.
    pub argument: u32,
}
crate::assert_layout!(CommandHeader, 8, code at 0, units at 2, argument at 4);

/// Declares commands: their numbers, their structures, and what follows those.
macro_rules! commands {
    ($($(#[$about:meta])* $code:literal $number:ident $name:ident $([$data:ident])? {
        $($(#[$field_about:meta])* $field:ident: $type:ty,)*
    })*) => {
        open_enum! {
            /// What a command does.
            pub struct CommandCode: u16 {
                $($(#[$about])* $number = $code;)*
            }
        }

        $(
            $(#[$about])*
            #[derive(
                Debug, Clone, ::core::marker::Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
            )]
            #[repr(C)]
            pub struct $name {
                /// Number and length.
                pub header: CommandHeader,
                $($(#[$field_about])* pub $field: $type,)*
            }

            impl Encoded for $name {
                const CODE: CommandCode = CommandCode::$number;

                fn header_mut(&mut self) -> &mut CommandHeader {
                    &mut self.header
                }
            }
        )*

        /// A command that was decoded, with what follows its structure.
        #[derive(Debug, Clone, ::core::marker::Copy, PartialEq, Eq)]
        pub enum Command<'s> {
            $($(#[$about])* $name($name, &'s [u8]),)*
        }

        fn decode(header: CommandHeader, bytes: &[u8]) -> Result<Command<'_>, Why> {
            match header.code {
                $(CommandCode::$number => {
                    let (command, data) = <$name>::read_from_prefix(bytes).map_err(|_| Why::Length)?;
                    let length = command.data_length()?;
                    if data.len() != length.next_multiple_of(UNIT) {
                        return Err(Why::Length);
                    }
                    Ok(Command::$name(command, data.get(..length).unwrap_or_default()))
                })*
                _ => Err(Why::Unknown),
            }
        }
    };
}

commands! {
    /// Waits for all commands before it, whose stores those after it see.
    0x01 BARRIER Barrier {}
    /// Copies a range to another that does not overlap it.
    0x02 COPY Copy {
        /// First byte to read.
        source: u64,
        /// First byte to write.
        destination: u64,
        /// Bytes.
        length: u64,
    }
    /// Repeats the 32-bit `argument`.
    0x03 FILL Fill {
        /// First byte to write, a multiple of 4.
        destination: u64,
        /// Bytes, a multiple of 4.
        length: u64,
    }
    /// Writes the `argument` bytes that follow: at most [`MAX_UPDATE`], a multiple of 4.
    0x04 UPDATE Update {
        /// First byte to write, a multiple of 4.
        destination: u64,
    }
    /// Runs a pipeline. The addresses of `argument` sets of [`Descriptor`](super::Descriptor)s follow, 8 bytes each, 0 for a
    /// set that the pipeline does not use; then 32-bit dynamic offsets, padded to 8 bytes; then push constants.
    0x05 DISPATCH Dispatch {
        /// Address of its [`PipelineHead`](super::PipelineHead), a multiple of 8.
        pipeline: u64,
        /// Address of three 32-bit numbers of work groups, a multiple of 4, or 0 for [`Self::groups`].
        indirect: u64,
        /// The first work group in each dimension.
        base: [u32; 3],
        /// Number of work groups in each dimension.
        groups: [u32; 3],
        /// Number of dynamic offsets, at most [`MAX_DYNAMIC_OFFSETS`].
        dynamic_offsets: u32,
        /// Bytes of push constants: a multiple of 4, at most [`MAX_PUSH_CONSTANTS`].
        push_constants: u32,
    }
    /// Writes the time at which everything before it was done: 64 bits, in units of
    /// [`CommandCaps::limits`](super::CommandCaps::limits)' `timestampPeriod`.
    0x06 TIMESTAMP Timestamp {
        /// Where to, a multiple of 8.
        destination: u64,
    }
    /// Waits for all commands before it, and then until a 32-bit word is `argument`, which a processor stores. Nothing
    /// interrupts the wait but the end of the queue.
    0x07 WAIT Wait {
        /// The word's address, a multiple of 4.
        address: u64,
    }
    /// Stores what the host's Vulkan can do: the first `length` bytes of [`CommandCaps`](super::CommandCaps).
    0x08 QUERY_CAPS QueryCaps {
        /// Where to, a multiple of 8.
        destination: u64,
        /// Most bytes to store.
        length: u64,
    }
    /// Copies texels between images, or within one between parts that do not overlap (`VkImageCopy`).
    0x09 COPY_IMAGE CopyImage {
        /// The image to read.
        source: Image,
        /// The image to write.
        destination: Image,
        /// What is read.
        from: Layers,
        /// What is written.
        to: Layers,
        /// The first texel that is read.
        from_offset: [u32; 3],
        /// The first texel that is written.
        to_offset: [u32; 3],
        /// Texels of the source in each dimension.
        extent: [u32; 3],
        /// Zero.
        reserved: u32,
    }
    /// Copies texels that lie in rows into an image (`VkBufferImageCopy`).
    0x0A COPY_MEMORY_TO_IMAGE CopyMemoryToImage {
        /// The first byte to read.
        address: u64,
        /// The image to write.
        image: Image,
        /// What is written.
        layers: Layers,
        /// The first texel that is written.
        offset: [u32; 3],
        /// Texels in each dimension.
        extent: [u32; 3],
        /// Texels from a row to the next in memory; 0 for `extent`'s.
        row_length: u32,
        /// Rows from a plane or layer to the next in memory; 0 for `extent`'s.
        height: u32,
    }
    /// Copies texels of an image into memory, where they lie in rows.
    0x0B COPY_IMAGE_TO_MEMORY CopyImageToMemory {
        /// The first byte to write.
        address: u64,
        /// The image to read.
        image: Image,
        /// What is read.
        layers: Layers,
        /// The first texel that is read.
        offset: [u32; 3],
        /// Texels in each dimension.
        extent: [u32; 3],
        /// As in `COPY_MEMORY_TO_IMAGE`.
        row_length: u32,
        /// As in `COPY_MEMORY_TO_IMAGE`.
        height: u32,
    }
    /// Writes a colour into all texels of a range.
    0x0C CLEAR_IMAGE ClearImage {
        /// The image.
        image: Image,
        /// `VkClearColorValue`.
        color: [u32; 4],
        /// What is written.
        range: Range,
    }
    /// Stores what an image needs: an [`ImageNeeds`](super::ImageNeeds).
    0x0D QUERY_IMAGE QueryImage {
        /// Where to, a multiple of 8.
        destination: u64,
        /// The image, without address and size.
        image: Image,
        /// The subresource of a linear image whose place is asked for: one layer.
        layers: Layers,
    }
    /// Stores which images of a kind there can be: an [`ImageFormat`](super::ImageFormat).
    0x0E QUERY_IMAGE_FORMAT QueryImageFormat {
        /// Where to, a multiple of 8.
        destination: u64,
        /// An image, without address, size, samples, extent, levels and layers: these are 0.
        image: Image,
    }
}
crate::assert_layout!(Copy, 32, header at 0, source at 8, destination at 16, length at 24);
crate::assert_layout!(Fill, 24, header at 0, destination at 8, length at 16);
crate::assert_layout!(Update, 16, header at 0, destination at 8);
crate::assert_layout!(
    Dispatch, 56,
    header at 0, pipeline at 8, indirect at 16, base at 24, groups at 36, dynamic_offsets at 48, push_constants at 52,
);
crate::assert_layout!(Timestamp, 16, header at 0, destination at 8);
crate::assert_layout!(Wait, 16, header at 0, address at 8);
crate::assert_layout!(QueryCaps, 24, header at 0, destination at 8, length at 16);
crate::assert_layout!(
    CopyImage, 208,
    header at 0, source at 8, destination at 72, from at 136, to at 152, from_offset at 168, to_offset at 180,
    extent at 192, reserved at 204,
);
crate::assert_layout!(
    CopyMemoryToImage, 128,
    header at 0, address at 8, image at 16, layers at 80, offset at 96, extent at 108, row_length at 120, height at 124,
);
crate::assert_layout!(
    CopyImageToMemory, 128,
    header at 0, address at 8, image at 16, layers at 80, offset at 96, extent at 108, row_length at 120, height at 124,
);
crate::assert_layout!(ClearImage, 112, header at 0, image at 8, color at 72, range at 88);
crate::assert_layout!(QueryImage, 96, header at 0, destination at 8, image at 16, layers at 80);
crate::assert_layout!(QueryImageFormat, 80, header at 0, destination at 8, image at 16);

/// A command's structure.
pub trait Encoded: IntoBytes + Immutable + Sized {
    /// Its number.
    const CODE: CommandCode;

    /// Its header.
    fn header_mut(&mut self) -> &mut CommandHeader;

    /// Sets the header of a command that so many bytes follow, a multiple of 8.
    #[must_use]
    #[inline]
    fn with_header(mut self, argument: u32, data: usize) -> Self {
        let units = ((size_of::<Self>() + data) / UNIT) as u16;
        *self.header_mut() = CommandHeader { code: Self::CODE, units, argument };
        self
    }
}

impl CommandHeader {
    /// The command's length in bytes.
    #[must_use]
    pub const fn size(self) -> usize {
        self.units as usize * UNIT
    }
}

/// Why bytes are no command.
enum Why {
    Unknown,
    Length,
    Argument,
}

macro_rules! no_data {
    ($($name:ident)*) => {
        $(impl $name {
            const fn data_length(&self) -> Result<usize, Why> {
                Ok(0)
            }
        })*
    };
}
no_data!(Barrier Copy Fill Timestamp Wait QueryCaps);
no_data!(CopyImage CopyMemoryToImage CopyImageToMemory ClearImage QueryImage QueryImageFormat);

impl Update {
    const fn data_length(&self) -> Result<usize, Why> {
        let length = self.header.argument;
        if length > MAX_UPDATE || !length.is_multiple_of(4) {
            return Err(Why::Argument);
        }
        Ok(length as usize)
    }
}

impl Dispatch {
    fn data_length(&self) -> Result<usize, Why> {
        let Self { header, dynamic_offsets, push_constants, .. } = *self;
        if header.argument > MAX_SETS
            || dynamic_offsets > MAX_DYNAMIC_OFFSETS
            || push_constants > MAX_PUSH_CONSTANTS
            || !push_constants.is_multiple_of(4)
        {
            return Err(Why::Argument);
        }
        Ok(self.offsets_end() + push_constants as usize)
    }

    /// Bytes of the sets' addresses.
    const fn sets_end(&self) -> usize {
        self.header.argument as usize * UNIT
    }

    /// Bytes until the push constants.
    const fn offsets_end(&self) -> usize {
        self.sets_end() + (self.dynamic_offsets as usize * 4).next_multiple_of(UNIT)
    }

    /// Bytes that follow a dispatch with so many sets, dynamic offsets and bytes of push constants.
    #[must_use]
    pub const fn data_size(sets: usize, dynamic_offsets: usize, push_constants: usize) -> usize {
        sets * UNIT
            + (dynamic_offsets * 4).next_multiple_of(UNIT)
            + push_constants.next_multiple_of(UNIT)
    }

    /// The addresses of the sets, in what follows.
    #[must_use]
    pub fn sets<'s>(&self, data: &'s [u8]) -> &'s [[u8; 8]] {
        data.get(..self.sets_end()).unwrap_or_default().as_chunks().0
    }

    /// The dynamic offsets, in what follows.
    #[must_use]
    pub fn offsets<'s>(&self, data: &'s [u8]) -> &'s [[u8; 4]] {
        let start = self.sets_end();
        let end = start + self.dynamic_offsets as usize * 4;
        data.get(start..end).unwrap_or_default().as_chunks().0
    }

    /// The push constants, in what follows.
    #[must_use]
    pub fn constants<'s>(&self, data: &'s [u8]) -> &'s [u8] {
        data.get(self.offsets_end()..).unwrap_or_default()
    }
}

/// Why bytes are no stream.
#[derive(Debug, Clone, ::core::marker::Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// No command has this number.
    #[error("unknown command {code:#x} at byte {offset}", code = .code.0)]
    Unknown {
        /// The number.
        code: CommandCode,
        /// Where it begins.
        offset: usize,
    },
    /// The length does not fit the command, or the stream ends before it does.
    #[error("a command {code} of the wrong length at byte {offset}")]
    Length {
        /// The command's number.
        code: CommandCode,
        /// Where it begins.
        offset: usize,
    },
    /// An argument is larger than it can be.
    #[error("a command {code} with an impossible argument at byte {offset}")]
    Argument {
        /// The command's number.
        code: CommandCode,
        /// Where it begins.
        offset: usize,
    },
}

impl CommandError {
    /// Where the command begins.
    #[must_use]
    pub const fn offset(&self) -> usize {
        match self {
            Self::Unknown { offset, .. }
            | Self::Length { offset, .. }
            | Self::Argument { offset, .. } => *offset,
        }
    }
}

/// The commands of a stream, each with the byte at which it begins. Ends after the first error.
///
/// `bytes` must be the reader's own copy, not memory that the guest can still write.
pub fn commands(bytes: &[u8]) -> impl Iterator<Item = Result<(usize, Command<'_>), CommandError>> {
    let mut at = 0;
    core::iter::from_fn(move || {
        if at >= bytes.len() {
            return None;
        }
        let offset = at;
        let command = take(bytes, &mut at);
        if command.is_err() {
            at = bytes.len();
        }
        Some(command.map(|command| (offset, command)))
    })
}

/// Decodes the command at `at`, and moves behind it.
fn take<'s>(bytes: &'s [u8], at: &mut usize) -> Result<Command<'s>, CommandError> {
    let offset = *at;
    let rest = bytes.get(offset..).unwrap_or_default();
    let short = CommandError::Length { code: CommandCode(0), offset };
    let (header, _) = CommandHeader::read_from_prefix(rest).map_err(|_| short)?;
    let (code, size) = (header.code, header.size());
    let wrong = CommandError::Length { code, offset };
    let command = rest.get(..size).filter(|_| size >= UNIT).ok_or(wrong)?;
    *at = offset + size;
    decode(header, command).map_err(|why| match why {
        Why::Unknown => CommandError::Unknown { code, offset },
        Why::Length => wrong,
        Why::Argument => CommandError::Argument { code, offset },
    })
}
