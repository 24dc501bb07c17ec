// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest's system bus, from which the agent learns of the lid, the source of power, sessions and sleep.
//!
//! A bus that is not there, or ends, is told once and looked for again and again, more and more seldom. What a bus sends is
//! trusted to be what UPower and logind say, and no more: senders are compared with the owners of these names, signals say
//! only that something is to be read anew, and what is read has bounds.

mod conversation;
mod services;
mod sessions;

use super::situation::Situation;
use crate::output::note;
use conversation::Conversation;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::sync::oneshot::{Receiver, Sender, channel};
use tokio::time::{sleep, timeout};
use zbus::connection;

/// The first wait for a bus that is not there, and the longest.
const WAITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];
/// The longest that a service may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Who is told what the system says. It may take its time: meanwhile, what is said replaces what was.
pub type Hearer = Arc<dyn Fn(Situation) + Send + Sync>;

/// Listens until this is dropped.
pub struct Listener {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Listens to the system bus on a thread of its own, and tells `hear`, on another, of each difference.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(hear: Hearer) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        // Dropping its sender is the word to stop.
        let (stop, stopped) = channel();
        let thread = thread::Builder::new().name("system bus".into());
        let thread = thread.spawn(move || runtime.block_on(listen(&hear, stopped)))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop = None;
        // A thread that panicked has said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

async fn listen(hear: &Hearer, stopped: Receiver<()>) {
    tokio::select! {
        () = converse(hear) => {}
        _ = stopped => {}
    }
}

/// Connects again and again. Never returns.
async fn converse(hear: &Hearer) {
    let [first, longest] = WAITS;
    let (mut situation, mut wait, mut is_missed) = (Situation::default(), first, false);
    loop {
        let bus = connection::Builder::system().method_timeout(ANSWER).build();
        match timeout(ANSWER, bus).await.unwrap_or_else(|late| Err(io::Error::from(late).into())) {
            Ok(bus) => {
                note("listening to the system bus");
                (wait, is_missed) = (first, false);
                let ended = Conversation::new(bus, hear).follow(&mut situation).await;
                note(format_args!("the system bus is gone: {ended}; looking for it"));
            }
            Err(error) if !is_missed => {
                note(format_args!("no system bus: {error}; looking for it from time to time"));
                is_missed = true;
            }
            Err(_) => {}
        }
        sleep(wait).await;
        wait = (2 * wait).min(longest);
    }
}
