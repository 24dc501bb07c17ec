// SPDX-License-Identifier: MIT OR Apache-2.0

//! The fields of commands that draw, without what they name.

use super::states::check_words;
use crate::serve::commands::fields::{aligned, none};
use crate::serve::commands::images::check_depth;
use crate::serve::commands::wrong::Why;
use crate::serve::memory::Memory;
use ash::vk::{
    AttachmentLoadOp, AttachmentStoreOp, ImageAspectFlags, IndexType, QueryControlFlags, QueryType,
};
use bellhop_protocol::vulkan::{
    Attachment, BeginQuery, BeginRendering, BeginTransform, ClearAttachment, Command, DrawIndirect,
    EndTransform, MAX_TRANSFORM_BUFFERS, SetIndexBuffer, SetState, SetVertexBuffers,
    TransformBuffer,
};

/// Bytes of `VkDrawIndirectCommand` and `VkDrawIndexedIndirectCommand`.
const STRUCTURES: [u64; 2] = [16, 20];
/// Bytes of a number of bytes, and of a condition.
pub const WORD: u64 = 4;
/// All of `VkQueryPipelineStatisticFlags` of Vulkan 1.0.
const STATISTICS: u32 = (1 << 11) - 1;
/// Vulkan's numbers of texels have signs.
const MOST_TEXELS: u32 = i32::MAX as u32;

/// Bytes of an index of a `VkIndexType`, if there are such indices.
pub const fn size_of_index(kind: u32) -> Option<u64> {
    match IndexType::from_raw(kind as i32) {
        IndexType::UINT8_EXT => Some(1),
        IndexType::UINT16 => Some(2),
        IndexType::UINT32 => Some(4),
        _ => None,
    }
}

/// The memory of the structures of indirect draws, if there are any draws: address and bytes.
pub fn structures(draw: &DrawIndirect) -> Option<[u64; 2]> {
    let [one, indexed] = STRUCTURES;
    let size = if draw.header.argument == 0 { one } else { indexed };
    let others = u64::from(draw.most.checked_sub(1)?);
    Some([draw.address, others * u64::from(draw.stride) + size])
}

/// Checks a command that draws. Does nothing for others.
///
/// # Errors
/// What is wrong with it.
pub fn check(command: &Command<'_>, memory: &Memory) -> Result<(), Why> {
    match command {
        Command::BeginRendering(begin, data) => check_begin(begin, data),
        Command::EndRendering(end, _) => none(end.header.argument),
        Command::ClearAttachment(clear, _) => check_clear(clear),
        Command::SetState(SetState { header, reserved, .. }, data) => {
            unreserved(*reserved)?;
            let words: Vec<_> = SetState::words(data).collect();
            Ok(check_words(header.argument, &words)?)
        }
        Command::SetVertexBuffers(SetVertexBuffers { reserved, .. }, data) => {
            unreserved(*reserved)?;
            let buffers = SetVertexBuffers::buffers(data).filter(|buffer| buffer.address != 0);
            for buffer in buffers {
                memory.check(buffer.address, buffer.length)?;
            }
            Ok(())
        }
        Command::SetIndexBuffer(SetIndexBuffer { header, address, length }, _) => {
            let size = size_of_index(header.argument).ok_or("indices of an unknown type")?;
            aligned(*address, size)?;
            if *length == 0 { Ok(()) } else { Ok(memory.check(*address, *length)?) }
        }
        Command::BindGraphics(bind, _) => aligned(bind.pipeline, 8),
        Command::Draw(draw, _) => none(draw.header.argument),
        Command::DrawIndexed(draw, _) => {
            none(draw.header.argument)?;
            unreserved(draw.reserved)
        }
        Command::DrawIndirect(draw, _) => check_indirect(draw, memory),
        Command::BeginQuery(begin, _) => check_query(begin),
        Command::EndQuery(end, _) => {
            unreserved(end.reserved)?;
            aligned(end.destination, 8)
        }
        Command::BeginTransform(_, data) => {
            BeginTransform::buffers(data).try_for_each(|buffer| check_stored(&buffer, memory))
        }
        Command::EndTransform(_, data) => {
            EndTransform::counters(data).try_for_each(|counter| check_word(counter, memory))
        }
        Command::DrawByteCount(draw, _) => {
            none(draw.header.argument)?;
            aligned(draw.offset.into(), 4)?;
            if draw.counter == 0 || draw.stride == 0 {
                return Err("a draw of what was stored nowhere, or of no bytes".into());
            }
            check_word(draw.counter, memory)
        }
        Command::BeginConditional(begin, _) => {
            if begin.header.argument > 1 || begin.address == 0 {
                return Err("a condition of no word, or an unknown one".into());
            }
            check_word(begin.address, memory)
        }
        Command::EndConditional(end, _) => none(end.header.argument),
        Command::Continue(..) => {
            Err("a continuation that is not the last command of what it is in".into())
        }
        _ => Ok(()),
    }
}

fn unreserved(field: u32) -> Result<(), Why> {
    if field == 0 { Ok(()) } else { Err("a reserved field that is not 0".into()) }
}

/// Checks a word of 32 bits, if there is one.
fn check_word(address: u64, memory: &Memory) -> Result<(), Why> {
    aligned(address, 4)?;
    if address == 0 { Ok(()) } else { Ok(memory.check(address, WORD)?) }
}

/// Checks a buffer for transformed vertices, if there is one.
fn check_stored(buffer: &TransformBuffer, memory: &Memory) -> Result<(), Why> {
    aligned(buffer.address, 4)?;
    check_word(buffer.counter, memory)?;
    if buffer.address == 0 {
        return Ok(());
    }
    if buffer.length == 0 {
        return Err("a buffer for transformed vertices without room".into());
    }
    Ok(memory.check(buffer.address, buffer.length)?)
}

fn check_begin(begin: &BeginRendering, data: &[u8]) -> Result<(), Why> {
    let BeginRendering { offset, extent, layers, view_mask, .. } = *begin;
    if (layers == 0) != (view_mask != 0) {
        return Err("a rendering of both layers and views, or of neither".into());
    }
    let is_inside = |(offset, extent): (u32, u32)| {
        extent > 0 && offset.checked_add(extent).is_some_and(|end| end <= MOST_TEXELS)
    };
    if !offset.into_iter().zip(extent).all(is_inside) {
        return Err("a rendering of an impossible area".into());
    }
    for attachment in BeginRendering::attachments(data) {
        let Attachment { view, resolve_view, resolve_mode, load, store, reserved, .. } = attachment;
        unreserved(reserved)?;
        let is_load = matches!(
            AttachmentLoadOp::from_raw(load as i32),
            AttachmentLoadOp::LOAD | AttachmentLoadOp::CLEAR | AttachmentLoadOp::DONT_CARE
        );
        let is_store = matches!(
            AttachmentStoreOp::from_raw(store as i32),
            AttachmentStoreOp::STORE | AttachmentStoreOp::DONT_CARE | AttachmentStoreOp::NONE
        );
        if !is_load || !is_store {
            return Err("an attachment that is loaded or stored in an unknown way".into());
        }
        if (resolve_view == 0) != (resolve_mode == 0) || (view == 0 && resolve_view != 0) {
            return Err("an attachment that is resolved to nowhere, or in no way".into());
        }
    }
    Ok(())
}

fn check_clear(clear: &ClearAttachment) -> Result<(), Why> {
    unreserved(clear.reserved)?;
    let aspect = ImageAspectFlags::from_raw(clear.aspect);
    let others = ImageAspectFlags::DEPTH | ImageAspectFlags::STENCIL;
    if aspect == ImageAspectFlags::COLOR {
        return Ok(());
    }
    if aspect.is_empty() || !others.contains(aspect) || clear.header.argument != 0 {
        return Err("an attachment to clear of an unknown aspect".into());
    }
    let [depth, ..] = clear.value;
    if aspect.contains(ImageAspectFlags::DEPTH) {
        check_depth(depth)?;
    }
    Ok(())
}

fn check_indirect(draw: &DrawIndirect, memory: &Memory) -> Result<(), Why> {
    let DrawIndirect { header, address, count, most, stride } = *draw;
    let size =
        STRUCTURES.get(header.argument as usize).ok_or("indirect draws of an unknown kind")?;
    aligned(address, 4)?;
    aligned(count, 4)?;
    aligned(stride.into(), 4)?;
    if most > 1 && u64::from(stride) < *size {
        return Err("structures of indirect draws that overlap".into());
    }
    if count != 0 {
        memory.check(count, size_of::<u32>() as u64)?;
    }
    if let Some([address, length]) = structures(draw) {
        memory.check(address, length)?;
    }
    Ok(())
}

fn check_query(begin: &BeginQuery) -> Result<(), Why> {
    let BeginQuery { header, flags, statistics, stream, reserved } = *begin;
    unreserved(reserved)?;
    let kind = QueryType::from_raw(header.argument as i32);
    let is_occlusion = kind == QueryType::OCCLUSION;
    let most = if is_occlusion { QueryControlFlags::PRECISE.as_raw() } else { 0 };
    if flags & !most != 0 {
        return Err("a query with an unknown flag".into());
    }
    let is_of_statistics = kind == QueryType::PIPELINE_STATISTICS;
    if (statistics != 0) != is_of_statistics || statistics & !STATISTICS != 0 {
        return Err("a query of no statistics, or of unknown ones".into());
    }
    let is_of_stream = matches!(
        kind,
        QueryType::TRANSFORM_FEEDBACK_STREAM_EXT | QueryType::PRIMITIVES_GENERATED_EXT
    );
    if stream >= if is_of_stream { MAX_TRANSFORM_BUFFERS } else { 1 } {
        return Err("a query of a stream that there is not".into());
    }
    Ok(())
}
