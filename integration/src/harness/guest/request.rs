// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests that no driver would send.

use bellhop_guest_umd::transport::{Transport, TransportError};
use bellhop_protocol::control::{MAX_REPLY_SIZE, ReplyHeader, Request, RequestHeader};
use bellhop_protocol::status::Status;
use zerocopy::{FromBytes, IntoBytes};

/// Sends a request in the name of a process; returns its status.
pub(in crate::harness) fn send<T: Request>(
    transport: &dyn Transport,
    process: u32,
    request: &T,
) -> Result<Status, TransportError> {
    let length = size_of::<RequestHeader>() + size_of::<T>();
    let header = RequestHeader { code: T::CODE, length: length as u32, process, reserved: 0 };
    let bytes = [header.as_bytes(), request.as_bytes()].concat();
    let mut reply = [0; MAX_REPLY_SIZE];
    let length = transport.request(&bytes, &mut reply)?;
    let header = reply.get(..length).and_then(|reply| ReplyHeader::read_from_prefix(reply).ok());
    let (header, _) =
        header.ok_or_else(|| TransportError::Protocol("a reply without a header".into()))?;
    Ok(header.status)
}
