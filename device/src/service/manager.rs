// SPDX-License-Identifier: MIT OR Apache-2.0

//! systemd's protocols for services: socket activation and notifications.

use super::socket::Inherited;
use anyhow::Context;
use sd_notify::NotifyState;
use tracing::warn;

const ADVICE: &str = "cannot take over the sockets that LISTEN_FDS announces; \
    start bellhopd from a socket unit, or unset LISTEN_PID";

/// The sockets that a socket unit opened for this process; empty without a socket unit.
pub(super) fn sockets() -> anyhow::Result<Vec<Inherited>> {
    // A process may pass on the variables that came with its sockets. They do not concern this process, which has
    // no sockets to name.
    let names = match sd_notify::listen_fds().context(ADVICE)?.len() {
        0 => return Ok(Vec::new()),
        _ => sd_notify::listen_fds_with_names().context(ADVICE)?,
    };
    Ok(names
        .map(|(fd, name)| Inherited { fd, origin: format!("LISTEN_FDS, named {name:?}") })
        .collect())
}

/// Tells the service manager that the daemon serves guests.
pub(super) fn ready(sockets: usize) {
    notify(&[NotifyState::Ready, NotifyState::Status(&format!("Serving, sockets: {sockets}"))]);
}

/// Tells the service manager that the daemon is ending.
pub(super) fn stopping() {
    notify(&[NotifyState::Stopping, NotifyState::Status("Disconnecting guests")]);
}

/// Sends a notification, if the service manager wants any.
fn notify(state: &[NotifyState]) {
    if let Err(error) = sd_notify::notify(state) {
        // Guests are served regardless.
        warn!(%error, "cannot notify the service manager; check NOTIFY_SOCKET");
    }
}
