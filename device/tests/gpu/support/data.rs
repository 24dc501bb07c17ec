// SPDX-License-Identifier: MIT OR Apache-2.0

//! Bytes that tests write, and the packets that write them.

use super::rig::Packets;
use bellhop_protocol::packet::dispatch::xor_stream;
use bellhop_protocol::packet::transfer::WriteData;

/// Bytes without a pattern, so that a copy of the wrong piece shows.
pub fn noise(length: usize) -> Vec<u8> {
    (0..length as u64).map(|index| xor_stream(length as u64, index) as u8).collect()
}

/// `WRITE_DATA` of these bytes.
pub fn write_data(destination: u64, data: &[u8]) -> Packets {
    let mut packets = Packets::new().then(WriteData::new(destination, data.len()).unwrap());
    packets.0.extend_from_slice(data);
    packets.0.resize(packets.0.len().next_multiple_of(8), 0);
    packets
}
