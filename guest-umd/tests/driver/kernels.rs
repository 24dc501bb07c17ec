// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels: what the device gets to compile, what a dispatch passes, and what is said when something is wrong.

use crate::device::{Answer, success};
use crate::rig::{Rig, packets};
use bellhop_guest_umd::{Arguments, CommandBuffer, Error, Kernel, KernelError};
use bellhop_protocol::control::kernel::{
    CreateKernel, KernelCaps, KernelCreated, KernelResult, padded,
};
use bellhop_protocol::control::{Handle, RequestCode};
use bellhop_protocol::event::{Event, EventKind, FaultReason};
use bellhop_protocol::packet::dispatch::{DispatchFlags, DispatchKernel};
use bellhop_protocol::packet::{Opcode, Packet};
use bellhop_protocol::status::Status;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zerocopy::{FromZeros, IntoBytes};

/// SPIR-V's header, and nothing behind it.
const MODULE: [u32; 5] = [0x0723_0203, 0x1_0300, 0, 1, 0];

fn kernel(rig: &Rig, name: &str, push_constants: u32, descriptors: u32) -> Kernel {
    let builder = Kernel::from_spirv(&rig.gpu, MODULE.as_bytes(), "main");
    let builder = builder.name(name).push_constants(push_constants).descriptors(descriptors);
    builder.create().unwrap()
}

/// The dispatches in a command buffer.
fn dispatches(rig: &Rig, commands: &CommandBuffer) -> Vec<DispatchKernel> {
    let bytes = rig.device.read_gpu(commands.gpu_va(), commands.len());
    let dispatch = |packet: &Packet<'_>| match packet {
        Packet::DispatchKernel(dispatch) => *dispatch,
        other => panic!("not a dispatch: {other:?}"),
    };
    packets(&bytes).iter().map(dispatch).collect()
}

#[test]
fn a_module_is_uploaded_compiled_and_forgotten() {
    let rig = Rig::new();
    let uploaded = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&uploaded);
    rig.device.script(move |device, sent| {
        if sent.code == RequestCode::CREATE_KERNEL {
            let request = sent.read::<CreateKernel>();
            let module = device.read_gpu(request.spirv, request.spirv_length as usize);
            *seen.lock().unwrap() = module;
        }
        Answer::AsUsual
    });
    let in_use = rig.device.system_memory_in_use();
    let kernel = Kernel::from_spirv(&rig.gpu, MODULE.as_bytes(), "twice")
        .push_constants(12)
        .descriptors(2)
        .specialise(7, 3)
        .create()
        .unwrap();
    assert_eq!(kernel.name(), "twice");
    assert_eq!(rig.device.system_memory_in_use(), in_use);
    let sent = rig.device.take_sent();
    let request = sent.iter().find(|sent| sent.code == RequestCode::CREATE_KERNEL).unwrap();
    assert_eq!(request.following::<CreateKernel>(), [7u32, 3].as_bytes());
    let request = request.read::<CreateKernel>();
    assert_eq!((request.spirv_length, request.constant_count), (20, 1));
    assert_eq!((request.push_constants, request.descriptors), (12, 2));
    assert_eq!(request.entry_point, padded::<64>("twice"));
    assert_eq!(*uploaded.lock().unwrap(), MODULE.as_bytes());
}

#[test]
fn a_kernel_lives_until_no_command_buffer_dispatches_it() {
    let mut rig = Rig::new();
    let used = kernel(&rig, "used", 0, 0);
    rig.commands.dispatch_kernel(&used, [1; 3], &Arguments::new()).unwrap();
    rig.device.take_sent();
    drop(used);
    assert_eq!(rig.device.take_codes(), []);
    rig.commands.reset();
    assert_eq!(rig.device.take_codes(), [RequestCode::DESTROY_KERNEL]);
    let Rig { queue, commands, context, gpu, adapter, device } = rig;
    drop((queue, commands, context, gpu, adapter));
    device.assert_all_destroyed();
}

#[test]
fn arguments_stand_at_the_end_of_the_buffer_and_packets_at_its_start() {
    let rig = Rig::new();
    let (pointers, none) = (kernel(&rig, "pointers", 16, 1), kernel(&rig, "none", 0, 0));
    let mut commands = CommandBuffer::new(&rig.gpu, 4096).unwrap();
    let mut arguments = Arguments::new();
    arguments.u32(5).address(0x1234_5000).descriptor(0x10_0000, 64);
    commands.dispatch_kernel(&pointers, [1, 2, 3], &arguments).unwrap();
    commands.dispatch_kernel(&none, [4, 1, 1], &Arguments::new()).unwrap();
    arguments = Arguments::new();
    arguments.u64(1).u64(2).descriptor(3, 4);
    commands.barrier().dispatch_kernel(&pointers, [1; 3], &arguments).unwrap();
    commands.dispatch_kernel_at(&pointers, [1; 3], 0x8000).unwrap();
    let (end, number) = (commands.gpu_va() + 4096, pointers.number());
    let none_flags = DispatchFlags::empty();
    let expected = [
        DispatchKernel::new(number, [1, 2, 3], none_flags).with_arguments(end - 32, 16, 1),
        DispatchKernel::new(none.number(), [4, 1, 1], none_flags),
        DispatchKernel::new(number, [1; 3], DispatchFlags::BARRIER).with_arguments(end - 64, 16, 1),
        DispatchKernel::new(number, [1; 3], none_flags).with_arguments(0x8000, 16, 1),
    ];
    assert_eq!(dispatches(&rig, &commands), expected);
    let behind = rig.device.read_gpu(end - 64, 64);
    assert_eq!(behind, [1u64, 2, 3, 4, 5, 0x1234_5000, 0x10_0000, 64].as_bytes());
}

#[test]
fn packets_and_arguments_share_the_room() {
    let rig = Rig::new();
    let kernel = kernel(&rig, "all", 0, 1);
    let mut commands = CommandBuffer::many(&rig.gpu, 128, 2).unwrap();
    let mut arguments = Arguments::new();
    arguments.descriptor(0x1000, 8);
    for _ in 0..2 {
        // 40 bytes of packet and 16 of arguments.
        commands[0].dispatch_kernel(&kernel, [1; 3], &arguments).unwrap();
        commands[0].dispatch_kernel(&kernel, [1; 3], &arguments).unwrap();
        let full = commands[0].dispatch_kernel(&kernel, [1; 3], &arguments).err().unwrap();
        let is_full = |error| matches!(error, Error::CommandBufferFull { needed: 56, free: 16 });
        assert!(is_full(full));
        commands[0].nop().unwrap().nop().unwrap();
        assert!(commands[0].nop().is_err());
        let end = commands[0].gpu_va() + 128;
        assert_eq!(rig.device.read_gpu(end - 32, 32), [0x1000u64, 8, 0x1000, 8].as_bytes());
        commands[0].reset();
    }
}

#[test]
fn arguments_that_a_kernel_does_not_take_are_refused() {
    let mut rig = Rig::new();
    let kernel = kernel(&rig, "blur", 8, 1);
    let mut arguments = Arguments::new();
    arguments.u32(1);
    let error = rig.commands.dispatch_kernel(&kernel, [1; 3], &arguments).err().unwrap();
    let text = error.to_string();
    assert!(text.contains("kernel blur takes 8 bytes of push constants and 1 desc"), "{text}");
    assert!(text.contains("passes 4 bytes of push constants and 0 descriptors"), "{text}");
    assert!(rig.commands.is_empty());
}

#[test]
fn a_device_without_kernels_says_what_to_install() {
    let rig = Rig::new();
    rig.device.script(|_, sent| match sent.code {
        RequestCode::CREATE_KERNEL => Answer::Refuse(Status::NOT_SUPPORTED, 0),
        // A request of the adapter, not of the process.
        RequestCode::QUERY_KERNEL_CAPS if sent.process == 0 => {
            Answer::Reply(success(&KernelCaps::none("install mesa-vulkan-drivers")))
        }
        _ => Answer::AsUsual,
    });
    let caps = rig.adapter.kernel_caps().unwrap();
    assert!(!caps.are_supported());
    let error = rig.gpu.create_kernel(MODULE.as_bytes(), "main").err().unwrap();
    assert!(matches!(&error, KernelError::NotOffered { missing } if missing.contains("mesa")));
}

#[test]
fn what_came_of_compiling_is_told_with_the_kernel_s_name() {
    let rig = Rig::new();
    let outcome = Arc::new(Mutex::new((KernelResult::COMPILED, Handle(0))));
    let answered = Arc::clone(&outcome);
    rig.device.script(move |_, sent| {
        let (result, kernel) = *answered.lock().unwrap();
        match sent.code {
            RequestCode::CREATE_KERNEL => Answer::Reply(success(&KernelCreated {
                kernel,
                number: 0,
                result,
                text_length: 3,
                reserved: 0,
                text: padded("why not"),
            })),
            _ => Answer::AsUsual,
        }
    });
    let create = |result, handle| {
        *outcome.lock().unwrap() = (result, Handle(handle));
        let builder = Kernel::from_spirv(&rig.gpu, MODULE.as_bytes(), "main");
        builder.name("blur").create().err().unwrap()
    };
    let error = create(KernelResult::REFUSED, 0);
    assert_eq!(error.to_string(), "kernel blur does not compile: why");
    assert!(matches!(error, KernelError::Refused { .. }));
    let error = create(KernelResult::COMPILER_CRASHED, 0);
    assert!(matches!(error, KernelError::CompilerCrashed { kernel, text }
        if kernel == "blur" && text == "why"));
    assert!(matches!(create(KernelResult::TOO_SLOW, 0), KernelError::TooSlow { .. }));
    assert!(matches!(create(KernelResult::NO_WORKER, 0), KernelError::NoWorker { .. }));
    // Compiled, without a kernel or without its number; and a result that there is not.
    for (result, kernel) in
        [(KernelResult::COMPILED, 0), (KernelResult::COMPILED, 5), (KernelResult(77), 0)]
    {
        let error = create(result, kernel);
        assert!(matches!(error, KernelError::Device(Error::BadReply(_))), "{error}");
    }
}

#[test]
fn what_is_no_module_never_reaches_the_device() {
    let rig = Rig::new();
    let error = rig.gpu.create_kernel(b"#version 460", "main").err().unwrap();
    assert!(matches!(error, KernelError::NotSpirv { .. }), "{error}");
    let long = "m".repeat(64);
    let error = rig.gpu.create_kernel(MODULE.as_bytes(), &long).err().unwrap();
    assert!(error.to_string().contains("longer than 63 bytes"), "{error}");
    assert!(!rig.device.take_codes().contains(&RequestCode::CREATE_KERNEL));
}

#[test]
fn a_fault_names_the_kernels_that_may_have_caused_it() {
    for names in [&["blur"][..], &["blur", "sharpen"]] {
        let mut rig = Rig::new();
        rig.commands = CommandBuffer::new(&rig.gpu, 4096).unwrap();
        for name in names {
            let kernel = kernel(&rig, name, 0, 0);
            rig.commands.dispatch_kernel(&kernel, [1; 3], &Arguments::new()).unwrap();
        }
        let value = rig.submit().unwrap();
        let mut event = Event::new_zeroed();
        event.kind = EventKind::HW_QUEUE_ERROR;
        (event.process, event.object) = (rig.adapter.process(), rig.queue.handle().0);
        (event.reason, event.opcode) = (FaultReason::READ_PAGE_FAULT, Opcode::DISPATCH_KERNEL);
        event.value = 0xbad_0008;
        rig.device.post(event);
        let lost = rig.queue.progress_fence().wait(value, Duration::from_secs(30));
        let blamed = rig.commands.blame(lost.err().unwrap());
        let text = blamed.to_string();
        let suspects = match names {
            [only] => format!("kernel {only} failed: "),
            _ => "one of the kernels blur, sharpen failed: ".to_owned(),
        };
        assert!(text.starts_with(&suspects) && text.contains("0xbad0008"), "{text}");
        assert!(matches!(blamed, Error::KernelFault { fault, .. } if fault.address == 0xbad_0008));
    }
}

#[test]
fn other_errors_blame_no_kernel() {
    let mut rig = Rig::new();
    let kernel = kernel(&rig, "blur", 0, 0);
    rig.commands.dispatch_kernel(&kernel, [1; 3], &Arguments::new()).unwrap();
    let timeout = Error::Timeout { value: 2, current: 1 };
    assert!(matches!(rig.commands.blame(timeout), Error::Timeout { .. }));
    let unknown = Error::QueueLost { queue: rig.queue.handle(), fault: None };
    assert!(matches!(rig.commands.blame(unknown), Error::QueueLost { .. }));
}
