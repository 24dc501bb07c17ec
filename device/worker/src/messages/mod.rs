// SPDX-License-Identifier: MIT OR Apache-2.0

//! The messages between a worker and its owner: packets of a Unix socket, with one structure each.
//!
//! Each side checks what it receives. The owner trusts a worker no more than a guest, because it runs guests' code.

mod batch;
pub mod commands;
mod role;
mod task;
pub mod video;

pub use batch::{Batch, BatchWriter, KernelDispatch};
pub use role::Role;
pub use task::{Task, TaskWriter};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Incremented when a structure changes: owner and worker come from one build, but may be two files.
pub const VERSION: u32 = 6;
/// The longest name of an entry point, in bytes.
pub const MAX_NAME: usize = 64;
/// Most specialisation constants of a kernel.
pub const MAX_CONSTANTS: usize = 16;
/// Most bytes of push constants.
pub const MAX_PUSH_CONSTANTS: usize = 256;
/// Most descriptors of a kernel.
pub const MAX_DESCRIPTORS: usize = 16;
/// Most dispatches of a batch.
pub const MAX_BATCH: usize = 64;
/// Most bytes of SPIR-V.
pub const MAX_SPIRV: u64 = 1 << 20;
/// Most bytes of a `Text`.
pub const MAX_TEXT: usize = 1024;
/// Most threads of a worker that can wait for pages at once: more than lavapipe starts.
pub const SLOTS: usize = 64;
/// Most bytes of a task, in the words of its role.
pub const MAX_TASK: usize = 4096;
/// Most bytes of the answer to a task.
pub const MAX_ANSWER: usize = 256;
/// The granularity of mappings in a window, in bytes.
pub const PAGE: u64 = 4096;
/// Most bytes of a packet from an owner: a whole batch.
pub const MAX_REQUEST: usize = 8 + batch::MAX_BYTES;
/// Most bytes of a packet from a worker.
pub const MAX_EVENT: usize = 2048;
/// Most bytes that a worker says on its standard error, which is a file in memory.
pub const MAX_SAID: u64 = 1 << 16;
/// The slot of a `Map` that answers no fault.
pub const NO_SLOT: u32 = u32::MAX;

/// Text of a bounded length.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Text {
    length: u32,
    bytes: [u8; MAX_TEXT],
}

impl Text {
    /// Takes the first `MAX_TEXT` bytes of this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut bytes = [0; MAX_TEXT];
        let length = text.len().min(MAX_TEXT);
        bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
        Self { length: length as u32, bytes }
    }

    /// Returns the text. A length beyond `MAX_TEXT` counts as `MAX_TEXT`.
    #[must_use]
    pub fn read(&self) -> String {
        let length = (self.length as usize).min(MAX_TEXT);
        String::from_utf8_lossy(&self.bytes[..length]).into_owned()
    }
}

/// A message.
pub trait Message: FromBytes + IntoBytes + Immutable {
    /// The number that identifies it.
    const KIND: u32;

    /// The packet's header: number and version.
    const HEADER: [u32; 2] = [Self::KIND, VERSION];
}

macro_rules! messages {
    ($(#[$about:meta])* $all:ident {
        $($(#[$what:meta])* $kind:literal $name:ident { $($(#[$field_about:meta])* $field:ident: $type:ty,)* })*
    }) => {
        $(
            $(#[$what])*
            #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
            #[repr(C)]
            pub struct $name { $($(#[$field_about])* pub $field: $type,)* }
            impl Message for $name { const KIND: u32 = $kind; }
        )*

        $(#[$about])*
        #[derive(Clone, Copy)]
        #[expect(missing_docs, reason = "each names its structure")]
        pub enum $all { $($name($name),)* }

        impl $all {
            /// Reads a packet.
            ///
            /// # Errors
            /// When its number, version or length is wrong.
            pub fn read(packet: &[u8]) -> Result<Self, Malformed> {
                let Ok(([kind, version], message)) = <[u32; 2]>::read_from_prefix(packet) else {
                    return Err(Malformed::Length(packet.len()));
                };
                if version != VERSION {
                    return Err(Malformed::Version(version));
                }
                match kind {
                    $($kind => match $name::read_from_bytes(message) {
                        Ok(message) => Ok(Self::$name(message)),
                        Err(_) => Err(Malformed::Length(packet.len())),
                    },)*
                    _ => Err(Malformed::Kind(kind)),
                }
            }
        }
    };
}

/// Why a packet cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It is shorter than a header, or its length does not fit its number.
    #[error("a packet of {0} bytes")]
    Length(usize),
    /// It has another version.
    #[error("a packet of version {0}, not {VERSION}")]
    Version(u32),
    /// Its number is unknown.
    #[error("a packet of the unknown kind {0:#x}")]
    Kind(u32),
    /// A field has an impossible value.
    #[error("a packet with an impossible {0}")]
    Field(&'static str),
    /// It comes with a descriptor that it must not have, or without one that it must have.
    #[error("a packet with the wrong descriptors")]
    Descriptor,
}

messages! {
    /// What an owner sends.
    Request {
        /// The first request: reserves a window of addresses and prepares a device. The packet's descriptor is the
        /// socket for `Map` and `Unmap`, which the worker obeys even while a kernel runs.
        0x01 Start {
            /// The window's first address.
            start: u64,
            /// The window's length in bytes.
            length: u64,
            /// Most bytes of the worker's own memory.
            memory: u64,
            /// The Vulkan device's index in the list.
            device: u32,
            /// Most processors that the worker uses; 0 for all.
            processors: u32,
            /// The first of them, of those that the worker may use; counted round.
            first_processor: u32,
            /// The number of its [`Role`].
            role: u32,
            /// For video, most samples of luma of a picture of a session that decodes; 0 if it encodes.
            samples: u32,
            /// Zero.
            reserved: u32,
        }
        /// Compiles a kernel. The packet's descriptor is a file with the SPIR-V.
        0x02 Load {
            /// The kernel's number, which the owner chooses.
            kernel: u32,
            /// Bytes of push constants.
            push_constants: u32,
            /// Bytes of SPIR-V.
            length: u64,
            /// Number of descriptors: storage buffers with bindings from 0 in set 0.
            descriptors: u32,
            /// Number of specialisation constants.
            constants: u32,
            /// Bytes of the entry point's name.
            name_length: u32,
            /// Zero.
            reserved: u32,
            /// Number and value of each specialisation constant.
            constant: [[u32; 2]; MAX_CONSTANTS],
            /// The entry point's name.
            name: [u8; MAX_NAME],
        }
        /// Forgets a kernel.
        0x03 Unload {
            /// The kernel.
            kernel: u32,
            /// Zero.
            reserved: u32,
        }
        /// Maps a part of the file that the packet's descriptor names.
        0x05 Map {
            /// The slot of the thread that waits for it, or `NO_SLOT`.
            slot: u32,
            /// 1 if kernels may store there, else 0.
            writable: u32,
            /// The first address.
            address: u64,
            /// Bytes.
            length: u64,
            /// Offset in the file, in bytes.
            offset: u64,
        }
        /// Takes a part of the window back.
        0x06 Unmap {
            /// The first address.
            address: u64,
            /// Bytes.
            length: u64,
        }
    }
}

messages! {
    /// What a worker sends.
    Event {
        /// `Start` succeeded.
        0x81 Ready {
            /// 1 if pointers reach memory that no buffer covers, else 0.
            pointers: u32,
            /// 1 if memory must be mapped before a kernel reaches it, because the device cannot fault; else 0.
            resident: u32,
        }
        /// `Start` failed; the worker ends.
        0x82 Refused {
            /// Why.
            why: Text,
        }
        /// `Load` succeeded.
        0x83 Loaded {
            /// The kernel.
            kernel: u32,
        }
        /// `Load` failed.
        0x84 NotLoaded {
            /// The kernel.
            kernel: u32,
            /// The error.
            why: Text,
        }
        /// All work groups of a batch are done.
        0x85 Done {
            /// The number of its dispatches.
            count: u32,
        }
        /// A dispatch was invalid, or a Vulkan call failed.
        0x86 NotDone {
            /// The dispatch's index in the batch.
            index: u32,
            /// Why.
            why: Text,
        }
        /// A thread waits for memory at an address that is in the window.
        0x87 Missing {
            /// The thread's slot.
            slot: u32,
            /// 1 for a store, 0 for a load.
            store: u32,
            /// The address.
            address: u64,
        }
        /// A kernel accessed an address outside the window; the worker ends.
        0x88 Wild {
            /// 1 for a store, 0 for a load.
            store: u32,
            /// 1 if the address is known, else 0: the processor does not report a non-canonical one.
            known: u32,
            /// The address.
            address: u64,
        }
        /// A task is done. A role says in these bytes what came of it.
        0x8a Answer {
            /// Bytes that count, from the first.
            length: u32,
            /// The answer; zero behind its length.
            bytes: [u8; MAX_ANSWER],
        }
        /// No access reaches the former mapping any more.
        0x89 Unmapped {
            /// The first address.
            address: u64,
            /// Bytes.
            length: u64,
        }
    }
}

impl Answer {
    /// An answer of these bytes, at most [`MAX_ANSWER`].
    ///
    /// # Panics
    /// When there are more.
    #[must_use]
    pub fn new(said: &[u8]) -> Self {
        let mut answer = Self { length: said.len() as u32, bytes: [0; MAX_ANSWER] };
        answer.bytes[..said.len()].copy_from_slice(said);
        answer
    }
}

/// Returns the packet of a message.
#[cfg(test)]
pub fn packet(message: &impl Message) -> Vec<u8> {
    fn header<M: Message>(_: &M) -> [u32; 2] {
        M::HEADER
    }
    [header(message).as_bytes(), message.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_comes_back_as_what_was_sent() {
        let sent = Missing { slot: 3, store: 1, address: 0x1234_5678_9000 };
        match Event::read(&packet(&sent)) {
            Ok(Event::Missing(Missing { slot: 3, store: 1, address: 0x1234_5678_9000 })) => {}
            _ => panic!("another message"),
        }
    }

    #[test]
    fn a_packet_of_another_version_length_or_kind_is_none() {
        let packet = packet(&Done { count: 1 });
        let mut bytes = packet.clone();
        bytes.push(0);
        assert_eq!(Event::read(&bytes).err(), Some(Malformed::Length(13)));
        assert_eq!(Event::read(&bytes[..11]).err(), Some(Malformed::Length(11)));
        assert_eq!(Event::read(&[]).err(), Some(Malformed::Length(0)));
        bytes[4] = 1;
        assert_eq!(Event::read(&bytes[..12]).err(), Some(Malformed::Version(1)));
        assert_eq!(Request::read(&packet).err(), Some(Malformed::Kind(Done::KIND)));
    }

    #[test]
    fn a_text_that_lies_about_its_length_ends_where_there_is_no_more() {
        let mut text = Text::new("abc");
        assert_eq!(text.read(), "abc");
        text.length = u32::MAX;
        assert_eq!(text.read().len(), MAX_TEXT);
        assert_eq!(Text::new(&"x".repeat(5000)).read().len(), MAX_TEXT);
    }

    #[test]
    fn every_packet_has_room() {
        assert!(8 + size_of::<NotDone>() <= MAX_EVENT);
        assert!(8 + size_of::<Load>() <= MAX_REQUEST);
        assert!(8 + size_of::<Answer>() <= MAX_EVENT);
    }
}
