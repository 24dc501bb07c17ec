// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests as any guest may send them, right or wrong.

use crate::conformance::behaviour::{Mismatch, require};
use bellhop_guest_umd::transport::Transport;
use bellhop_protocol::control::context::CreateContext;
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::escape::{Escape, EscapeReply};
use bellhop_protocol::control::process::{CreateProcess, DestroyProcess};
use bellhop_protocol::control::{
    Handle, MAX_REPLY_SIZE, ReplyHeader, Request, RequestCode, RequestHeader,
};
use bellhop_protocol::status::Status;
use serde::de::DeserializeOwned;
use zerocopy::{FromBytes, IntoBytes};

/// A reply, taken apart.
pub(super) struct Reply {
    pub(super) status: Status,
    pub(super) detail: u64,
    pub(super) body: Vec<u8>,
}

/// Sends these bytes as a request.
pub(super) fn send(transport: &dyn Transport, request: &[u8]) -> Result<Reply, Mismatch> {
    let mut reply = [0; MAX_REPLY_SIZE];
    let length = transport
        .request(request, &mut reply)
        .map_err(|error| Mismatch::Seen(format!("no reply: {error}")))?;
    parse(reply.get(..length).unwrap_or(&reply))
}

/// Takes a reply's bytes apart.
pub(super) fn parse(reply: &[u8]) -> Result<Reply, Mismatch> {
    let length = reply.len();
    let Ok((header, body)) = ReplyHeader::read_from_prefix(reply) else {
        return Err(Mismatch::Seen(format!("a reply of {length} bytes has no header")));
    };
    require!(
        header.length as usize == length,
        "a reply of {length} bytes claims {}",
        header.length
    );
    Ok(Reply { status: header.status, detail: header.detail, body: body.to_vec() })
}

/// A request's bytes: header, fixed structure, list.
pub(super) fn encode<T: Request>(process: u32, request: &T, list: &[u8]) -> Vec<u8> {
    let length = size_of::<RequestHeader>() + size_of::<T>() + list.len();
    let header = RequestHeader { code: T::CODE, length: length as u32, process, reserved: 0 };
    [header.as_bytes(), request.as_bytes(), list].concat()
}

/// Sends a request and returns how it ended.
pub(super) fn status<T: Request>(
    transport: &dyn Transport,
    process: u32,
    request: &T,
) -> Result<(Status, u64), Mismatch> {
    let reply = send(transport, &encode(process, request, &[]))?;
    Ok((reply.status, reply.detail))
}

/// Sends a request that a list follows and returns how it ended.
pub(super) fn status_with_list<T: Request>(
    transport: &dyn Transport,
    process: u32,
    request: &T,
    list: &[u8],
) -> Result<(Status, u64), Mismatch> {
    let reply = send(transport, &encode(process, request, list))?;
    Ok((reply.status, reply.detail))
}

/// Sends a request that must succeed.
pub(super) fn call<T: Request>(
    transport: &dyn Transport,
    process: u32,
    request: &T,
) -> Result<T::Reply, Mismatch> {
    call_with_list(transport, process, request, &[])
}

/// Sends a request that a list follows and that must succeed.
pub(super) fn call_with_list<T: Request>(
    transport: &dyn Transport,
    process: u32,
    request: &T,
    list: &[u8],
) -> Result<T::Reply, Mismatch> {
    of_success::<T>(&send(transport, &encode(process, request, list))?)
}

/// What the reply to a request says that succeeded.
pub(super) fn successful<T: Request>(reply: &[u8]) -> Result<T::Reply, Mismatch> {
    of_success::<T>(&parse(reply)?)
}

fn of_success<T: Request>(reply: &Reply) -> Result<T::Reply, Mismatch> {
    require!(reply.status.is_success(), "{} ended with {}", T::CODE, reply.status);
    T::Reply::read_from_bytes(&reply.body)
        .map_err(|_| Mismatch::Seen(format!("{} replied {} bytes", T::CODE, reply.body.len())))
}

/// Asserts how a request ends.
pub(super) fn expect_status<T: Request>(
    transport: &dyn Transport,
    process: u32,
    request: &T,
    expected: Status,
) -> Result<(), Mismatch> {
    let (status, _) = self::status(transport, process, request)?;
    require!(status == expected, "{} ended with {status}, not {expected}", T::CODE);
    Ok(())
}

/// One page of a list's objects, and where the next page begins.
pub(super) fn listed<T: DeserializeOwned>(
    transport: &dyn Transport,
    escape: &Escape,
) -> Result<(u64, Vec<T>), Mismatch> {
    let EscapeReply { next, length, reserved, data } = call(transport, 0, escape)?;
    require!(reserved == 0, "the reserved field is {reserved}");
    let Some((objects, rest)) = data.split_at_checked(length as usize) else {
        return Err(Mismatch::Seen(format!("{length} bytes are in a reply of {}", data.len())));
    };
    require!(rest.iter().all(|byte| *byte == 0), "there is something behind the objects");
    let objects = serde_json::from_slice(objects);
    let objects = objects.map_err(|error| Mismatch::Seen(format!("no list: {error}")))?;
    Ok((next, objects))
}

/// A separate process, ended when dropped.
pub(super) struct Process<'a> {
    transport: &'a dyn Transport,
    pub(super) id: u32,
}

impl<'a> Process<'a> {
    pub(super) fn begin(transport: &'a dyn Transport) -> Result<Self, Mismatch> {
        let reply = call(transport, 0, &CreateProcess { reserved: 0 })?;
        Ok(Self { transport, id: reply.process })
    }

    pub(super) fn call<T: Request>(&self, request: &T) -> Result<T::Reply, Mismatch> {
        call(self.transport, self.id, request)
    }

    pub(super) fn expect_status<T: Request>(
        &self,
        request: &T,
        expected: Status,
    ) -> Result<(), Mismatch> {
        expect_status(self.transport, self.id, request, expected)
    }

    pub(super) fn status<T: Request>(&self, request: &T) -> Result<(Status, u64), Mismatch> {
        status(self.transport, self.id, request)
    }

    pub(super) fn device(&self) -> Result<Handle, Mismatch> {
        self.call(&CreateDevice { reserved: 0 })
    }

    /// A context against `node`, on a device of its own.
    pub(super) fn context(&self, node: u32) -> Result<Handle, Mismatch> {
        self.call(&CreateContext { device: self.device()?, node, engine_affinity: 0 })
    }
}

impl Drop for Process<'_> {
    fn drop(&mut self) {
        // A behaviour that ended its process gets an error here, as it should.
        let _ = status(self.transport, self.id, &DestroyProcess { flags: 0 });
    }
}

/// Codes for which no request exists.
pub(super) const UNKNOWN_CODES: [RequestCode; 3] =
    [RequestCode(0), RequestCode(0x7F), RequestCode(u32::MAX)];
