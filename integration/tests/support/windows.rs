// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs that draw into windows of an X server that nobody looks at but the test.

use super::is_here;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConfigureWindowAux, ConnectionExt as _, MapState};
use x11rb::rust_connection::RustConnection;

/// Bytes of a header of the file's format (`XWDFile.h`) as far as it always is there; all its words begin with their high byte.
const HEADER: usize = 100;
/// Words of the header: its size, bytes of a line, and colours in the table behind it.
const SIZE: usize = 0;
const PITCH: usize = 12;
const COLOURS: usize = 19;
/// Bytes of a colour in the table.
const COLOUR: usize = 12;

/// An X server with one screen, in memory.
pub struct XServer {
    server: Child,
    folder: TempDir,
    /// What programs have in `DISPLAY`.
    pub display: String,
}

impl XServer {
    /// Starts one with a screen of 800x600. `None` where there is none to start.
    pub fn start() -> Option<Self> {
        if !is_here("Xvfb", "no window is drawn into") {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("Xvfb");
        // It does not begin anew when its last client has gone, since whoever connects just then would be turned away.
        command.args(["-displayfd", "1", "-nolisten", "tcp", "-noreset"]);
        command.args(["-screen", "0", "800x600x24"]);
        command.arg("-fbdir").arg(folder.path()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().unwrap();
        let mut number = String::new();
        // It says its number when it is ready.
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut number).unwrap();
        Some(Self { server, folder, display: format!(":{}", number.trim()) })
    }

    /// The words of the pixels of a part of the screen, one line after the other: where it begins, and its size.
    pub fn picture(&self, [left, top]: [usize; 2], [width, height]: [usize; 2]) -> Vec<u32> {
        let bytes = fs::read(self.path()).unwrap();
        let header: Vec<usize> = bytes[..HEADER]
            .as_chunks()
            .0
            .iter()
            .map(|word| u32::from_be_bytes(*word) as usize)
            .collect();
        let first = header[SIZE] + header[COLOURS] * COLOUR;
        let lines = bytes[first..].chunks(header[PITCH]).skip(top).take(height);
        let pixels = lines.flat_map(|line| &line.as_chunks().0[left..left + width]);
        pixels.map(|pixel| u32::from_le_bytes(*pixel) & 0xFF_FFFF).collect()
    }

    /// The newest window of a program, once there is one that is shown.
    pub fn await_window(&self) -> Window {
        let (connection, screen) = x11rb::connect(Some(&self.display)).unwrap();
        let root = connection.setup().roots[screen].root;
        loop {
            let windows = connection.query_tree(root).unwrap().reply().unwrap().children;
            let shown = windows.into_iter().rev().find(|window| {
                let asked = connection.get_window_attributes(*window).unwrap().reply();
                asked.is_ok_and(|it| it.map_state == MapState::VIEWABLE)
            });
            if let Some(window) = shown {
                return Window { connection, window };
            }
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("Xvfb_screen0")
    }
}

/// A window that a program draws into, for another that changes it.
pub struct Window {
    connection: RustConnection,
    window: u32,
}

impl Window {
    /// Gives it another size, before this returns. Returns whether it is there.
    pub fn resize(&self, [width, height]: [u32; 2]) -> bool {
        let size = ConfigureWindowAux::new().width(width).height(height);
        self.connection.configure_window(self.window, &size).unwrap().check().is_ok()
    }

    /// Its size, if it is there.
    pub fn size(&self) -> Option<[u32; 2]> {
        let seen = self.connection.get_geometry(self.window).unwrap().reply().ok()?;
        Some([seen.width, seen.height].map(u32::from))
    }
}

impl Drop for XServer {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
