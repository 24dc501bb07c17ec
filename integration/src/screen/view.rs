// SPDX-License-Identifier: MIT OR Apache-2.0

//! A connection to a control socket that shows a connector.

use crate::inspect::connect;
use anyhow::{Context, bail};
use bellhop_protocol::rect::Rect;
use bellhop_protocol::screen::{
    Connector, MAX_VIEW_LINE, ScreenAction, ScreenReply, ScreenRequest, Shown, Viewed,
};
use bellhop_protocol::snapshot::SNAPSHOT_VERSION;
use bellhop_rfb::Picture;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use vm_memory::{FileOffset, MmapRegion, VolatileMemory};
use zerocopy::IntoBytes;

/// How long the daemon may take to notice that a viewer has gone.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest reply to the request.
const MAX_REPLY: usize = 64 << 10;

/// A frame, as the daemon tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Its buffer, which is held until it is given back.
    pub buffer: u32,
    /// The flip that is seen.
    pub flip: u64,
    /// The VSYNC that it was scanned out from.
    pub vsync: u64,
    /// That VSYNC's time on the adapter's clock, in nanoseconds.
    pub time: u64,
    /// The row from which on the flip is seen; 0 for a whole frame.
    pub torn_at: u32,
    /// Outside of this part it is as the frame before.
    pub changed: Rect,
}

/// What happens on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Frames have this size from now on.
    Size(u32, u32),
    /// A frame.
    Frame(Frame),
    /// Nothing is shown from now on.
    NoSignal,
}

/// See the module.
#[derive(Debug)]
pub struct View {
    stream: UnixStream,
    received: Vec<u8>,
    files: VecDeque<OwnedFd>,
    buffers: Vec<MmapRegion>,
    size: (u32, u32),
}

impl View {
    /// Connects, and asks for a connector.
    ///
    /// # Errors
    /// If no daemon answers, or it refuses.
    pub fn open(socket: &Path, connector: &Connector) -> anyhow::Result<Self> {
        let (files, buffers) = (VecDeque::new(), Vec::new());
        let stream = connect(socket)?;
        let mut view = Self { stream, received: Vec::new(), files, buffers, size: (0, 0) };
        let screen = ScreenAction::View(connector.clone());
        view.send_line(&serde_json::to_string(&ScreenRequest {
            version: SNAPSHOT_VERSION,
            screen,
        })?)?;
        let line = view.line(MAX_REPLY)?;
        match serde_json::from_slice(&line).context("no control socket of this version answers")? {
            ScreenReply::Done => Ok(view),
            ScreenReply::Error(why) => bail!("the daemon refuses: {why}"),
            ScreenReply::Screens(_) => bail!("the daemon answers another question"),
        }
    }

    /// What happens next; `None` if nothing does for this long.
    ///
    /// # Errors
    /// If the daemon ends the connection, or what it sends cannot be.
    pub fn next(&mut self, patience: Option<Duration>) -> anyhow::Result<Option<Event>> {
        let patience = patience.map(|patience| patience.max(Duration::from_millis(1)));
        self.stream.set_read_timeout(patience)?;
        let line = match self.line(MAX_VIEW_LINE) {
            Ok(line) => line,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(None);
            }
            Err(error) => return Err(error).context("the daemon no longer shows the screen"),
        };
        Ok(Some(
            match serde_json::from_slice(&line).context("the daemon shows something unknown")? {
                Shown::Buffers { width, height } => {
                    self.map(width, height).context("cannot map the frames")?;
                    Event::Size(width, height)
                }
                Shown::Frame { buffer, flip, vsync, time, torn_at, changed } => {
                    Event::Frame(Frame { buffer, flip, vsync, time, torn_at, changed })
                }
                Shown::NoSignal => {
                    self.buffers.clear();
                    Event::NoSignal
                }
            },
        ))
    }

    fn map(&mut self, width: u32, height: u32) -> anyhow::Result<()> {
        self.buffers.clear();
        let size = usize::try_from(u64::from(width) * u64::from(height) * 4)?;
        for _ in 0..2 {
            let file = self.files.pop_front().context("the daemon sent no file with a frame")?;
            let file = File::from(file);
            if file.metadata()?.len() < size as u64 {
                bail!("a file is shorter than its frame");
            }
            self.buffers.push(MmapRegion::from_file(FileOffset::new(file, 0), size)?);
        }
        self.size = (width, height);
        Ok(())
    }

    /// A copy of a frame that is held.
    ///
    /// # Errors
    /// If there is no such buffer.
    pub fn picture(&self, buffer: u32) -> anyhow::Result<Picture> {
        let region = self.buffers.get(buffer as usize).context("there is no such buffer")?;
        let mut picture = Picture::black(self.size.0, self.size.1);
        region.as_volatile_slice().copy_to(picture.pixels.as_mut_bytes());
        Ok(picture)
    }

    /// Copies a part of a frame that is held into a picture. Returns false if the picture has another size.
    ///
    /// # Errors
    /// If there is no such buffer.
    pub fn copy(&self, buffer: u32, part: Rect, to: &mut Picture) -> anyhow::Result<bool> {
        let region = self.buffers.get(buffer as usize).context("there is no such buffer")?;
        let (width, height) = self.size;
        if (to.width, to.height) != self.size {
            return Ok(false);
        }
        let part = part.within(Rect::whole(width, height));
        if part.is_empty() {
            return Ok(true);
        }
        let (left, right) = (part.left as usize, part.right as usize);
        let rows = to.pixels.chunks_exact_mut(width as usize).zip(0..);
        let rows = rows.skip(part.top as usize).take(part.height() as usize);
        for (row, number) in rows {
            let Some(pixels) = row.get_mut(left..right) else { continue };
            let start = (number * width as usize + left) * size_of::<u32>();
            region.get_slice(start, size_of_val(pixels))?.copy_to(pixels.as_mut_bytes());
        }
        Ok(true)
    }

    /// Gives a buffer back, for another frame.
    ///
    /// # Errors
    /// If the daemon has gone.
    pub fn give_back(&mut self, buffer: u32) -> anyhow::Result<()> {
        self.send(Viewed::GiveBack(buffer))
    }

    /// Tells the daemon something.
    ///
    /// # Errors
    /// If the daemon has gone.
    pub fn send(&mut self, viewed: Viewed) -> anyhow::Result<()> {
        self.sender()?.send(viewed)
    }

    /// What tells the daemon something from another thread.
    ///
    /// # Errors
    /// If the process is out of file descriptors.
    pub fn sender(&self) -> anyhow::Result<Sender> {
        Ok(Sender(self.stream.try_clone()?))
    }

    /// Looks away. When this returns, the daemon has forgotten the viewer, who no longer counts as one.
    ///
    /// # Errors
    /// If the connection fails, or the daemon goes on for longer than it may.
    pub fn end(self) -> io::Result<()> {
        self.stream.set_read_timeout(Some(PATIENCE))?;
        self.stream.shutdown(Shutdown::Write)?;
        // What the daemon says until it has noticed. Frames' files that come with it are closed.
        io::copy(&mut &self.stream, &mut io::sink()).map(drop)
    }

    fn send_line(&mut self, line: &str) -> anyhow::Result<()> {
        self.stream.write_all(format!("{line}\n").as_bytes()).context("the daemon has ended")
    }

    /// The next line, with the files that came before its end.
    fn line(&mut self, longest: usize) -> io::Result<Vec<u8>> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                return Ok(self.received.drain(..=end).collect());
            }
            if self.received.len() > longest {
                return Err(ErrorKind::InvalidData.into());
            }
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut bytes = [0; MAX_VIEW_LINE];
            let flags = RecvFlags::CMSG_CLOEXEC;
            let message =
                recvmsg(&self.stream, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags);
            let count = message?.bytes;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(files) = message {
                    self.files.extend(files);
                }
            }
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.received.extend_from_slice(bytes.get(..count).unwrap_or_default());
        }
    }
}

/// Tells the daemon something.
#[derive(Debug)]
pub struct Sender(UnixStream);

impl Sender {
    /// Tells it.
    ///
    /// # Errors
    /// If the daemon has gone.
    pub fn send(&mut self, viewed: Viewed) -> anyhow::Result<()> {
        let line = serde_json::to_string(&viewed)? + "\n";
        // One call: lines of several senders do not mix, since they are shorter than the socket's buffer.
        self.0.write_all(line.as_bytes()).context("the daemon has ended")
    }
}
