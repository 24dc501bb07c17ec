// SPDX-License-Identifier: MIT OR Apache-2.0

//! What nodes that do not draw take of streams.

use super::*;
use crate::messages::commands::Scope;

/// The commands of a stream, whatever is wrong with them.
fn stream(bytes: &[u8]) -> Stream<'_> {
    let all = commands(bytes).map(|command| command.map(|(at, command)| (at as u32, command)));
    Stream { bytes, commands: all.collect::<Result<_, _>>().unwrap() }
}

fn of<C: Encoded + FromZeros>() -> Vec<u8> {
    one(C::new_zeroed(), 0, &[])
}

fn count(statistics: u32) -> Vec<u8> {
    one(BeginQuery { statistics, ..BeginQuery::new_zeroed() }, 1, &[])
}

#[test]
fn a_node_that_does_not_draw_takes_what_vulkan_has_of_queues_that_compute() {
    // VK_QUERY_PIPELINE_STATISTIC_COMPUTE_SHADER_INVOCATIONS_BIT, and one of vertices
    let (computes, draws) = (0x400, 0x1);
    for command in [
        of::<Barrier>(),
        of::<Copy>(),
        of::<Fill>(),
        of::<Dispatch>(),
        of::<Timestamp>(),
        of::<Wait>(),
        of::<QueryCaps>(),
        of::<CopyImage>(),
        of::<CopyMemoryToImage>(),
        of::<CopyImageToMemory>(),
        of::<ClearImage>(),
        of::<QueryImage>(),
        of::<QueryImageFormat>(),
        of::<EndQuery>(),
        count(computes),
    ] {
        stream(&command).check_scope(Scope::COMPUTE).unwrap();
    }
    let attachments = [NONE; 2];
    for command in [
        one(BeginRendering::new_zeroed(), 0, attachments.as_bytes()),
        of::<EndRendering>(),
        of::<ClearAttachment>(),
        of::<BindGraphics>(),
        of::<Draw>(),
        of::<DrawIndexed>(),
        of::<DrawIndirect>(),
        of::<SetIndexBuffer>(),
        of::<BlitImage>(),
        of::<ResolveImage>(),
        of::<ClearDepthStencil>(),
        count(0),
        count(draws),
        count(computes | draws),
    ] {
        let bytes = [of::<Barrier>(), command].concat();
        stream(&bytes).check_scope(Scope::ALL).unwrap();
        assert_malformed(stream(&bytes).check_scope(Scope::COMPUTE), "does not draw");
    }
}
