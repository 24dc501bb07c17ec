// SPDX-License-Identifier: MIT OR Apache-2.0

//! Profiles: VMMs as data, with what a vhost-user device sees of them.

use std::time::Duration;
use vhost::vhost_user::message::VhostUserProtocolFeatures as Protocol;

/// A part of the conversation with the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// `SET_OWNER`
    Owner,
    /// `GET_FEATURES`
    Features,
    /// `GET_PROTOCOL_FEATURES`
    ProtocolFeatures,
    /// `SET_PROTOCOL_FEATURES`
    AcceptProtocolFeatures,
    /// `GET_QUEUE_NUM`
    QueueCount,
    /// `SET_BACKEND_REQ_FD`, if the device takes it
    RequestChannel,
    /// `GET_SHMEM_CONFIG`, if the device has shared memory
    SharedMemory,
    /// `GET_CONFIG`, as the driver reads the configuration word by word
    Configuration,
    /// `SET_FEATURES`
    AcceptFeatures,
    /// `SET_MEM_TABLE`
    MemoryTable,
    /// These messages, for one queue after the other
    EachQueue(&'static [QueueStep]),
}

/// A part of the conversation about one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueStep {
    /// `SET_VRING_NUM`
    Size,
    /// `SET_VRING_BASE`
    Base,
    /// `SET_VRING_ADDR`
    Addresses,
    /// `SET_VRING_KICK`
    Kick,
    /// `SET_VRING_CALL`
    Call,
    /// `SET_VRING_ERR`
    Error,
    /// `SET_VRING_ENABLE` with 1
    Enable,
    /// `SET_VRING_ENABLE` with 0
    Disable,
    /// `GET_VRING_BASE`, which stops the queue
    TakeBase,
}

/// How a VMM passes on a driver's access to the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigAccess {
    /// Unchanged, at any offset and length. The VMM ends if the device refuses it.
    AsItIs,
    /// As a request for this many bytes from the start, every time. What lies beyond reads as ones, and the
    /// device learns nothing of it.
    Whole(u32),
}

/// The messages of a VMM that pauses and resumes while its device keeps its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Messages that pause.
    pub pause: &'static [Step],
    /// Messages that resume.
    pub resume: &'static [Step],
}

/// Where a queue starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// At its beginning.
    Zero,
    /// Behind the buffers that the driver had offered by then, which the device never takes.
    Available,
}

/// Which messages the VMM wants acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledged {
    /// All.
    All,
    /// Messages that carry descriptors, and those that enable or disable queues.
    Some,
}

/// A VMM.
#[derive(Debug, PartialEq, Eq)]
pub struct VmmProfile {
    /// The VMM's name.
    pub name: &'static str,
    /// The vhost-user protocol features that it takes, if the device offers them.
    pub protocol_features: Protocol,
    /// Its messages once it is connected.
    pub connect: &'static [Step],
    /// Its messages when the driver sets `DRIVER_OK`.
    pub start: &'static [Step],
    /// Its messages when the driver resets the device.
    pub stop: &'static [Step],
    /// Its messages for a pause; `None` if a pause ends all of the device's state.
    pub pause: Option<Pause>,
    /// Its messages instead of `connect`, and before `start`, to a device that came back after the
    /// connection ended; `None` if it does not connect again.
    pub reconnect: Option<&'static [Step]>,
    /// How it passes on accesses to the configuration.
    pub config_access: ConfigAccess,
    /// Where queues begin.
    pub base: Base,
    /// Which messages it wants acknowledged.
    pub acknowledged: Acknowledged,
    /// Bytes of guest memory below the hole that ends at 4 GiB; the rest is above it.
    pub low_memory: u64,
    /// How many shared-memory regions a device may have; 0 if it has none. Their sizes must add up to a power
    /// of two.
    pub shared_memory_regions: u32,
    /// Entries of the memory table, guest memory included. Every mapping into a shared-memory
    /// region takes one.
    pub memory_slots: usize,
    /// How long the guest's stores still go to the old place after the VMM acknowledged that a page of a
    /// shared-memory region changed or went.
    pub late_changes: Duration,
    /// Whether a mapping crashes it while the device is not started.
    pub dies_of_early_mappings: bool,
}

impl VmmProfile {
    /// Whether the device can interrupt the guest.
    #[must_use]
    pub fn has_interrupts(&self) -> bool {
        let gives_call = |step: &Step| match step {
            Step::EachQueue(steps) => steps.contains(&QueueStep::Call),
            _ => false,
        };
        self.connect.iter().chain(self.start).any(gives_call)
    }
}

/// QEMU 11 with `vhost-user-test-device-pci` behind a PCIe root port. The order is as recorded
/// from QEMU 11.1.3.
pub const QEMU: VmmProfile = VmmProfile {
    name: "qemu",
    protocol_features: Protocol::MQ
        .union(Protocol::CONFIG)
        .union(Protocol::REPLY_ACK)
        .union(Protocol::BACKEND_REQ)
        .union(Protocol::BACKEND_SEND_FD)
        .union(Protocol::SHMEM),
    connect: &[
        Step::Features,
        Step::ProtocolFeatures,
        Step::AcceptProtocolFeatures,
        Step::QueueCount,
        Step::RequestChannel,
        Step::Owner,
        Step::Features,
        Step::EachQueue(&[QueueStep::Call, QueueStep::Error]),
        Step::SharedMemory,
        Step::Configuration,
    ],
    start: &[
        Step::AcceptFeatures,
        Step::MemoryTable,
        Step::EachQueue(&[
            QueueStep::Size,
            QueueStep::Base,
            QueueStep::Addresses,
            QueueStep::Kick,
            QueueStep::Call,
        ]),
        Step::EachQueue(&[QueueStep::Enable]),
        Step::EachQueue(&[QueueStep::Call]),
    ],
    stop: &[Step::EachQueue(&[QueueStep::Disable]), Step::EachQueue(&[QueueStep::TakeBase])],
    pause: None,
    reconnect: None,
    config_access: ConfigAccess::Whole(64),
    base: Base::Zero,
    acknowledged: Acknowledged::Some,
    low_memory: 2 << 30,
    shared_memory_regions: 1,
    memory_slots: 8,
    late_changes: Duration::ZERO,
    dies_of_early_mappings: true,
};

/// QEMU before 11: without shared-memory regions.
pub const QEMU_WITHOUT_SHARED_MEMORY: VmmProfile = VmmProfile {
    name: "qemu-without-shared-memory",
    protocol_features: QEMU.protocol_features.difference(Protocol::SHMEM),
    shared_memory_regions: 0,
    ..QEMU
};

/// cloud-hypervisor with `--generic-vhost-user`. The order is that of its sources, versions 53 and 54, and
/// of the messages that version 54.0 sent.
pub const CLOUD_HYPERVISOR: VmmProfile = VmmProfile {
    name: "cloud-hypervisor",
    protocol_features: Protocol::CONFIG
        .union(Protocol::MQ)
        .union(Protocol::CONFIGURE_MEM_SLOTS)
        .union(Protocol::REPLY_ACK)
        .union(Protocol::INFLIGHT_SHMFD)
        .union(Protocol::LOG_SHMFD)
        .union(Protocol::DEVICE_STATE)
        .union(Protocol::BACKEND_REQ),
    connect: &[
        Step::Owner,
        Step::Features,
        Step::ProtocolFeatures,
        Step::AcceptProtocolFeatures,
        Step::QueueCount,
        Step::Configuration,
    ],
    start: &[
        Step::AcceptFeatures,
        Step::MemoryTable,
        Step::EachQueue(&[QueueStep::Size]),
        // No call: the device has no INTx, and a driver that takes no MSI-X vector gets none.
        Step::EachQueue(&[QueueStep::Addresses, QueueStep::Base, QueueStep::Kick]),
        Step::EachQueue(&[QueueStep::Enable]),
        Step::RequestChannel,
    ],
    stop: &[Step::EachQueue(&[QueueStep::Disable, QueueStep::TakeBase])],
    pause: Some(Pause {
        pause: &[Step::EachQueue(&[QueueStep::Disable])],
        resume: &[Step::EachQueue(&[QueueStep::Enable])],
    }),
    reconnect: Some(&[Step::Owner, Step::Features, Step::AcceptProtocolFeatures]),
    config_access: ConfigAccess::AsItIs,
    base: Base::Available,
    acknowledged: Acknowledged::All,
    low_memory: 3 << 30,
    shared_memory_regions: 0,
    memory_slots: 32,
    late_changes: Duration::ZERO,
    dies_of_early_mappings: false,
};

/// QEMU with more entries in its memory table.
pub const QEMU_WITH_MEMORY_SLOTS: VmmProfile =
    VmmProfile { name: "qemu-with-memory-slots", memory_slots: 72, ..QEMU };

/// QEMU with its slowest mappings: its acknowledgement of a mapping is no barrier.
pub const QEMU_WITH_LATE_CHANGES: VmmProfile = VmmProfile {
    name: "qemu-with-late-changes",
    late_changes: Duration::from_millis(16),
    ..QEMU_WITH_MEMORY_SLOTS
};

/// VMMs that differ from those below only under particular configurations.
pub const MORE_VMMS: [&VmmProfile; 2] = [&QEMU_WITH_MEMORY_SLOTS, &QEMU_WITH_LATE_CHANGES];

/// All VMMs.
pub const VMMS: [&VmmProfile; 3] = [&QEMU, &QEMU_WITHOUT_SHARED_MEMORY, &CLOUD_HYPERVISOR];
