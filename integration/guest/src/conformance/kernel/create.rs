// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels as objects: how they are compiled, refused, counted, named and destroyed.

use super::lab::{self, COUNT, INCREMENT, LOOP, TRANSFORM};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::raw;
use crate::conformance::scene::{Bench, Scene, TIMEOUT};
use bellhop_guest_umd::{Arguments, CommandBuffer, Error, GpuMapping, Kernel, KernelError};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::control::kernel::{
    CreateKernel, DestroyKernel, KernelCaps, KernelResult, padded, unpadded,
};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::dispatch::{DispatchFlags, DispatchKernel};
use bellhop_protocol::status::Status;
use std::thread;
use std::time::Instant;
use zerocopy::IntoBytes;

pub(super) fn caps(scene: &Scene) -> Result<(), Mismatch> {
    let caps = scene.adapter().kernel_caps()?;
    let KernelCaps { device, driver, missing, .. } = &caps;
    let [device, driver, missing] = [unpadded(device), unpadded(driver), unpadded(missing)];
    if !caps.are_supported() {
        require!(!missing.is_empty(), "there are no kernels, for no reason");
        let bench = scene.bench()?;
        let created = Kernel::from_spirv(&bench.device, LOOP.spirv, "main").create();
        let told =
            matches!(&created, Err(KernelError::NotOffered { missing: told }) if told == missing);
        require!(told, "creating one ended with {:?}", created.map(|kernel| kernel.number()));
        scene.show(format!("no kernels: {missing}"));
        return Ok(());
    }
    require!(missing.is_empty(), "there are kernels, and yet {missing:?}");
    require!(!device.is_empty() && !driver.is_empty(), "nothing has a name");
    // The minima of the Vulkan specification, and the maxima of the protocol.
    require!(caps.max_invocations >= 128 && caps.shared_memory >= 16_384, "{caps:?}");
    require!(caps.max_groups.iter().all(|most| *most >= 65_535), "{caps:?}");
    require!((128..=256).contains(&caps.max_push_constants), "{caps:?}");
    require!((4..=16).contains(&caps.max_descriptors), "{caps:?}");
    require!(caps.descriptor_alignment.is_power_of_two(), "{caps:?}");
    require!(caps.max_spirv > 0 && caps.max_kernels > 0 && caps.window_length > 0, "{caps:?}");
    scene.show(format!("{device}, {driver}"));
    Ok(())
}

/// A module in memory that the process maps.
fn uploaded(bench: &Bench, spirv: &[u8]) -> Result<GpuMapping, Mismatch> {
    let size = (spirv.len() as u64).next_multiple_of(4096);
    let memory = bench.device.create_allocation(AllocationKind::SYSTEM, size)?;
    memory.write(0, spirv)?;
    Ok(memory.map(Protection::empty())?)
}

fn request(bench: &Bench, spirv: &GpuMapping, length: usize) -> CreateKernel {
    CreateKernel {
        device: bench.device.handle(),
        spirv: spirv.gpu_va(),
        spirv_length: length as u32,
        push_constants: 4,
        descriptors: 1,
        constant_count: 0,
        entry_point: padded("main"),
    }
}

/// Asserts that compiling failed, with a text, and that another kernel compiles and computes.
fn expect_refused(
    bench: &mut Bench,
    created: Result<Kernel, KernelError>,
) -> Result<String, Mismatch> {
    let text = match created {
        Err(KernelError::Refused { text, .. } | KernelError::CompilerCrashed { text, .. }) => text,
        Err(KernelError::Device(error)) => return Err(error.into()),
        Err(error) => return Err(Mismatch::Seen(format!("instead of a refusal: {error}"))),
        Ok(_) => return Err(Mismatch::Seen("it compiled".into())),
    };
    require!(!text.is_empty(), "it was refused for no reason");
    bench.expect_computes()?;
    Ok(text)
}

pub(super) fn refused(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    // A right header, and instructions that there are not.
    let mut nonsense = TRANSFORM.spirv[..20].to_vec();
    nonsense.extend([0xFFu8; 400]);
    // A module that ends in the middle of an instruction.
    let cut_off = &TRANSFORM.spirv[..TRANSFORM.spirv.len() / 8 * 4];
    let mut texts = Vec::new();
    for module in [&nonsense[..], cut_off] {
        let created = Kernel::from_spirv(&bench.device, module, "main").descriptors(1).create();
        texts.push(expect_refused(&mut bench, created)?);
    }
    scene.show(texts.join("; "));
    Ok(())
}

pub(super) fn not_spirv(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    let text = uploaded(&bench, b"#version 460\nvoid main() {}\n    ")?;
    let (transport, process) = (scene.transport(), bench.process.process());
    let created = raw::call(transport, process, &request(&bench, &text, 32))?;
    require!(created.result == KernelResult::REFUSED, "it ended with {}", created.result);
    require!(created.kernel == Handle(0) && created.number == 0, "there is a kernel nevertheless");
    require!(created.text_length > 0, "it was refused for no reason");
    bench.expect_computes()
}

pub(super) fn unknown_entry_point(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    let created = Kernel::from_spirv(&bench.device, TRANSFORM.spirv, "no_such_function");
    let created = created.descriptors(1).create();
    expect_refused(&mut bench, created).map(drop)
}

pub(super) fn bad_fields(scene: &Scene) -> Result<(), Mismatch> {
    let caps = lab::caps(scene)?;
    let bench = lab::bench(scene)?;
    let mapping = uploaded(&bench, LOOP.spirv)?;
    let right = request(&bench, &mapping, LOOP.spirv.len());
    let most = caps.max_spirv;
    let wrong = [
        CreateKernel { spirv: right.spirv + 4, ..right },
        CreateKernel { spirv_length: 16, ..right },
        CreateKernel { spirv_length: right.spirv_length - 1, ..right },
        CreateKernel { spirv_length: most + 4, ..right },
        CreateKernel { push_constants: 6, ..right },
        CreateKernel { push_constants: caps.max_push_constants + 4, ..right },
        CreateKernel { descriptors: caps.max_descriptors + 1, ..right },
        CreateKernel { constant_count: 17, ..right },
        CreateKernel { entry_point: [b'm'; 64], ..right },
        CreateKernel { entry_point: [0; 64], ..right },
    ];
    let (transport, process) = (scene.transport(), bench.process.process());
    for (index, request) in wrong.iter().enumerate() {
        let (status, _) = raw::status(transport, process, request)?;
        require!(!status.is_success(), "wrong request {index} ended with {status}");
    }
    let unknown = CreateKernel { device: Handle(0x7777), ..right };
    raw::expect_status(transport, process, &unknown, Status::INVALID_HANDLE)?;
    let created = raw::call(transport, process, &right)?;
    require!(created.result == KernelResult::COMPILED, "the right one: {}", created.result);
    raw::call(transport, process, &DestroyKernel { kernel: created.kernel })
}

pub(super) fn unreadable(scene: &Scene) -> Result<(), Mismatch> {
    let bench = lab::bench(scene)?;
    let mapping = uploaded(&bench, LOOP.spirv)?;
    let end = mapping.gpu_va() + mapping.size();
    let (transport, process) = (scene.transport(), bench.process.process());
    let request = CreateKernel { spirv: end - 64, ..request(&bench, &mapping, 4096) };
    let ended = raw::status(transport, process, &request)?;
    let expected = (Status::ACCESS_VIOLATION, end);
    require!(ended == expected, "it ended with {ended:?}, not with {expected:?}");
    Ok(())
}

pub(super) fn counted(scene: &Scene) -> Result<(), Mismatch> {
    let caps = lab::caps(scene)?;
    let bench = lab::bench(scene)?;
    let create = || Kernel::from_spirv(&bench.device, LOOP.spirv, "main").push_constants(4);
    let mut kernels = Vec::new();
    let refused = loop {
        match create().descriptors(1).create() {
            Ok(kernel) => kernels.push(kernel),
            Err(KernelError::Device(Error::Refused { status, .. })) => break status,
            Err(error) => return Err(error.into()),
        }
        let most = caps.max_kernels as usize;
        require!(kernels.len() <= most, "there are more than {most} kernels");
    };
    let numbers: Vec<_> = kernels.iter().map(Kernel::number).collect();
    let grow = numbers.is_sorted_by(|one, next| one < next);
    require!(grow, "numbers were used again: {numbers:?}");
    require!(refused == Status::QUOTA_EXCEEDED, "one too many ended with {refused}");
    kernels.pop();
    let again = create().descriptors(1).create()?;
    require!(!numbers.contains(&again.number()), "number {} was used again", again.number());
    scene.show(format!("{} kernels", numbers.len()));
    Ok(())
}

/// Asserts that a dispatch of a kernel of this number loses its queue.
fn expect_no_such_kernel(bench: &mut Bench, number: u32) -> Result<(), Mismatch> {
    let packet = DispatchKernel::new(number, [1; 3], DispatchFlags::empty());
    bench.commands.raw(packet.as_bytes())?;
    bench.expect_fault(FaultReason::NO_SUCH_KERNEL, number.into()).map(drop)
}

pub(super) fn unknown_number(scene: &Scene) -> Result<(), Mismatch> {
    lab::caps(scene)?;
    for number in [0, 1, 77_777, u32::MAX] {
        expect_no_such_kernel(&mut lab::bench(scene)?, number)?;
    }
    let mut bench = lab::bench(scene)?;
    let destroyed = bench.wgsl(INCREMENT)?.number();
    expect_no_such_kernel(&mut bench, destroyed)
}

pub(super) fn other_process(scene: &Scene) -> Result<(), Mismatch> {
    let (owner, mut bench) = (lab::bench(scene)?, lab::bench(scene)?);
    // Numbers count in each process: the owner gets more of them.
    let kernels: Vec<_> = (0..4).map(|_| owner.wgsl(INCREMENT)).collect::<Result<_, _>>()?;
    for kernel in &kernels {
        let number = kernel.number();
        let request = DestroyKernel { kernel: kernel.handle() };
        let process = bench.process.process();
        raw::expect_status(scene.transport(), process, &request, Status::INVALID_HANDLE)?;
        expect_no_such_kernel(&mut bench, number)?;
        bench = lab::bench(scene)?;
    }
    Ok(())
}

pub(super) fn destroyed_in_flight(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = lab::bench(scene)?;
    let kernel = bench.wgsl(COUNT)?;
    bench.write_words(0, [0, 0])?;
    let mut arguments = Arguments::new();
    arguments.descriptor(bench.va(0), 8);
    let mut commands = CommandBuffer::new(&bench.device, 256)?;
    commands.dispatch_kernel(&kernel, [1; 3], &arguments)?;
    commands.write_data(bench.va(64), &[7; 8])?;
    let value = bench.queue.submit(&mut commands)?;
    await_count(&bench, 0)?;
    // The buffer is submitted already, and need not keep the kernel.
    commands.reset();
    let number = kernel.number();
    drop(kernel);
    bench.write_words(4, [1])?;
    bench.queue.progress_fence().poll(value, TIMEOUT)?;
    require!(bench.read(64, 8)? == [7; 8], "what came after was not executed");
    expect_no_such_kernel(&mut bench, number)
}

/// Waits until a kernel counts beyond a number, and returns where it is.
pub(super) fn await_count(bench: &Bench, beyond: u32) -> Result<u32, Mismatch> {
    let start = Instant::now();
    loop {
        let count = bench.words(0, 1)?[0];
        if count > beyond {
            return Ok(count);
        }
        require!(start.elapsed() < TIMEOUT, "the kernel does not count");
        thread::yield_now();
    }
}

pub(super) fn not_on_copy_nodes(scene: &Scene) -> Result<(), Mismatch> {
    lab::caps(scene)?;
    let mut bench = scene.bench_on(EngineType::COPY)?;
    let kernel = bench.wgsl("@compute @workgroup_size(1) fn nothing() {}")?;
    bench.commands.dispatch_kernel(&kernel, [1; 3], &Arguments::new())?;
    let opcode = bellhop_protocol::packet::Opcode::DISPATCH_KERNEL;
    bench.expect_fault(FaultReason::NOT_SUPPORTED_BY_NODE, opcode.0.into()).map(drop)
}
