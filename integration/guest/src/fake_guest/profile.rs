//! VMMs, as far as a vhost-user device can tell them apart. A profile is data.

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
    /// These, of one queue after the other
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

/// What becomes of a driver's access to the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigAccess {
    /// It is passed on as it is, wherever it is and however long. The VMM ends if it is refused.
    AsItIs,
    /// The first so many bytes are asked for, or written, every time. What is beyond them reads as
    /// ones, and the device does not hear of it.
    Whole(u32),
}

/// What a VMM says when it is paused and goes on, its device keeping all it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// To pause.
    pub pause: &'static [Step],
    /// To go on.
    pub resume: &'static [Step],
}

/// Where a queue begins when it is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// At its beginning.
    Zero,
    /// Behind what the driver had offered by then: that is never taken.
    Available,
}

/// Which messages the VMM wants acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledged {
    /// All.
    All,
    /// Those that carry descriptors, and those that enable or disable queues.
    Some,
}

/// A VMM.
#[derive(Debug, PartialEq, Eq)]
pub struct VmmProfile {
    /// Its name.
    pub name: &'static str,
    /// The vhost-user protocol features that it takes where the device offers them.
    pub protocol_features: Protocol,
    /// What it says once it is connected.
    pub connect: &'static [Step],
    /// What it says when the driver sets `DRIVER_OK`.
    pub start: &'static [Step],
    /// What it says when the driver resets the device.
    pub stop: &'static [Step],
    /// What it says about a pause; none where a pause is the end of all that the device has.
    pub pause: Option<Pause>,
    /// What it says instead of `connect`, and before `start`, to a device that came back after the
    /// connection had ended; none if it cannot go on.
    pub reconnect: Option<&'static [Step]>,
    /// How it passes accesses to the configuration on.
    pub config_access: ConfigAccess,
    /// Where queues begin.
    pub base: Base,
    /// Which messages it wants acknowledged.
    pub acknowledged: Acknowledged,
    /// Bytes of guest memory below the hole that ends at 4 GiB; the rest is above it.
    pub low_memory: u64,
    /// Whether it has shared-memory regions, and how many a device may have. Their sizes must add
    /// up to a power of two.
    pub shared_memory_regions: u32,
    /// Entries of the memory table, guest memory included. Every mapping into a shared-memory
    /// region takes one.
    pub memory_slots: usize,
    /// How long after it has acknowledged that a page of a shared-memory region is another, or
    /// none, its guest's stores still go where they went before.
    pub late_changes: Duration,
    /// Whether it dies of a mapping that comes while the device is not started.
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

/// QEMU before 11: the same without shared-memory regions.
pub const QEMU_WITHOUT_SHARED_MEMORY: VmmProfile = VmmProfile {
    name: "qemu-without-shared-memory",
    protocol_features: QEMU.protocol_features.difference(Protocol::SHMEM),
    shared_memory_regions: 0,
    ..QEMU
};

/// cloud-hypervisor with `--generic-vhost-user`. The order is that of its sources, versions 53 and 54,
/// and what version 54.0 was seen to say.
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

/// QEMU as a device with more entries for its memory table would find it.
pub const QEMU_WITH_MEMORY_SLOTS: VmmProfile =
    VmmProfile { name: "qemu-with-memory-slots", memory_slots: 72, ..QEMU };

/// The same at its slowest: QEMU's acknowledgement of a mapping is no barrier.
pub const QEMU_WITH_LATE_CHANGES: VmmProfile = VmmProfile {
    name: "qemu-with-late-changes",
    late_changes: Duration::from_millis(16),
    ..QEMU_WITH_MEMORY_SLOTS
};

/// What differs from those below only in what takes particular configurations to see.
pub const MORE_VMMS: [&VmmProfile; 2] = [&QEMU_WITH_MEMORY_SLOTS, &QEMU_WITH_LATE_CHANGES];

/// All of them.
pub const VMMS: [&VmmProfile; 3] = [&QEMU, &QEMU_WITHOUT_SHARED_MEMORY, &CLOUD_HYPERVISOR];
