// SPDX-License-Identifier: MIT OR Apache-2.0

//! A connection with the system bus: one task takes what it sends, another reads anew what has changed and tells of it.

use super::Hearer;
use super::services::{
    BUS, LOGIND, PROPERTIES, SESSION, Service, UPOWER, body, hold_sleep, owner, power, sessions,
    start,
};
use super::sessions::Locks;
use crate::agent::situation::Situation;
use crate::output::note;
use std::cell::RefCell;
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;
use zbus::export::futures_core::Stream;
use zbus::message::{Message, Type};
use zbus::{Connection, Error, MessageStream, ObjectPath};

/// A connection, and who is told what it says.
pub struct Conversation<'a> {
    bus: Connection,
    hear: &'a Hearer,
    known: RefCell<Known>,
    /// That something has changed. However often it did before the other task looks, it looks once.
    changed: Notify,
}

/// What signals say.
#[derive(Debug, Default)]
struct Known {
    upower: Option<String>,
    logind: Option<String>,
    /// How many times a signal said who has a name.
    news: u64,
    is_asleep: bool,
    locks: Locks,
    /// What is to be read anew.
    stale: Parts,
    /// What could not be read the last time.
    silent: Parts,
}

/// Parts of what the system says.
#[derive(Debug, Clone, Copy, Default)]
struct Parts {
    power: bool,
    sessions: bool,
}

/// The wait before a service is asked again that did not answer.
const AGAIN: Duration = Duration::from_secs(10);

impl<'a> Conversation<'a> {
    pub fn new(bus: Connection, hear: &'a Hearer) -> Self {
        Self { bus, hear, known: RefCell::default(), changed: Notify::new() }
    }

    /// Follows what the bus says until it ends, and returns why.
    pub async fn follow(&self, situation: &mut Situation) -> Error {
        // Before the first question, so that nothing is missed.
        let signals = MessageStream::from(&self.bus);
        // Signals are taken while questions wait for their answers, which come after them.
        tokio::select! {
            ended = self.take(signals) => ended,
            ended = self.tell(situation) => ended,
        }
    }

    /// Takes what the bus sends.
    async fn take(&self, mut signals: MessageStream) -> Error {
        loop {
            match poll_fn(|context| Pin::new(&mut signals).poll_next(context)).await {
                Some(Ok(message)) if message.message_type() == Type::Signal => {
                    if self.known.borrow_mut().take(&message) {
                        // Pairs with `notified` in `tell`, of the same thread.
                        self.changed.notify_one();
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return error,
                None => return Error::InputOutput(Arc::new(std::io::ErrorKind::BrokenPipe.into())),
            }
        }
    }

    /// Asks for what has changed, and tells of what is different.
    async fn tell(&self, situation: &mut Situation) -> Error {
        if let Err(error) = self.begin().await {
            return error;
        }
        let mut held = None;
        loop {
            let now = self.read(&mut held, *situation).await;
            if now != *situation {
                *situation = now;
                let hear = Arc::clone(self.hear);
                // A thread of its own: hooks take their time, and signals come meanwhile.
                if tokio::task::spawn_blocking(move || hear(now)).await.is_err() {
                    return Error::Failure("what it said could not be followed".into());
                }
            }
            if now.is_asleep {
                // The hooks have run: now it may sleep.
                held = None;
            }
            // Pairs with `notify_one` in `take`.
            let changed = self.changed.notified();
            let Parts { power, sessions } = self.known.borrow().stale;
            if power || sessions {
                // A signal that has come since is a reason to go on at once, and silence one to wait.
                let _ = timeout(AGAIN, changed).await;
            } else {
                changed.await;
            }
        }
    }

    /// Subscribes, and asks for the services that there are.
    async fn begin(&self) -> Result<(), Error> {
        for rule in rules() {
            BUS.call(&self.bus, "AddMatch", &rule).await?;
        }
        for service in [UPOWER, LOGIND] {
            // Where it is not installed it may come otherwise, and is noticed.
            let started = start(&self.bus, service).await;
            let news = self.known.borrow().news;
            let owner = owner(&self.bus, service).await?;
            if self.known.borrow().news != news {
                // A signal has said it, and perhaps after that answer.
                continue;
            }
            if owner.is_none() {
                let why = started.err().map_or_else(String::new, |error| format!(": {error}"));
                note(format_args!("the system bus has no {}{why}", service.name));
            }
            self.known.borrow_mut().set_owner(service, owner);
        }
        Ok(())
    }

    /// The situation now. What cannot be read stays as it was `before`.
    async fn read(&self, held: &mut Option<OwnedFd>, before: Situation) -> Situation {
        let (stale, is_asleep, has_logind) = {
            let mut known = self.known.borrow_mut();
            (std::mem::take(&mut known.stale), known.is_asleep, known.logind.is_some())
        };
        let mut now = Situation { is_asleep, ..Situation::default() };
        if stale.power {
            match power(&self.bus).await {
                Ok(power) => {
                    now.is_lid_closed = power.is_lid_closed;
                    now.is_on_battery = power.is_on_battery;
                    self.known.borrow_mut().silent.power = false;
                }
                Err(error) => self.known.borrow_mut().miss(UPOWER, &error),
            }
        }
        if stale.sessions {
            match sessions(&self.bus).await {
                Ok(seen) => {
                    let mut known = self.known.borrow_mut();
                    now.is_away = Some(known.locks.is_away(&seen));
                    known.silent.sessions = false;
                }
                Err(error) => self.known.borrow_mut().miss(LOGIND, &error),
            }
        }
        if has_logind && !is_asleep && held.is_none() {
            // Without it hooks run as well, beside the start of sleep.
            *held = hold_sleep(&self.bus).await.ok();
        }
        before.updated(now)
    }
}

/// The signals to be told of.
fn rules() -> [String; 4] {
    let owner = |service: Service| {
        format!(
            "type='signal',sender='{0}',interface='{0}',member='NameOwnerChanged',arg0='{1}'",
            BUS.name, service.name
        )
    };
    [
        owner(UPOWER),
        owner(LOGIND),
        format!(
            "type='signal',sender='{}',path='{}',interface='{PROPERTIES}'",
            UPOWER.name, UPOWER.path
        ),
        format!("type='signal',sender='{}',path_namespace='{}'", LOGIND.name, LOGIND.path),
    ]
}

impl Known {
    /// Takes a signal. Returns whether there is something to do. Anybody on the bus can send this process a signal: those
    /// of others than the services' owners are nothing.
    fn take(&mut self, signal: &Message) -> bool {
        let header = signal.header();
        let (Some(sender), Some(path)) = (header.sender(), header.path()) else { return false };
        let (Some(interface), Some(member)) = (header.interface(), header.member()) else {
            return false;
        };
        let is_from = |owner: &Option<String>| owner.as_deref() == Some(sender.as_str());
        let (interface, member) = (interface.as_str(), member.as_str());
        // The bus lets nobody else send by its name.
        if sender.as_str() == BUS.name {
            return interface == BUS.interface
                && member == "NameOwnerChanged"
                && self.take_owner(signal);
        }
        if is_from(&self.upower) && path.as_str() == UPOWER.path {
            self.stale.power |= interface == PROPERTIES;
            return interface == PROPERTIES;
        }
        if !is_from(&self.logind) {
            return false;
        }
        match (interface, member) {
            (SESSION, "Lock" | "Unlock") => self.locks.ask(path.as_str(), member == "Lock"),
            (_, "PrepareForSleep") if interface == LOGIND.interface => {
                let asleep = body(signal).and_then(|body| body.deserialize::<bool>());
                self.is_asleep = asleep.unwrap_or(self.is_asleep);
                return true;
            }
            (_, "SessionRemoved") if interface == LOGIND.interface => {
                let Ok(body) = body(signal) else { return false };
                let Ok((_, ended)) = body.deserialize::<(&str, ObjectPath<'_>)>() else {
                    return false;
                };
                self.locks.forget(ended.as_str());
            }
            (_, "SessionNew") if interface == LOGIND.interface => {}
            (PROPERTIES, _) => {}
            _ => return false,
        }
        self.stale.sessions = true;
        true
    }

    /// Takes the bus's word on who has a name.
    fn take_owner(&mut self, signal: &Message) -> bool {
        let Ok(body) = body(signal) else { return false };
        let Ok((name, _, new)) = body.deserialize::<(&str, &str, &str)>() else { return false };
        let Some(service) = [UPOWER, LOGIND].into_iter().find(|of| of.name == name) else {
            return false;
        };
        note(match new {
            "" => format!("{name} is gone; what it said last is taken to be so"),
            _ => format!("{name} is there"),
        });
        self.news += 1;
        self.set_owner(service, (!new.is_empty()).then(|| new.to_owned()));
        true
    }

    /// A service does not say what it should. It is asked again, unless it is gone.
    fn miss(&mut self, service: Service, error: &Error) {
        let (owner, stale, silent) = if service == UPOWER {
            (&self.upower, &mut self.stale.power, &mut self.silent.power)
        } else {
            (&self.logind, &mut self.stale.sessions, &mut self.silent.sessions)
        };
        *stale = owner.is_some();
        if *stale && !std::mem::replace(silent, true) {
            let name = service.name;
            note(format_args!("{name} does not answer: {error}; it is asked from time to time"));
        }
    }

    fn set_owner(&mut self, service: Service, owner: Option<String>) {
        let is_there = owner.is_some();
        if service == UPOWER {
            (self.upower, self.stale.power) = (owner, is_there);
        } else {
            (self.logind, self.stale.sessions) = (owner, is_there);
            // A new logind has forgotten whom it asked, and sleeps no more.
            (self.is_asleep, self.locks) = (false, Locks::default());
        }
    }
}
