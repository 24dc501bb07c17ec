// SPDX-License-Identifier: MIT OR Apache-2.0

//! A device that lies: the driver gets an error and nothing else happens.

use crate::device::{Answer, LAYOUT, ScriptedDevice};
use crate::rig::{RING, error_of, open};
use bellhop_guest_umd::{Adapter, CommandBuffer, Device, Error};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::{AllocationKind, CreateAllocationReply};
use bellhop_protocol::control::doorbell::CreateDoorbellReply;
use bellhop_protocol::control::fence::{NativeFenceMapping, OpenedFence};
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::control::hw_queue::CreateHwQueueReply;
use bellhop_protocol::control::{MAX_REPLY_SIZE, ReplyHeader, RequestCode};
use proptest::prelude::*;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Offsets at which the BAR holds no word.
fn no_words() -> [u64; 6] {
    let size = LAYOUT.bar_size();
    [size, size - 4, PAGE_SIZE + 4, 1 << 63, u64::MAX - 7, u64::MAX]
}

/// A device that answers `code` with `word` at `offset` of the reply.
fn lying(code: RequestCode, offset: usize, word: u64) -> (Arc<ScriptedDevice>, Adapter, Device) {
    let device = ScriptedDevice::new();
    device.script(move |_, sent| match sent.code {
        of if of == code => Answer::with_word(offset, word),
        _ => Answer::AsUsual,
    });
    let adapter = open(&device);
    let gpu = adapter.create_device().unwrap();
    (device, adapter, gpu)
}

/// Sends every request that has a reply, once.
fn conversation(device: &Arc<ScriptedDevice>) -> Result<(), Error> {
    let adapter = Adapter::open(Arc::clone(device) as _)?;
    adapter.nodes()?;
    adapter.user_mode_submission_caps()?;
    adapter.statistics()?;
    let gpu = adapter.create_device()?;
    let context = gpu.create_context(0)?;
    let mut queue = context.create_user_mode_queue(RING)?;
    let mut commands = CommandBuffer::new(&gpu, 64)?;
    queue.submit(commands.nop()?)?;
    device.execute(0, 1);
    queue.progress_fence().wait(1, Duration::ZERO)?;
    let system = gpu.create_allocation(AllocationKind::SYSTEM, PAGE_SIZE)?;
    let _mapping = system.map(Protection::WRITE)?;
    context.create_kernel_mode_queue()?.submit(&mut commands)?;
    let fence = gpu.create_fence(0)?;
    device.signal(fence.handle(), 1);
    fence.wait(1, Duration::ZERO)
}

/// The codes of a conversation, those of what is destroyed at its end included.
fn codes() -> Vec<RequestCode> {
    let device = ScriptedDevice::new();
    conversation(&device).unwrap();
    device.take_codes()
}

/// Has a conversation with a device that answers request `index` in another way.
fn converse(
    index: usize,
    answer: impl Fn() -> Answer + Send + Sync + 'static,
) -> Result<(), Error> {
    let device = ScriptedDevice::new();
    let count = AtomicUsize::new(0);
    device.script(move |_, _| match count.fetch_add(1, Ordering::Relaxed) {
        now if now == index => answer(),
        _ => Answer::AsUsual,
    });
    conversation(&device)
}

/// Whether the driver ignores the reply to a request, since nothing can be done about it.
fn is_last_word(code: RequestCode) -> bool {
    code == RequestCode::FREE_GPU_VIRTUAL_ADDRESS
        || code.name().is_some_and(|name| name.starts_with("DESTROY"))
}

#[test]
fn a_reply_that_ends_too_early_is_an_error_wherever_it_ends() {
    for (index, code) in codes().into_iter().enumerate() {
        let whole = Arc::new(AtomicUsize::new(usize::MAX));
        let mut length = 0;
        while length < whole.load(Ordering::Relaxed) {
            let tell = Arc::clone(&whole);
            let result = converse(index, move || {
                let tell = Arc::clone(&tell);
                Answer::Alter(Box::new(move |reply| {
                    tell.store(reply.len(), Ordering::Relaxed);
                    reply.truncate(length);
                }))
            });
            match result {
                Ok(()) => assert!(is_last_word(code), "{code} with {length} bytes was believed"),
                Err(Error::BadReply(of)) => assert_eq!(of, code),
                Err(error) => panic!("{code} with {length} bytes: {error}"),
            }
            length += 1;
        }
        assert!(length >= size_of::<ReplyHeader>(), "{code} was never answered");
    }
}

#[test]
fn a_reply_that_claims_to_be_longer_than_its_buffer_is_an_error() {
    for (index, code) in codes().into_iter().enumerate() {
        for length in [MAX_REPLY_SIZE + 1, usize::MAX] {
            match converse(index, move || Answer::Length(length)) {
                Ok(()) => assert!(is_last_word(code), "{code} was believed"),
                Err(Error::BadReply(of)) => assert_eq!(of, code),
                Err(error) => panic!("{code}: {error}"),
            }
        }
    }
}

#[test]
fn what_a_later_version_adds_behind_a_reply_is_left_alone() {
    for (index, code) in codes().into_iter().enumerate() {
        let longer = || Answer::Alter(Box::new(|reply| reply.resize(MAX_REPLY_SIZE, 0xff)));
        converse(index, longer).unwrap_or_else(|error| panic!("{code}: {error}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn whatever_bytes_open_the_adapter_nothing_panics(
        bytes in prop::collection::vec(any::<u8>(), 0..=MAX_REPLY_SIZE),
        status in prop::option::of(Just(0_u32)),
    ) {
        let device = ScriptedDevice::new();
        device.script(move |_, _| {
            let mut bytes = bytes.clone();
            if let (Some(status), true) = (status, bytes.len() >= 4) {
                bytes[..4].copy_from_slice(&status.to_le_bytes());
            }
            Answer::Reply(bytes)
        });
        if let Ok(adapter) = Adapter::open(Arc::clone(&device) as _) {
            let _ = adapter.user_mode_submission_caps();
            let _ = adapter.statistics();
            if let Ok(gpu) = adapter.create_device() {
                let _ = gpu.create_allocation(AllocationKind::LOCAL, PAGE_SIZE);
                if let Ok(fence) = gpu.create_fence(0) {
                    let _ = fence.current_value();
                }
                if let Ok(context) = gpu.create_context(0) {
                    let _ = context.create_kernel_mode_queue();
                    let _ = context.create_user_mode_queue(RING);
                }
            }
        }
    }
}

#[test]
fn an_allocation_that_does_not_lie_in_the_bar_is_refused_and_destroyed() {
    let size = LAYOUT.bar_size();
    for offset in [size, size - PAGE_SIZE + 8, 1 << 63, u64::MAX - PAGE_SIZE + 1, u64::MAX] {
        let field = offset_of!(CreateAllocationReply, bar_offset);
        let (device, adapter, gpu) = lying(RequestCode::CREATE_ALLOCATION, field, offset);
        let error = error_of(gpu.create_allocation(AllocationKind::LOCAL, PAGE_SIZE));
        assert!(matches!(error, Error::BadReply(RequestCode::CREATE_ALLOCATION)), "{error}");
        drop((gpu, adapter));
        device.assert_all_destroyed();
    }
}

#[test]
fn an_allocation_that_lies_askew_has_no_words() {
    let field = offset_of!(CreateAllocationReply, bar_offset);
    let place = LAYOUT.local_memory() + 4;
    let (_device, _adapter, gpu) = lying(RequestCode::CREATE_ALLOCATION, field, place);
    let allocation = gpu.create_allocation(AllocationKind::LOCAL, PAGE_SIZE).unwrap();
    assert!(matches!(allocation.word(0), Err(Error::BadBar(_))));
    allocation.write(0, &[1, 2, 3]).unwrap();
}

const CURRENT_VALUE_OFFSET: usize = offset_of!(NativeFenceMapping, current_value_offset);

#[test]
fn a_fence_whose_value_is_not_in_the_bar_is_an_error_to_look_at() {
    for offset in no_words() {
        let field = offset_of!(OpenedFence, mapping) + CURRENT_VALUE_OFFSET;
        let (_device, _adapter, gpu) = lying(RequestCode::CREATE_NATIVE_FENCE, field, offset);
        let fence = gpu.create_fence(0).unwrap();
        // All ones mean that no CPU reaches the value.
        let expected = |error: &Error| match offset {
            u64::MAX => matches!(error, Error::NotAvailable(_)),
            _ => matches!(error, Error::BadBar(_)),
        };
        assert!(fence.current_value().is_err_and(|error| expected(&error)), "{offset:#x}");
        assert!(fence.poll(0, Duration::ZERO).is_err_and(|error| expected(&error)));
        // The device can still tell.
        fence.wait(0, Duration::ZERO).unwrap();
    }
}

#[test]
fn a_progress_fence_whose_value_is_not_in_the_bar_is_an_error_to_look_at() {
    for offset in no_words() {
        let field = offset_of!(CreateHwQueueReply, progress_fence)
            + offset_of!(OpenedFence, mapping)
            + CURRENT_VALUE_OFFSET;
        let (_device, _adapter, gpu) = lying(RequestCode::CREATE_HW_QUEUE, field, offset);
        let queue = gpu.create_context(0).unwrap().create_user_mode_queue(RING).unwrap();
        assert!(matches!(queue.progress_fence().current_value(), Err(Error::BadBar(_))));
    }
}

#[test]
fn a_doorbell_whose_words_are_not_in_the_bar_is_refused_and_destroyed() {
    for offset in no_words() {
        for field in [
            offset_of!(CreateDoorbellReply, doorbell_offset),
            offset_of!(CreateDoorbellReply, status_offset),
            offset_of!(CreateDoorbellReply, last_queued_offset),
        ] {
            let (device, adapter, gpu) = lying(RequestCode::CREATE_DOORBELL, field, offset);
            let context = gpu.create_context(0).unwrap();
            let error = error_of(context.create_user_mode_queue(RING));
            assert!(matches!(error, Error::BadBar(_)), "{offset:#x}: {error}");
            drop((context, gpu, adapter));
            device.assert_all_destroyed();
        }
    }
}
