// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "no crate has this option of sockets yet; a table of descriptors")]

//! Descriptors that programs send along, of which no server wants any.
//!
//! Whoever drops the last reference to a file may have to wait as long as its sender likes: for a socket that lingers, for
//! example. No server receives a descriptor, but what was sent with a message that is thrown away is dropped by the
//! thread that throws it away. A program's own thread may wait for its program; the thread that accepts programs must not.

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::sync::mpsc::channel;
use std::thread;

/// `SO_PASSRIGHTS`, of Linux 6.16.
const SO_PASSRIGHTS: libc::c_int = 83;

/// Has Linux refuse messages with descriptors to this socket, and to those that a listening one accepts.
///
/// # Errors
/// `NOPROTOOPT` before Linux 6.16.
pub(crate) fn refuse(socket: impl AsFd) -> Result<(), Errno> {
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

/// Closes a socket over which a program may have sent descriptors, and waits for none of them: Linux does not let sockets linger
/// that a thread leaves behind when it ends.
///
/// # Errors
/// When there is no such thread: the socket is closed nevertheless, and this thread may have waited for the program.
pub(crate) fn throw_away(socket: OwnedFd) -> std::io::Result<()> {
    let (has_table, tables) = channel();
    let (closed, is_closed) = channel::<()>();
    thread::Builder::new().name("thrower".into()).spawn(move || {
        // SAFETY: The thread has a table of its own from here on, so others must not count on descriptors that it opens or
        // closes: it uses none until it ends.
        let own_table = unsafe { unshare_unsafe(UnshareFlags::FILES) };
        let _ = has_table.send(own_table);
        // Ends when the other table has it no more, so that its own end drops it last.
        let _ = is_closed.recv();
    })?;
    let own_table = tables.recv().unwrap_or(Err(Errno::AGAIN));
    drop(socket);
    drop(closed);
    Ok(own_table?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt::set_socket_linger;
    use rustix::net::{
        AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
        SocketFlags, SocketType, recv, send, sendmsg, socketpair,
    };
    use std::io::{IoSlice, Write};
    use std::mem::MaybeUninit;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    /// Sends a descriptor with a message.
    fn send_with(socket: &OwnedFd, file: &OwnedFd) -> Result<usize, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = [file.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&files));
        sendmsg(socket, &[IoSlice::new(&[1])], &mut control, SendFlags::NOSIGNAL)
    }

    fn pair() -> (OwnedFd, OwnedFd) {
        let kind = SocketType::SEQPACKET;
        socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap()
    }

    /// The socket in the message lingers for ever, as its reader takes nothing.
    #[test]
    fn who_throws_a_message_away_does_not_wait_for_what_came_with_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_reader, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[0; 1 << 16]).is_ok() {}
        stream.set_nonblocking(false).unwrap();
        let lingers = OwnedFd::from(stream);
        set_socket_linger(&lingers, Some(Duration::from_secs(1 << 14))).unwrap();
        let (ours, theirs) = pair();
        assert_eq!(send_with(&theirs, &lingers), Ok(1));
        drop(lingers);
        let (over, is_over) = channel();
        thread::spawn(move || {
            throw_away(ours).unwrap();
            // Whoever sent the message sees the end.
            over.send(recv(&theirs, &mut [0; 1], RecvFlags::empty()))
        });
        let end = is_over.recv_timeout(Duration::from_secs(60)).expect("it waits for the reader");
        assert!(matches!(end, Ok((0, 0)) | Err(Errno::CONNRESET)), "{end:?}");
    }

    #[test]
    fn a_message_with_descriptors_is_refused_and_one_without_is_not() {
        let (ours, theirs) = pair();
        match refuse(&ours) {
            Ok(()) => {}
            Err(Errno::NOPROTOOPT) => return,
            Err(error) => panic!("{error}"),
        }
        let file = theirs.try_clone().unwrap();
        assert_eq!(send_with(&theirs, &file), Err(Errno::PERM));
        assert_eq!(send(&theirs, &[1], SendFlags::NOSIGNAL), Ok(1));
    }
}
