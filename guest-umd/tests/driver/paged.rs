// SPDX-License-Identifier: MIT OR Apache-2.0

//! Allocations that the device places: residency, locks, reserved addresses and budgets.

use crate::device::{Answer, HANG, LAYOUT, ScriptedDevice};
use crate::rig::{error_of, open};
use bellhop_guest_umd::{Adapter, Allocation, Device, Error};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::{
    AllocationFlags, AllocationKind, COMPRESSED, CloseAllocation, CreateAllocation, Evict, Lock,
    MAX_RESIDENCY_LIST, MakeResident, NOT_IN_BAR, OpenAllocation, OpenSharedAllocation,
    PRIORITY_HIGH, PRIORITY_LOW, PRIORITY_NORMAL, QueryVideoMemoryInfo, SegmentSet,
    SetAllocationPriority, Unlock,
};
use bellhop_protocol::control::gpu_va::{
    FreeGpuVirtualAddress, MapGpuVirtualAddress, Protection, ReserveGpuVirtualAddress,
    UpdateGpuVirtualAddress,
};
use bellhop_protocol::control::{Handle, RequestCode};
use bellhop_protocol::event::{Event, EventKind};
use bellhop_protocol::status::Status;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use zerocopy::FromZeros;

fn new() -> (Arc<ScriptedDevice>, Adapter, Device) {
    let device = ScriptedDevice::new();
    let adapter = open(&device);
    let gpu = adapter.create_device().unwrap();
    device.take_sent();
    (device, adapter, gpu)
}

fn described(gpu: &Device) -> Arc<Allocation> {
    gpu.allocation(PAGE_SIZE).cpu_visible().create().unwrap()
}

fn references(allocations: &[Arc<Allocation>]) -> Vec<&Allocation> {
    allocations.iter().map(|allocation| &**allocation).collect()
}

fn status_of<T>(result: Result<T, Error>) -> Status {
    match error_of(result) {
        Error::Refused { status, .. } => status,
        other => panic!("not refused: {other}"),
    }
}

/// Refuses the `nth` request with a code, counted from 0.
fn refuse_nth(device: &ScriptedDevice, code: RequestCode, nth: usize, status: Status) {
    let seen = AtomicUsize::new(0);
    device.script(move |_, sent| {
        let is_it = sent.code == code && seen.fetch_add(1, Ordering::Relaxed) == nth;
        if is_it { Answer::Refuse(status, 0) } else { Answer::AsUsual }
    });
}

#[test]
fn what_was_said_of_an_allocation_is_what_is_asked_for() {
    let (device, _adapter, gpu) = new();
    let sent = || -> CreateAllocation { device.take_sent()[0].read() };
    let plain = gpu.allocation(3 * PAGE_SIZE).create().unwrap();
    let request = sent();
    assert_eq!((request.device, request.size), (gpu.handle(), 3 * PAGE_SIZE));
    assert_eq!((request.kind, request.extent_count), (AllocationKind::PAGED, 0));
    let anywhere = SegmentSet::LOCAL | SegmentSet::SYSTEM;
    assert_eq!(request.supported_segments, anywhere.bits());
    assert_eq!((request.preferred_segment, request.eviction_segments), (0, 0));
    assert_eq!(request.flags, AllocationFlags::CACHED.bits());
    assert_eq!((request.priority, request.private_data), (PRIORITY_NORMAL, 0));
    assert_eq!(plain.size(), 3 * PAGE_SIZE);
    let all = gpu
        .allocation(PAGE_SIZE)
        .segments(SegmentSet::LOCAL | SegmentSet::PRIVATE)
        .preferred(SegmentSet::PRIVATE)
        .eviction(SegmentSet::LOCAL)
        .cpu_visible()
        .priority(PRIORITY_LOW)
        .private_data(COMPRESSED);
    all.create().unwrap();
    let request = sent();
    let local = SegmentSet::LOCAL | SegmentSet::PRIVATE;
    assert_eq!(request.supported_segments, local.bits());
    assert_eq!(request.preferred_segment, SegmentSet::PRIVATE.bits());
    assert_eq!(request.eviction_segments, SegmentSet::LOCAL.bits());
    let flags = AllocationFlags::CACHED | AllocationFlags::CPU_VISIBLE;
    assert_eq!(request.flags, flags.bits());
    assert_eq!((request.priority, request.private_data), (PRIORITY_LOW, COMPRESSED));
    gpu.allocation(PAGE_SIZE).accessed_physically().create().unwrap();
    let flags = AllocationFlags::CACHED | AllocationFlags::ACCESSED_PHYSICALLY;
    assert_eq!(sent().flags, flags.bits());
    gpu.allocation(PAGE_SIZE).permanent_system_memory().create().unwrap();
    let flags = AllocationFlags::CACHED | AllocationFlags::PERMANENT_SYSTEM_MEM;
    assert_eq!(sent().flags, flags.bits());
    plain.set_priority(PRIORITY_HIGH).unwrap();
    let request: SetAllocationPriority = device.take_sent().last().unwrap().read();
    assert_eq!((request.allocation, request.priority), (plain.handle(), PRIORITY_HIGH));
}

#[test]
fn its_own_pages_are_described_and_come_back_when_it_is_destroyed_and_not_before() {
    let (device, _adapter, gpu) = new();
    let builder = || gpu.allocation(2 * PAGE_SIZE).segments(SegmentSet::SYSTEM).own_pages();
    let allocation = builder().create().unwrap();
    let request: CreateAllocation = device.take_sent()[0].read();
    assert_eq!(request.extent_count, 1);
    assert_eq!(device.system_memory_in_use() as u64, 2 * PAGE_SIZE);
    drop(allocation);
    assert_eq!(device.system_memory_in_use(), 0);
    // An allocation without these properties takes none, and the device's own addresses stay reserved.
    refuse_nth(&device, RequestCode::CREATE_ALLOCATION, 0, Status::QUOTA_EXCEEDED);
    assert_eq!(status_of(builder().create()), Status::QUOTA_EXCEEDED);
    assert_eq!(device.system_memory_in_use(), 0);
    let kept = builder().create().unwrap();
    refuse_nth(&device, RequestCode::DESTROY_ALLOCATION, 0, Status::GRAPHICS_ALLOCATION_BUSY);
    drop(kept);
    assert_eq!(device.system_memory_in_use() as u64, 2 * PAGE_SIZE);
}

#[test]
fn residency_travels_in_lists_that_the_device_takes() {
    let (device, _adapter, gpu) = new();
    let allocations: Vec<_> = (0..130).map(|_| described(&gpu)).collect();
    let list = references(&allocations);
    device.take_sent();
    gpu.make_resident(&list).unwrap();
    let most = MAX_RESIDENCY_LIST;
    let sent = device.take_sent();
    let counts: Vec<_> = sent.iter().map(|sent| sent.read::<MakeResident>().count).collect();
    assert_eq!(counts, [most, most, 2]);
    let last: Vec<_> =
        allocations[128..].iter().flat_map(|one| one.handle().0.to_le_bytes()).collect();
    assert_eq!(sent[2].following::<MakeResident>(), last);
    gpu.evict(&list).unwrap();
    let sent = device.take_sent();
    let counts: Vec<_> = sent.iter().map(|sent| sent.read::<Evict>().count).collect();
    assert_eq!(counts, [most, most, 2]);
    gpu.make_resident(&[]).unwrap();
    assert!(device.take_sent().is_empty());
}

/// All or none, however many requests that takes.
#[test]
fn of_a_list_that_does_not_fit_nothing_stays_resident() {
    let (device, _adapter, gpu) = new();
    let allocations: Vec<_> = (0..130).map(|_| described(&gpu)).collect();
    let list = references(&allocations);
    for refused in 0..3 {
        let status = Status::GRAPHICS_NO_VIDEO_MEMORY;
        refuse_nth(&device, RequestCode::MAKE_RESIDENT, refused, status);
        assert_eq!(status_of(gpu.make_resident(&list)), status);
        let wanted = allocations.iter().map(|one| device.wanted(gpu.handle(), one.handle()));
        assert_eq!(wanted.max(), Some(Some(0)), "list {refused} was refused");
    }
    device.script(|_, _| Answer::AsUsual);
    gpu.make_resident(&list).unwrap();
    allocations[7].make_resident().unwrap();
    assert_eq!(device.wanted(gpu.handle(), allocations[7].handle()), Some(2));
    gpu.evict(&list).unwrap();
    allocations[7].evict().unwrap();
    assert_eq!(status_of(allocations[7].evict()), Status::INVALID_PARAMETER);
}

#[test]
fn another_device_opens_an_allocation_before_it_wants_it_and_closes_it() {
    let (device, adapter, gpu) = new();
    let allocation = described(&gpu);
    let other = adapter.create_device().unwrap();
    assert_eq!(status_of(other.make_resident(&[&allocation])), Status::INVALID_PARAMETER);
    device.take_sent();
    other.open_allocation(&allocation).unwrap();
    other.make_resident(&[&allocation]).unwrap();
    other.close_allocation(&allocation).unwrap();
    let sent = device.take_sent();
    let opened: OpenAllocation = sent[0].read();
    assert_eq!((opened.device, opened.allocation), (other.handle(), allocation.handle()));
    let closed: CloseAllocation = sent[2].read();
    assert_eq!((closed.device, closed.allocation), (other.handle(), allocation.handle()));
    assert_eq!(device.wanted(other.handle(), allocation.handle()), None);
}

#[test]
fn a_shared_allocation_is_opened_by_its_name_and_closed_for_the_one_that_opened_it() {
    let (device, adapter, gpu) = new();
    let shared = gpu.allocation(2 * PAGE_SIZE).cpu_visible().shared().create().unwrap();
    let name = shared.share().unwrap();
    let process = adapter.open_process().unwrap();
    let other = process.create_device().unwrap();
    device.take_sent();
    let opened = other.open_shared_allocation(name).unwrap();
    let sent: OpenSharedAllocation = device.take_sent()[0].read();
    assert_eq!((sent.device, sent.nt_handle), (other.handle(), name));
    assert_eq!(opened.size(), 2 * PAGE_SIZE);
    opened.make_resident().unwrap();
    let bytes = opened.lock_bytes().unwrap();
    bytes.write(0, &[7; 8]).unwrap();
    let mut seen = [0; 8];
    shared.lock_bytes().unwrap().read(0, &mut seen).unwrap();
    assert_eq!(seen, [7; 8]);
    drop(bytes);
    device.take_sent();
    let handle = opened.handle();
    drop(opened);
    let closed: CloseAllocation = device.take_sent()[0].read();
    assert_eq!((closed.device, closed.allocation), (other.handle(), handle));
    drop(shared);
    assert_eq!(device.take_codes(), [RequestCode::DESTROY_ALLOCATION]);
    assert_eq!(status_of(other.open_shared_allocation(name)), Status::INVALID_PARAMETER);
}

#[test]
fn locked_bytes_are_where_the_device_says_and_unlocked_before_they_go() {
    let (device, _adapter, gpu) = new();
    let allocation = described(&gpu);
    device.take_sent();
    let locked = allocation.lock_bytes().unwrap();
    let lock: Lock = device.take_sent()[0].read();
    assert_eq!(lock.allocation, allocation.handle());
    locked.write(8, &[1, 2, 3]).unwrap();
    let mut bytes = [0; 3];
    locked.read(8, &mut bytes).unwrap();
    assert_eq!(bytes, [1, 2, 3]);
    let offset = device.bar_offset(allocation.handle());
    assert_eq!(device.word(offset + 8).load(Ordering::Relaxed), 0x03_02_01);
    let outside = error_of(locked.write(PAGE_SIZE as usize - 1, &[0; 2]));
    assert!(matches!(outside, Error::OutOfRange { .. }), "{outside}");
    // The allocation lives as long as it is locked, and each lock is undone once.
    let again = allocation.lock_bytes().unwrap();
    drop(allocation);
    device.take_sent();
    drop((again, locked));
    let codes = [RequestCode::UNLOCK, RequestCode::UNLOCK, RequestCode::DESTROY_ALLOCATION];
    assert_eq!(device.take_codes(), codes);
    drop(gpu);
}

#[test]
fn bytes_in_its_own_pages_are_there() {
    let (device, _adapter, gpu) = new();
    let allocation = gpu.allocation(PAGE_SIZE).cpu_visible().own_pages().create().unwrap();
    let locked = allocation.lock_bytes().unwrap();
    assert_eq!(locked.slice().unwrap().len() as u64, PAGE_SIZE);
    locked.write(0, &[9; 16]).unwrap();
    let again = allocation.lock_bytes().unwrap();
    let mut bytes = [0; 16];
    again.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [9; 16]);
    assert_eq!(device.bar_offset(allocation.handle()), NOT_IN_BAR);
}

#[test]
fn a_lock_that_is_refused_is_not_undone_and_one_that_is_answered_with_a_lie_is() {
    let (device, _adapter, gpu) = new();
    let allocation = described(&gpu);
    for status in [Status::GRAPHICS_ALLOCATION_BUSY, Status::INSUFFICIENT_RESOURCES] {
        refuse_nth(&device, RequestCode::LOCK, 0, status);
        device.take_sent();
        assert_eq!(status_of(allocation.lock_bytes()), status);
        assert_eq!(device.take_codes(), [RequestCode::LOCK]);
    }
    let end = LAYOUT.bar_size();
    for offset in [NOT_IN_BAR, 0, end - PAGE_SIZE + 8, end, u64::MAX - PAGE_SIZE] {
        device.script(move |_, sent| match sent.code {
            RequestCode::LOCK => Answer::with_word(0, offset),
            _ => Answer::AsUsual,
        });
        let error = error_of(allocation.lock_bytes());
        assert!(matches!(error, Error::BadReply(RequestCode::LOCK)), "{offset:#x}: {error}");
        let sent = device.take_sent();
        assert_eq!(sent.len(), 2);
        assert_eq!(sent[1].read::<Unlock>().allocation, allocation.handle());
    }
}

#[test]
fn a_part_is_mapped_where_it_is_wanted_and_freed_whole() {
    let (device, _adapter, gpu) = new();
    let allocation = gpu.allocation(4 * PAGE_SIZE).create().unwrap();
    device.take_sent();
    let mapping = allocation.map_at(1 << 32, PAGE_SIZE, 2 * PAGE_SIZE, Protection::WRITE).unwrap();
    let sent = device.take_sent();
    let request: MapGpuVirtualAddress = sent[0].read();
    assert_eq!((request.base, request.offset, request.size), (1 << 32, PAGE_SIZE, 2 * PAGE_SIZE));
    let gpu_va = mapping.gpu_va();
    drop(allocation);
    assert!(device.take_sent().is_empty(), "it is mapped");
    drop(mapping);
    let sent = device.take_sent();
    let free: FreeGpuVirtualAddress = sent[0].read();
    assert_eq!((free.gpu_va, free.size), (gpu_va, 2 * PAGE_SIZE));
    assert_eq!(sent[1].code, RequestCode::DESTROY_ALLOCATION);
}

#[test]
fn reserved_addresses_are_mapped_part_by_part_and_freed_once() {
    let (device, _adapter, gpu) = new();
    let allocation = gpu.allocation(4 * PAGE_SIZE).create().unwrap();
    device.take_sent();
    let reserved = gpu.reserve(2 << 32, 16 * PAGE_SIZE).unwrap();
    let request: ReserveGpuVirtualAddress = device.take_sent()[0].read();
    assert_eq!((request.base, request.size), (2 << 32, 16 * PAGE_SIZE));
    assert_eq!((reserved.gpu_va(), reserved.size()), (2 << 32, 16 * PAGE_SIZE));
    reserved.map(3 * PAGE_SIZE, &allocation, PAGE_SIZE, PAGE_SIZE, Protection::WRITE).unwrap();
    reserved.unmap(3 * PAGE_SIZE, PAGE_SIZE).unwrap();
    let updates: Vec<UpdateGpuVirtualAddress> =
        device.take_sent().iter().map(|sent| sent.read()).collect();
    let mapped = UpdateGpuVirtualAddress {
        gpu_va: (2 << 32) + 3 * PAGE_SIZE,
        size: PAGE_SIZE,
        allocation: allocation.handle(),
        offset: PAGE_SIZE,
        protection: Protection::WRITE.bits(),
        reserved: 0,
    };
    let unmapped =
        UpdateGpuVirtualAddress { allocation: Handle(0), offset: 0, protection: 0, ..mapped };
    assert_eq!(updates, [mapped, unmapped]);
    // The driver asks the device for any address: it never wraps around to another one.
    refuse_nth(&device, RequestCode::UPDATE_GPU_VIRTUAL_ADDRESS, 0, Status::CONFLICTING_ADDRESSES);
    let refused = reserved.unmap(u64::MAX, PAGE_SIZE);
    assert_eq!(status_of(refused), Status::CONFLICTING_ADDRESSES);
    let update: UpdateGpuVirtualAddress = device.take_sent()[0].read();
    assert_eq!(update.gpu_va, u64::MAX);
    drop(reserved);
    let free: FreeGpuVirtualAddress = device.take_sent()[0].read();
    assert_eq!((free.gpu_va, free.size), (2 << 32, 16 * PAGE_SIZE));
    refuse_nth(&device, RequestCode::RESERVE_GPU_VIRTUAL_ADDRESS, 0, Status::QUOTA_EXCEEDED);
    assert_eq!(status_of(gpu.reserve(0, PAGE_SIZE)), Status::QUOTA_EXCEEDED);
    assert_eq!(device.take_codes(), [RequestCode::RESERVE_GPU_VIRTUAL_ADDRESS]);
}

#[test]
fn a_segment_is_asked_for_by_its_bit() {
    let (device, _adapter, gpu) = new();
    let info = gpu.video_memory_info(SegmentSet::PRIVATE).unwrap();
    let request: QueryVideoMemoryInfo = device.take_sent()[0].read();
    assert_eq!(request.segment, SegmentSet::PRIVATE.bits());
    assert_eq!(
        (info.size, info.budget, info.usage),
        (LAYOUT.local_memory, LAYOUT.local_memory / 2, 0)
    );
}

fn trim(process: u32, bytes: u64) -> Event {
    let mut event = Event::new_zeroed();
    event.kind = EventKind::TRIM_RESIDENCY;
    (event.process, event.value) = (process, bytes);
    event
}

#[test]
fn a_request_to_trim_is_its_processes_and_returned_once() {
    let (device, adapter, gpu) = new();
    let other = adapter.open_process().unwrap();
    let theirs = other.create_device().unwrap();
    assert_eq!(gpu.wait_for_trim(Duration::ZERO).unwrap(), None);
    for (process, bytes) in [(other.process(), 1), (adapter.process(), 2), (adapter.process(), 3)] {
        device.post(trim(process, bytes));
    }
    // Events for another process are kept for it, and the last one counts.
    assert_eq!(gpu.wait_for_trim(HANG).unwrap(), Some(2));
    assert_eq!(gpu.wait_for_trim(HANG).unwrap(), Some(3));
    assert_eq!(theirs.wait_for_trim(HANG).unwrap(), Some(1));
    for device_of in [&gpu, &theirs] {
        assert_eq!(device_of.wait_for_trim(Duration::from_millis(1)).unwrap(), None);
    }
    device.post_late(trim(adapter.process(), 4));
    assert_eq!(gpu.wait_for_trim(HANG).unwrap(), Some(4));
    device.go_away();
    assert!(matches!(error_of(gpu.wait_for_trim(HANG)), Error::Transport(_)));
}

#[test]
fn a_device_that_goes_in_the_middle_is_an_error_and_everything_can_be_dropped() {
    let (device, _adapter, gpu) = new();
    let allocations: Vec<_> = (0..70).map(|_| described(&gpu)).collect();
    let own = gpu.allocation(PAGE_SIZE).cpu_visible().own_pages().create().unwrap();
    let locked = own.lock_bytes().unwrap();
    let reserved = gpu.reserve(0, PAGE_SIZE).unwrap();
    let sent = AtomicUsize::new(0);
    device.script(move |_, _| match sent.fetch_add(1, Ordering::Relaxed) {
        0 => Answer::AsUsual,
        _ => Answer::Disconnect,
    });
    // The refusal is in the middle of a list of two.
    assert!(matches!(error_of(gpu.make_resident(&references(&allocations))), Error::Transport(_)));
    assert!(matches!(error_of(own.lock_bytes()), Error::Transport(_)));
    assert!(matches!(error_of(reserved.unmap(0, PAGE_SIZE)), Error::Transport(_)));
    assert!(matches!(error_of(gpu.video_memory_info(SegmentSet::LOCAL)), Error::Transport(_)));
    // Locked bytes stay readable, and last.
    locked.write(0, &[1]).unwrap();
    drop((allocations, own, reserved, gpu));
    assert_eq!(device.system_memory_in_use() as u64, PAGE_SIZE);
    drop(locked);
    assert_eq!(device.system_memory_in_use(), 0);
}
