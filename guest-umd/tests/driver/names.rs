// SPDX-License-Identifier: MIT OR Apache-2.0

//! Names of objects for people.

use crate::device::{FEATURES, ScriptedDevice, Shape};
use crate::rig::{Rig, error_of};
use bellhop_guest_umd::Error;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::process::{MAX_OBJECT_NAME, SetObjectName};
use bellhop_protocol::features::Features;

/// A rig on a device that has names.
fn rig() -> Rig {
    let features = FEATURES | Features::OBJECT_NAMES;
    Rig::on(ScriptedDevice::with(Shape { features, opened: features, ..Shape::default() }))
}

#[test]
fn each_object_is_named_by_its_handle() {
    let rig = rig();
    let allocation = rig.gpu.create_allocation(AllocationKind::SYSTEM, PAGE_SIZE).unwrap();
    let fence = rig.gpu.create_fence(0).unwrap();
    let kernel_mode = rig.context.create_kernel_mode_queue().unwrap();
    let node = rig.gpu.create_virtual_context(0).unwrap();
    rig.device.take_sent();
    let named = |handle: Handle| {
        let sent = rig.device.take_sent();
        let [sent] = sent.as_slice() else { panic!("one request") };
        let request: SetObjectName = sent.read();
        assert_eq!((request.object, request.name()), (handle, Ok("größe")));
    };
    let name = "größe";
    rig.gpu.set_name(name).unwrap();
    named(rig.gpu.handle());
    rig.context.set_name(name).unwrap();
    named(rig.context.handle());
    rig.queue.set_name(name).unwrap();
    named(rig.queue.handle());
    kernel_mode.set_name(name).unwrap();
    named(kernel_mode.handle());
    node.set_name(name).unwrap();
    named(node.handle());
    allocation.set_name(name).unwrap();
    named(allocation.handle());
    fence.set_name(name).unwrap();
    named(fence.handle());
}

#[test]
fn whatever_a_program_says_is_a_name() {
    let rig = rig();
    for (text, name) in [
        ("two\nlines", "two?lines".to_owned()),
        (&"x".repeat(1000), "x".repeat(MAX_OBJECT_NAME)),
        ("", String::new()),
    ] {
        rig.gpu.set_name(text).unwrap();
        let request: SetObjectName = rig.device.take_sent()[0].read();
        assert_eq!(request.name(), Ok(name.as_str()));
    }
}

#[test]
fn a_device_without_names_is_asked_for_none() {
    let rig = Rig::disconnected();
    let error = error_of(rig.gpu.set_name("a name"));
    assert!(matches!(error, Error::NotAvailable("names of objects")), "{error}");
    assert!(rig.device.take_sent().is_empty());
}
