// SPDX-License-Identifier: MIT OR Apache-2.0

//! Protocol version and features.

use bitflags::bitflags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A protocol version. Two sides are compatible when `major` is equal; a higher `minor` only adds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Version {
    /// Raised when an existing layout or meaning changes.
    pub major: u16,
    /// Raised when something is added that an older peer can ignore.
    pub minor: u16,
}
crate::assert_layout!(Version, 4, major at 0, minor at 2);

impl Version {
    /// The version that this crate describes.
    pub const CURRENT: Self = Self { major: 4, minor: 5 };

    /// Returns whether a peer of version `other` is compatible.
    #[must_use]
    pub const fn is_compatible_with(self, other: Self) -> bool {
        self.major == other.major
    }
}

impl core::fmt::Display for Version {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

bitflags! {
    /// Optional features. The device offers them in its [configuration space](crate::config::ConfigSpace), and the
    /// driver selects some of them in [`OpenAdapter`](crate::control::adapter::OpenAdapter). The device refuses a
    /// bit that it does not offer.
    ///
    /// They are not virtio feature bits: some VMMs pass none that they do not know.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Features: u64 {
        /// HW queues may be created for user-mode submission: the guest maps doorbells and submits with plain
        /// stores. Without it only the kernel-mode path exists.
        const USER_MODE_SUBMISSION = 1 << 0;
        /// The guest may put areas of the BAR into its own memory, and must where the VMM maps no BAR: see
        /// [`DonateArea`](crate::control::adapter::DonateArea).
        const DONATED_AREAS = 1 << 1;
        /// The guest may change the adapter's power states, which affects every guest.
        const POWER_CONTROL = 1 << 2;
        /// The device moves paged allocations back to local memory when engines use them. Without it, a guest's
        /// allocations move only on request.
        const PAGE_MIGRATION = 1 << 3;
        /// Fences may be native: queues wait for them on the GPU, and signals interrupt the host only where a CPU
        /// waits. Without it there is no user-mode submission either: "user-mode queues can't support monitored
        /// fences".
        const NATIVE_FENCES = 1 << 4;
        /// HW queues may be created that never count as hung for lack of progress:
        /// [`HwQueueFlags`](crate::control::hw_queue::HwQueueFlags).
        const DISABLE_GPU_TIMEOUT = 1 << 5;
        /// A doorbell's cache line holds the ring's newest packets beside the write pointer, so that a submission
        /// takes one line each way: see [`DoorbellLine`](crate::handoff::doorbell_line::DoorbellLine). Without it,
        /// or where several queues ring one word, packets are in the ring alone.
        const DOORBELL_LINES = 1 << 6;
        /// A kick of the event queue wakes the engines that watch the guest's doorbells, and nothing else. A driver
        /// that rang and read `CONNECTED_NOTIFY` kicks it in place of
        /// [`NotifyWorkSubmission`](crate::control::doorbell::NotifyWorkSubmission), unless the doorbell was created
        /// with [`NOTIFY_EACH_SUBMISSION`](crate::doorbell::NOTIFY_EACH_SUBMISSION).
        const NOTIFY_BY_KICK = 1 << 7;
        /// A process may have a BAR of its own, in the guest's memory, so that what its CPUs share with the device is apart
        /// from other processes: see [`CreateProcessWithBar`](crate::control::process::CreateProcessWithBar).
        const PROCESS_BARS = 1 << 8;
        /// Objects may have names for people: see [`SetObjectName`](crate::control::process::SetObjectName).
        const OBJECT_NAMES = 1 << 9;
    }
}

impl core::fmt::Display for Features {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        bitflags::parser::to_writer(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_equal_major_version_is_compatible() {
        let newer_minor = Version { major: Version::CURRENT.major, minor: u16::MAX };
        let newer_major = Version { major: Version::CURRENT.major + 1, minor: 0 };
        assert!(Version::CURRENT.is_compatible_with(newer_minor));
        assert!(!Version::CURRENT.is_compatible_with(newer_major));
    }
}
