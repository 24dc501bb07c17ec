// SPDX-License-Identifier: MIT OR Apache-2.0

//! From bytes to requests, from answers to bytes.

use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::target::{Manner, Target};
use crate::dxgkrnl::queue::submission::Deferred;
use crate::hardware::HwQueueId;
use bellhop_protocol::control::power::{DevicePowerState, EnginePowerState};
use bellhop_protocol::control::{Handle, MAX_REQUEST_SIZE, ReplyHeader, Request, RequestHeader};
use bellhop_protocol::status::Status;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// How a handler answered.
#[derive(Debug)]
pub(crate) enum Answer<R> {
    /// It is done, and this is the reply.
    Done(R),
    /// It was accepted: `PENDING`, and an event tells when it is done.
    Pending,
    /// It is done once the page of the doorbell of this queue is there; the reply comes then.
    AfterRotation(HwQueueId, Handle),
    /// It is done once engines have forgotten what the handler gave up; the reply, which carries
    /// nothing, comes then.
    AfterQuiesce,
    /// It is done once paging has come that far, and this is the reply.
    AfterPaging(R),
    /// It is submitted once paging has come that far, and then answered.
    SubmitAfterPaging(Deferred),
    /// It is done when the target has ended.
    Terminate(Target, Manner),
    /// It is done when the device is in this state.
    DevicePower(DevicePowerState),
    /// It is done when a node's engine has been told to change to this state.
    EnginePower(u32, EnginePowerState),
}

/// What a handler comes back with.
pub(crate) type Handled<R> = Result<Answer<R>, RequestError>;

/// The bytes of a request, or those behind its header, and how many a reply may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Body<'a> {
    /// The host's own copy.
    pub(crate) bytes: &'a [u8],
    /// Bytes that the guest left for the reply, its header included.
    pub(crate) room: usize,
}

/// Splits a request into its header and the rest.
pub(crate) fn split_header(request: Body<'_>) -> Result<(RequestHeader, Body<'_>), RequestError> {
    let (header, bytes) = RequestHeader::read_from_prefix(request.bytes)
        .map_err(|_| RequestError::BufferSize(request.bytes.len() as u64))?;
    Ok((header, Body { bytes, room: request.room }))
}

/// Refuses a header that does not tell the request's length, or has a reserved field that is not zero.
pub(crate) fn check_header(header: &RequestHeader, request: Body<'_>) -> Result<(), RequestError> {
    let length = request.bytes.len();
    if length > MAX_REQUEST_SIZE || u64::from(header.length) != length as u64 {
        return Err(RequestError::BufferSize(length as u64));
    }
    zero("reserved", header.reserved)
}

/// The request's fixed structure, which is all of its body.
pub(crate) fn fixed<T: Request>(body: Body<'_>) -> Result<T, RequestError> {
    let (request, rest) = prefix::<T>(body)?;
    no_more(body, rest)?;
    Ok(request)
}

/// The request's fixed structure and the list that is the rest of its body. `count` tells how
/// long the structure says the list is.
pub(crate) fn with_list<T: Request, E: FromBytes + Immutable>(
    body: Body<'_>,
    count: impl FnOnce(&T) -> u32,
) -> Result<(T, Vec<E>), RequestError> {
    let (request, rest) = prefix::<T>(body)?;
    let (list, rest) = entries(body, rest, count(&request))?;
    no_more(body, rest)?;
    Ok((request, list))
}

/// The request's fixed structure, and what follows it in its body. Every request comes through here, so
/// none is carried out and then cannot be answered.
pub(crate) fn prefix<T: Request>(body: Body<'_>) -> Result<(T, &[u8]), RequestError> {
    let parsed = T::read_from_prefix(body.bytes).map_err(|_| wrong_body(body))?;
    let needed = size_of::<ReplyHeader>() + size_of::<T::Reply>();
    if body.room < needed { Err(RequestError::ReplyTooLong(needed as u64)) } else { Ok(parsed) }
}

/// The first `count` entries of what is left of a body, and what follows them.
pub(crate) fn entries<'b, E: FromBytes + Immutable>(
    body: Body<'_>,
    rest: &'b [u8],
    count: u32,
) -> Result<(Vec<E>, &'b [u8]), RequestError> {
    let length = usize::try_from(count).ok().and_then(|count| count.checked_mul(size_of::<E>()));
    let (list, rest) =
        length.and_then(|length| rest.split_at_checked(length)).ok_or(wrong_body(body))?;
    // The list is as long as the bytes that are here, whatever the guest said.
    let entries: Result<Vec<E>, _> =
        list.chunks_exact(size_of::<E>()).map(E::read_from_bytes).collect();
    Ok((entries.map_err(|_| wrong_body(body))?, rest))
}

/// Refuses bytes behind what a request says that it carries.
pub(crate) fn no_more(body: Body<'_>, rest: &[u8]) -> Result<(), RequestError> {
    if rest.is_empty() { Ok(()) } else { Err(wrong_body(body)) }
}

fn wrong_body(body: Body<'_>) -> RequestError {
    let length = body.bytes.len() as u64;
    RequestError::BufferSize((size_of::<RequestHeader>() as u64).saturating_add(length))
}

/// Refuses a reserved field that is not zero.
pub(crate) fn zero(field: &'static str, value: impl Into<u64>) -> Result<(), RequestError> {
    match value.into() {
        0 => Ok(()),
        value => Err(RequestError::parameter(field, value)),
    }
}

/// The bytes of a reply.
pub(crate) fn reply(status: Status, detail: u64, body: &[u8]) -> Vec<u8> {
    let length = size_of::<ReplyHeader>() + body.len();
    let header = ReplyHeader { status, length: length as u32, detail };
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(body);
    bytes
}
