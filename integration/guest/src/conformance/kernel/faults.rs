// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a kernel's wrong access costs, and what it does not.

use super::lab::{self, INCREMENT, TOUCH};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::{Scene, TIMEOUT};
use bellhop_guest_umd::{Arguments, Error};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::event::FaultReason;

pub(super) fn read(scene: &Scene) -> Result<(), Mismatch> {
    for offset in [0, 8, PAGE_SIZE - 8, 77 * PAGE_SIZE + 1000] {
        let mut bench = lab::bench_with_pointers(scene)?;
        let touch = bench.kernel(&TOUCH)?;
        let wrong = bench.memory.gpu_va() + bench.memory.size() + offset;
        bench.touch(&touch, wrong, bench.va(0))?;
        bench.expect_fault(FaultReason::READ_PAGE_FAULT, wrong)?;
    }
    Ok(())
}

pub(super) fn write(scene: &Scene) -> Result<(), Mismatch> {
    for offset in [0, 8, PAGE_SIZE - 8, 77 * PAGE_SIZE + 1000] {
        let mut bench = lab::bench_with_pointers(scene)?;
        let touch = bench.kernel(&TOUCH)?;
        let wrong = bench.memory.gpu_va() + bench.memory.size() + offset;
        bench.touch(&touch, 0, wrong)?;
        bench.expect_fault(FaultReason::WRITE_PAGE_FAULT, wrong)?;
    }
    Ok(())
}

pub(super) fn read_only(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench_with_pointers(scene)?;
    let touch = bench.kernel(&TOUCH)?;
    let page = bench.device.create_allocation(AllocationKind::SYSTEM, PAGE_SIZE)?;
    page.write(0, &[9; 4096])?;
    let mapping = page.map(Protection::empty())?;
    bench.touch(&touch, mapping.gpu_va() + 16, bench.va(0))?;
    bench.run()?;
    require!(bench.read(0, 8)? == [9; 8], "the page cannot be read");
    bench.touch(&touch, 0, mapping.gpu_va() + 24)?;
    bench.expect_fault(FaultReason::WRITE_PROTECTION_FAULT, mapping.gpu_va() + 24)?;
    let mut bytes = [0; 64];
    page.read(0, &mut bytes)?;
    require!(bytes == [9; 64], "the page was written");
    Ok(())
}

pub(super) fn outside(scene: &Scene) -> Result<(), Mismatch> {
    let caps = lab::caps(scene)?;
    let end = caps.window_start + caps.window_length;
    // Canonical addresses, which the host's processor translates: below the window, and far behind it. What no
    // processor translates has no address that the fault could name.
    for wrong in [caps.window_start - 8, 8, end, end + (1 << 30)] {
        let mut bench = lab::bench_with_pointers(scene)?;
        let touch = bench.kernel(&TOUCH)?;
        bench.touch(&touch, 0, wrong)?;
        let submitted = bench.submit();
        match submitted.and_then(|value| bench.finish(value)) {
            Err(Error::QueueLost { fault: Some(fault), .. }) => {
                let named = fault.address == wrong || fault.address == 0;
                let expected = FaultReason::ADDRESS_OUT_OF_RANGE;
                require!(fault.reason == expected && named, "{fault}, not at {wrong:#x}");
            }
            other => return Err(Mismatch::Seen(format!("{wrong:#x} ended with {other:?}"))),
        }
        lab::bench(scene)?.expect_computes()?;
    }
    Ok(())
}

pub(super) fn freed(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench_with_pointers(scene)?;
    let touch = bench.kernel(&TOUCH)?;
    let page = bench.device.create_allocation(AllocationKind::SYSTEM, PAGE_SIZE)?;
    let mapping = page.map(Protection::WRITE)?;
    let gpu_va = mapping.gpu_va();
    bench.touch(&touch, 0, gpu_va)?;
    bench.run()?;
    page.write(0, &[1; 64])?;
    drop(mapping);
    bench.touch(&touch, 0, gpu_va + 8)?;
    bench.expect_fault(FaultReason::WRITE_PAGE_FAULT, gpu_va + 8)?;
    let mut bytes = [0; 64];
    page.read(0, &mut bytes)?;
    require!(bytes == [1; 64], "the page was written after its address was freed");
    Ok(())
}

pub(super) fn descriptor(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    let kernel = bench.wgsl(INCREMENT)?;
    let end = bench.memory.gpu_va() + bench.memory.size();
    let mut arguments = Arguments::new();
    // The second page of the range is not mapped.
    arguments.descriptor(end - PAGE_SIZE, 2 * PAGE_SIZE);
    let groups = [2 * PAGE_SIZE as u32 / 256, 1, 1];
    bench.commands.dispatch_kernel(&kernel, groups, &arguments)?;
    let submitted = bench.submit();
    match submitted.and_then(|value| bench.finish(value)) {
        Err(Error::QueueLost { fault: Some(fault), .. }) => {
            let page = end..end + PAGE_SIZE;
            let is_fault = fault.reason.is_page_fault() && page.contains(&fault.address);
            require!(is_fault, "{fault}, not in the page at {end:#x}");
            Ok(())
        }
        other => Err(Mismatch::Seen(format!("it ended with {other:?}"))),
    }
}

pub(super) fn named(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench_with_pointers(scene)?;
    let touch = bench.kernel(&TOUCH)?;
    let wrong = bench.memory.gpu_va() + bench.memory.size();
    bench.touch(&touch, wrong, 0)?;
    let submitted = bench.submit();
    let ended = submitted.and_then(|value| bench.finish(value));
    match ended.map_err(|error| bench.commands.blame(error)) {
        Err(Error::KernelFault { kernels, fault, .. }) => {
            require!(kernels == ["touch"] && fault.address == wrong, "{kernels:?}: {fault}");
            Ok(())
        }
        other => Err(Mismatch::Seen(format!("it ended with {other:?}"))),
    }
}

pub(super) fn others_go_on(scene: &Scene) -> Result<(), Mismatch> {
    let mut neighbour = lab::bench_with_pointers(scene)?;
    let kernel = neighbour.wgsl(INCREMENT)?;
    neighbour.write_words(0, [0; 1024])?;
    neighbour.dispatch_over(&kernel, 16, 0, 4096)?;
    for round in 1..=10u32 {
        let mut hostile = lab::bench(scene)?;
        let touch = hostile.kernel(&TOUCH)?;
        let wrong = hostile.memory.gpu_va() + hostile.memory.size();
        hostile.touch(&touch, 0, wrong)?;
        let lost = hostile.queue.submit(&mut hostile.commands);
        let value = neighbour.queue.submit(&mut neighbour.commands)?;
        neighbour.queue.progress_fence().poll(value, TIMEOUT)?;
        let ended = lost.and_then(|value| hostile.queue.progress_fence().poll(value, TIMEOUT));
        hostile.expect_lost(ended, FaultReason::WRITE_PAGE_FAULT, wrong)?;
        let words = neighbour.words(0, 1024)?;
        require!(words == [round; 1024], "round {round} made {:?}", &words[..4]);
    }
    Ok(())
}
