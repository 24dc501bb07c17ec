//! Paging buffers in a guest's system context.

use crate::packets::noise;
use crate::rig::*;
use bellhop_device::gpu::{Gpu, GpuConfig};
use bellhop_host_kmd::ddi::paging::{APERTURE_START, LOCAL_START, PAGING_VA_START, PRIVATE_START};
use bellhop_host_kmd::hardware::{
    Fault, GuestId, Hardware, Interrupt, KernelSubmission, PhysicalPage, Pte, Segment,
    SystemContext,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::AreaKind;
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::control::power::EnginePowerState;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::packet::fence::SignalFence;
use bellhop_protocol::packet::flow::NOP;
use bellhop_protocol::packet::transfer::{Copy, Fill, Timestamp};
use std::sync::Arc;

/// A guest's system context, as dxgkrnl knows it.
pub struct System {
    gpu: Arc<Gpu>,
    guest: GuestId,
    pub context: SystemContext,
    submitted: u64,
    completed: u64,
    faults: Vec<(u64, Fault)>,
}

impl System {
    pub fn of(guest: &Guest) -> Self {
        let context = guest.gpu.create_system_context(guest.id).unwrap();
        let (gpu, guest) = (Arc::clone(&guest.gpu), guest.id);
        Self { gpu, guest, context, submitted: 0, completed: 0, faults: Vec::new() }
    }

    /// Submits packets; the fence that they are submitted with.
    pub fn submit(&mut self, packets: &Packets) -> u64 {
        self.submitted += 1;
        self.gpu.submit_paging(self.guest, &packets.0, self.submitted).unwrap();
        self.submitted
    }

    /// Waits until a fence is reached.
    pub fn wait(&mut self, fence: u64) {
        while self.completed < fence {
            for interrupt in take_interrupts(&self.gpu) {
                match interrupt {
                    Interrupt::PagingCompleted { guest, fence } if guest == self.guest => {
                        assert!(fence > self.completed);
                        self.completed = fence;
                    }
                    Interrupt::PagingFaulted { guest, fence, fault } if guest == self.guest => {
                        assert!(fence > self.completed, "told after it was done");
                        self.faults.push((fence, fault));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Executes packets and waits until they are done.
    pub fn run(&mut self, packets: Packets) {
        let fence = self.submit(&packets);
        self.wait(fence);
        assert_eq!(self.faults, []);
    }

    /// Executes packets and waits until they have failed.
    pub fn run_into_fault(&mut self, packets: Packets) -> Fault {
        let fence = self.submit(&packets);
        self.wait(fence);
        let (faulted, fault) = self.faults.pop().unwrap();
        assert_eq!(faulted, fence);
        fault
    }

    /// Writes entries of the system context's page tables.
    pub fn map(&self, gpu_va: u64, pages: &[PhysicalPage]) {
        let entries: Vec<_> = pages.iter().map(|page| Pte::new(*page, true)).collect();
        self.gpu.update_page_table(self.context.address_space, gpu_va, &entries).unwrap();
    }

    pub fn destroy(self) {
        self.gpu.destroy_hw_queue(self.context.hw_queue);
        quiesce(&self.gpu);
        self.gpu.destroy_address_space(self.context.address_space);
    }
}

fn page(segment: Segment, address: u64) -> PhysicalPage {
    PhysicalPage { segment, address }
}

#[test]
fn the_system_context_sees_both_local_segments_whole() {
    let guest = Guest::attach(&start());
    let mut system = System::of(&guest);
    let bytes = noise(3 * PAGE_SIZE as usize);
    guest.write(LOCAL, &bytes);
    let end = PRIVATE_START + SEGMENTS.private - bytes.len() as u64;
    let copies = Packets::new()
        .then(Copy::new(LOCAL_START, PRIVATE_START + 5, bytes.len() as u64))
        .then(Copy::new(PRIVATE_START + 5, end, bytes.len() as u64))
        .then(Copy::new(end, LOCAL_START + SIZE - bytes.len() as u64, bytes.len() as u64));
    system.run(copies);
    assert_eq!(guest.read(LOCAL + SIZE - bytes.len() as u64, bytes.len()), bytes);
}

#[test]
fn a_window_ends_with_its_segment() {
    let guest = Guest::attach(&start());
    let mut system = System::of(&guest);
    for (end, reason) in [
        (LOCAL_START + SIZE, FaultReason::WRITE_PAGE_FAULT),
        (PRIVATE_START + SEGMENTS.private, FaultReason::WRITE_PAGE_FAULT),
    ] {
        let fault = system.run_into_fault(Packets::new().then(NOP).then(Fill::new(end - 8, 16, 0)));
        assert_eq!(fault, Fault { reason, opcode: Opcode::FILL, address: end, read_pointer: 8 });
    }
}

#[test]
fn local_memory_in_the_guests_own_memory_is_what_the_window_shows() {
    let guest = Guest::attach(&start());
    let mut system = System::of(&guest);
    let extent = |page: u64, pages: u64| Extent {
        address: PHYSICAL + page * PAGE_SIZE,
        length: pages * PAGE_SIZE,
    };
    let extents = [extent(9, 1), extent(2, 2)];
    assert!(guest.gpu.place_area(guest.id, AreaKind::LOCAL_MEMORY, &extents));
    let bytes = noise(3 * PAGE_SIZE as usize);
    guest.write(LOCAL, &[7; 16]);
    for (page, chunk) in [9, 2, 3].into_iter().zip(bytes.chunks(PAGE_SIZE as usize)) {
        guest.write(SYSTEM + page * PAGE_SIZE, chunk);
    }
    system.run(Packets::new().then(Copy::new(LOCAL_START, PRIVATE_START, 3 * PAGE_SIZE)));
    system.run(Packets::new().then(Fill::new(LOCAL_START, 3 * PAGE_SIZE, 0)).then(Copy::new(
        PRIVATE_START + PAGE_SIZE,
        LOCAL_START,
        PAGE_SIZE,
    )));
    let moved = &bytes[PAGE_SIZE as usize..2 * PAGE_SIZE as usize];
    assert_eq!(guest.read(SYSTEM + 9 * PAGE_SIZE, PAGE_SIZE as usize), moved);
    assert_eq!(guest.read(SYSTEM + 2 * PAGE_SIZE, 2 * PAGE_SIZE as usize), [0; 8192]);
    assert_eq!(guest.read(LOCAL, 16), [7; 16]);
    let behind = Packets::new().then(Fill::new(LOCAL_START + 3 * PAGE_SIZE, 4, 0));
    assert_eq!(system.run_into_fault(behind).reason, FaultReason::WRITE_PAGE_FAULT);
}

#[test]
fn the_aperture_and_the_paging_window_show_what_is_mapped_there_and_nothing_else() {
    let guest = Guest::attach(&start());
    let mut system = System::of(&guest);
    for va in [APERTURE_START, PAGING_VA_START] {
        let fault = system.run_into_fault(Packets::new().then(Copy::new(va, PRIVATE_START, 8)));
        assert_eq!((fault.reason, fault.address), (FaultReason::READ_PAGE_FAULT, va));
        let backing = page(Segment::Backing, SEGMENTS.backing - PAGE_SIZE);
        system.map(va, &[backing, page(Segment::System, PHYSICAL + PAGE_SIZE)]);
    }
    let bytes = noise(PAGE_SIZE as usize);
    guest.write(SYSTEM + PAGE_SIZE, &bytes);
    system.run(
        Packets::new()
            .then(Copy::new(PAGING_VA_START + PAGE_SIZE, APERTURE_START, PAGE_SIZE))
            .then(Fill::new(APERTURE_START + PAGE_SIZE, PAGE_SIZE, 0))
            .then(Copy::new(PAGING_VA_START, LOCAL_START, PAGE_SIZE)),
    );
    assert_eq!(guest.read(LOCAL, bytes.len()), bytes);
    assert_eq!(guest.read(SYSTEM + PAGE_SIZE, bytes.len()), vec![0; bytes.len()]);
}

#[test]
fn memory_that_is_given_back_is_zero() {
    let guest = Guest::attach(&start());
    let mut system = System::of(&guest);
    system.map(APERTURE_START, &[page(Segment::Backing, 0)]);
    for (segment, va) in [(Segment::Private, PRIVATE_START), (Segment::Backing, APERTURE_START)] {
        system.run(Packets::new().then(Fill::new(va, PAGE_SIZE, 0x0101_0101)));
        guest.gpu.zero_memory(guest.id, segment, 0, PAGE_SIZE);
        system.run(Packets::new().then(Copy::new(va, LOCAL_START, PAGE_SIZE)));
        assert_eq!(guest.read(LOCAL, PAGE_SIZE as usize), [0; PAGE_SIZE as usize]);
    }
}

#[test]
fn a_paging_buffer_that_fails_is_named_and_the_next_is_executed_and_guests_notice_nothing() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let mut system = System::of(&guest);
    let node = system.context.node;
    let mut queue = guest.queue(node);
    let bad = Packets::new()
        .then(Fill::new(PRIVATE_START, 8, 1))
        .then(Copy::new(0, PRIVATE_START, 8))
        .then(Fill::new(PRIVATE_START, 8, 3));
    let good = Packets::new().then(Copy::new(PRIVATE_START, LOCAL_START, 8));
    let failed = system.submit(&bad);
    let last = system.submit(&good);
    system.wait(last);
    let fault = Fault {
        reason: FaultReason::READ_PAGE_FAULT,
        opcode: Opcode::COPY,
        address: 0,
        read_pointer: size_of::<Fill>() as u64,
    };
    assert_eq!(std::mem::take(&mut system.faults), [(failed, fault)]);
    assert_eq!(guest.read(LOCAL, 8), [1, 0, 0, 0, 1, 0, 0, 0]);
    // A signal of a fence that the guest may have is no packet for the host: it owns none.
    let slot = guest.fence(0);
    let signal = Packets::new().then(SignalFence::new(slot, 1));
    assert_eq!(system.run_into_fault(signal).reason, FaultReason::FENCE_NOT_OWNED);
    guest.run(&mut queue, Packets::new());
}

#[test]
fn the_host_comes_before_guests_on_its_engine_and_has_so_many_buffers_and_no_more() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let mut system = System::of(&guest);
    let node = system.context.node;
    gpu.set_engine_power(node, EnginePowerState::F1);
    let (queue, progress) = guest.kernel_mode_queue(node);
    let buffer = guest.buffer(&Packets::new().then(Timestamp::new(LOCAL)));
    let submission = KernelSubmission {
        gpu_va: buffer.gpu_va,
        size: buffer.size(),
        progress_fence_value: 1,
        submission_fence: 1,
    };
    gpu.submit_kernel_mode(queue, submission).unwrap();
    gpu.kick(queue);
    for _ in 0..32 {
        system.submit(&Packets::new().then(Timestamp::new(LOCAL_START + 8)));
    }
    assert!(gpu.submit_paging(guest.id, &[], 33).is_err());
    gpu.set_engine_power(node, EnginePowerState::F0);
    guest.wait(progress, 1);
    system.wait(32);
    assert!(guest.read_word(LOCAL + 8) <= guest.read_word(LOCAL));
    assert!(guest.read_word(LOCAL + 8) > 0);
    system.run(Packets::new());
}

#[test]
fn a_guest_goes_with_paging_that_is_not_done_and_another_guests_goes_on() {
    let gpu = start_with(GpuConfig { page_table_pages: 256, ..GpuConfig::default() });
    let other = Guest::attach_with(&gpu, 32);
    let mut others = System::of(&other);
    for _ in 0..40 {
        let guest = Guest::attach(&gpu);
        let mut system = System::of(&guest);
        for _ in 0..20 {
            system.submit(&Packets::new().then(Fill::new(PRIVATE_START, SEGMENTS.private, 1)));
        }
        system.destroy();
        guest.detach(&[]);
        others.run(Packets::new().then(Fill::new(PRIVATE_START, 8, 1)));
    }
}
