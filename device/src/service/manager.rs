//! What a service manager passes on and is told: systemd's socket activation and notifications.

use super::socket::Inherited;
use anyhow::Context;
use sd_notify::NotifyState;
use tracing::warn;

const ADVICE: &str = "cannot take over the sockets that LISTEN_FDS announces; \
    start bellhopd from a socket unit, or unset LISTEN_PID";

/// The sockets that a socket unit opened for this process; none without one.
pub(super) fn sockets() -> anyhow::Result<Vec<Inherited>> {
    // A process that was given sockets may pass the variables on, but they are not for this one:
    // then there are none to be named.
    let names = match sd_notify::listen_fds().context(ADVICE)?.len() {
        0 => return Ok(Vec::new()),
        _ => sd_notify::listen_fds_with_names().context(ADVICE)?,
    };
    Ok(names
        .map(|(fd, name)| Inherited { fd, origin: format!("LISTEN_FDS, named {name:?}") })
        .collect())
}

/// Guests that connect from now on are served.
pub(super) fn ready(sockets: usize) {
    notify(&[NotifyState::Ready, NotifyState::Status(&format!("Serving, sockets: {sockets}"))]);
}

/// Guests are being sent away.
pub(super) fn stopping() {
    notify(&[NotifyState::Stopping, NotifyState::Status("Disconnecting guests")]);
}

/// Does nothing when nobody wants to know.
fn notify(state: &[NotifyState]) {
    if let Err(error) = sd_notify::notify(state) {
        // Guests are served all the same.
        warn!(%error, "cannot notify the service manager; check NOTIFY_SOCKET");
    }
}
