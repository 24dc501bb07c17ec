// SPDX-License-Identifier: MIT OR Apache-2.0

//! From bytes to requests, from answers to bytes.

use crate::dxgkrnl::display::flip::FlipId;
use crate::dxgkrnl::kernel::waiter::DeferredKernel;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::target::{Manner, Target};
use crate::dxgkrnl::queue::submission::Deferred;
use crate::hardware::{AddressSpaceId, DisplayTicket, HwQueueId, KernelNumber};
use bellhop_protocol::control::agent::consent::AskForConsent;
use bellhop_protocol::control::agent::{AskAgent, DevicePresence};
use bellhop_protocol::control::power::{DevicePowerState, EnginePowerState};
use bellhop_protocol::control::{Handle, MAX_REQUEST_SIZE, ReplyHeader, Request, RequestHeader};
use zerocopy::{FromBytes, Immutable};

/// How a handler answered.
#[derive(Debug)]
pub(crate) enum Answer<R> {
    /// The request is done; carries the reply.
    Done(R),
    /// The request was accepted: the reply is `PENDING`, and an event tells when it is done.
    Pending,
    /// The request is done, and its reply sent, once the page of this queue's doorbell is mapped.
    AfterRotation(HwQueueId, Handle),
    /// The request is done, and an empty reply sent, once engines have forgotten what the handler gave up.
    AfterQuiesce,
    /// The request is done once the paging begun so far completes; carries the reply.
    AfterPaging(R),
    /// The work is submitted, and the request answered, once the paging begun so far completes.
    SubmitAfterPaging(Deferred),
    /// The request is done, and its reply sent, once the hardware has compiled a kernel for this device.
    AfterCompiling(Compiling),
    /// The hardware begins to compile a kernel once the paging begun so far completes.
    CompileAfterPaging(Box<DeferredKernel>),
    /// The request is done once the guest's display has passed this ticket.
    AfterDisplay(DisplayTicket),
    /// The request is done once this flip has ended.
    AfterFlip(FlipId),
    /// A flip waits until the paging begun so far completes. If it is immediate, the request is done once it has ended.
    FlipAfterPaging(FlipId),
    /// The request is done once the target has ended.
    Terminate(Target, Manner),
    /// The request is done once the device is in this state.
    DevicePower(DevicePowerState),
    /// The request is done once a node's engine has been told to change to this state.
    EnginePower(u32, EnginePowerState),
    /// After the guest's agent has answered, or did not.
    AskAgent(AskAgent),
    /// After those who show something have answered the agent, or did not.
    AskForConsent(AskForConsent),
    /// After all other processes have left the device, or so many milliseconds.
    AnnounceStop(u32),
    /// The device is stopped or started.
    DevicePresence(DevicePresence),
}

/// A kernel that the hardware compiles.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Compiling {
    /// The kernel's address space.
    pub(crate) space: AddressSpaceId,
    /// The kernel.
    pub(crate) kernel: KernelNumber,
    /// The device that will own it.
    pub(crate) device: Handle,
}

/// The result of a handler.
pub(crate) type Handled<R> = Result<Answer<R>, RequestError>;

/// The bytes of a request, or those after its header, and the maximum size of the reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Body<'a> {
    /// The host's own copy.
    pub(crate) bytes: &'a [u8],
    /// Bytes that the guest provided for the reply, including its header.
    pub(crate) room: usize,
}

/// Splits a request into its header and the rest.
pub(crate) fn split_header(request: Body<'_>) -> Result<(RequestHeader, Body<'_>), RequestError> {
    let (header, bytes) = RequestHeader::read_from_prefix(request.bytes)
        .map_err(|_| RequestError::BufferSize(request.bytes.len() as u64))?;
    Ok((header, Body { bytes, room: request.room }))
}

/// Refuses a header with a wrong length or a reserved field that is not zero.
pub(crate) fn check_header(header: &RequestHeader, request: Body<'_>) -> Result<(), RequestError> {
    let length = request.bytes.len();
    if length > MAX_REQUEST_SIZE || u64::from(header.length) != length as u64 {
        return Err(RequestError::BufferSize(length as u64));
    }
    zero("reserved", header.reserved)
}

/// Parses a body that is only the request's fixed structure.
pub(crate) fn fixed<T: Request>(body: Body<'_>) -> Result<T, RequestError> {
    let (request, rest) = prefix::<T>(body)?;
    no_more(body, rest)?;
    Ok(request)
}

/// Parses the request's fixed structure and the list that is the rest of its body. `count` returns the length of the
/// list according to the structure.
pub(crate) fn with_list<T: Request, E: FromBytes + Immutable>(
    body: Body<'_>,
    count: impl FnOnce(&T) -> u32,
) -> Result<(T, Vec<E>), RequestError> {
    let (request, rest) = prefix::<T>(body)?;
    let (list, rest) = entries(body, rest, count(&request))?;
    no_more(body, rest)?;
    Ok((request, list))
}

/// Parses the request's fixed structure, and returns what follows it in the body. Every request comes through here,
/// so none executes without room for its reply.
pub(crate) fn prefix<T: Request>(body: Body<'_>) -> Result<(T, &[u8]), RequestError> {
    let parsed = T::read_from_prefix(body.bytes).map_err(|_| wrong_body(body))?;
    let needed = size_of::<ReplyHeader>() + size_of::<T::Reply>();
    if body.room < needed { Err(RequestError::ReplyTooLong(needed as u64)) } else { Ok(parsed) }
}

/// Parses the first `count` entries of the rest of a body. Returns what follows them.
pub(crate) fn entries<'b, E: FromBytes + Immutable>(
    body: Body<'_>,
    rest: &'b [u8],
    count: u32,
) -> Result<(Vec<E>, &'b [u8]), RequestError> {
    let length = usize::try_from(count).ok().and_then(|count| count.checked_mul(size_of::<E>()));
    let (list, rest) =
        length.and_then(|length| rest.split_at_checked(length)).ok_or(wrong_body(body))?;
    // The list is only as long as the bytes present, whatever the guest declared.
    let entries: Result<Vec<E>, _> =
        list.chunks_exact(size_of::<E>()).map(E::read_from_bytes).collect();
    Ok((entries.map_err(|_| wrong_body(body))?, rest))
}

/// Refuses bytes beyond those that the request declares.
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
