// SPDX-License-Identifier: MIT OR Apache-2.0

//! The effect of each packet.

use crate::support::data::{noise, write_data};
use crate::support::rig::*;
use bellhop_host_kmd::hardware::{
    CurrentValues as _, Interrupt, Interrupts as _, KernelSubmission, Observe as _, Queues as _,
    Segment,
};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::dispatch::{Dispatch, Kernel, xor_stream};
use bellhop_protocol::packet::fence::{ConditionalInterrupt, SignalFence};
use bellhop_protocol::packet::flow::NOP;
use bellhop_protocol::packet::transfer::{COMPARE_EQUAL, Compare, Copy, Fill, Hash, Timestamp};
use proptest::test_runner::{Config, TestRunner};
use std::cell::RefCell;
use xxhash_rust::xxh64::xxh64;

#[test]
fn a_signal_in_a_command_buffer_reaches_the_fence() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COMPUTE);
    for value in 1..=200 {
        let packets = Packets::new().then(SignalFence::new(queue.progress, value));
        let buffer = guest.buffer_at(LOCAL, &packets);
        guest.submit(&mut queue, &Packets::new().then(NOP).then(buffer));
        guest.wait(queue.progress, value);
        assert_eq!(guest.gpu.fence_value(guest.id, queue.progress).unwrap(), value);
    }
    let statistics = guest.gpu.statistics(guest.id).unwrap();
    assert!(statistics.doorbells > 0);
}

#[test]
fn write_data_writes_exactly_its_bytes_at_any_alignment() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COPY);
    for (count, at) in [(1, 0), (7, 3), (8, 8), (13, 4090), (256, 4095), (255, 1)] {
        guest.write(SYSTEM, &[0xAA; 8192]);
        let data = noise(count);
        guest.run(&mut queue, write_data(SYSTEM + at, &data));
        let mut expected = vec![0xAA; 8192];
        expected[at as usize..at as usize + count].copy_from_slice(&data);
        assert_eq!(guest.read(SYSTEM, 8192), expected, "{count} bytes at {at}");
    }
}

#[test]
fn fill_repeats_its_pattern_over_any_range() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COPY);
    let size = 1 << 20;
    for (at, length) in [(0, 0), (4, 4), (4092, 8), (20, 100_000), (0, size as u64)] {
        guest.write(LOCAL, &vec![0xAA; size]);
        guest.run(&mut queue, Packets::new().then(Fill::new(LOCAL + at, length, 0x0403_0201)));
        let mut expected = vec![0xAA; size];
        for (index, byte) in expected[at as usize..(at + length) as usize].iter_mut().enumerate() {
            *byte = (index % 4) as u8 + 1;
        }
        assert!(guest.read(LOCAL, size) == expected, "{length} bytes at {at}");
    }
}

#[test]
fn copies_go_both_ways_between_scattered_pages() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COPY);
    // The pages of this range are in reverse order, and alternate between local and guest memory.
    let scattered = 0x5000_0000;
    for page in 0..64 {
        let address = (63 - page) * 4096;
        match page % 2 {
            0 => guest.map(scattered + page * 4096, Segment::Local, address, 4096, true),
            _ => {
                guest.map(scattered + page * 4096, Segment::System, PHYSICAL + address, 4096, true)
            }
        }
    }
    let data = noise(60 * 4096 + 77);
    let length = data.len() as u64;
    guest.write(SYSTEM + 0x10_0000, &data);
    let there = Copy::new(SYSTEM + 0x10_0000, scattered + 5, length);
    let back = Copy::new(scattered + 5, LOCAL + 0x10_0003, length);
    guest.run(&mut queue, Packets::new().then(there).then(back));
    assert!(guest.read(LOCAL + 0x10_0003, data.len()) == data);
    // Where the second scattered page is, by its mapping.
    assert_eq!(guest.read(SYSTEM + 62 * 4096, 4096), data[4091..4091 + 4096]);
}

#[test]
fn a_copy_of_scattered_pages_copies_all_that_precede_one_that_is_not_mapped() {
    const PAGES: u64 = 40;
    let (scattered, page) = (0x5000_0000, 4096);
    for unmapped in [1, 15, 16, 17, 33] {
        let mut guest = Guest::start();
        let mut queue = guest.queue(COPY);
        for place in (0..PAGES).filter(|place| *place != unmapped) {
            let address = (PAGES - 1 - place) * page;
            guest.map(scattered + place * page, Segment::Local, address, page, true);
        }
        let data = noise((PAGES * page) as usize);
        guest.write(SYSTEM, &data);
        let there = Copy::new(SYSTEM, scattered, PAGES * page);
        let fault = guest.run_into_fault(&mut queue, &Packets::new().then(there));
        let expected = (FaultReason::WRITE_PAGE_FAULT, scattered + unmapped * page);
        assert_eq!((fault.reason, fault.address), expected);
        for (place, expected) in (0..unmapped).zip(data.chunks(page as usize)) {
            let at = LOCAL + (PAGES - 1 - place) * page;
            assert!(guest.read(at, page as usize) == expected, "page {place} of {unmapped}");
        }
    }
}

#[test]
fn a_long_copy_arrives_whole() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COMPUTE);
    let data = noise(FREE as usize - 3);
    guest.write(SYSTEM, &data);
    guest.run(&mut queue, Packets::new().then(Copy::new(SYSTEM, LOCAL + 1, data.len() as u64)));
    assert!(guest.read(LOCAL + 1, data.len()) == data);
    assert!(guest.gpu.statistics(guest.id).unwrap().bytes >= data.len() as u64);
}

#[test]
fn compare_tells_the_first_difference_or_none() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COPY);
    let (result, data) = (LOCAL, noise(100_000));
    let (left, right) = (SYSTEM + 3, LOCAL + 0x1_0001);
    guest.write(left, &data);
    for differs in [None, Some(0), Some(8191), Some(8192), Some(50_000), Some(99_999)] {
        let mut other = data.clone();
        if let Some(at) = differs {
            other[at] ^= 1;
            // Later differences do not count.
            other[99_999] ^= 2;
        }
        guest.write(right, &other);
        let compare = Compare::new(left, right, data.len() as u64, result);
        guest.run(&mut queue, Packets::new().then(compare));
        assert_eq!(guest.read_word(result), differs.map_or(COMPARE_EQUAL, |at| at as u64));
    }
    guest.run(&mut queue, Packets::new().then(Compare::new(left, right + 1, 0, result)));
    assert_eq!(guest.read_word(result), COMPARE_EQUAL);
}

#[test]
fn hash_is_xxh64() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COPY);
    let data = noise(1_000_000);
    guest.write(SYSTEM + 1, &data);
    for length in [0, 1, 31, 32, 33, 4095, 8192, 999_999] {
        let hash = Hash::new(SYSTEM + 1, length as u64, 42, LOCAL + 64);
        guest.run(&mut queue, Packets::new().then(hash));
        assert_eq!(guest.read_word(LOCAL + 64), xxh64(&data[..length], 42), "{length} bytes");
    }
}

#[test]
fn timestamps_only_grow() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COPY);
    let mut packets = Packets::new();
    for index in 0..50 {
        packets = packets.then(Timestamp::new(LOCAL + index * 8));
    }
    guest.run(&mut queue, packets);
    let times: Vec<_> = (0..50).map(|index| guest.read_word(LOCAL + index * 8)).collect();
    assert!(times.is_sorted());
    assert!(times[0] > 0);
}

#[test]
fn xor_stream_applies_its_key_and_applied_again_takes_it_back() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COMPUTE);
    let data = noise(100_000);
    guest.write(SYSTEM + 8, &data);
    let run = |source, destination| {
        Dispatch::new(Kernel::XOR_STREAM, source, destination, data.len() as u64, 99)
    };
    guest.run(&mut queue, Packets::new().then(run(SYSTEM + 8, LOCAL + 4080)));
    let expected = data.chunks(8).zip(0..).flat_map(|(word, index)| {
        (u64::from_le_bytes(word.try_into().unwrap()) ^ xor_stream(99, index)).to_le_bytes()
    });
    assert!(guest.read(LOCAL + 4080, data.len()) == expected.collect::<Vec<_>>());
    guest.run(&mut queue, Packets::new().then(run(LOCAL + 4080, LOCAL + 4080)));
    assert!(guest.read(LOCAL + 4080, data.len()) == data);
}

#[test]
fn a_conditional_interrupt_on_a_fence_without_waiters_does_nothing() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COPY);
    let fence = guest.fence(9);
    guest.run(&mut queue, Packets::new().then(ConditionalInterrupt::new(fence)));
    assert_eq!(guest.gpu.take_interrupts(), []);
}

#[test]
fn indirect_buffers_nest_and_return_behind_themselves() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COMPUTE);
    let step = |index: u64| write_data(LOCAL + index * 8, &index.to_le_bytes());
    let mut inner = Packets::new();
    for depth in (0..4).rev() {
        let buffer = guest.buffer(&inner);
        let empty = bellhop_protocol::packet::flow::IndirectBuffer::new(buffer.gpu_va, 0);
        let mut around = step(depth * 2 + 1);
        around = around.then(empty).then(buffer);
        around.0.extend(step(depth * 2 + 2).0);
        inner = around;
    }
    guest.run(&mut queue, inner);
    for index in 1..=8 {
        assert_eq!(guest.read_word(LOCAL + index * 8), index);
    }
}

#[test]
fn packets_wrap_around_the_end_of_the_ring() {
    let mut guest = Guest::start();
    let mut queue = guest.queue(COPY);
    // Packets of many lengths, for several times the ring's size: they wrap at every border.
    for round in 0..400u64 {
        let data = noise(1 + (round as usize * 37) % 256);
        guest.submit_with_progress(&mut queue, write_data(SYSTEM + round * 256, &data));
    }
    guest.wait(queue.progress, 400);
    assert!(queue.written > 8 * queue.binding.ring_size);
    for round in 0..400u64 {
        let data = noise(1 + (round as usize * 37) % 256);
        assert_eq!(guest.read(SYSTEM + round * 256, data.len()), data, "packet {round}");
    }
    eventually("the last read pointer", || guest.pointers(&queue).consumed() == queue.written);
}

#[test]
fn a_command_buffer_submitted_in_kernel_mode_signals_the_progress_fence() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let (queue, progress) = guest.kernel_mode_queue(COMPUTE);
    for value in 1..=20 {
        let buffer = guest.buffer(&write_data(SYSTEM + value * 8, &value.to_le_bytes()));
        let submission = KernelSubmission {
            gpu_va: buffer.gpu_va,
            size: buffer.size(),
            progress_fence_value: value,
            submission_fence: 100 + value,
        };
        gpu.submit_kernel_mode(queue, submission).unwrap();
        gpu.kick(queue).unwrap();
    }
    guest.wait(progress, 20);
    for value in 1..=20 {
        assert_eq!(guest.read_word(SYSTEM + value * 8), value);
    }
    // One report covers several submissions that complete before the host looks.
    let mut last = 100;
    while last < 120 {
        for interrupt in take_interrupts(&gpu) {
            let Interrupt::DmaCompleted { node: COMPUTE, engine: 0, fence } = interrupt else {
                panic!("{interrupt:?}");
            };
            assert!(fence > last);
            last = fence;
        }
    }
    assert_eq!(last, 120);
    assert_eq!(gpu.statistics(guest.id).unwrap().interrupts, 0);
}

#[test]
fn kernel_mode_submissions_are_bounded() {
    let mut guest = Guest::start();
    let (queue, _) = guest.kernel_mode_queue(COMPUTE);
    let submission =
        KernelSubmission { gpu_va: LOCAL, size: 0, progress_fence_value: 0, submission_fence: 1 };
    let accepted =
        (0..100_000).take_while(|_| guest.gpu.submit_kernel_mode(queue, submission).is_ok());
    assert!((1..100_000).contains(&accepted.count()));
}

#[test]
fn any_copy_moves_its_bytes_and_no_others() {
    let mut guest = Guest::start();
    let queue = guest.queue(COPY);
    let queue = RefCell::new(queue);
    const AREA: usize = 64 << 10;
    let source = noise(AREA);
    guest.write(SYSTEM, &source);
    let mut runner = TestRunner::new(Config { cases: 200, ..Config::default() });
    let ranges = (0..AREA, 0..AREA, 0..AREA);
    let result = runner.run(&ranges, |(from, to, length)| {
        let length = length.min(AREA - from).min(AREA - to);
        guest.write(LOCAL, &[0x55; AREA]);
        let copy = Copy::new(SYSTEM + from as u64, LOCAL + to as u64, length as u64);
        guest.run(&mut queue.borrow_mut(), Packets::new().then(copy));
        let mut expected = vec![0x55; AREA];
        expected[to..to + length].copy_from_slice(&source[from..from + length]);
        assert!(guest.read(LOCAL, AREA) == expected);
        Ok(())
    });
    result.unwrap();
}
