// SPDX-License-Identifier: MIT OR Apache-2.0

//! The gate that all guests come through: the operator closes it to drain the daemon. Who is inside stays.

use std::future::Future;
use std::sync::Arc;
use tokio::sync::watch;

/// The gate, for all servers.
#[derive(Clone)]
pub(super) struct Gate(Arc<State>);

struct State {
    is_closed: watch::Sender<bool>,
    /// Number of front ends inside.
    inside: watch::Sender<usize>,
}

/// A front end that is inside until this is dropped.
pub(super) struct Entered(Arc<State>);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.inside.send_modify(|inside| *inside -= 1);
    }
}

impl Default for Gate {
    fn default() -> Self {
        let (is_closed, inside) = (watch::Sender::new(false), watch::Sender::new(0));
        Self(Arc::new(State { is_closed, inside }))
    }
}

impl Gate {
    /// Closes the gate, or opens it. Returns whether that is a change.
    pub(super) fn close(&self, closed: bool) -> bool {
        self.0.is_closed.send_if_modified(|now| std::mem::replace(now, closed) != closed)
    }

    /// Whether it is closed.
    pub(super) fn is_closed(&self) -> bool {
        *self.0.is_closed.borrow()
    }

    /// A front end comes in.
    pub(super) fn enter(&self) -> Entered {
        self.0.inside.send_modify(|inside| *inside += 1);
        Entered(Arc::clone(&self.0))
    }

    /// Waits until no front end is inside.
    pub(super) async fn emptied(&self) {
        // The sender lives in `self`.
        let _ = self.0.inside.subscribe().wait_for(|inside| *inside == 0).await;
    }

    /// Polls `accept` only while the gate is open. A front end that comes meanwhile waits in the backlog.
    pub(super) async fn when_open<T>(&self, accept: impl Future<Output = T>) -> T {
        let mut is_closed = self.0.is_closed.subscribe();
        let mut accept = std::pin::pin!(accept);
        loop {
            let _ = is_closed.wait_for(|closed| !closed).await;
            tokio::select! {
                biased;
                _ = is_closed.wait_for(|closed| *closed) => {}
                accepted = &mut accept => return accepted,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::yield_now;

    #[tokio::test]
    async fn a_closed_gate_lets_nobody_in_and_is_empty_when_the_last_has_gone() {
        let gate = Gate::default();
        let entered = gate.enter();
        assert!(gate.close(true) && !gate.close(true) && gate.is_closed());
        let waiting = tokio::spawn({
            let gate = gate.clone();
            async move { gate.when_open(async { 7 }).await }
        });
        let emptied = tokio::spawn({
            let gate = gate.clone();
            async move { gate.emptied().await }
        });
        yield_now().await;
        assert!(!waiting.is_finished() && !emptied.is_finished());
        drop(entered);
        emptied.await.unwrap();
        assert!(!waiting.is_finished());
        gate.close(false);
        assert_eq!(waiting.await.unwrap(), 7);
    }
}
