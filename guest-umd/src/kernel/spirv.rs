// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the driver reads of a SPIR-V module. The device's compiler reads the rest.

use bellhop_protocol::control::kernel::{MAX_SPIRV, MIN_SPIRV};

/// The first word of a module.
const MAGIC: u32 = 0x0723_0203;
const OP_EXECUTION_MODE: u32 = 16;
const LOCAL_SIZE: u32 = 17;
/// `OpFunction`: execution modes come before the first function.
const OP_FUNCTION: u32 = 54;
/// Words of a module's header.
const HEADER: usize = 5;

/// Why these bytes are no module, if that shows at once.
pub(super) fn problem(bytes: &[u8]) -> Option<&'static str> {
    if bytes.first_chunk().is_none_or(|word| u32::from_le_bytes(*word) != MAGIC) {
        let swapped = bytes.first_chunk().is_some_and(|word| u32::from_be_bytes(*word) == MAGIC);
        return Some(if swapped {
            "its words are big-endian"
        } else {
            "it does not begin with SPIR-V's magic number; compile the source first, for example \
             with glslangValidator -V"
        });
    }
    if !bytes.len().is_multiple_of(4) || bytes.len() < MIN_SPIRV as usize {
        return Some("it is cut off");
    }
    (bytes.len() > MAX_SPIRV as usize).then_some("it is larger than 1 MiB")
}

/// The work-group size, where the module gives one of constants for all of its entry points.
pub(super) fn work_group(bytes: &[u8]) -> Option<[u32; 3]> {
    let (words, _) = bytes.as_chunks();
    let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let mut rest = words.get(HEADER..)?;
    let mut found = None;
    while let [first, ..] = *rest {
        let instruction = rest.get(..(first >> 16) as usize).filter(|words| !words.is_empty())?;
        match *instruction {
            [first, ..] if first & 0xFFFF == OP_FUNCTION => break,
            [first, _, LOCAL_SIZE, x, y, z] if first & 0xFFFF == OP_EXECUTION_MODE => {
                let size = [x, y, z];
                if found.is_some_and(|other| other != size) {
                    return None;
                }
                found = Some(size);
            }
            _ => {}
        }
        rest = rest.get(instruction.len()..)?;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    fn module(instructions: &[u32]) -> Vec<u8> {
        [&[MAGIC, 0x1_0300, 0, 9, 0], instructions].concat().as_bytes().to_vec()
    }

    #[test]
    fn what_is_no_module_is_told_why() {
        assert_eq!(problem(&module(&[])), None);
        assert!(problem(b"#version 460").unwrap().contains("glslangValidator"));
        assert!(problem(b"").is_some());
        assert_eq!(problem(&module(&[])[..19]), Some("it is cut off"));
        assert_eq!(problem(&module(&[])[..16]), Some("it is cut off"));
        assert_eq!(problem(&MAGIC.to_be_bytes()), Some("its words are big-endian"));
        assert!(problem(&module(&vec![0; 1 << 18])).unwrap().contains("1 MiB"));
    }

    #[test]
    fn a_work_group_s_size_is_read_where_there_is_one() {
        let mode = |x| [6 << 16 | OP_EXECUTION_MODE, 4, LOCAL_SIZE, x, 2, 1];
        assert_eq!(work_group(&module(&[])), None);
        assert_eq!(work_group(&module(&mode(64))), Some([64, 2, 1]));
        // Two entry points of different sizes.
        assert_eq!(work_group(&module(&[mode(64), mode(32)].concat())), None);
        // An instruction without a length, or longer than the module.
        assert_eq!(work_group(&module(&[[0; 6], mode(64)].concat())), None);
        assert_eq!(work_group(&module(&[9 << 16, 1])), None);
        // What stands in a function is no execution mode of the module.
        let function = [&[1 << 16 | OP_FUNCTION][..], &mode(64)].concat();
        assert_eq!(work_group(&module(&function)), None);
    }
}
