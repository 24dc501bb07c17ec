// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests without a driver, as none would send them.

use bellhop_guest_umd::transport::{Transport, TransportError};
use bellhop_protocol::control::{MAX_REPLY_SIZE, ReplyHeader, Request, RequestHeader};
use bellhop_protocol::status::Status;
use zerocopy::{FromBytes, IntoBytes};

/// Sends a request in the name of a process. Returns the reply, or the status with which the device refused it.
///
/// # Errors
/// When the device does not answer, or not with such a reply.
pub fn request<T: Request>(
    transport: &dyn Transport,
    process: u32,
    request: &T,
) -> Result<Result<T::Reply, Status>, TransportError> {
    let length = size_of::<RequestHeader>() + size_of::<T>();
    let header = RequestHeader { code: T::CODE, length: length as u32, process, reserved: 0 };
    let bytes = [header.as_bytes(), request.as_bytes()].concat();
    let mut reply = [0; MAX_REPLY_SIZE];
    let length = transport.request(&bytes, &mut reply)?;
    let malformed = || TransportError::Protocol("the reply is not that of the request".into());
    let reply = reply.get(..length).ok_or_else(malformed)?;
    let (header, body) = ReplyHeader::read_from_prefix(reply).map_err(|_| malformed())?;
    if header.status.is_success() {
        Ok(Ok(T::Reply::read_from_bytes(body).map_err(|_| malformed())?))
    } else {
        Ok(Err(header.status))
    }
}
