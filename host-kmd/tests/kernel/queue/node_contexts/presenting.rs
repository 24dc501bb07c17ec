// SPDX-License-Identifier: MIT OR Apache-2.0

//! Surfaces that the host draws (`PRESENT`).

use super::{MODELS, Node, completed, new};
use crate::bench::{Bench, Refused, bytes_with_list};
use crate::model::Call;
use bellhop_host_kmd::ddi::paging::APERTURE_START;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::DestroyAllocation;
use bellhop_protocol::control::node_context::{SubmissionModel, SubmissionReply};
use bellhop_protocol::control::present::{MAX_DIRTY_RECTS, Present, PresentKind, Rect, Surface};
use bellhop_protocol::packet::surface::{CopyRect, FillRect, StretchFilter};
use bellhop_protocol::pixel_format::PixelFormat;
use bellhop_protocol::status::Status;
use zerocopy::{FromBytes, IntoBytes};

fn surface(allocation: Handle) -> Surface {
    let format = PixelFormat::X8R8G8B8;
    Surface { allocation, offset: 0, pitch: 128, width: 32, height: 32, format }
}

/// Copies the source's left upper corner into the destination's right lower one.
fn blt(node: &Node, source: Handle, destination: Handle) -> Present {
    Present {
        context: node.reply.context,
        kind: PresentKind::BLT,
        filter: StretchFilter::NEAREST,
        source: surface(source),
        destination: surface(destination),
        source_rect: Rect::new(0, 0, 8, 8),
        destination_rect: Rect::new(24, 24, 32, 32),
        color: 0,
        rects: 0,
    }
}

fn fill(node: &Node, destination: Handle) -> Present {
    let none = Surface::read_from_bytes(&[0; size_of::<Surface>()]).unwrap();
    Present {
        kind: PresentKind::COLOR_FILL,
        source: none,
        source_rect: Rect::default(),
        color: 0xFF_00FF,
        ..blt(node, destination, destination)
    }
}

fn present(
    bench: &mut Bench,
    node: &Node,
    request: Present,
    dirty: &[Rect],
) -> Result<SubmissionReply, Refused> {
    let request = Present { rects: dirty.len() as u32, ..request };
    let bytes = bytes_with_list(node.client.process, &request, dirty.as_bytes());
    let token = bench.send(node.client.guest, bytes);
    let (header, body) = bench.reply(node.client.guest, token).expect("an answer at once");
    match header.status {
        Status::SUCCESS => Ok(SubmissionReply::read_from_bytes(body).unwrap()),
        status => Err((status, header.detail)),
    }
}

#[test]
fn the_driver_fills_a_dma_buffer_with_the_addresses_of_both_surfaces() {
    let (mut bench, client) = new();
    let node = Node::new(&mut bench, client, SubmissionModel::BASIC);
    let source = bench.local(client, PAGE_SIZE).unwrap().allocation;
    let destination = bench.local(client, PAGE_SIZE).unwrap().allocation;
    bench.model.take_log();
    let request = blt(&node, source, destination);
    let reply = present(&mut bench, &node, request, &[]).unwrap();
    assert_eq!(reply, SubmissionReply { submission_fence: 1, progress_fence_value: 1 });
    let to = APERTURE_START + PAGE_SIZE + 24 * 128 + 24 * 4;
    let copy = CopyRect::new((APERTURE_START, 128), (to, 128), 32, 8);
    let log = bench.model.take_log();
    assert_eq!(log[0], Call::WriteDmaBuffer(client.guest, 0, copy.as_bytes().to_vec()));
    assert!(matches!(log[1..], [Call::Submit(..), Call::Kick(_)]));
    // Both stay until it is drawn.
    for allocation in [source, destination] {
        let busy = Err((Status::GRAPHICS_ALLOCATION_BUSY, allocation.0));
        assert_eq!(bench.call(client, &DestroyAllocation { allocation }), busy);
    }
    completed(&mut bench, reply.submission_fence);
    for allocation in [source, destination] {
        bench.call(client, &DestroyAllocation { allocation }).unwrap();
    }
}

#[test]
fn a_colour_is_drawn_where_it_is_dirty() {
    let (mut bench, client) = new();
    let node = Node::new(&mut bench, client, SubmissionModel::BASIC);
    let destination = bench.local(client, PAGE_SIZE).unwrap().allocation;
    bench.model.take_log();
    let dirty = [Rect::new(24, 24, 25, 25), Rect::new(30, 31, 32, 32)];
    let request = fill(&node, destination);
    present(&mut bench, &node, request, &dirty).unwrap();
    let at = |x: u64, y: u64| (APERTURE_START + y * 128 + x * 4, 128);
    let fills =
        [FillRect::new(at(24, 24), 4, 1, 0xFF_00FF), FillRect::new(at(30, 31), 8, 1, 0xFF_00FF)];
    let expected = Call::WriteDmaBuffer(client.guest, 0, fills.as_bytes().to_vec());
    assert_eq!(bench.model.take_log()[0], expected);
}

#[test]
fn what_cannot_be_drawn_is_refused_and_holds_nothing() {
    let (mut bench, client) = new();
    let node = Node::new(&mut bench, client, SubmissionModel::BASIC);
    let source = bench.local(client, PAGE_SIZE).unwrap().allocation;
    let destination = bench.local(client, PAGE_SIZE).unwrap().allocation;
    let good = blt(&node, source, destination);
    let parameter = |value: u64| Err((Status::INVALID_PARAMETER, value));
    bench.model.take_log();
    let far = Surface { offset: 4, ..good.destination };
    for (request, refused) in [
        (Present { kind: PresentKind(4), ..good }, parameter(4)),
        (Present { color: 5, ..good }, parameter(5)),
        (Present { filter: StretchFilter::BILINEAR, ..good }, parameter(1)),
        (Present { destination: far, ..good }, parameter(4)),
        (Present { destination_rect: Rect::new(25, 24, 33, 32), ..good }, parameter(33 << 32 | 32)),
        (Present { source: surface(Handle(0x77)), ..good }, Err((Status::INVALID_HANDLE, 0x77))),
        (Present { source_rect: good.source_rect, ..fill(&node, destination) }, parameter(8)),
    ] {
        let answer = present(&mut bench, &node, request, &[]);
        assert_eq!(answer, refused, "{request:?}");
    }
    let many = vec![good.destination_rect; MAX_DIRTY_RECTS as usize + 1];
    assert_eq!(present(&mut bench, &node, good, &many), parameter(65));
    assert!(bench.model.take_log().is_empty());
    for allocation in [source, destination] {
        bench.call(client, &DestroyAllocation { allocation }).unwrap();
    }
}

#[test]
fn only_contexts_of_the_basic_model_present() {
    let (mut bench, client) = new();
    let destination = bench.local(client, PAGE_SIZE).unwrap().allocation;
    for model in MODELS {
        let node = Node::new(&mut bench, client, model);
        let request = fill(&node, destination);
        let answer = present(&mut bench, &node, request, &[]).map(|_| ());
        let expected = match model {
            SubmissionModel::BASIC => Ok(()),
            _ => Err((Status::NOT_SUPPORTED, 0)),
        };
        assert_eq!(answer, expected, "{model}");
    }
}
