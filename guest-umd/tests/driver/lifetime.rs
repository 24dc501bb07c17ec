// SPDX-License-Identifier: MIT OR Apache-2.0

//! Lifetimes of objects: each is destroyed once, after what was created on it.

use crate::device::{Answer, ScriptedDevice};
use crate::rig::{RING, error_of, open};
use bellhop_guest_umd::{
    Adapter, Allocation, CommandBuffer, Context, Device, Error, Fence, GpuMapping, KernelModeQueue,
    LockedBytes, Reservation, UserModeQueue,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::control::{Handle, RequestCode};
use bellhop_protocol::event::{Event, EventKind};
use bellhop_protocol::status::Status;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use zerocopy::FromZeros;

/// An object that a driver holds. The tests only drop it.
#[expect(dead_code, reason = "held for the sake of its end")]
enum Held {
    Adapter(Adapter),
    Device(Device),
    Context(Context),
    UserModeQueue(UserModeQueue),
    KernelModeQueue(KernelModeQueue),
    Allocation(Arc<Allocation>),
    Mapping(GpuMapping),
    CommandBuffer(CommandBuffer),
    Fence(Fence),
    Locked(LockedBytes),
    Reservation(Reservation),
}

/// One object of every kind, and two of some.
fn everything(device: &Arc<ScriptedDevice>) -> Result<Vec<Held>, Error> {
    let adapter = Adapter::open(Arc::clone(device) as _)?;
    let gpu = adapter.create_device()?;
    let context = gpu.create_context(0)?;
    let local = gpu.create_allocation(AllocationKind::LOCAL, PAGE_SIZE)?;
    let system = gpu.create_allocation(AllocationKind::SYSTEM, 2 * PAGE_SIZE)?;
    let paged = gpu.allocation(PAGE_SIZE).cpu_visible().create()?;
    let own = gpu.allocation(PAGE_SIZE).cpu_visible().own_pages().create()?;
    gpu.make_resident(&[&paged, &own])?;
    let reserved = gpu.reserve(0, PAGE_SIZE)?;
    reserved.map(0, &paged, 0, PAGE_SIZE, Protection::WRITE)?;
    Ok(vec![
        Held::Mapping(local.map(Protection::WRITE)?),
        Held::Mapping(local.map(Protection::empty())?),
        Held::Mapping(system.map(Protection::WRITE)?),
        Held::UserModeQueue(context.create_user_mode_queue(RING)?),
        Held::UserModeQueue(context.create_user_mode_queue(RING)?),
        Held::KernelModeQueue(context.create_kernel_mode_queue()?),
        Held::CommandBuffer(CommandBuffer::new(&gpu, 64)?),
        Held::Fence(gpu.create_fence(0)?),
        Held::Context(gpu.create_context(1)?),
        Held::Adapter(adapter.open_process()?),
        Held::Locked(paged.lock_bytes()?),
        Held::Locked(own.lock_bytes()?),
        Held::Mapping(own.map(Protection::WRITE)?),
        Held::Reservation(reserved),
        Held::Allocation(paged),
        Held::Allocation(own),
        Held::Allocation(local),
        Held::Allocation(system),
        Held::Context(context),
        Held::Device(gpu),
        Held::Adapter(adapter),
    ])
}

/// How many requests [`everything`] takes.
fn requests_for_everything() -> usize {
    let device = ScriptedDevice::new();
    let held = everything(&device).unwrap();
    let count = device.take_sent().len();
    drop(held);
    count
}

/// Whether a request destroys something.
fn destroys(code: RequestCode) -> bool {
    matches!(code, RequestCode::FREE_GPU_VIRTUAL_ADDRESS | RequestCode::UNLOCK)
        || code.name().is_some_and(|name| name.starts_with("DESTROY"))
}

/// Creates everything while the device fails request `failing`; returns the error.
fn create_failing(
    device: &Arc<ScriptedDevice>,
    failing: usize,
    answer: fn() -> Answer,
) -> Option<Error> {
    let count = AtomicUsize::new(0);
    device.script(move |_, sent| {
        if !destroys(sent.code) && count.fetch_add(1, Ordering::Relaxed) == failing {
            return answer();
        }
        Answer::AsUsual
    });
    everything(device).err()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn in_whatever_order_things_are_dropped_nothing_goes_before_what_needs_it(
        order in prop::collection::vec(any::<prop::sample::Index>(), 21),
    ) {
        let device = ScriptedDevice::new();
        let mut held = everything(&device).unwrap();
        for index in order {
            held.swap_remove(index.index(held.len()));
        }
        prop_assert!(held.is_empty());
        device.assert_all_destroyed();
        prop_assert_eq!(device.system_memory_in_use(), 0);
    }
}

#[test]
fn what_was_created_before_a_request_is_refused_is_destroyed() {
    let requests = requests_for_everything();
    assert!(requests > 20);
    for failing in 0..requests {
        let device = ScriptedDevice::new();
        let error = create_failing(&device, failing, || Answer::Refuse(Status::NO_MEMORY, 3));
        assert!(
            matches!(error, Some(Error::Refused { status: Status::NO_MEMORY, detail: 3, .. })),
            "request {failing}: {error:?}"
        );
        device.assert_all_destroyed();
        assert_eq!(device.system_memory_in_use(), 0);
    }
}

#[test]
fn a_device_that_goes_away_while_things_are_created_is_an_error() {
    for failing in 0..requests_for_everything() {
        let device = ScriptedDevice::new();
        let error = create_failing(&device, failing, || Answer::Disconnect);
        assert!(matches!(error, Some(Error::Transport(_))), "request {failing}: {error:?}");
        // The device that took its place gets no request about its objects.
        assert_eq!(device.take_sent().len(), failing);
        assert_eq!(device.system_memory_in_use(), 0);
    }
}

#[test]
fn a_device_that_is_gone_lets_everything_be_dropped() {
    let device = ScriptedDevice::new();
    let held = everything(&device).unwrap();
    device.script(|_, _| Answer::Disconnect);
    drop(held);
    // The memory cannot be reached now.
    assert_eq!(device.system_memory_in_use(), 0);
}

#[test]
fn memory_that_the_device_still_holds_is_not_given_out_again() {
    let device = ScriptedDevice::new();
    let adapter = open(&device);
    let gpu = adapter.create_device().unwrap();
    let allocation = gpu.create_allocation(AllocationKind::SYSTEM, PAGE_SIZE).unwrap();
    assert_eq!(device.system_memory_in_use() as u64, PAGE_SIZE);
    device.script(|_, sent| match sent.code {
        RequestCode::DESTROY_ALLOCATION => Answer::Refuse(Status::GRAPHICS_ALLOCATION_BUSY, 0),
        _ => Answer::AsUsual,
    });
    drop(allocation);
    assert_eq!(device.system_memory_in_use() as u64, PAGE_SIZE);
}

#[test]
fn a_doorbell_goes_with_its_queue_and_the_ring_after_both() {
    let device = ScriptedDevice::new();
    let adapter = open(&device);
    let context = adapter.create_device().unwrap().create_context(0).unwrap();
    let queue = context.create_user_mode_queue(RING).unwrap();
    device.take_sent();
    drop(queue);
    let codes = [
        RequestCode::DESTROY_HW_QUEUE,
        RequestCode::DESTROY_ALLOCATION,
        RequestCode::DESTROY_ALLOCATION,
    ];
    assert_eq!(device.take_codes(), codes);
}

#[test]
fn a_clone_keeps_what_it_is_a_clone_of() {
    let device = ScriptedDevice::new();
    let adapter = open(&device);
    let gpu = adapter.create_device().unwrap();
    let context = gpu.create_context(0).unwrap();
    let clone = context.clone();
    device.take_sent();
    drop((adapter, gpu, context));
    assert!(device.take_sent().is_empty());
    assert_eq!(device.live(), 3);
    drop(clone);
    let codes =
        [RequestCode::DESTROY_CONTEXT, RequestCode::DESTROY_DEVICE, RequestCode::DESTROY_PROCESS];
    assert_eq!(device.take_codes(), codes);
}

#[test]
fn every_request_of_a_process_names_it() {
    let device = ScriptedDevice::new();
    let one = open(&device);
    let other = one.open_process().unwrap();
    device.take_sent();
    for adapter in [&one, &other] {
        let gpu = adapter.create_device().unwrap();
        assert_ne!(gpu.handle(), Handle(0));
        drop(gpu.create_context(0).unwrap().create_user_mode_queue(RING).unwrap());
        drop(gpu);
        assert!(device.take_sent().iter().all(|sent| sent.process == adapter.process()));
    }
}

#[test]
fn the_fault_of_a_queue_that_was_destroyed_is_not_a_later_ones() {
    let device = ScriptedDevice::new();
    let adapter = open(&device);
    let context = adapter.create_device().unwrap().create_context(0).unwrap();
    let first = context.create_user_mode_queue(RING).unwrap();
    let handle = first.handle();
    let mut event = Event::new_zeroed();
    event.kind = EventKind::HW_QUEUE_ERROR;
    (event.process, event.object) = (adapter.process(), handle.0);
    device.post(event);
    assert!(matches!(first.lost(), Error::QueueLost { fault: Some(_), .. }));
    drop(first);
    // The device gives the handle out again.
    device.script(move |_, sent| match sent.code {
        RequestCode::CREATE_HW_QUEUE => Answer::with_word(0, handle.0),
        _ => Answer::AsUsual,
    });
    let second = context.create_kernel_mode_queue().unwrap();
    assert_eq!(second.handle(), handle);
    let error = error_of(second.progress_fence().wait(1, Duration::from_millis(20)));
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
}
