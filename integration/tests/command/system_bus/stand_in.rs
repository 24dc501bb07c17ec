// SPDX-License-Identifier: MIT OR Apache-2.0

//! A system bus of a test's own, which is a real `dbus-daemon`, and on it a service that stands for UPower and logind: it has
//! their names, and as much of their interfaces as the agent asks for, but no lid, no battery and no sessions.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io::{BufRead, BufReader, PipeReader, Read, pipe};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use zbus::export::futures_core::Stream;
use zbus::message::{Message, Type};
use zbus::{Connection, MessageStream, ObjectPath, OwnedFd, Variant, connection};

const UPOWER: &str = "/org/freedesktop/UPower";
const LOGIND: &str = "/org/freedesktop/login1";
const MANAGER: &str = "org.freedesktop.login1.Manager";
const SESSION: &str = "org.freedesktop.login1.Session";
/// The session that there is, when there is one.
const SESSION_PATH: &str = "/org/freedesktop/login1/session/_31";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// A bus, ended when dropped.
pub struct Bus {
    daemon: Child,
    place: PathBuf,
}

impl Bus {
    /// The address of a bus in this folder.
    pub fn address(folder: &TempDir) -> String {
        format!("unix:path={}", folder.path().join("bus").display())
    }

    /// Starts a bus there.
    pub fn start(folder: &TempDir) -> Self {
        let config = folder.path().join("bus.conf");
        let text = format!(
            "<busconfig><type>system</type><listen>{}</listen><auth>EXTERNAL</auth>\
             <policy context=\"default\"><allow send_destination=\"*\" eavesdrop=\"true\"/>\
             <allow eavesdrop=\"true\"/><allow own=\"*\"/></policy></busconfig>",
            Self::address(folder)
        );
        std::fs::write(&config, text).unwrap();
        let mut daemon = Command::new("dbus-daemon");
        daemon.arg("--config-file").arg(&config).args(["--nofork", "--nopidfile"]);
        daemon.arg("--print-address").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut daemon = daemon.spawn().unwrap();
        let mut address = String::new();
        BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut address).unwrap();
        assert!(address.starts_with("unix:path="), "{address}");
        Self { daemon, place: folder.path().join("bus") }
    }

    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.place
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        let _ = std::fs::remove_file(&self.place);
    }
}

/// What the service says.
#[derive(Debug, Clone, Copy, Default)]
pub struct Says {
    pub is_lid_closed: bool,
    pub is_on_battery: bool,
    /// A session at a seat, and whether it is active and its desktop says that it is locked.
    pub session: Option<(bool, bool)>,
}

/// A signal of logind's.
#[derive(Debug, Clone, Copy)]
pub enum Signal {
    Lock,
    Unlock,
    Sleep(bool),
}

enum Order {
    Say(Says),
    Send(Signal),
}

/// The service, which leaves the bus when dropped.
pub struct StandIn {
    orders: Option<UnboundedSender<Order>>,
    /// The ends of pipes whose other ends hold sleep.
    held: mpsc::Receiver<PipeReader>,
    thread: Option<JoinHandle<()>>,
}

impl StandIn {
    /// Comes to the bus.
    pub fn start(bus: &Bus, says: Says) -> Self {
        let address = format!("unix:path={}", bus.path().display());
        let (orders, taken) = unbounded_channel();
        let (ready, is_ready) = mpsc::channel();
        let (holds, held) = mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let bus = connection::Builder::address(address.as_str()).build().await.unwrap();
                let service = Service { bus, says, holds };
                // Before it has the names, by which it is asked.
                let messages = MessageStream::from(&service.bus);
                service.bus.request_name("org.freedesktop.UPower").await.unwrap();
                service.bus.request_name("org.freedesktop.login1").await.unwrap();
                ready.send(()).unwrap();
                service.serve(messages, taken).await;
            });
        });
        is_ready.recv().unwrap();
        Self { orders: Some(orders), held, thread: Some(thread) }
    }

    /// Says something else from now on.
    pub fn say(&self, says: Says) {
        self.order(Order::Say(says));
    }

    pub fn send(&self, signal: Signal) {
        self.order(Order::Send(signal));
    }

    fn order(&self, order: Order) {
        assert!(self.orders.as_ref().unwrap().send(order).is_ok(), "the service has ended");
    }

    /// Waits until somebody has sleep wait, and returns what ends when it waits no more.
    pub fn held(&self) -> PipeReader {
        self.held.recv_timeout(crate::support::TIMEOUT).unwrap()
    }
}

/// Waits until nothing holds sleep any more.
pub fn await_let_go(mut held: PipeReader) {
    assert_eq!(held.read(&mut [0]).unwrap(), 0);
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.orders = None;
        if self.thread.take().unwrap().join().is_err() && !thread::panicking() {
            panic!("the service panicked");
        }
    }
}

async fn next(messages: &mut MessageStream) -> Option<Message> {
    poll_fn(|context| Pin::new(&mut *messages).poll_next(context)).await?.ok()
}

struct Service {
    bus: Connection,
    says: Says,
    holds: mpsc::Sender<PipeReader>,
}

impl Service {
    async fn serve(mut self, mut messages: MessageStream, mut orders: UnboundedReceiver<Order>) {
        loop {
            tokio::select! {
                message = next(&mut messages) => {
                    let Some(message) = message else { return };
                    if message.message_type() == Type::MethodCall {
                        self.answer(&message).await;
                    }
                }
                order = orders.recv() => match order {
                    Some(Order::Say(says)) => self.say(says).await,
                    Some(Order::Send(signal)) => self.send(signal).await,
                    None => return,
                },
            }
        }
    }

    async fn answer(&self, call: &Message) {
        let header = call.header();
        let Says { is_lid_closed, is_on_battery, session } = self.says;
        let path = header.path().unwrap().as_str();
        let answered = match (path, header.member().unwrap().as_str()) {
            (UPOWER, "GetAll") => {
                let says = HashMap::from([
                    ("LidIsPresent", Variant::from(true)),
                    ("LidIsClosed", Variant::from(is_lid_closed)),
                    ("OnBattery", Variant::from(is_on_battery)),
                ]);
                self.bus.reply(&header, &says).await
            }
            (LOGIND, "ListSessions") => {
                let path = ObjectPath::try_from(SESSION_PATH).unwrap();
                let listed = session.map(|_| ("1", 0_u32, "root", "seat0", path));
                self.bus.reply(&header, &Vec::from_iter(listed)).await
            }
            (SESSION_PATH, "GetAll") => {
                let (is_active, is_hinted) = session.unwrap_or_default();
                let says = HashMap::from([
                    ("Active", Variant::from(is_active)),
                    ("LockedHint", Variant::from(is_hinted)),
                ]);
                self.bus.reply(&header, &says).await
            }
            (LOGIND, "Inhibit") => {
                let (reader, writer) = pipe().unwrap();
                let _ = self.holds.send(reader);
                self.bus.reply(&header, &OwnedFd::from(std::os::fd::OwnedFd::from(writer))).await
            }
            (path, member) => panic!("nobody knows {member} of {path}"),
        };
        answered.unwrap();
    }

    async fn say(&mut self, says: Says) {
        self.says = says;
        for (path, interface) in [(UPOWER, "org.freedesktop.UPower"), (SESSION_PATH, SESSION)] {
            let changed = (interface, HashMap::<&str, Variant<'_>>::new(), Vec::<&str>::new());
            let none = None::<&str>;
            let sent = self.bus.emit_signal(none, path, PROPERTIES, "PropertiesChanged", &changed);
            sent.await.unwrap();
        }
    }

    async fn send(&self, signal: Signal) {
        let none = None::<&str>;
        let sent = match signal {
            Signal::Lock => self.bus.emit_signal(none, SESSION_PATH, SESSION, "Lock", &()).await,
            Signal::Unlock => {
                self.bus.emit_signal(none, SESSION_PATH, SESSION, "Unlock", &()).await
            }
            Signal::Sleep(sleeps) => {
                self.bus.emit_signal(none, LOGIND, MANAGER, "PrepareForSleep", &sleeps).await
            }
        };
        sent.unwrap();
    }
}

/// Sends every process on the bus what only logind may say, and something that is too long for any of its words.
pub fn lie(bus: &Bus) {
    let address = format!("unix:path={}", bus.path().display());
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let liar = connection::Builder::address(address.as_str()).build().await.unwrap();
        let dbus = "org.freedesktop.DBus";
        let call =
            liar.call_method(Some(dbus), "/org/freedesktop/DBus", Some(dbus), "ListNames", &());
        let names: Vec<String> = call.await.unwrap().body().deserialize().unwrap();
        let long = "x".repeat(1 << 20);
        for name in names.iter().filter(|name| name.starts_with(':')) {
            let to = Some(name.as_str());
            for path in [SESSION_PATH, LOGIND, UPOWER] {
                liar.emit_signal(to, path, SESSION, "Lock", &()).await.unwrap();
                liar.emit_signal(to, path, MANAGER, "PrepareForSleep", &true).await.unwrap();
                liar.emit_signal(to, path, MANAGER, "PrepareForSleep", &long).await.unwrap();
                let owner = ("org.freedesktop.login1", "", liar.unique_name().unwrap().as_str());
                liar.emit_signal(to, path, dbus, "NameOwnerChanged", &owner).await.unwrap();
            }
        }
        // The bus has passed on everything before it answers this.
        liar.call_method(Some(dbus), "/org/freedesktop/DBus", Some(dbus), "GetId", &())
            .await
            .unwrap();
    });
}
