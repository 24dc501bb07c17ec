// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels that guests bring: compiled aside, counted, and gone with their device.

use crate::bench::{Bench, Client, bytes_with_list, create_kernel, map};
use crate::model::{Call, Model};
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::hardware::{
    AddressSpaceId, KernelNumber, KernelOutcome, KernelSource, UnknownId,
};
use bellhop_host_kmd::port::{Command, Input};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{AllocationKind, CreateAllocation, SegmentSet};
use bellhop_protocol::control::device::{CreateDevice, DestroyDevice};
use bellhop_protocol::control::gpu_va::GPU_VA_START;
use bellhop_protocol::control::kernel::{
    CreateKernel, DestroyKernel, KernelCaps, KernelCreated, KernelResult, QueryKernelCaps,
    SpecialisationConstant, padded, unpadded,
};
use bellhop_protocol::control::process::{DestroyProcess, TERMINATED_ABNORMALLY};
use bellhop_protocol::status::Status;

/// A guest with a page for SPIR-V.
fn scene() -> (Bench, Client, u64) {
    scene_with(Limits::default())
}

fn scene_with(limits: Limits) -> (Bench, Client, u64) {
    let mut bench = Bench::with_limits(2, limits);
    let guest = bench.guest(1);
    let client = bench.client(guest);
    let spirv = bench.spirv(client);
    (bench, client, spirv)
}

/// The address space of a client.
fn space(bench: &Bench, client: Client) -> AddressSpaceId {
    bench.model.state().queues[&client.id].address_space
}

/// The only kernel that is being compiled.
fn compiling(model: &Model) -> (AddressSpaceId, KernelNumber) {
    let compiling = model.compiling();
    assert_eq!(compiling.len(), 1, "{compiling:?}");
    compiling[0]
}

fn caps(bench: &mut Bench, client: Client) -> KernelCaps {
    bench.ask(client.guest, 0, &QueryKernelCaps { reserved: 0 }).unwrap()
}

/// How many kernels the guest is charged for.
fn charged(bench: &Bench, client: Client) -> u64 {
    let wanted = bellhop_host_kmd::port::ListObjects {
        list: bellhop_protocol::control::escape::ObjectList::GUESTS,
        guest: client.guest,
        process: 0,
        parent: Handle(0),
        after: 0,
    };
    let page = bench.list(wanted, 1 << 20).unwrap();
    let guests: Vec<bellhop_protocol::snapshot::Guest> =
        serde_json::from_slice(&page.objects).unwrap();
    guests[0].quotas.iter().find(|quota| quota.what == "kernels").unwrap().used
}

/// The guest detaches, and nothing of it is left.
fn leave(bench: &mut Bench, client: Client) {
    bench.input(Input::Detach { guest: client.guest });
    bench.pass_tickets();
    bench.pass_tickets();
    assert_eq!(bench.detached, [client.guest]);
    assert!(bench.model.is_empty());
}

#[test]
fn a_kernel_is_made_from_what_was_asked_for_and_answered_when_it_is_compiled() {
    let (mut bench, client, spirv) = scene();
    let request = CreateKernel {
        spirv_length: 4096,
        push_constants: 12,
        descriptors: 3,
        constant_count: 2,
        ..create_kernel(client, spirv)
    };
    let constants = [(4, 1), (2, 3)].map(|(id, value)| SpecialisationConstant { id, value });
    let token = bench.send(client.guest, bytes_with_list(client.process, &request, &constants));
    assert_eq!(bench.outcome(client, token), None);
    let key = compiling(&bench.model);
    assert_eq!(key.0, space(&bench, client));
    let expected = KernelSource {
        spirv,
        length: 4096,
        entry_point: "main".into(),
        push_constants: 12,
        descriptors: 3,
        constants: vec![[4, 1], [2, 3]],
    };
    assert_eq!(bench.model.state().kernels[&key].source, expected);
    // Nobody else's request waits.
    caps(&mut bench, client);
    bench.spirv(client);
    assert_eq!(bench.outcome(client, token), None);
    bench.model.end_compiling(key, KernelOutcome::Compiled);
    bench.interrupt();
    let created = bench.kernel_reply(client, token).unwrap().unwrap();
    assert_ne!(created.kernel, Handle(0));
    let KernelCreated { number, result, text_length, reserved, text, .. } = created;
    assert_eq!((number, result), (key.1.0, KernelResult::COMPILED));
    assert_eq!((text_length, reserved, text), (0, 0, [0; 1024]));
    leave(&mut bench, client);
}

#[test]
fn kernels_are_answered_in_the_order_in_which_they_are_compiled() {
    let (mut bench, client, spirv) = scene();
    let tokens = [0, 1].map(|_| bench.begin_kernel(client, spirv));
    let [first, second] = bench.model.compiling()[..] else { panic!("two kernels") };
    bench.model.end_compiling(second, KernelOutcome::Compiled);
    bench.interrupt();
    assert_eq!(bench.outcome(client, tokens[0]), None);
    let late = bench.kernel_reply(client, tokens[1]).unwrap().unwrap();
    assert_eq!(late.number, second.1.0);
    bench.model.end_compiling(first, KernelOutcome::Compiled);
    bench.interrupt();
    let early = bench.kernel_reply(client, tokens[0]).unwrap().unwrap();
    assert_eq!(early.number, first.1.0);
    assert_ne!(early.kernel, late.kernel);
}

#[test]
fn a_kernel_that_is_refused_says_why_and_is_not_charged_for() {
    let (mut bench, client, spirv) = scene();
    for (result, text, told) in [
        (KernelResult::REFUSED, "no entry point \u{201c}main\u{201d}", None),
        (KernelResult::COMPILER_CRASHED, "", None),
        (KernelResult::TOO_SLOW, &"x".repeat(1024), None),
        (KernelResult::NO_WORKER, &"y".repeat(5000), Some("y".repeat(1024))),
    ] {
        let token = bench.begin_kernel(client, spirv);
        assert_eq!(charged(&bench, client), 1);
        let key = compiling(&bench.model);
        bench.model.end_compiling(key, KernelOutcome::Failed(result, text.into()));
        bench.interrupt();
        let created = bench.kernel_reply(client, token).unwrap().unwrap();
        assert_eq!((created.kernel, created.number), (Handle(0), 0));
        let told = told.as_deref().unwrap_or(text);
        assert_eq!((created.result, unpadded(&created.text)), (result, told));
        assert_eq!(created.text_length as usize, told.len());
        assert_eq!(charged(&bench, client), 0);
    }
    leave(&mut bench, client);
}

#[test]
fn a_kernel_that_one_gpu_of_a_chain_refuses_is_left_on_none() {
    let mut bench =
        Bench::linked(Model::chain(vec![Model::new(2), Model::new(2)]), Limits::default());
    let guest = bench.guest(1);
    let client = bench.client(guest);
    let spirv = bench.spirv(client);
    let refused = || KernelOutcome::Failed(KernelResult::REFUSED, String::new());
    let is_empty = |bench: &Bench| bench.models.iter().all(|gpu| gpu.state().kernels.is_empty());
    for refusing in [0, 1] {
        let token = bench.begin_kernel(client, spirv);
        for (place, model) in bench.models.iter().enumerate() {
            let outcome = if place == refusing { refused() } else { KernelOutcome::Compiled };
            model.end_compiling(compiling(model), outcome);
        }
        bench.interrupt();
        let created = bench.kernel_reply(client, token).unwrap().unwrap();
        assert_eq!(created.result, KernelResult::REFUSED);
        assert!(is_empty(&bench));
        // Its device may end before the other GPU is done.
        let device = bench.call(client, &CreateDevice { reserved: 0 }).unwrap();
        bench.begin_kernel(Client { device, ..client }, spirv);
        let model = &bench.models[refusing];
        model.end_compiling(compiling(model), refused());
        bench.interrupt();
        bench.call(client, &DestroyDevice { device }).unwrap();
        assert!(is_empty(&bench));
    }
}

#[test]
fn a_kernel_is_destroyed_once_and_by_its_own_process() {
    let (mut bench, client, spirv) = scene();
    let KernelCreated { kernel, number, .. } = bench.kernel(client, spirv);
    let other = bench.client(client.guest);
    let destroy = DestroyKernel { kernel };
    let unknown = (Status::INVALID_HANDLE, kernel.0);
    assert_eq!(bench.call(other, &destroy).unwrap_err(), unknown);
    let mismatch = (Status::OBJECT_TYPE_MISMATCH, client.device.0);
    assert_eq!(bench.call(client, &DestroyKernel { kernel: client.device }), Err(mismatch));
    bench.model.take_log();
    bench.call(client, &destroy).unwrap();
    assert_eq!(bench.model.take_log(), [Call::DestroyKernel(KernelNumber(number))]);
    assert_eq!(bench.call(client, &destroy).unwrap_err(), unknown);
    assert_eq!(charged(&bench, client), 0);
}

#[test]
fn kernels_end_with_their_device_and_those_of_another_stay() {
    let (mut bench, client, spirv) = scene();
    let device = bench.call(client, &CreateDevice { reserved: 0 }).unwrap();
    let on_it = Client { device, ..client };
    let (stays, goes) = (bench.kernel(client, spirv), bench.kernel(on_it, spirv));
    bench.model.take_log();
    bench.call(client, &DestroyDevice { device }).unwrap();
    let destroyed = Call::DestroyKernel(KernelNumber(goes.number));
    assert!(bench.model.take_log().contains(&destroyed));
    let gone = (Status::INVALID_HANDLE, goes.kernel.0);
    assert_eq!(bench.call(client, &DestroyKernel { kernel: goes.kernel }), Err(gone));
    bench.call(client, &DestroyKernel { kernel: stays.kernel }).unwrap();
}

#[test]
fn a_kernel_whose_device_ends_before_it_is_compiled_is_answered_and_forgotten() {
    for is_on_its_way in [false, true] {
        let (mut bench, client, spirv) = scene();
        let device = bench.call(client, &CreateDevice { reserved: 0 }).unwrap();
        let token = bench.begin_kernel(Client { device, ..client }, spirv);
        let key = compiling(&bench.model);
        if is_on_its_way {
            // It failed, and its interrupt is not taken yet.
            let why = KernelOutcome::Failed(KernelResult::REFUSED, String::new());
            bench.model.end_compiling(key, why);
        }
        bench.call(client, &DestroyDevice { device }).unwrap();
        let removed = Some(Err((Status::DEVICE_REMOVED, device.0)));
        assert_eq!(bench.kernel_reply(client, token), removed);
        assert_eq!(charged(&bench, client), 0);
        assert!(bench.model.state().kernels.is_empty());
        // What comes too late changes nothing, and answers nothing a second time.
        bench.interrupt();
        leave(&mut bench, client);
    }
}

#[test]
fn a_kernel_whose_process_ends_before_it_is_compiled_is_answered_and_forgotten() {
    for flags in [0, TERMINATED_ABNORMALLY] {
        let (mut bench, client, spirv) = scene();
        let token = bench.begin_kernel(client, spirv);
        bench.call(client, &DestroyProcess { flags }).unwrap();
        let removed = Some(Err((Status::DEVICE_REMOVED, client.device.0)));
        assert_eq!(bench.kernel_reply(client, token), removed);
        leave(&mut bench, client);
    }
}

#[test]
fn a_guest_that_detaches_takes_its_kernels_with_it_and_gets_no_more_answers() {
    let (mut bench, client, spirv) = scene();
    bench.kernel(client, spirv);
    let token = bench.begin_kernel(client, spirv);
    leave(&mut bench, client);
    assert_eq!(bench.outcome(client, token), None);
}

#[test]
fn kernels_have_a_limit_which_those_that_are_being_compiled_count_against() {
    let (mut bench, client, spirv) = scene_with(Limits { kernels: 2, ..Limits::default() });
    assert_eq!(caps(&mut bench, client).max_kernels, 2);
    let first = bench.kernel(client, spirv);
    let second = bench.begin_kernel(client, spirv);
    let full = (Status::QUOTA_EXCEEDED, 2);
    assert_eq!(bench.call(client, &create_kernel(client, spirv)).unwrap_err(), full);
    bench.call(client, &DestroyKernel { kernel: first.kernel }).unwrap();
    let third = bench.begin_kernel(client, spirv);
    for key in bench.model.compiling() {
        bench.model.end_compiling(key, KernelOutcome::Compiled);
    }
    bench.interrupt();
    for token in [second, third] {
        assert_eq!(bench.kernel_reply(client, token).unwrap().unwrap().result.0, 0);
    }
}

#[test]
fn a_gpu_without_kernels_says_why_and_creates_none() {
    let (mut bench, client, spirv) = scene();
    assert!(caps(&mut bench, client).are_supported());
    bench.model.state().has_no_kernels = true;
    let caps = caps(&mut bench, client);
    assert!(!caps.are_supported() && !caps.have_pointers());
    assert_eq!(unpadded(&caps.missing), "the model has no kernels");
    let none = (Status::NOT_SUPPORTED, 0);
    assert_eq!(bench.call(client, &create_kernel(client, spirv)).unwrap_err(), none);
}

#[test]
fn spir_v_that_the_process_cannot_read_is_refused_with_the_first_such_address() {
    let (mut bench, client, spirv) = scene();
    let of = |bench: &mut Bench, spirv, spirv_length| {
        let request = CreateKernel { spirv_length, ..create_kernel(client, spirv) };
        bench.call(client, &request).unwrap_err()
    };
    let violation = |address| (Status::ACCESS_VIOLATION, address);
    assert_eq!(of(&mut bench, spirv + 4088, 20), violation(spirv + 4096));
    assert_eq!(of(&mut bench, spirv + 8192 + 8, 20), violation(spirv + 8192 + 8));
    assert_eq!(of(&mut bench, GPU_VA_START - 8, 20), violation(GPU_VA_START - 8));
    assert_eq!(charged(&bench, client), 0);
    // Another process has its own addresses.
    let other = bench.client(client.guest);
    let request = create_kernel(other, spirv);
    assert_eq!(bench.call(other, &request).unwrap_err(), violation(spirv));
}

#[test]
fn a_gpu_that_is_full_or_does_not_know_the_process_costs_no_quota() {
    let (mut bench, client, spirv) = scene();
    bench.model.state().kernel_room = 0;
    let full = (Status::INSUFFICIENT_RESOURCES, 0);
    assert_eq!(bench.call(client, &create_kernel(client, spirv)).unwrap_err(), full);
    bench.model.state().kernel_room = 1;
    let space = space(&bench, client);
    bench.model.state().lost = vec![UnknownId::AddressSpace(space)];
    let bug = (Status::IO_DEVICE_ERROR, 0);
    assert_eq!(bench.call(client, &create_kernel(client, spirv)).unwrap_err(), bug);
    bench.model.state().lost.clear();
    assert_eq!(charged(&bench, client), 0);
    bench.kernel(client, spirv);
}

#[test]
fn a_device_in_error_gets_no_kernel() {
    let (mut bench, client, spirv) = scene();
    bench.command(Command::FailGuest(client.guest)).unwrap().unwrap();
    let removed = (Status::DEVICE_REMOVED, client.device.0);
    assert_eq!(bench.call(client, &create_kernel(client, spirv)).unwrap_err(), removed);
}

#[test]
fn a_kernel_cannot_be_made_with_more_constants_than_there_may_be() {
    let (mut bench, client, spirv) = scene();
    let constants: Vec<_> = (0..17).map(|id| SpecialisationConstant { id, value: 0 }).collect();
    let of = |bench: &mut Bench, count: u32| {
        let request = CreateKernel { constant_count: count, ..create_kernel(client, spirv) };
        let list = &constants[..count as usize];
        bench.send(client.guest, bytes_with_list(client.process, &request, list))
    };
    let many = of(&mut bench, 17);
    assert_eq!(bench.outcome(client, many), Some(Status::INVALID_PARAMETER));
    let most = of(&mut bench, 16);
    assert_eq!(bench.outcome(client, most), None);
    let again = CreateKernel { entry_point: padded("again"), ..create_kernel(client, spirv) };
    let token = bench.begin(client, &again);
    assert_eq!(bench.outcome(client, token), None);
}

/// A paged allocation, which is made resident and mapped while its paging is not done.
fn paging(bench: &mut Bench, client: Client) -> u64 {
    bench.model.state().prompt_paging = false;
    let request = CreateAllocation {
        supported_segments: SegmentSet::LOCAL.bits(),
        ..CreateAllocation::fixed(client.device, AllocationKind::PAGED, 4096, 0)
    };
    let token = bench.begin(client, &request);
    while bench.outcome(client, token).is_none() {
        bench.model.complete_paging(client.guest);
        bench.interrupt();
    }
    let (_, body) = bench.reply(client.guest, token).unwrap();
    let paged = Handle(u64::from_le_bytes(*body.first_chunk().unwrap()));
    bench.make_resident_later(client, &[paged]);
    bench.begin(client, &map(paged, GPU_VA_START, 4096));
    assert!(bench.model.oldest_paging(client.guest).is_some(), "paging is under way");
    GPU_VA_START
}

/// Completes all paging of a client's guest.
fn complete_paging(bench: &mut Bench, client: Client) {
    while bench.model.oldest_paging(client.guest).is_some() {
        bench.model.complete_paging(client.guest);
        bench.interrupt();
    }
}

#[test]
fn spir_v_is_read_when_the_paging_that_moves_it_is_done() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    let client = bench.client(guest);
    let spirv = paging(&mut bench, client);
    let token = bench.begin_kernel(client, spirv);
    assert!(bench.model.compiling().is_empty(), "its memory may not be there yet");
    assert_eq!(bench.outcome(client, token), None);
    complete_paging(&mut bench, client);
    bench.model.end_compiling(compiling(&bench.model), KernelOutcome::Compiled);
    bench.interrupt();
    assert_eq!(bench.kernel_reply(client, token).unwrap().unwrap().result, KernelResult::COMPILED);
    // What cannot be read by then is refused by then.
    let spirv = paging_again(&mut bench, client);
    let token = bench.begin_kernel(client, spirv);
    assert_eq!(bench.outcome(client, token), None);
    complete_paging(&mut bench, client);
    let violation = Some(Err((Status::ACCESS_VIOLATION, spirv)));
    assert_eq!(bench.kernel_reply(client, token), violation);
    leave(&mut bench, client);
}

/// Begins paging, and returns an address where nothing will be.
fn paging_again(bench: &mut Bench, client: Client) -> u64 {
    let request = CreateAllocation {
        supported_segments: SegmentSet::LOCAL.bits(),
        ..CreateAllocation::fixed(client.device, AllocationKind::PAGED, 4096, 0)
    };
    bench.model.state().prompt_paging = true;
    let paged = bench.call(client, &request).unwrap().allocation;
    bench.model.state().prompt_paging = false;
    bench.make_resident_later(client, &[paged]);
    assert!(bench.model.oldest_paging(client.guest).is_some(), "paging is under way");
    GPU_VA_START + (1 << 30)
}

#[test]
fn a_kernel_that_waits_for_paging_is_answered_when_its_device_ends_first() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    let client = bench.client(guest);
    let device = bench.call(client, &CreateDevice { reserved: 0 }).unwrap();
    let spirv = paging(&mut bench, client);
    let token = bench.begin_kernel(Client { device, ..client }, spirv);
    bench.begin(client, &DestroyDevice { device });
    complete_paging(&mut bench, client);
    let removed = Some(Err((Status::DEVICE_REMOVED, device.0)));
    assert_eq!(bench.kernel_reply(client, token), removed);
    leave(&mut bench, client);
}
