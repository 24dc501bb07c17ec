// SPDX-License-Identifier: MIT OR Apache-2.0

//! A video file.

#[path = "../../../guest/src/video/ivf.rs"]
#[allow(dead_code, reason = "the writer of headers is for whoever encodes")]
mod file;

use bellhop_protocol::control::video::MAX_BITSTREAM;

/// Reads bytes as an IVF file, as they are and behind a right header: the frames are parts of the file, in its order, and no
/// longer than a packet takes; written anew they are the file, as far as it is whole.
pub fn ivf(data: &[u8]) {
    check(data);
    let header = file::header(file::Header { size: [64, 48], rate: [25, 1] }, 1);
    check(&[&header, data].concat());
}

fn check(bytes: &[u8]) {
    let Ok(file::Contents { frames, is_cut_off, .. }) = file::read(bytes) else { return };
    let mut anew = Vec::new();
    for frame in frames {
        assert!(frame.data.len() <= MAX_BITSTREAM as usize);
        file::append(&mut anew, frame);
    }
    let start = usize::from(u16::from_le_bytes([bytes[6], bytes[7]]));
    let rest = bytes[start..].strip_prefix(&*anew).expect("the frames are those of the file");
    assert_eq!(rest.is_empty(), !is_cut_off);
}
