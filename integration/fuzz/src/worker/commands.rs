// SPDX-License-Identifier: MIT OR Apache-2.0

//! Streams of commands for the host's Vulkan, and pipelines, as a worker reads them.

use bellhop_protocol::packet::UNIT;
use bellhop_protocol::vulkan::{
    BeginRendering, BeginTransform, Command, EndTransform, GraphicsPipelineHead,
    GraphicsPipelineParts, PipelineHead, PipelineParts, Resources, SetState, SetVertexBuffers,
    commands as decoded,
};
use zerocopy::{FromBytes, IntoBytes};

/// Reads bytes as a stream and as a pipeline of each kind, the latter also with the length that it says right.
pub fn commands(data: &[u8]) {
    stream(data);
    // A description lies at a multiple of eight, as the worker copies it.
    let mut words = vec![0u64; data.len().div_ceil(UNIT)];
    words.as_mut_bytes()[..data.len()].copy_from_slice(data);
    let whole = words.as_mut_bytes();
    pipeline(&whole[..data.len()]);
    graphics_pipeline(&whole[..data.len()]);
    if let Ok((head, _)) = PipelineHead::mut_from_prefix(&mut *whole) {
        head.length = data.len().next_multiple_of(UNIT) as u32;
        pipeline(whole);
    }
    if let Ok((head, _)) = GraphicsPipelineHead::mut_from_prefix(&mut *whole) {
        head.length = data.len().next_multiple_of(UNIT) as u32;
        graphics_pipeline(whole);
    }
}

/// What is decoded follows each other without a gap, and has what it says that it has.
fn stream(bytes: &[u8]) {
    let mut end = 0;
    for command in decoded(bytes) {
        let (offset, command) = match command {
            Ok(command) => command,
            Err(error) => {
                assert_eq!(error.offset(), end);
                return;
            }
        };
        assert_eq!(offset, end);
        end += size_of(&command);
        match command {
            Command::Dispatch(dispatch, data) => resources(dispatch.resources(), data),
            Command::BindGraphics(bind, data) => resources(bind.resources(), data),
            Command::BeginRendering(begin, data) => {
                let count = begin.header.argument as usize + 2;
                assert_eq!(BeginRendering::attachments(data).len(), count);
            }
            Command::SetState(set, data) => {
                assert_eq!(SetState::words(data).len(), set.words as usize);
            }
            Command::SetVertexBuffers(set, data) => {
                assert_eq!(SetVertexBuffers::buffers(data).len(), set.count as usize);
            }
            Command::BeginTransform(begin, data) => {
                let count = begin.header.argument as usize;
                assert_eq!(BeginTransform::buffers(data).len(), count);
            }
            Command::EndTransform(end, data) => {
                assert_eq!(EndTransform::counters(data).len(), end.header.argument as usize);
            }
            _ => {}
        }
    }
    assert_eq!(end, bytes.len());
}

/// What follows a dispatch, or what draws run on, is what it says.
fn resources(of: Resources, data: &[u8]) {
    assert_eq!(of.set_addresses(data).len(), of.sets as usize);
    assert_eq!(of.offsets(data).len(), of.dynamic_offsets as usize);
    assert_eq!(of.constants(data).len(), of.push_constants as usize);
}

fn size_of(command: &Command<'_>) -> usize {
    let (header, data) = match command {
        Command::Barrier(command, data) => (command.header, data),
        Command::Copy(command, data) => (command.header, data),
        Command::Fill(command, data) => (command.header, data),
        Command::Update(command, data) => (command.header, data),
        Command::Dispatch(command, data) => (command.header, data),
        Command::Timestamp(command, data) => (command.header, data),
        Command::Wait(command, data) => (command.header, data),
        Command::QueryCaps(command, data) => (command.header, data),
        Command::CopyImage(command, data) => (command.header, data),
        Command::CopyMemoryToImage(command, data) => (command.header, data),
        Command::CopyImageToMemory(command, data) => (command.header, data),
        Command::ClearImage(command, data) => (command.header, data),
        Command::QueryImage(command, data) => (command.header, data),
        Command::QueryImageFormat(command, data) => (command.header, data),
        Command::ResolveImage(command, data) => (command.header, data),
        Command::BlitImage(command, data) => (command.header, data),
        Command::ClearDepthStencil(command, data) => (command.header, data),
        Command::BeginRendering(command, data) => (command.header, data),
        Command::EndRendering(command, data) => (command.header, data),
        Command::ClearAttachment(command, data) => (command.header, data),
        Command::SetState(command, data) => (command.header, data),
        Command::SetVertexBuffers(command, data) => (command.header, data),
        Command::SetIndexBuffer(command, data) => (command.header, data),
        Command::BindGraphics(command, data) => (command.header, data),
        Command::Draw(command, data) => (command.header, data),
        Command::DrawIndexed(command, data) => (command.header, data),
        Command::DrawIndirect(command, data) => (command.header, data),
        Command::BeginQuery(command, data) => (command.header, data),
        Command::EndQuery(command, data) => (command.header, data),
        Command::Continue(command, data) => (command.header, data),
        Command::BeginTransform(command, data) => (command.header, data),
        Command::EndTransform(command, data) => (command.header, data),
        Command::DrawByteCount(command, data) => (command.header, data),
        Command::BeginConditional(command, data) => (command.header, data),
        Command::EndConditional(command, data) => (command.header, data),
    };
    assert!(header.size() >= UNIT + data.len());
    header.size()
}

/// What a pipeline says of its parts holds.
fn pipeline(bytes: &[u8]) {
    let Ok(parts) = PipelineParts::read(bytes) else { return };
    assert_eq!(parts.head.length as usize, bytes.len());
    assert_eq!(parts.spirv.len(), parts.head.spirv as usize);
    assert!(!parts.entry_point.contains(&0));
    for binding in parts.bindings {
        assert!(binding.set < parts.head.sets && binding.kind.name().is_some());
    }
    for constant in parts.constants {
        let (start, length) = (constant.offset as usize, constant.size as usize);
        assert!(parts.values.get(start..start + length).is_some());
    }
}

/// What a graphics pipeline says of its parts holds.
fn graphics_pipeline(bytes: &[u8]) {
    let Ok(parts) = GraphicsPipelineParts::read(bytes) else { return };
    let head = &parts.head;
    assert_eq!(head.length as usize, bytes.len());
    assert_eq!(parts.stages.len(), head.stages as usize);
    assert_eq!(parts.colors.len(), head.colors as usize);
    assert_eq!(parts.states.len(), head.states as usize);
    assert_eq!(
        [parts.viewports.len(), parts.scissors.len()],
        [head.viewports, head.scissors].map(|it| it as usize)
    );
    let mut seen = 0;
    for stage in &parts.stages {
        assert_eq!(stage.spirv.len(), stage.stage.spirv as usize);
        assert!(stage.stage.stage.is_power_of_two() && seen & stage.stage.stage == 0);
        seen |= stage.stage.stage;
        assert!(!stage.entry_point.contains(&0));
        for constant in stage.constants {
            let (start, length) = (constant.offset as usize, constant.size as usize);
            assert!(stage.values.get(start..start + length).is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::seeds::is_in_corpus;
    use bellhop_protocol::vulkan::{
        Attachment, Barrier, BeginConditional, BeginQuery, BeginRendering, BeginTransform,
        BindGraphics, Binding, Blend, BlitImage, ClearAttachment, ClearDepthStencil, ClearImage,
        Continue, Copy, CopyImage, CopyImageToMemory, CopyMemoryToImage, DescriptorKind, Dispatch,
        Draw, DrawByteCount, DrawIndexed, DrawIndirect, Encoded, EndConditional, EndQuery,
        EndRendering, EndTransform, Fill, GraphicsPipelineHead, GraphicsPipelineParts,
        GraphicsState, Image, PipelineHead, QueryCaps, QueryImage, QueryImageFormat, ResolveImage,
        Scissor, SetIndexBuffer, SetState, SetVertexBuffers, SpecialisationEntry, Stage, Timestamp,
        TransformBuffer, Update, VertexAttribute, VertexBinding, VertexBuffer, Viewport, Wait,
    };
    use zerocopy::{FromZeros, IntoBytes};

    fn put<C: Encoded>(bytes: &mut Vec<u8>, command: C, argument: u32, data: &[u8]) {
        bytes.extend_from_slice(command.with_header(argument, data.len()).as_bytes());
        bytes.extend_from_slice(data);
    }

    #[test]
    fn a_stream_of_every_command_is_in_the_corpus() {
        let mut bytes = Vec::new();
        put(&mut bytes, Barrier::new_zeroed(), 0, &[]);
        let copy = Copy { source: 0x1000, destination: 0x2000, length: 64, ..Copy::new_zeroed() };
        put(&mut bytes, copy, 0, &[]);
        let fill = Fill { destination: 0x1000, length: 16, ..Fill::new_zeroed() };
        put(&mut bytes, fill, 7, &[]);
        put(&mut bytes, Update { destination: 0x3000, ..Update::new_zeroed() }, 12, &[5; 16]);
        let dispatch = Dispatch {
            pipeline: 0x4000,
            groups: [1, 2, 3],
            dynamic_offsets: 1,
            push_constants: 4,
            ..Dispatch::new_zeroed()
        };
        put(&mut bytes, dispatch, 2, &[0; 32]);
        put(&mut bytes, Timestamp { destination: 0x1000, ..Timestamp::new_zeroed() }, 0, &[]);
        put(&mut bytes, Wait { address: 0x1000, ..Wait::new_zeroed() }, 1, &[]);
        let query = QueryCaps { destination: 0x1000, length: 4096, ..QueryCaps::new_zeroed() };
        put(&mut bytes, query, 0, &[]);
        put(&mut bytes, CopyImage { extent: [4, 4, 1], ..CopyImage::new_zeroed() }, 0, &[]);
        let image = Image { address: 0x1000, size: 4096, format: 37, ..Image::new_zeroed() };
        put(&mut bytes, CopyMemoryToImage { image, ..CopyMemoryToImage::new_zeroed() }, 0, &[]);
        put(&mut bytes, CopyImageToMemory { image, ..CopyImageToMemory::new_zeroed() }, 0, &[]);
        put(&mut bytes, ClearImage { image, ..ClearImage::new_zeroed() }, 0, &[]);
        put(&mut bytes, QueryImage { destination: 0x1000, ..QueryImage::new_zeroed() }, 0, &[]);
        let query = QueryImageFormat { destination: 0x1000, ..QueryImageFormat::new_zeroed() };
        put(&mut bytes, query, 0, &[]);
        is_in_corpus("commands", "every-command", &bytes);
        super::commands(&bytes);
    }

    #[test]
    fn a_stream_that_draws_is_in_the_corpus() {
        let mut bytes = Vec::new();
        let image = Image { address: 0x1000, size: 4096, format: 37, ..Image::new_zeroed() };
        put(&mut bytes, ResolveImage { source: image, ..ResolveImage::new_zeroed() }, 0, &[]);
        let corners = [[0; 3], [4, 4, 1]];
        put(&mut bytes, BlitImage { from_corners: corners, ..BlitImage::new_zeroed() }, 1, &[]);
        put(&mut bytes, ClearDepthStencil { image, ..ClearDepthStencil::new_zeroed() }, 0, &[]);
        let attachment = Attachment { view: 0x3000, serial: 1, load: 1, ..Attachment::default() };
        let attachments = [attachment, attachment, Attachment::default()];
        let begin = BeginRendering { extent: [4; 2], layers: 1, ..BeginRendering::new_zeroed() };
        put(&mut bytes, begin, 1, attachments.as_bytes());
        put(&mut bytes, ClearAttachment { aspect: 1, ..ClearAttachment::new_zeroed() }, 0, &[]);
        put(&mut bytes, SetState { words: 2, ..SetState::new_zeroed() }, 5, &[0; 8]);
        let buffer = VertexBuffer { address: 0x5000, length: 64, stride: 16 };
        let set = SetVertexBuffers { count: 1, ..SetVertexBuffers::new_zeroed() };
        put(&mut bytes, set, 0, buffer.as_bytes());
        let set = SetIndexBuffer { address: 0x6000, length: 64, ..SetIndexBuffer::new_zeroed() };
        put(&mut bytes, set, 1, &[]);
        let bind = BindGraphics {
            pipeline: 0x4000,
            dynamic_offsets: 1,
            push_constants: 4,
            ..BindGraphics::new_zeroed()
        };
        put(&mut bytes, bind, 2, &[0; 32]);
        put(&mut bytes, BeginQuery::new_zeroed(), 0, &[]);
        put(&mut bytes, Draw { vertices: 3, instances: 1, ..Draw::new_zeroed() }, 0, &[]);
        put(&mut bytes, DrawIndexed { indices: 3, ..DrawIndexed::new_zeroed() }, 0, &[]);
        put(
            &mut bytes,
            DrawIndirect { address: 0x1000, most: 1, ..DrawIndirect::new_zeroed() },
            1,
            &[],
        );
        put(&mut bytes, EndQuery { destination: 0x1000, ..EndQuery::new_zeroed() }, 0, &[]);
        put(&mut bytes, EndRendering::new_zeroed(), 0, &[]);
        let condition = BeginConditional { address: 0x1000, ..BeginConditional::new_zeroed() };
        put(&mut bytes, condition, 1, &[]);
        let stored = TransformBuffer { address: 0x5000, length: 64, counter: 0x1000 };
        put(&mut bytes, BeginTransform::new_zeroed(), 1, stored.as_bytes());
        put(&mut bytes, EndTransform::new_zeroed(), 1, 0x1000_u64.as_bytes());
        let again = DrawByteCount { counter: 0x1000, stride: 16, ..DrawByteCount::new_zeroed() };
        put(&mut bytes, again, 0, &[]);
        put(&mut bytes, EndConditional::new_zeroed(), 0, &[]);
        let next = Continue { address: 0x8000, length: 64, ..Continue::new_zeroed() };
        put(&mut bytes, next, 0, &[]);
        is_in_corpus("commands", "drawing", &bytes);
        super::commands(&bytes);
        assert_eq!(super::decoded(&bytes).filter(Result::is_ok).count(), 21);
    }

    #[test]
    fn a_graphics_pipeline_with_every_part_is_in_the_corpus() {
        let stage = |stage| Stage {
            stage,
            constants: 1,
            values: 8,
            entry_point: 4,
            spirv: 24,
            ..Stage::new_zeroed()
        };
        let constant = SpecialisationEntry { id: 1, offset: 4, size: 4, reserved: 0 };
        let of_stage = [constant.as_bytes(), &[1; 8], b"main\0\0\0\0", &[3; 24]].concat();
        let binding = Binding {
            set: 0,
            binding: 1,
            kind: DescriptorKind::INPUT_ATTACHMENT,
            count: 1,
            first: 0,
            reserved: 0,
        };
        let parts = [
            binding.as_bytes(),
            VertexBinding { binding: 0, stride: 16, rate: 0, divisor: 1 }.as_bytes(),
            VertexAttribute { location: 0, binding: 0, format: 109, offset: 0 }.as_bytes(),
            Blend { format: 37, write_mask: 15, ..Blend::new_zeroed() }.as_bytes(),
            [0_u32, 1].as_bytes(),
            Viewport { extent: [4.0; 2], ..Viewport::new_zeroed() }.as_bytes(),
            Scissor { offset: [0; 2], extent: [4; 2] }.as_bytes(),
            [stage(1), stage(16)].as_bytes(),
            &of_stage,
            &of_stage,
        ]
        .concat();
        let head = GraphicsPipelineHead {
            serial: 1,
            length: (size_of::<GraphicsPipelineHead>() + parts.len()) as u32,
            sets: 1,
            bindings: 1,
            stages: 2,
            vertex_bindings: 1,
            vertex_attributes: 1,
            colors: 1,
            states: 2,
            viewports: 1,
            scissors: 1,
            state: GraphicsState { topology: 3, samples: 1, ..GraphicsState::new_zeroed() },
            ..GraphicsPipelineHead::new_zeroed()
        };
        let bytes = [head.as_bytes(), &parts].concat();
        is_in_corpus("commands", "graphics-pipeline", &bytes);
        super::commands(&bytes);
        assert!(GraphicsPipelineParts::read(&bytes).is_ok());
    }

    #[test]
    fn a_pipeline_with_every_part_is_in_the_corpus() {
        let binding =
            |set, binding, kind| Binding { set, binding, kind, count: 2, first: 0, reserved: 0 };
        let bindings = [
            binding(0, 0, DescriptorKind::STORAGE_BUFFER),
            binding(1, 3, DescriptorKind::UNIFORM_BUFFER_DYNAMIC),
            binding(1, 4, DescriptorKind::COMBINED_IMAGE_SAMPLER),
        ];
        let constant = SpecialisationEntry { id: 1, offset: 4, size: 4, reserved: 0 };
        let parts =
            [bindings.as_bytes(), constant.as_bytes(), &[1; 8], b"main\0\0\0\0", &[3; 24]].concat();
        let head = PipelineHead {
            serial: 1,
            length: (size_of::<PipelineHead>() + parts.len()) as u32,
            sets: 2,
            bindings: 3,
            constants: 1,
            values: 8,
            entry_point: 4,
            spirv: 24,
            push_constants: 4,
            ..PipelineHead::new_zeroed()
        };
        let bytes = [head.as_bytes(), &parts].concat();
        is_in_corpus("commands", "pipeline", &bytes);
        super::commands(&bytes);
        assert!(super::PipelineParts::read(&bytes).is_ok());
    }
}
