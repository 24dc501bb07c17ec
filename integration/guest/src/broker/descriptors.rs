// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "no crate has this option of sockets yet")]

//! Descriptors that programs send along, of which the broker wants none.
//!
//! Whoever drops the last reference to a file may have to wait as long as its sender likes: for a socket that lingers, for
//! example. The broker never receives a descriptor, but what was sent with a message that is thrown away is dropped by the
//! thread that throws it away; and the thread that accepts programs throws away those of refused ones.

use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;

/// `SO_PASSRIGHTS`, of Linux 6.16.
const SO_PASSRIGHTS: libc::c_int = 83;

/// Has Linux refuse messages with descriptors to this socket, and to those that a listening one accepts.
///
/// # Errors
/// `NOPROTOOPT` before Linux 6.16.
pub(super) fn refuse(socket: impl AsFd) -> Result<(), Errno> {
    let no: libc::c_int = 0;
    // SAFETY: Linux reads an `int` from the pointer, as many bytes as the length says, and keeps neither.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const no).cast(),
            size_of_val(&no) as libc::socklen_t,
        )
    };
    if result == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
        SocketType, send, sendmsg, socketpair,
    };
    use std::io::IoSlice;
    use std::mem::MaybeUninit;

    #[test]
    fn a_message_with_descriptors_is_refused_and_one_without_is_not() {
        let kind = SocketType::SEQPACKET;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        match refuse(&ours) {
            Ok(()) => {}
            Err(Errno::NOPROTOOPT) => return,
            Err(error) => panic!("{error}"),
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = [theirs.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&files));
        let sent = sendmsg(&theirs, &[IoSlice::new(&[1])], &mut control, SendFlags::NOSIGNAL);
        assert_eq!(sent, Err(Errno::PERM));
        assert_eq!(send(&theirs, &[1], SendFlags::NOSIGNAL), Ok(1));
    }
}
