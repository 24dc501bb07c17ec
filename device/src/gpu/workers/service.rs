// SPDX-License-Identifier: MIT OR Apache-2.0

//! The manager's thread, and what every role's control plane needs of it.

use super::config::WorkersConfig;
use super::mailboxes::{Mailboxes, Order};
use super::manager::Manager;
use super::tenant::{Allowances, GuestWorkers};
use crate::allowance::Rate;
use crate::gpu::shared::chip::Chip;
use crate::gpu::shared::partition::Partition;
use bellhop_host_kmd::hardware::GuestId;
use bellhop_protocol::control::kernel::KernelCaps;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// All workers of an adapter. They and the thread that manages them end when this is dropped.
#[derive(Debug)]
pub struct Workers {
    mailboxes: Arc<Mailboxes>,
    /// No engine ever takes this lock.
    guests: Mutex<HashMap<GuestId, Arc<GuestWorkers>>>,
    /// By the paths of sockets, of which the daemon has few.
    sockets: Mutex<HashMap<String, Allowances>>,
    manager: Option<JoinHandle<()>>,
}

impl Workers {
    /// Starts the manager. Guests are told of kernels what `caps` say.
    ///
    /// # Errors
    /// If the operating system has no file descriptors or threads.
    pub fn start(config: WorkersConfig, caps: KernelCaps, chip: Arc<Chip>) -> io::Result<Self> {
        let mailboxes = Arc::new(Mailboxes::new(chip, caps)?);
        let manager = Manager::new(Arc::clone(&mailboxes), config);
        let manager = Builder::new().name("workers".into()).spawn(|| manager.run())?;
        let (guests, sockets) = (Mutex::default(), Mutex::default());
        Ok(Self { mailboxes, guests, sockets, manager: Some(manager) })
    }

    /// Where engines and control plane meet the manager.
    pub fn mailboxes(&self) -> &Arc<Mailboxes> {
        &self.mailboxes
    }

    /// What all workers of a guest share.
    pub fn guest(&self, partition: &Partition) -> Arc<GuestWorkers> {
        let id = partition.id();
        let new = || Arc::new(GuestWorkers::new(partition, self.allowances(partition)));
        let guest = Arc::clone(lock(&self.guests).entry(id).or_insert_with(new));
        guest.set_reach(partition.memory().bytes());
        guest
    }

    /// A guest has other memory.
    pub fn resize(&self, partition: &Partition) {
        let known = lock(&self.guests).get(&partition.id()).map(Arc::clone);
        if let Some(guest) = known {
            guest.set_reach(partition.memory().bytes());
            self.mailboxes.order(Order::Resize(guest));
        }
    }

    /// What may be done for a guest. Those that come to one socket share it: whoever connects anew gains nothing.
    fn allowances(&self, partition: &Partition) -> Allowances {
        let socket = partition.front_end.get().map(|front_end| front_end.socket.as_str());
        let Some(socket) = socket.filter(|socket| !socket.is_empty()) else {
            return Allowances::default();
        };
        lock(&self.sockets).entry(socket.to_owned()).or_default().clone()
    }

    /// Changes how often workers are started for the guests of a socket.
    pub fn set_starts(&self, socket: &str, rate: Rate) {
        lock(&self.sockets).entry(socket.to_owned()).or_default().starts.set_rate(rate);
    }

    /// A guest is detached, and its tenants have ended.
    pub fn end_guest(&self, guest: GuestId) {
        lock(&self.guests).remove(&guest);
        self.mailboxes.order(Order::EndGuest(guest));
    }
}

#[expect(clippy::disallowed_methods, reason = "a lock that is held for a few stores")]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Workers {
    #[expect(
        clippy::disallowed_methods,
        reason = "the end of the adapter: until the manager has killed its workers, 1 s each at most"
    )]
    fn drop(&mut self) {
        self.mailboxes.order(Order::Stop);
        if let Some(manager) = self.manager.take()
            && manager.join().is_err()
        {
            tracing::error!("the manager of workers panicked");
        }
    }
}
