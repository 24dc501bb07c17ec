//! From bytes to requests, from answers to bytes.

use super::error::RequestError;
use super::submission::Deferred;
use super::termination::{Manner, Target};
use crate::hardware::HwQueueId;
use bellhop_protocol::control::power::{DevicePowerState, EnginePowerState};
use bellhop_protocol::control::{
    Handle, MAX_REQUEST_SIZE, ReplyHeader, Request, RequestCode, RequestHeader,
};
use bellhop_protocol::status::Status;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// How a handler answered.
#[derive(Debug)]
pub(super) enum Answer<R> {
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
pub(super) type Handled<R> = Result<Answer<R>, RequestError>;

/// The bytes of a request, or those behind its header, and how many a reply may have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Body<'a> {
    /// The host's own copy.
    pub(super) bytes: &'a [u8],
    /// Bytes that the guest left for the reply, its header included.
    pub(super) room: usize,
}

/// Splits a request into its header and the rest.
pub(super) fn parse(request: Body<'_>) -> Result<(RequestHeader, Body<'_>), RequestError> {
    let Body { bytes: request, room } = request;
    let length = request.len() as u64;
    let wrong_size = RequestError::BufferSize(length);
    let (header, bytes) =
        RequestHeader::read_from_prefix(request).map_err(|_| wrong_size.clone())?;
    if header.code.name().is_none() {
        return Err(RequestError::UnknownRequest(header.code));
    }
    if request.len() > MAX_REQUEST_SIZE || u64::from(header.length) != length {
        return Err(wrong_size);
    }
    zero("reserved", header.reserved)?;
    Ok((header, Body { bytes, room }))
}

/// The request's fixed structure, which is all of its body.
pub(super) fn fixed<T: Request>(body: Body<'_>) -> Result<T, RequestError> {
    let (request, rest) = prefix::<T>(body)?;
    no_more(body, rest)?;
    Ok(request)
}

/// The request's fixed structure and the list that is the rest of its body. `count` tells how
/// long the structure says the list is.
pub(super) fn with_list<T: Request, E: FromBytes + Immutable>(
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
pub(super) fn prefix<T: Request>(body: Body<'_>) -> Result<(T, &[u8]), RequestError> {
    let parsed = T::read_from_prefix(body.bytes).map_err(|_| wrong_body(body))?;
    let needed = size_of::<ReplyHeader>() + size_of::<T::Reply>();
    if body.room < needed { Err(RequestError::ReplyTooLong(needed as u64)) } else { Ok(parsed) }
}

/// The first `count` entries of what is left of a body, and what follows them.
pub(super) fn entries<'b, E: FromBytes + Immutable>(
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
pub(super) fn no_more(body: Body<'_>, rest: &[u8]) -> Result<(), RequestError> {
    if rest.is_empty() { Ok(()) } else { Err(wrong_body(body)) }
}

fn wrong_body(body: Body<'_>) -> RequestError {
    let length = body.bytes.len() as u64;
    RequestError::BufferSize((size_of::<RequestHeader>() as u64).saturating_add(length))
}

/// Refuses a reserved field that is not zero.
pub(super) fn zero(field: &'static str, value: impl Into<u64>) -> Result<(), RequestError> {
    match value.into() {
        0 => Ok(()),
        value => Err(RequestError::parameter(field, value)),
    }
}

/// Whether a request is about the adapter and not about a process.
pub(super) fn is_adapter_request(code: RequestCode) -> bool {
    matches!(
        code,
        RequestCode::OPEN_ADAPTER
            | RequestCode::GET_NODE_METADATA
            | RequestCode::QUERY_USER_MODE_SUBMISSION_CAPS
            | RequestCode::QUERY_NATIVE_FENCE_CAPS
            | RequestCode::QUERY_CLOCK_CALIBRATION
            | RequestCode::QUERY_STATISTICS
            | RequestCode::QUERY_BAR_LAYOUT
            | RequestCode::DONATE_AREA
            | RequestCode::QUERY_POWER
            | RequestCode::SET_DEVICE_POWER
            | RequestCode::SET_ENGINE_POWER
            | RequestCode::ESCAPE
            | RequestCode::CREATE_PROCESS
    )
}

/// Whether a request needs the device in D0: what is about to be executed, or may release a queue that waits.
/// Whoever waits for a fence wants what will signal it to be executed.
pub(super) fn needs_power(code: RequestCode) -> bool {
    matches!(
        code,
        RequestCode::CREATE_CONTEXT
            | RequestCode::RESUME_CONTEXT
            | RequestCode::CREATE_HW_QUEUE
            | RequestCode::SUBMIT_COMMAND
            | RequestCode::CREATE_NODE_CONTEXT
            | RequestCode::RENDER
            | RequestCode::SUBMIT_COMMAND_VIRTUAL
            | RequestCode::CREATE_DOORBELL
            | RequestCode::CONNECT_DOORBELL
            | RequestCode::MAKE_RESIDENT
            | RequestCode::WAIT_FOR_FENCES
            | RequestCode::SIGNAL_FENCES
            | RequestCode::SIGNAL_FROM_GPU
    )
}

/// The bytes of a reply.
pub(super) fn reply(status: Status, detail: u64, body: &[u8]) -> Vec<u8> {
    let length = size_of::<ReplyHeader>() + body.len();
    let header = ReplyHeader { status, length: length as u32, detail };
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(body);
    bytes
}
