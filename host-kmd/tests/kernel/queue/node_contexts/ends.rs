// SPDX-License-Identifier: MIT OR Apache-2.0

//! The ends of node contexts and of their submissions.

use super::{MODELS, Node, at, completed, entry, new, with_limits};
use crate::bench::TIMEOUT;
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::hardware::{Fault, Interrupt};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::DestroyAllocation;
use bellhop_protocol::control::context::{DestroyContext, ResumeContext, SuspendContext};
use bellhop_protocol::control::device::DestroyDevice;
use bellhop_protocol::control::node_context::{ALLOCATION_WRITE, SubmissionModel};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::packet::flow::NOP;
use bellhop_protocol::packet::transfer::Fill;
use bellhop_protocol::status::Status;
use zerocopy::IntoBytes;

#[test]
fn a_fault_is_told_with_the_context_and_frees_what_its_submissions_held() {
    for model in MODELS {
        let limits = Limits { submissions: 1, ..Limits::default() };
        let (mut bench, client) = with_limits(limits);
        let node = Node::new(&mut bench, client, model);
        let allocation = bench.local(client, PAGE_SIZE).unwrap().allocation;
        match model {
            SubmissionModel::BASIC => {
                let list = [entry(allocation, ALLOCATION_WRITE)];
                let fill = Fill::new(0, 8, 0);
                node.render(&mut bench, fill.as_bytes(), &list, &[at(8, 0, 0)]).unwrap();
            }
            SubmissionModel::BASIC_PLUS_PLUS => {
                node.submit_udma(&mut bench, &[entry(allocation, 0)]).unwrap();
            }
            _ => {
                node.submit_virtual(&mut bench).unwrap();
            }
        }
        let fault = Fault::new(FaultReason::READ_PAGE_FAULT, Opcode::COPY, 0x1234);
        bench.raise(Interrupt::PageFault { queue: node.client.id, fault });
        let (_, event) = *bench.events.last().unwrap();
        let context = node.reply.context.0;
        assert_eq!((event.object, event.context, event.value), (context, context, 0x1234));
        let lost = (Status::DEVICE_REMOVED, context);
        assert_eq!(node.submit(&mut bench).unwrap_err(), lost);
        bench.call(client, &DestroyAllocation { allocation }).unwrap();
        let next = Node::new(&mut bench, client, model);
        next.submit(&mut bench).unwrap();
    }
}

#[test]
fn a_node_context_is_suspended_resumed_and_drained_as_any_other() {
    for model in MODELS {
        let (mut bench, client) = new();
        let node = Node::new(&mut bench, client, model);
        let context = node.reply.context;
        bench.call(client, &SuspendContext { context }).unwrap();
        assert!(bench.model.state().suspended.contains(&node.client.id));
        bench.call(client, &ResumeContext { context }).unwrap();
        node.submit(&mut bench).unwrap();
        node.submit(&mut bench).unwrap();
        let token = bench.begin(client, &DestroyContext { context });
        assert_eq!(bench.outcome(client, token), None);
        let lost = (Status::DEVICE_REMOVED, context.0);
        assert_eq!(node.submit(&mut bench).unwrap_err(), lost);
        bench.model.signal(client.guest, node.reply.progress_fence.slot, 2);
        completed(&mut bench, 2);
        assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
        let invalid = (Status::INVALID_HANDLE, context.0);
        assert_eq!(node.submit(&mut bench).unwrap_err(), invalid);
    }
}

#[test]
fn a_device_a_process_and_a_guest_go_with_their_node_contexts() {
    for model in MODELS {
        for what in 0..3 {
            let (mut bench, client) = new();
            let node = Node::new(&mut bench, client, model);
            let allocation = bench.local(client, PAGE_SIZE).unwrap().allocation;
            match model {
                SubmissionModel::VIRTUAL => drop(node.submit(&mut bench).unwrap()),
                SubmissionModel::BASIC => {
                    let list = [entry(allocation, 0)];
                    node.render(&mut bench, NOP.as_bytes(), &list, &[]).unwrap();
                }
                _ => drop(node.submit_udma(&mut bench, &[entry(allocation, 0)]).unwrap()),
            }
            match what {
                0 => {
                    bench.begin(client, &DestroyDevice { device: client.device });
                    bench.later(TIMEOUT);
                    bench.interrupt();
                    assert_eq!(
                        bench.local(client, PAGE_SIZE).unwrap_err().0,
                        Status::INVALID_HANDLE
                    );
                }
                1 => {
                    let flags = bellhop_protocol::control::process::TERMINATED_ABNORMALLY;
                    let request = bellhop_protocol::control::process::DestroyProcess { flags };
                    bench.call(client, &request).unwrap();
                }
                _ => {}
            }
            bench.input(bellhop_host_kmd::port::Input::Detach { guest: client.guest });
            assert_eq!(bench.detached, [client.guest]);
            assert!(bench.model.is_empty());
        }
    }
}
