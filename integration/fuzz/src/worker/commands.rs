// SPDX-License-Identifier: MIT OR Apache-2.0

//! Streams of commands for the host's Vulkan, and pipelines, as a worker reads them.

use bellhop_protocol::packet::UNIT;
use bellhop_protocol::vulkan::{Command, PipelineHead, PipelineParts, commands as decoded};
use zerocopy::{FromBytes, IntoBytes};

/// Reads bytes as a stream and as a pipeline, the latter also with the length that it says right.
pub fn commands(data: &[u8]) {
    stream(data);
    // A description lies at a multiple of eight, as the worker copies it.
    let mut words = vec![0u64; data.len().div_ceil(UNIT)];
    words.as_mut_bytes()[..data.len()].copy_from_slice(data);
    let whole = words.as_mut_bytes();
    pipeline(&whole[..data.len()]);
    if let Ok((head, _)) = PipelineHead::mut_from_prefix(&mut *whole) {
        head.length = data.len().next_multiple_of(UNIT) as u32;
        pipeline(whole);
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
        if let Command::Dispatch(dispatch, data) = command {
            assert_eq!(dispatch.resources().set_addresses(data).len(), dispatch.header.argument as usize);
            assert_eq!(dispatch.resources().offsets(data).len(), dispatch.dynamic_offsets as usize);
            assert_eq!(dispatch.resources().constants(data).len(), dispatch.push_constants as usize);
        }
    }
    assert_eq!(end, bytes.len());
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

#[cfg(test)]
mod tests {
    use crate::seeds::is_in_corpus;
    use bellhop_protocol::vulkan::{
        Barrier, Binding, ClearImage, Copy, CopyImage, CopyImageToMemory, CopyMemoryToImage,
        DescriptorKind, Dispatch, Encoded, Fill, Image, PipelineHead, QueryCaps, QueryImage,
        QueryImageFormat, SpecialisationEntry, Timestamp, Update, Wait,
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
