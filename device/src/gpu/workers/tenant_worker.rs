// SPDX-License-Identifier: MIT OR Apache-2.0

//! A worker of one tenant.

use super::kernels::module::Module;
use super::tenant::Tenant;
use bellhop_worker::owner::{Worker, WorkerError};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Most kernels that a worker keeps: others are loaded again.
const LOADED: usize = 128;

/// The latest use of a worker, on the adapter's clock.
#[derive(Debug)]
pub struct LastUse(AtomicU64);

impl LastUse {
    /// Engine: stamps a use. Relaxed, like all accesses here: only the manager's choice of a victim depends on it.
    pub fn stamp(&self, now: u64) {
        self.0.store(now, Ordering::Relaxed);
    }

    /// Engine: the worker executes something from now on.
    pub fn begin(&self) {
        self.stamp(u64::MAX);
    }

    /// Tools: whether the worker executes something.
    pub fn is_executing(&self) -> bool {
        self.read() == u64::MAX
    }

    /// Manager: the stamp; workers that execute something are last.
    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A worker of one tenant on one engine.
pub struct TenantWorker {
    /// The process.
    pub worker: Worker,
    /// Whose it is.
    pub tenant: Arc<Tenant>,
    /// When the worker was used last.
    pub last_use: Arc<LastUse>,
    /// Since when the tenant has it.
    pub since: Instant,
    /// The numbers of the kernels' modules that it has, with their latest uses in no unit.
    loaded: Vec<(u32, u64)>,
    uses: u64,
}

impl fmt::Debug for TenantWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TenantWorker").field("tenant", &self.tenant.id).finish_non_exhaustive()
    }
}

impl TenantWorker {
    /// A worker without kernels.
    pub fn new(worker: Worker, tenant: Arc<Tenant>, now: u64) -> Self {
        let last_use = Arc::new(LastUse(AtomicU64::new(now)));
        Self { worker, tenant, last_use, since: Instant::now(), loaded: Vec::new(), uses: 0 }
    }

    /// Whether the worker has a module; notes its use.
    pub fn has(&mut self, module: &Module) -> bool {
        self.uses += 1;
        let found = self.loaded.iter_mut().find(|(number, _)| *number == module.number);
        if let Some((_, used)) = found {
            *used = self.uses;
            return true;
        }
        false
    }

    /// Manager: asks the worker to compile a module, and to forget another if it has too many.
    ///
    /// # Errors
    /// If the worker has ended.
    pub fn load(&mut self, module: &Module) -> Result<(), WorkerError> {
        if self.loaded.len() >= LOADED
            && let Some(oldest) = (0..self.loaded.len()).min_by_key(|index| self.loaded[*index].1)
        {
            let (number, _) = self.loaded.swap_remove(oldest);
            self.worker.unload(number)?;
        }
        module.load_into(&mut self.worker)
    }

    /// Manager: the worker has compiled a module.
    pub fn loaded(&mut self, module: &Module) {
        self.uses += 1;
        self.loaded.push((module.number, self.uses));
    }
}
