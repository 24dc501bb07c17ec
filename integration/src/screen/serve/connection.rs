// SPDX-License-Identifier: MIT OR Apache-2.0

//! Connections of viewers.

use super::door::Place;
use rustix::net::sockopt::socket_peercred;
use std::fmt::{self, Display, Formatter};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Ends a connection that another thread uses.
pub(super) trait Ends: Send {
    /// Ends it: whoever reads there reads no more.
    fn end(&self);
}

/// A viewer's connection.
pub(super) trait Connection: Ends + Read + Write + Sized + 'static {
    /// Another handle of it.
    fn duplicate(&self) -> io::Result<Self>;
    /// How long a read and a write may take.
    fn be_patient(&self, reading: Option<Duration>, writing: Duration) -> io::Result<()>;
    /// Where it comes from.
    fn place(&self) -> io::Result<Place>;
}

macro_rules! connection {
    ($stream:ty, $place:expr) => {
        impl Ends for $stream {
            fn end(&self) {
                // It may have ended by itself.
                let _ = self.shutdown(Shutdown::Both);
            }
        }

        impl Connection for $stream {
            fn duplicate(&self) -> io::Result<Self> {
                self.try_clone()
            }

            fn be_patient(&self, reading: Option<Duration>, writing: Duration) -> io::Result<()> {
                self.set_read_timeout(reading)?;
                self.set_write_timeout(Some(writing))
            }

            fn place(&self) -> io::Result<Place> {
                $place(self)
            }
        }
    };
}

connection!(TcpStream, |stream: &TcpStream| Ok(Place::Address(stream.peer_addr()?.ip())));
connection!(UnixStream, |stream: &UnixStream| {
    Ok(Place::User(socket_peercred(stream)?.uid.as_raw()))
});

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::User(user) => write!(f, "user {user}"),
        }
    }
}

/// A connection that has until a deadline for all that it says together, and on which somebody notes that it speaks.
pub(super) struct Patient<'a, C, F> {
    connection: &'a mut C,
    deadline: Instant,
    spoken: Option<F>,
}

impl<'a, C: Connection, F: FnOnce()> Patient<'a, C, F> {
    /// The connection, which has until then. `spoken` is called when it has said something.
    pub(super) fn new(connection: &'a mut C, deadline: Instant, spoken: F) -> Self {
        Self { connection, deadline, spoken: Some(spoken) }
    }

    fn wait(&self) -> io::Result<()> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.connection.be_patient(Some(left), left)
    }
}

impl<C: Connection, F: FnOnce()> Read for Patient<'_, C, F> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.wait()?;
        let read = self.connection.read(to)?;
        if read > 0
            && let Some(spoken) = self.spoken.take()
        {
            spoken();
        }
        Ok(read)
    }
}

impl<C: Connection, F: FnOnce()> Write for Patient<'_, C, F> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.wait()?;
        self.connection.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.connection.flush()
    }
}
