// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop screen`.

use crate::inspect::CONTROL_SOCKET;
use crate::operator::OPERATOR_SOCKET;
use crate::screen::{self, Listen, Recording, View, write_apng, write_png};
use anyhow::{Context, bail};
use bellhop_guest::output::{self, note};
use bellhop_protocol::screen::{Connector, Screen};
use bellhop_rfb::Password;
use clap::{ArgGroup, Args, Subcommand};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, Args)]
pub(super) struct ScreenArguments {
    #[command(subcommand)]
    command: ScreenCommand,
}

#[derive(Debug, Clone, Args)]
struct Which {
    /// The control socket of the bellhopd
    #[arg(long, value_name = "PATH", default_value = CONTROL_SOCKET)]
    socket: PathBuf,
    #[command(flatten)]
    of: Of,
}

/// What changes, so the operator is asked.
#[derive(Debug, Clone, Args)]
struct Plugged {
    /// The operator's socket of the bellhopd
    #[arg(long, value_name = "PATH", default_value = OPERATOR_SOCKET)]
    socket: PathBuf,
    #[command(flatten)]
    of: Of,
}

impl Plugged {
    fn plug(&self, plugged: bool) -> anyhow::Result<()> {
        screen::plug(&self.socket, self.of.connector(), plugged)
    }
}

#[derive(Debug, Clone, Args)]
struct Of {
    /// The guest, as `bellhop screen list` names it; may be left out if only one has displays
    #[arg(long, value_name = "ID", default_value_t = 0, hide_default_value = true)]
    guest: u64,
    /// The connector [default: the first one where something is shown]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    connector: String,
}

impl Of {
    fn connector(&self) -> Connector {
        Connector { guest: self.guest, name: self.connector.clone() }
    }
}

impl Which {
    fn connector(&self) -> Connector {
        self.of.connector()
    }
}

#[derive(Debug, Clone, Subcommand)]
enum ScreenCommand {
    /// List the connectors of all guests, and what they show
    List {
        /// The control socket of the bellhopd
        #[arg(long, value_name = "PATH", default_value = CONTROL_SOCKET)]
        socket: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Plug in the monitor of a connector; as `bellhop ctl display plug`
    Plug(Plugged),
    /// Unplug the monitor of a connector; as `bellhop ctl display unplug`
    Unplug(Plugged),
    /// Write what is shown as PNG: one whole frame
    Capture {
        #[command(flatten)]
        which: Which,
        /// The file to write
        #[arg(long, value_name = "FILE")]
        png: PathBuf,
        /// How long to wait until something is shown, in seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 10)]
        timeout: u64,
    },
    /// Write each frame as PNG, and their times: frame-000001.png and frames.csv; or all as one animated PNG
    #[command(group = ArgGroup::new("form").required(true).multiple(true).args(["out", "apng"]))]
    Record {
        #[command(flatten)]
        which: Which,
        /// The folder to write
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
        /// The file to write as animated PNG, without loss; one more for each change of the screen's size
        #[arg(long, value_name = "FILE")]
        apng: Option<PathBuf>,
        /// End after this many frames
        #[arg(long, value_name = "NUMBER", required_unless_present = "seconds")]
        frames: Option<u64>,
        /// End after this many seconds
        #[arg(long, value_name = "SECONDS")]
        seconds: Option<u64>,
    },
    /// Serve VNC viewers until the guest or its bellhopd ends
    ///
    /// Viewers' keys and pointers reach the guest. Several viewers may connect; a slow one slows nobody.
    #[command(group = ArgGroup::new("place").required(true).args(["unix", "listen"]))]
    Serve {
        #[command(flatten)]
        which: Which,
        /// Listen on a Unix socket at this path, for this user
        #[arg(long, value_name = "PATH")]
        unix: Option<PathBuf>,
        /// Listen on this port of this machine, such as 127.0.0.1:5900; needs a password
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<SocketAddr>,
        /// Viewers must know the password in this file's first line. VNC uses 8 bytes of it
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
}

impl ScreenArguments {
    pub(super) fn run(self) -> anyhow::Result<()> {
        match self.command {
            ScreenCommand::List { socket, json } => {
                let screens = screen::list(&socket)?;
                if json {
                    output::put(serde_json::to_string_pretty(&screens)? + "\n")?;
                } else {
                    output::put(table(&screens))?;
                }
                Ok(())
            }
            ScreenCommand::Plug(plugged) => plugged.plug(true),
            ScreenCommand::Unplug(plugged) => plugged.plug(false),
            ScreenCommand::Capture { which, png, timeout } => {
                let patience = Duration::from_secs(timeout);
                let picture = screen::capture(&which.socket, &which.connector(), patience)?;
                write_png(&picture, &png)
            }
            ScreenCommand::Record { which, out, apng, frames, seconds } => {
                let mut view = View::open(&which.socket, &which.connector())?;
                // Frames that only the animation is made of.
                let own = tempfile::tempdir().context("cannot make a folder for frames")?;
                let folder = out.as_deref().unwrap_or(own.path());
                let mut recording = Recording::create(folder)?;
                let time = seconds.map(Duration::from_secs);
                let stills = recording.record(&mut view, frames, time)?;
                let mut places: Vec<_> = out.clone().into_iter().collect();
                if let Some(apng) = apng {
                    places.extend(write_apng(stills, &apng)?);
                }
                let places: Vec<_> = places.iter().map(|at| at.display().to_string()).collect();
                output::put(format!("{} frames in {}\n", stills.len(), places.join(", ")))?;
                Ok(())
            }
            ScreenCommand::Serve { which, unix, listen, password_file } => {
                let password = password_file.map(|file| password(&file)).transpose()?;
                let listen = match (unix, listen) {
                    (Some(path), _) => Listen::Unix(path),
                    (None, Some(address)) => Listen::Tcp(address),
                    (None, None) => bail!("name --unix or --listen"),
                };
                let ready =
                    |place: &str| note(format_args!("bellhop: viewers may connect to {place}"));
                screen::serve(&which.socket, &which.connector(), &listen, password, ready)
            }
        }
    }
}

fn password(file: &std::path::Path) -> anyhow::Result<Password> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
    let line = text.lines().next().unwrap_or_default();
    Password::new(line).with_context(|| format!("the first line of {shown} is empty"))
}

fn table(screens: &[Screen]) -> String {
    let mut text = String::new();
    if screens.is_empty() {
        return "No guest has a display.\n".to_owned();
    }
    for screen in screens {
        let plugged = if screen.plugged { "plugged" } else { "unplugged" };
        let mode = screen.mode.as_ref().map_or_else(
            || "shows nothing".to_owned(),
            |mode| {
                let rate =
                    f64::from(mode.refresh_numerator) / f64::from(mode.refresh_denominator.max(1));
                format!("{}x{} at {rate:.2} Hz, source {}", mode.width, mode.height, mode.source)
            },
        );
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "guest {} ({})  {}  {plugged}  {mode}  {} viewers",
            screen.guest, screen.socket, screen.name, screen.viewers
        );
    }
    text
}
