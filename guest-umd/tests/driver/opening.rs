// SPDX-License-Identifier: MIT OR Apache-2.0

//! Opening an adapter: what the driver asks of a device before it trusts it with anything.

use crate::device::{Answer, FEATURES, LAYOUT, ScriptedDevice, Shape};
use crate::rig::{error_of, open};
use bellhop_guest_umd::{Adapter, CommandBuffer, Error};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::{AREA_SLOTS, BarHeader};
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::control::adapter::{EngineType, OpenAdapter};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::hw_queue::SubmitCommand;
use bellhop_protocol::features::{Features, Version};
use bellhop_protocol::packet::flow::IndirectBuffer;
use bellhop_protocol::status::Status;
use std::sync::Arc;
use std::time::Duration;

const OTHER_MAJOR: Version = Version { major: Version::CURRENT.major + 1, minor: 0 };
const LATER_MINOR: Version =
    Version { major: Version::CURRENT.major, minor: Version::CURRENT.minor + 1 };

/// Opens an unusual device; returns what was sent as well.
fn open_changed(change: impl FnOnce(&mut Shape)) -> (Result<Adapter, Error>, Arc<ScriptedDevice>) {
    let mut shape = Shape::default();
    change(&mut shape);
    let device = ScriptedDevice::with(shape);
    (Adapter::open(Arc::clone(&device) as _), device)
}

/// The error of opening a device with another BAR. Nothing is created on such a device.
fn open_bar(change: impl FnOnce(&mut BarHeader)) -> Error {
    let (result, device) = open_changed(|shape| change(shape.bar.as_mut().unwrap()));
    assert_eq!(device.take_codes(), [RequestCode::OPEN_ADAPTER]);
    error_of(result)
}

#[test]
fn an_adapter_tells_what_the_device_said_of_itself() {
    let device = ScriptedDevice::new();
    let adapter = open(&device);
    let expected = [
        RequestCode::OPEN_ADAPTER,
        RequestCode::QUERY_USER_MODE_SUBMISSION_CAPS,
        RequestCode::CREATE_PROCESS,
    ];
    assert_eq!(device.take_codes(), expected);
    assert_eq!(adapter.features(), FEATURES);
    assert_eq!(adapter.local_memory(), LAYOUT.local_memory);
    let nodes = adapter.nodes().unwrap();
    assert_eq!(nodes.len(), 2);
    assert!(nodes.iter().all(|node| node.engine_type == EngineType::COPY));
    assert_eq!(u64::from(adapter.user_mode_submission_caps().unwrap().doorbell_size), PAGE_SIZE);
    adapter.statistics().unwrap();
}

#[test]
fn a_device_without_the_magic_is_sent_nothing() {
    let (result, device) = open_changed(|shape| shape.config.magic = 0x1234);
    assert!(matches!(error_of(result), Error::NotBellhop { magic: 0x1234 }));
    assert!(device.take_sent().is_empty());
}

#[test]
fn a_device_of_another_major_version_is_sent_nothing() {
    let (result, device) = open_changed(|shape| shape.config.version = OTHER_MAJOR);
    let Error::Version { device: theirs, driver } = error_of(result) else { panic!() };
    assert_eq!((theirs, driver), (OTHER_MAJOR, Version::CURRENT));
    assert!(device.take_sent().is_empty());
}

#[test]
fn a_device_of_a_later_minor_version_is_welcome() {
    let (result, _) = open_changed(|shape| {
        shape.config.version = LATER_MINOR;
        shape.bar.as_mut().unwrap().version = LATER_MINOR;
    });
    result.unwrap();
}

#[test]
fn a_bar_without_the_magic_is_refused() {
    assert!(matches!(open_bar(|header| header.magic = 0), Error::BadBar(_)));
}

#[test]
fn a_bar_of_another_major_version_is_refused() {
    let error = open_bar(|header| header.version = OTHER_MAJOR);
    assert!(matches!(error, Error::Version { device: OTHER_MAJOR, .. }), "{error}");
}

#[test]
fn a_bar_with_more_areas_than_a_header_can_name_is_refused() {
    for count in [AREA_SLOTS as u32 + 1, u32::MAX] {
        assert!(matches!(open_bar(|header| header.area_count = count), Error::BadBar(_)));
    }
}

#[test]
fn a_bar_with_an_area_outside_it_is_refused() {
    let size = LAYOUT.bar_size();
    let last_page = u64::MAX - PAGE_SIZE + 1;
    let areas = [(size, PAGE_SIZE), (0, size + PAGE_SIZE), (last_page, PAGE_SIZE), (last_page, 1)];
    for (offset, length) in areas {
        for index in 0..5 {
            let error = open_bar(|header| {
                (header.areas[index].offset, header.areas[index].length) = (offset, length);
            });
            assert!(matches!(error, Error::BadBar(_)), "{offset:#x}, {length:#x}: {error}");
        }
    }
    assert!(matches!(open_bar(|header| header.areas[2].offset += 8), Error::BadBar(_)));
}

#[test]
fn a_bar_that_ends_inside_its_header_is_refused() {
    let (result, _) = open_changed(|shape| shape.bar_size = size_of::<BarHeader>() - 8);
    assert!(matches!(error_of(result), Error::BadBar(_)));
}

#[test]
fn a_feature_that_was_switched_off_since_is_not_asked_for_again() {
    let (result, device) = open_changed(|shape| shape.opened = Features::empty());
    assert_eq!(result.unwrap().features(), Features::empty());
    let sent = device.take_sent();
    assert_eq!(sent[0].read::<OpenAdapter>().features, FEATURES.bits());
    assert_eq!(sent[1].read::<OpenAdapter>().features, 0);
}

#[test]
fn a_device_that_refuses_every_feature_is_asked_only_twice() {
    let device = ScriptedDevice::new();
    device.script(|_, _| Answer::Refuse(Status::REVISION_MISMATCH, u64::MAX));
    let error = error_of(Adapter::open(Arc::clone(&device) as _));
    assert!(matches!(error, Error::Refused { status: Status::REVISION_MISMATCH, .. }), "{error}");
    assert_eq!(device.take_codes(), [RequestCode::OPEN_ADAPTER; 2]);
}

#[test]
fn without_a_bar_work_is_submitted_in_kernel_mode() {
    let (result, device) = open_changed(|shape| shape.bar = None);
    let adapter = result.unwrap();
    let gpu = adapter.create_device().unwrap();
    let context = gpu.create_context(0).unwrap();
    let mut queue = context.create_kernel_mode_queue().unwrap();
    let mut commands = CommandBuffer::new(&gpu, 64).unwrap();
    device.take_sent();
    let value = queue.submit(commands.nop().unwrap()).unwrap();
    let SubmitCommand { gpu_va, size, progress_fence_value, .. } = device.take_sent()[0].read();
    assert_eq!((progress_fence_value, size), (value, 8));
    // The engine finds the packets in the driver's own memory, and signals when they are done.
    device.execute_buffer(IndirectBuffer::new(gpu_va, size));
    device.signal(queue.progress_fence().handle(), progress_fence_value);
    queue.progress_fence().wait(value, Duration::ZERO).unwrap();
}

#[test]
fn without_a_bar_what_needs_one_is_not_available() {
    let (result, device) = open_changed(|shape| shape.bar = None);
    let adapter = result.unwrap();
    let gpu = adapter.create_device().unwrap();
    let context = gpu.create_context(0).unwrap();
    let fence = gpu.create_fence(0).unwrap();
    device.take_sent();
    let local = gpu.create_allocation(AllocationKind::LOCAL, PAGE_SIZE);
    let errors = [
        error_of(context.create_user_mode_queue(4096)),
        error_of(local),
        error_of(fence.current_value()),
        error_of(fence.poll(0, Duration::ZERO)),
    ];
    for error in errors {
        assert!(matches!(error, Error::NotAvailable(_)), "{error}");
    }
    assert!(device.take_sent().is_empty());
}
