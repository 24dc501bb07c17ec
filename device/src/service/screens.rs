// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests' displays on the control socket: who sees them, plugs them, and types.
//!
//! A client that views is served until it disconnects. It gets frames only while it takes them: a client that reads no
//! line for some time is dropped. What it sends is bounded, and a guest that is too slow for it misses keys.

use crate::gpu::Gpu;
use crate::gpu::display::{FrameBuffer, GuestDisplay, Update, Viewer};
use bellhop_host_kmd::hardware::{GuestId, Observe};
use bellhop_protocol::screen::{
    Connector, MAX_VIEW_LINE, Screen, ScreenAction, ScreenMode, ScreenReply, Shown, Viewed,
};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Interest};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::readable::Readable;

/// The displays of all adapters.
#[derive(Clone)]
pub(super) struct Screens(Arc<[OfGpu]>);

/// The displays of a GPU.
struct OfGpu {
    gpu: Arc<Gpu>,
    /// What its guests call its first connector and its first source: the GPUs of a chain number them through.
    first: u32,
}

impl OfGpu {
    /// The GPUs of a chain.
    fn of_chain(master: &Arc<Gpu>) -> impl Iterator<Item = Self> {
        let mut first = 0;
        std::iter::once(master).chain(master.slaves()).cloned().map(move |gpu| {
            let this = Self { first, gpu };
            first += this.gpu.displays().caps().sources;
            this
        })
    }

    fn screens(&self) -> impl Iterator<Item = Screen> {
        let socket =
            |guest| self.gpu.front_end(guest).map(|front_end| front_end.socket).unwrap_or_default();
        self.gpu.displays().screens().into_iter().map(move |screen| Screen {
            guest: screen.guest.0,
            socket: socket(screen.guest),
            target: self.first + screen.target,
            name: screen.name,
            plugged: screen.plugged,
            mode: screen.path.map(|path| ScreenMode {
                source: self.first + path.source,
                width: path.target_mode.width,
                height: path.target_mode.height,
                refresh_numerator: path.target_mode.refresh_numerator,
                refresh_denominator: path.target_mode.refresh_denominator,
            }),
            viewers: screen.viewers,
            wakeups: screen.wakeups,
        })
    }
}

impl Screens {
    /// The displays of these adapters, and of the slaves of those that are masters.
    pub(super) fn new(adapters: impl Iterator<Item = Arc<Gpu>>) -> Self {
        let adapters: Vec<_> = adapters.collect();
        Self(adapters.iter().flat_map(OfGpu::of_chain).collect())
    }

    /// Answers a request. What to view is returned beside the answer.
    pub(super) fn answer(&self, action: &ScreenAction) -> (ScreenReply, Option<Viewer>) {
        let done = match action {
            ScreenAction::List => return (ScreenReply::Screens(self.list()), None),
            ScreenAction::Plug { connector, plugged } => {
                self.plug(connector, *plugged).map(|_| None)
            }
            ScreenAction::View(connector) => self.find(connector).and_then(|found| {
                found.0.view(found.1).map(Some).map_err(|error| error.to_string())
            }),
        };
        match done {
            Ok(viewer) => (ScreenReply::Done, viewer),
            Err(why) => (ScreenReply::Error(why), None),
        }
    }

    /// Plugs a monitor in or unplugs it. Returns the guest and the connector's name.
    ///
    /// # Errors
    /// If there is no such connector; the error says which there are.
    pub(super) fn plug(
        &self,
        connector: &Connector,
        plugged: bool,
    ) -> Result<(u64, String), String> {
        let (display, target) = self.find(connector)?;
        display.plug(target, plugged).map_err(|error| error.to_string())?;
        Ok((display.guest().0, display.connector_use(target).name))
    }

    fn list(&self) -> Vec<Screen> {
        let mut screens: Vec<_> = self.0.iter().flat_map(OfGpu::screens).collect();
        screens.sort_by_key(|screen| (screen.guest, screen.target));
        screens
    }

    /// The display and the number of a connector.
    fn find(&self, wanted: &Connector) -> Result<(Arc<GuestDisplay>, u32), String> {
        let mut screens = self.list();
        if screens.is_empty() {
            return Err("no guest has a display; [[adapter.displays]] in the configuration gives \
                        displays to guests that connect"
                .to_owned());
        }
        if wanted.guest != 0 {
            screens.retain(|screen| screen.guest == wanted.guest);
        }
        let guests: Vec<_> = screens.chunk_by(|a, b| a.guest == b.guest).map(|of| &of[0]).collect();
        if guests.len() != 1 {
            let guest = |screen: &&Screen| format!("{} ({})", screen.guest, screen.socket);
            let guests =
                if guests.is_empty() { self.list() } else { guests.into_iter().cloned().collect() };
            let mut names: Vec<_> = guests.iter().map(|screen| guest(&screen)).collect();
            names.dedup();
            return Err(format!("name one of these guests: {}", names.join(", ")));
        }
        let found = if wanted.name.is_empty() {
            screens.iter().find(|screen| screen.mode.is_some()).or(screens.first())
        } else {
            screens.iter().find(|screen| screen.name == wanted.name)
        };
        let Some(found) = found else {
            let names: Vec<_> = screens.iter().map(|screen| screen.name.as_str()).collect();
            return Err(format!("name one of these connectors: {}", names.join(", ")));
        };
        let own = |of: &OfGpu| {
            let target = found.target.checked_sub(of.first)?;
            let is_own = target < of.gpu.displays().caps().sources;
            let display = of.gpu.displays().get(GuestId(found.guest)).filter(|_| is_own)?;
            Some((display, target))
        };
        self.0.iter().find_map(own).ok_or_else(|| "the guest has gone".to_owned())
    }
}

/// Shows a connector until the client disconnects, or does not read for some time.
pub(super) async fn show(
    stream: &mut BufReader<UnixStream>,
    viewer: Viewer,
    patience: Duration,
) -> io::Result<()> {
    let told = Readable::watch(&viewer)?;
    let mut line = Vec::new();
    loop {
        let mut limited = (&mut *stream).take((MAX_VIEW_LINE - line.len()) as u64);
        tokio::select! {
            told = told.readable() => {
                told?;
                let Some(updates) = viewer.take() else { return Ok(()) };
                for update in updates {
                    timeout(patience, send(stream.get_ref(), &update)).await??;
                }
            }
            // What was read stays in `line` when the other branch is taken.
            read = limited.read_until(b'\n', &mut line) => {
                if read? == 0 || line.last() != Some(&b'\n') {
                    return Ok(());
                }
                act(&viewer, serde_json::from_slice(&line)?);
                line.clear();
            }
        }
    }
}

fn act(viewer: &Viewer, viewed: Viewed) {
    match viewed {
        Viewed::GiveBack(buffer) => viewer.give_back(buffer),
        Viewed::Watch(watches) => viewer.watch(watches),
        Viewed::Input(input) => {
            viewer.input(input);
        }
    }
}

async fn send(stream: &UnixStream, update: &Update) -> io::Result<()> {
    let (shown, files) = match update {
        Update::Buffers(buffers) => {
            let (width, height) = buffers[0].size();
            let files = buffers.iter().map(|buffer| FrameBuffer::as_fd(buffer)).collect();
            (Shown::Buffers { width, height }, files)
        }
        Update::Frame(frame) => {
            let shown = Shown::Frame {
                buffer: frame.buffer,
                flip: frame.flip,
                vsync: frame.vsync,
                time: frame.time,
                torn_at: frame.torn_at,
                changed: frame.changed,
            };
            (shown, Vec::new())
        }
        Update::NoSignal => (Shown::NoSignal, Vec::new()),
    };
    let mut line = serde_json::to_vec(&shown)?;
    line.push(b'\n');
    let mut rest = line.as_slice();
    let mut files: Vec<BorrowedFd<'_>> = files;
    while !rest.is_empty() {
        let sent = stream.async_io(Interest::WRITABLE, || send_some(stream, rest, &files)).await?;
        // They went with the first byte.
        files.clear();
        rest = rest.get(sent..).unwrap_or_default();
    }
    Ok(())
}

fn send_some(stream: &UnixStream, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    Ok(sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_protocol::rect::Rect;

    #[test]
    fn a_frame_of_the_largest_numbers_fits_into_a_line() {
        let (flip, vsync, time, torn_at) = (u64::MAX, u64::MAX, u64::MAX, u32::MAX);
        let changed = Rect { left: torn_at, top: torn_at, right: torn_at, bottom: torn_at };
        let frame = Shown::Frame { buffer: 1, flip, vsync, time, torn_at, changed };
        assert!(serde_json::to_string(&frame).unwrap().len() < MAX_VIEW_LINE);
    }
}
