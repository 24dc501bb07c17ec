// SPDX-License-Identifier: MIT OR Apache-2.0

//! A viewer of `bellhop screen serve`, as plain as one can be: it takes all pixels as they are. Source: RFC 6143.

use anyhow::{Context, bail, ensure};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
const VERSION: &[u8; 12] = b"RFB 003.008\n";
/// The kind of security that is none.
const NO_SECURITY: u8 = 1;
/// The encoding that is none.
const RAW: i32 = 0;

/// A viewer that takes all updates as they come, until this is dropped.
pub(super) struct Watching {
    stream: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        // The server may have ended it.
        let _ = self.stream.shutdown(Shutdown::Both);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A connected viewer.
pub(super) struct Viewer {
    stream: UnixStream,
    /// Width and height of the screen.
    pub(super) size: (u16, u16),
}

impl Viewer {
    /// Connects.
    pub(super) fn connect(path: &Path) -> anyhow::Result<Self> {
        let mut stream = UnixStream::connect(path).context("no server listens")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut version = [0; VERSION.len()];
        stream.read_exact(&mut version)?;
        stream.write_all(VERSION)?;
        let mut offered = [0; 2];
        stream.read_exact(&mut offered)?;
        ensure!(offered == [1, NO_SECURITY], "the server wants a password");
        stream.write_all(&[NO_SECURITY])?;
        stream.read_exact(&mut [0; 4])?;
        // It shares the screen.
        stream.write_all(&[1])?;
        let mut hello = [0; 24];
        stream.read_exact(&mut hello)?;
        let [w, v, h, g, .., a, b, c, d] = hello;
        let mut name = vec![0; u32::from_be_bytes([a, b, c, d]) as usize];
        stream.read_exact(&mut name)?;
        let mut encodings = vec![2, 0, 0, 1];
        encodings.extend(RAW.to_be_bytes());
        stream.write_all(&encodings)?;
        Ok(Self { stream, size: (u16::from_be_bytes([w, v]), u16::from_be_bytes([h, g])) })
    }

    /// Asks for all of the screen, or for what changes in it.
    pub(super) fn request(&mut self, incremental: bool) -> anyhow::Result<()> {
        let mut request = vec![3, incremental.into(), 0, 0, 0, 0];
        request.extend(self.size.0.to_be_bytes());
        request.extend(self.size.1.to_be_bytes());
        Ok(self.stream.write_all(&request)?)
    }

    /// Takes updates on a thread of its own.
    pub(super) fn watch(mut self) -> anyhow::Result<Watching> {
        let stream = self.stream.try_clone()?;
        self.stream.set_read_timeout(None)?;
        let thread = thread::Builder::new().name("viewer".into()).spawn(move || {
            // Until the connection ends.
            let mut take = || -> anyhow::Result<()> {
                self.request(false)?;
                loop {
                    self.update()?;
                    self.request(true)?;
                }
            };
            drop(take());
        })?;
        Ok(Watching { stream, thread: Some(thread) })
    }

    /// Takes an update. Returns its pixels.
    pub(super) fn update(&mut self) -> anyhow::Result<u64> {
        let mut header = [0; 4];
        self.stream.read_exact(&mut header)?;
        let [0, _, a, b] = header else { bail!("the server sends something else") };
        let mut pixels = 0;
        for _ in 0..u16::from_be_bytes([a, b]) {
            let mut rectangle = [0; 12];
            self.stream.read_exact(&mut rectangle)?;
            let [_, _, _, _, w, v, h, g, encoding @ ..] = rectangle;
            ensure!(i32::from_be_bytes(encoding) == RAW, "pixels are encoded");
            let area =
                u64::from(u16::from_be_bytes([w, v])) * u64::from(u16::from_be_bytes([h, g]));
            std::io::copy(&mut (&self.stream).take(4 * area), &mut std::io::sink())?;
            pixels += area;
        }
        Ok(pixels)
    }
}
