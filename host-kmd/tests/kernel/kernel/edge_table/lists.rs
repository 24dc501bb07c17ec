// SPDX-License-Identifier: MIT OR Apache-2.0

//! The rows of requests with lists.

use super::row::*;
use super::world::*;
use crate::bench::BAR;
use crate::model::GUEST_MEMORY;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::AreaKind;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::adapter::DonateArea;
use bellhop_protocol::control::allocation::{
    AllocationFlags, AllocationKind, CreateAllocation, Extent, SegmentSet,
};
use bellhop_protocol::control::node_context::{
    ALLOCATION_LIST_MAX, ALLOCATION_WRITE, AllocationListEntry, PATCH_LOCATION_LIST_MAX,
    PatchLocation, RENDER_COMMANDS_MAX, Render,
};
use bellhop_protocol::control::process::CreateProcessWithBar;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::packet::transfer::Fill;
use bellhop_protocol::status::Status;
use zerocopy::IntoBytes;

pub(super) fn extent_fields(length: u64) -> [Field; 2] {
    let parameter = Status::INVALID_PARAMETER;
    [
        if_so("address", 8, move |address| {
            address.is_multiple_of(PAGE_SIZE)
                && address.checked_add(length).is_some_and(|end| end <= GUEST_MEMORY)
        }),
        only("length", 8, length, parameter),
    ]
}

/// The row for an area that the guest puts into its own memory in parts.
pub(super) fn donations() -> Vec<Row> {
    let length = BAR.local_memory;
    let request = DonateArea { kind: AreaKind::LOCAL_MEMORY, extent_count: 1, length, offset: 0 };
    let extent = Extent { address: 0, length: PAGE_SIZE };
    let parameter = Status::INVALID_PARAMETER;
    let mut fields = vec![
        // Other areas have another length.
        only("kind", 4, AreaKind::LOCAL_MEMORY.0.into(), parameter)
            .naming(AreaKind::DOORBELLS.0.into(), length),
        count("extent_count", 1),
        if_so("length", 8, move |size| {
            size.is_multiple_of(PAGE_SIZE) && (1..=length).contains(&size)
        }),
        zero("offset", 8),
    ];
    fields.extend(extent_fields(PAGE_SIZE));
    vec![row_with_list(0, &request, &[extent], fields)]
}

/// The row for a process with a BAR of its own: a header, and a page for each kind of area.
pub(super) fn process_bars() -> Vec<Row> {
    const LENGTH: u64 = 5 * PAGE_SIZE;
    let request =
        CreateProcessWithBar { beside: 0, extent_count: 1, doorbell_count: 1, fence_count: 1 };
    let extent = Extent { address: 0, length: LENGTH };
    let mut fields = vec![
        only("beside", 4, 0, Status::INVALID_PARAMETER),
        count("extent_count", 1),
        only("doorbell_count", 4, 1, Status::INVALID_PARAMETER),
        // Values of 64 fences fit a page.
        if_so("fence_count", 4, |count| (1..=64).contains(&count)),
    ];
    fields.extend(extent_fields(LENGTH));
    vec![row_with_list(0, &request, &[extent], fields)]
}

/// Whether a command buffer may have this size. The context faults when it executes a buffer that it cannot read.
pub(super) fn command_size(size: u64) -> bool {
    size.is_multiple_of(8) && size > 0
}

pub(super) fn residency(device: Handle, allocation: Handle) -> Vec<Field> {
    vec![
        handle("device", device),
        count("count", 1),
        zero("reserved", 4),
        handle("allocation", allocation),
    ]
}

pub(super) fn create_allocation(world: &World) -> Vec<Row> {
    let (parameter, device) = (Status::INVALID_PARAMETER, world.client.device);
    let process = world.client.process;
    // As the other kind, the allocation has an extent too many, or too few for its size.
    let fixed = |kind: AllocationKind, extents: u64, size: Field| {
        let as_other = if extents == 0 { (1, PAGE_SIZE) } else { (0, extents) };
        let mut fields = vec![
            handle("device", device),
            size,
            only("kind", 4, kind.0.into(), parameter).naming(as_other.0, as_other.1),
            count("extent_count", extents),
        ];
        fields.extend(
            ["supported_segments", "preferred_segment", "eviction_segments", "flags", "priority"]
                .map(|name| zero(name, 4)),
        );
        fields.push(zero("private_data", 4));
        fields
    };
    let local = CreateAllocation::fixed(device, AllocationKind::LOCAL, PAGE_SIZE, 0);
    let size = field("size", 8, move |size| match size {
        PAGE_SIZE => Ok(()),
        size if size.is_multiple_of(PAGE_SIZE) && size > 0 => Err(Status::GRAPHICS_NO_VIDEO_MEMORY),
        _ => Err(parameter),
    });
    let system = CreateAllocation::fixed(device, AllocationKind::SYSTEM, PAGE_SIZE, 1);
    let extent = Extent { address: 0, length: PAGE_SIZE };
    let mut of_system = fixed(AllocationKind::SYSTEM, 1, only("size", 8, PAGE_SIZE, parameter));
    of_system.extend(extent_fields(PAGE_SIZE));
    // Only paged allocations have segments.
    let segments = u64::from((SegmentSet::LOCAL | SegmentSet::SYSTEM).bits());
    let as_paged = || {
        let kind = only("kind", 4, AllocationKind::PAGED.0.into(), parameter);
        kind.naming(0, segments).naming(1, segments)
    };
    let of_paged = vec![
        handle("device", device),
        if_so("size", 8, |size| size.is_multiple_of(PAGE_SIZE) && size > 0),
        as_paged(),
        count("extent_count", 0),
        // It is CPU-visible.
        if_so("supported_segments", 4, |segments| segments == 1),
        if_so("preferred_segment", 4, |segment| segment < 2),
        if_so("eviction_segments", 4, |segments| segments < 2),
        field("flags", 4, paged_flags),
        any("priority", 4),
        if_so("private_data", 4, |data| data < 2),
    ];
    let flags = AllocationFlags::ACCESSED_PHYSICALLY.bits();
    let physical = CreateAllocation { flags, ..paged(device) };
    let of_physical = vec![
        handle("device", device),
        if_so("size", 8, |size| size.is_multiple_of(PAGE_SIZE) && size > 0),
        as_paged(),
        count("extent_count", 0),
        if_so("supported_segments", 4, |segments| (1..8).contains(&segments)),
        if_so("preferred_segment", 4, |segment| [0, 1, 4].contains(&segment)),
        if_so("eviction_segments", 4, |segments| segments < 2),
        field("flags", 4, paged_flags),
        any("priority", 4),
        if_so("private_data", 4, |data| data < 2),
    ];
    let mirrored =
        CreateAllocation { flags: AllocationFlags::LINKED_MIRRORED.bits(), ..paged(device) };
    let of_mirrored = vec![
        handle("device", device),
        if_so("size", 8, |size| size.is_multiple_of(PAGE_SIZE) && size > 0),
        as_paged(),
        count("extent_count", 0),
        if_so("supported_segments", 4, |segments| (1..8).contains(&segments)),
        if_so("preferred_segment", 4, |segment| [0, 1, 4].contains(&segment)),
        if_so("eviction_segments", 4, |segments| segments < 2),
        field("flags", 4, paged_flags),
        any("priority", 4),
        if_so("private_data", 4, |data| data < 2),
    ];
    vec![
        row(process, &mirrored, of_mirrored),
        row(process, &local, fixed(AllocationKind::LOCAL, 0, size)),
        row_with_list(process, &system, &[extent], of_system),
        row(process, &paged(device), of_paged),
        row(process, &physical, of_physical),
    ]
}

/// A command buffer that the kernel-mode driver copies, with one allocation.
pub(super) fn basic(world: &World) -> Row {
    let (parameter, length) = (Status::INVALID_PARAMETER, size_of::<Fill>() as u64);
    let context = world.nodes[0].context;
    let allocation = world.fixed.0;
    let request = Render {
        context,
        dma_buffer: 0,
        dma_buffer_size: 0,
        command_length: length as u32,
        allocation_count: 1,
        patch_location_count: 1,
    };
    let fill = Fill::new(0, 8, 0);
    let entry = AllocationListEntry { allocation, flags: ALLOCATION_WRITE, reserved: 0 };
    let patch = PatchLocation { allocation_index: 0, patch_offset: 8, allocation_offset: 0 };
    let lists = [fill.as_bytes(), entry.as_bytes(), patch.as_bytes()].concat();
    let fields = vec![
        handle("context", context),
        zero("dma_buffer", 8),
        zero("dma_buffer_size", 4),
        count_of("command_length", length, RENDER_COMMANDS_MAX),
        count_of("allocation_count", 1, ALLOCATION_LIST_MAX),
        count_of("patch_location_count", 1, PATCH_LOCATION_LIST_MAX),
        field("opcode", 2, |opcode| match Opcode(opcode as u16) {
            // A NOP has no address to patch.
            Opcode::NOP => Err(Status::INVALID_PARAMETER),
            opcode if opcode.name().is_some() => Err(Status::INVALID_USER_BUFFER),
            _ => Err(Status::ILLEGAL_INSTRUCTION),
        }),
        field("units", 2, |_| Err(Status::INVALID_USER_BUFFER)),
        any("pattern", 4),
        // A patch location supplies the address.
        any("destination", 8),
        if_so("length", 8, |length| length <= SIZE).at(0),
        handle("allocation", allocation),
        field("flags", 4, |flags| match flags as u32 {
            ALLOCATION_WRITE => Ok(()),
            // The packet writes.
            0 => Err(Status::PRIVILEGED_INSTRUCTION),
            _ => Err(Status::INVALID_PARAMETER),
        }),
        zero("reserved", 4),
        only("allocation_index", 4, 0, parameter).at(0),
        field("patch_offset", 4, move |offset| match offset {
            8 => Ok(()),
            // The location is behind the packet, so no location patches the packet's address.
            offset if offset >= length => Err(Status::PRIVILEGED_INSTRUCTION),
            _ => Err(parameter),
        })
        .at(0),
        if_so("allocation_offset", 8, |offset| offset <= SIZE - 8).at(0),
    ];
    row_with_list(world.client.process, &request, &lists, fields)
}

/// A DMA buffer of the user-mode driver.
pub(super) fn basic_plus_plus(world: &World) -> Row {
    let context = world.nodes[1].context;
    let allocation = world.fixed.0;
    let request = Render {
        context,
        dma_buffer: COMMANDS,
        dma_buffer_size: 64,
        command_length: 0,
        allocation_count: 1,
        patch_location_count: 0,
    };
    let entry = AllocationListEntry { allocation, flags: ALLOCATION_WRITE, reserved: 0 };
    let fields = vec![
        handle("context", context),
        if_so("dma_buffer", 8, |gpu_va| gpu_va.is_multiple_of(8)),
        if_so("dma_buffer_size", 4, command_size),
        count_of("command_length", 0, RENDER_COMMANDS_MAX),
        count_of("allocation_count", 1, ALLOCATION_LIST_MAX),
        count_of("patch_location_count", 0, PATCH_LOCATION_LIST_MAX),
        handle("allocation", allocation),
        if_so("flags", 4, |flags| flags < 2),
        zero("reserved", 4),
    ];
    row_with_list(world.client.process, &request, &[entry], fields)
}

/// A shared allocation cannot be accessed physically, and a mirrored one has one place for no CPU, process or display. An
/// adapter that is no chain has no other GPU, and none is protected without a security node.
fn paged_flags(flags: u64) -> Result<(), Status> {
    let [shared_physical, mirrored, cpu_shared_primary] = [0x18, 0x80, 0x31];
    match flags {
        0x100.. => Err(Status::INVALID_PARAMETER),
        _ if flags & shared_physical == shared_physical => Err(Status::INVALID_PARAMETER),
        _ if flags & mirrored != 0 && flags & cpu_shared_primary != 0 => {
            Err(Status::INVALID_PARAMETER)
        }
        _ if flags & 0x40 != 0 => Err(Status::NOT_SUPPORTED),
        // These segments are not a primary's.
        _ if flags & 0x20 != 0 => Err(Status::INVALID_PARAMETER),
        _ => Ok(()),
    }
}
