// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about processes. Each process has its own handles and GPU virtual addresses.

use super::{Handle, request};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Creates a process of this guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateProcess {
    /// Zero.
    pub reserved: u64,
}
crate::assert_layout!(CreateProcess, 8, reserved at 0);
request!(CreateProcess, CREATE_PROCESS -> CreateProcessReply);

/// Creates a process of this guest with a BAR of its own (feature `PROCESS_BARS`): the doorbells, last-queued values,
/// statuses and fences of the process are in this memory of the guest's, and nobody else's are. Its extents follow.
///
/// The BAR has the layout of a [`BarLayout`](crate::bar::BarLayout) with these counts and no local memory, ends with its last
/// area, and begins with a header, which the device writes before it replies. Offsets in replies to the process are in this
/// BAR. The device forgets the memory before it replies to the [`DestroyProcess`] of the last process that has the BAR.
///
/// Such a process reaches no local memory by CPU: its allocations that CPUs access consist of the guest's own pages, and it has
/// HW queues and no other way to submit. The values of a fence that another process created are not published to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateProcessWithBar {
    /// A process that has a BAR which the new one shares; the other fields are then 0. Or 0.
    pub beside: u32,
    /// Number of [`Extent`](super::allocation::Extent)s that follow: together as long as the BAR.
    pub extent_count: u32,
    /// Number of doorbells.
    pub doorbell_count: u32,
    /// Number of fences.
    pub fence_count: u32,
}
crate::assert_layout!(
    CreateProcessWithBar, 16,
    beside at 0, extent_count at 4, doorbell_count at 8, fence_count at 12,
);
request!(CreateProcessWithBar, CREATE_PROCESS_WITH_BAR -> CreateProcessReply);

/// The new process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateProcessReply {
    /// The process id for the header of every request of the process; never 0.
    pub process: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(CreateProcessReply, 8, process at 0, reserved at 4);

/// Tells the host's operator which program of the guest's operating system the process is for. Tools show it as the guest's
/// word, and the device acts on nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DescribeProcess {
    /// The program's user.
    pub user: u32,
    /// The program's process id.
    pub pid: u32,
    /// The program's name, in ASCII. It ends with the field, or before the first zero.
    pub command: [u8; 16],
}
crate::assert_layout!(DescribeProcess, 24, user at 0, pid at 4, command at 8);
request!(DescribeProcess, DESCRIBE_PROCESS -> ());

/// The weight of a process of which nothing is said.
pub const DEFAULT_WEIGHT: u32 = 100;
/// The greatest weight of a process.
pub const MAX_WEIGHT: u32 = 10_000;

/// Sets the process's part of the engine time that its guest has, while other processes of the guest have work on an engine.
/// HW queues that the process creates from then on have it; those of a context have the group of its first one.
///
/// Processes of one [`group`](Self::group) use one part together, however many they are: a turn of any of them is charged to all,
/// by its own weight. Within a group, priorities order the contexts of all its processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SetProcessShare {
    /// Its part relative to those of others: 1 to [`MAX_WEIGHT`]; initially [`DEFAULT_WEIGHT`].
    pub weight: u32,
    /// Any number that the guest chooses for the group. Processes of which nothing is said are in group 0.
    pub group: u32,
}
crate::assert_layout!(SetProcessShare, 8, weight at 0, group at 4);
request!(SetProcessShare, SET_PROCESS_SHARE -> ());

/// Most bytes of an object's name.
pub const MAX_OBJECT_NAME: usize = 64;

/// Names an object for people, who see the name in tools; or takes its name away, if that is empty (feature `OBJECT_NAMES`).
/// The device acts on nothing of it. The name is that of the process's handle, and goes with it: another process that has the
/// object too may call it something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SetObjectName {
    /// A device, context, HW queue, allocation or fence of the process.
    pub object: Handle,
    /// UTF-8, padded with zeroes: see [`Self::name`].
    pub name: [u8; MAX_OBJECT_NAME],
}
crate::assert_layout!(SetObjectName, 72, object at 0, name at 8);
request!(SetObjectName, SET_OBJECT_NAME -> ());

impl SetObjectName {
    /// The request for a text of any length: as many whole characters as there is room for, of which those that a name must not
    /// have are `?`.
    #[must_use]
    pub fn new(object: Handle, text: &str) -> Self {
        let mut name = [0; MAX_OBJECT_NAME];
        let mut used = 0;
        for character in text.chars() {
            let character = if is_in_names(character) { character } else { '?' };
            let Some(room) = name.get_mut(used..used + character.len_utf8()) else { break };
            character.encode_utf8(room);
            used += character.len_utf8();
        }
        Self { object, name }
    }

    /// The name.
    ///
    /// # Errors
    /// The first byte that is wrong: of what is not UTF-8, of a character that could do something to a terminal or to the text
    /// around it, or behind the padding's first zero.
    pub fn name(&self) -> Result<&str, u8> {
        let wrong = |at: usize| self.name.get(at).copied().unwrap_or(0);
        let end = self.name.iter().position(|byte| *byte == 0).unwrap_or(MAX_OBJECT_NAME);
        let (text, padding) = self.name.split_at(end);
        let text = core::str::from_utf8(text).map_err(|error| wrong(error.valid_up_to()))?;
        if let Some((at, _)) = text.char_indices().find(|(_, character)| !is_in_names(*character)) {
            return Err(wrong(at));
        }
        match padding.iter().find(|byte| **byte != 0) {
            Some(behind) => Err(*behind),
            None => Ok(text),
        }
    }
}

/// Whether a name may have a character. Control characters, ends of lines and paragraphs, and what turns the direction of a text
/// around would change what a terminal shows of others.
fn is_in_names(character: char) -> bool {
    !character.is_control()
        && !matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// [`DestroyProcess::flags`]: the process ended abnormally.
pub const TERMINATED_ABNORMALLY: u64 = 1 << 0;

/// Destroys the process in the request's header with all its objects. The reply comes when no engine accesses its
/// memory any more.
///
/// Waits for the work of its queues, unless the process was [`TERMINATED_ABNORMALLY`]: then its contexts are
/// suspended and nothing more executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DestroyProcess {
    /// [`TERMINATED_ABNORMALLY`] or 0.
    pub flags: u64,
}
crate::assert_layout!(DestroyProcess, 8, flags at 0);
request!(DestroyProcess, DESTROY_PROCESS -> ());

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn request(bytes: &[u8]) -> SetObjectName {
        let mut name = [0; MAX_OBJECT_NAME];
        name[..bytes.len()].copy_from_slice(bytes);
        SetObjectName { object: Handle(1), name }
    }

    #[test]
    fn a_name_is_what_a_driver_said_as_far_as_it_fits() {
        for text in ["", "shadow map", "größe \"1\" \\", "影", &"x".repeat(64)] {
            assert_eq!(SetObjectName::new(Handle(1), text).name(), Ok(text));
        }
        // A character that does not fit whole is left out, with all behind it.
        let long = "x".repeat(63) + "ß and more";
        assert_eq!(SetObjectName::new(Handle(1), &long).name(), Ok(&*"x".repeat(63)));
        let rude = "a\x1b[2Jb\0c\n\u{9b}d\u{202e}e\u{2066}f\u{7f}";
        assert_eq!(SetObjectName::new(Handle(1), rude).name(), Ok("a?[2Jb?c??d?e?f?"));
    }

    #[test]
    fn what_is_no_name_is_told_by_its_first_wrong_byte() {
        for (bytes, wrong) in [
            (&b"a\xffb"[..], 0xff),
            (b"caf\xc3", 0xc3),
            (b"\xed\xa0\x80", 0xed),
            (b"a\tb", b'\t'),
            (b"\x7f", 0x7f),
            ("a\u{85}".as_bytes(), 0xc2),
            ("a\u{202e}".as_bytes(), 0xe2),
            (b"a\0b", b'b'),
            (b"\0\0\xff", 0xff),
        ] {
            assert_eq!(request(bytes).name(), Err(wrong), "{bytes:?}");
        }
        assert_eq!(request(b"").name(), Ok(""));
        let cut: String = "x".repeat(63) + "ß";
        assert_eq!(request(&cut.as_bytes()[..64]).name(), Err(0xc3));
    }
}
