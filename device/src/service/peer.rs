// SPDX-License-Identifier: MIT OR Apache-2.0

//! The process at the other end of a connection: of a guest, by which administrators identify its VMM.

use crate::vhost::place::Place;
use bellhop_host_kmd::hardware::FrontEnd;
use std::fs;
use std::io;
use std::os::unix::net::UnixStream;

/// The process that connected `stream` through the socket at this path, which has this place there. The PID comes from the operating system and
/// cannot be forged; the process chooses its name. Called within the runtime.
///
/// # Errors
/// If there are no descriptors left.
pub(super) fn look(stream: &UnixStream, path: &str, place: &Place) -> io::Result<FrontEnd> {
    let pid = process(stream)?;
    let (socket, connection) = (path.to_owned(), place.ordinal());
    Ok(FrontEnd { socket, connection, pid, command: pid.and_then(command) })
}

/// The process that connected; `None` if it is in another PID namespace. Called within the runtime.
///
/// # Errors
/// If there are no descriptors left.
pub(super) fn process(stream: &UnixStream) -> io::Result<Option<u32>> {
    // Not with rustix, which has no PID 0: the operating system reports 0 for a process in another PID namespace.
    let stream = stream.try_clone()?;
    stream.set_nonblocking(true)?;
    let peer = tokio::net::UnixStream::from_std(stream)?.peer_cred()?;
    Ok(peer.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0))
}

/// The name that a process has chosen; `None` if it is hidden (`hidepid=`, `ProtectProc=`) or gone.
pub(super) fn command(pid: u32) -> Option<String> {
    fs::read(format!("/proc/{pid}/comm")).ok().map(|name| printable(&name))
}

/// The name with line breaks and terminal controls replaced.
fn printable(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name.trim_ascii_end());
    name.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vhost::place::Places;

    #[tokio::test]
    async fn the_process_that_connected_is_known_with_its_name() {
        let (socket, _other) = UnixStream::pair().unwrap();
        let place = Places::new(2).take().unwrap();
        let seen = look(&socket, "/run/vm0.sock", &place).unwrap();
        assert_eq!((seen.socket.as_str(), seen.pid), ("/run/vm0.sock", Some(std::process::id())));
        assert_eq!(seen.connection, Some(0));
        let own = fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!(seen.command.as_deref(), Some(own.trim_end()));
    }

    #[test]
    fn a_name_is_one_line_that_steers_nothing() {
        assert_eq!(printable(b"qemu\n"), "qemu");
        assert_eq!(printable(b"a\nb\x1b[2J\xff\n"), "a\u{fffd}b\u{fffd}[2J\u{fffd}");
    }
}
