// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets of security nodes in a command buffer.

use crate::commands::command_buffer::CommandBuffer;
use crate::error::Error;
use bellhop_protocol::packet::security::{Attest, Open, Ranges, Seal};
use bellhop_protocol::security::NONCE_SIZE;
use zerocopy::IntoBytes;

impl CommandBuffer {
    /// Seals a range: see [`Seal`].
    ///
    /// # Errors
    /// If there is no room.
    pub fn seal(&mut self, ranges: Ranges) -> Result<&mut Self, Error> {
        self.raw(Seal::new(ranges).as_bytes())
    }

    /// Opens what was sealed: see [`Open`].
    ///
    /// # Errors
    /// If there is no room.
    pub fn open_sealed(&mut self, ranges: Ranges) -> Result<&mut Self, Error> {
        self.raw(Open::new(ranges).as_bytes())
    }

    /// Writes a statement to `to`, and a status block to `status`: see [`Attest`].
    ///
    /// # Errors
    /// If there is no room.
    pub fn attest(
        &mut self,
        to: u64,
        status: u64,
        nonce: [u8; NONCE_SIZE],
    ) -> Result<&mut Self, Error> {
        self.raw(Attest::new(to, status, nonce).as_bytes())
    }
}
