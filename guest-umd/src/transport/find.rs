// SPDX-License-Identifier: MIT OR Apache-2.0

//! Finding the device of this guest, whatever kind of guest it is.
//!
//! | where | when it is tried |
//! |---|---|
//! | the socket of a `bellhopd` in the variable [`SOCKET_VARIABLE`] | if the variable is set: nothing else is tried then |
//! | the first Bellhop GPU among the PCI devices | in a VM |

#[cfg(feature = "vhost-user")]
use super::vhost_user::{self, VhostUser};
use super::virtio_pci::{self, VirtioPci};
use super::{Transport, TransportError};
use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The variable that names the socket of a `bellhopd`, as containers have it.
pub const SOCKET_VARIABLE: &str = "BELLHOP_SOCKET";

/// One place that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The place.
    pub place: String,
    /// What came of it, and what to do.
    pub outcome: String,
}

/// No device was found: what was tried, in order.
#[derive(Clone, PartialEq, Eq)]
pub struct NoDevice {
    /// The attempts.
    pub attempts: Vec<Attempt>,
}

impl fmt::Display for NoDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no Bellhop GPU can be opened:")?;
        self.attempts
            .iter()
            .try_for_each(|Attempt { place, outcome }| write!(f, "\n  {place}: {outcome}"))
    }
}

/// As for people: a program whose `main` returns an error prints it in this form.
impl fmt::Debug for NoDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for NoDevice {}

/// Opens the device of this guest.
///
/// # Errors
/// If there is none, or it cannot be opened.
pub fn find() -> Result<Arc<dyn Transport>, NoDevice> {
    find_with(std::env::var_os(SOCKET_VARIABLE), virtio_pci::discover)
}

type Discovered = Result<Vec<virtio_pci::PciAddress>, TransportError>;

fn find_with(
    socket: Option<OsString>,
    discover: impl FnOnce() -> Discovered,
) -> Result<Arc<dyn Transport>, NoDevice> {
    let mut attempts = Vec::new();
    let mut tried = |place: String, outcome: String| attempts.push(Attempt { place, outcome });
    let variable = format!("the variable {SOCKET_VARIABLE}");
    match socket.filter(|socket| !socket.is_empty()) {
        Some(socket) => {
            let socket = Path::new(&socket);
            match over_socket(socket) {
                Ok(device) => return Ok(device),
                Err(error) => tried(format!("{variable}, {}", socket.display()), error.to_string()),
            }
        }
        None => {
            tried(
                variable,
                "it is not set; in a container, or beside a bellhopd, set it to the daemon's \
                 socket, such as /run/bellhop/gpu.sock"
                    .into(),
            );
            match over_pci(discover()) {
                Ok(device) => return Ok(device),
                Err(why) => tried("the PCI devices of this machine".into(), why),
            }
        }
    }
    Err(NoDevice { attempts })
}

#[cfg(feature = "vhost-user")]
fn over_socket(socket: &Path) -> Result<Arc<dyn Transport>, TransportError> {
    Ok(VhostUser::connect(socket, vhost_user::Options::default())?)
}

#[cfg(not(feature = "vhost-user"))]
fn over_socket(_: &Path) -> Result<Arc<dyn Transport>, TransportError> {
    let problem = "this program was built without the feature `vhost-user` of bellhop-guest-umd";
    Err(TransportError::Protocol(problem.into()))
}

fn over_pci(discovered: Discovered) -> Result<Arc<dyn Transport>, String> {
    let text = |error: TransportError| error.to_string();
    let Some(address) = discovered.map_err(text)?.into_iter().next() else {
        return Err("none is a Bellhop GPU; attach one to this VM".into());
    };
    match VirtioPci::open(address, virtio_pci::Options::default()) {
        Ok(device) => Ok(device),
        Err(error) => Err(format!("{address}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(socket: Option<&str>, discovered: Discovered) -> Vec<(String, String)> {
        let error = find_with(socket.map(Into::into), || discovered).err().unwrap();
        let shown = error.to_string();
        assert_eq!(format!("{error:?}"), shown);
        assert_eq!(shown.lines().count(), 1 + error.attempts.len());
        error.attempts.into_iter().map(|attempt| (attempt.place, attempt.outcome)).collect()
    }

    #[test]
    fn without_any_device_each_place_is_named_with_what_to_do() {
        for unset in [None, Some("")] {
            let [socket, pci] = &attempts(unset, Ok(Vec::new()))[..] else { panic!("not two") };
            assert!(socket.0.contains(SOCKET_VARIABLE) && socket.1.contains("set it to"));
            assert!(pci.1.contains("attach one"), "{pci:?}");
        }
        let hidden = TransportError::Io("cannot list", std::io::ErrorKind::PermissionDenied.into());
        assert!(attempts(None, Err(hidden))[1].1.starts_with("cannot list"));
    }

    #[test]
    fn a_socket_that_is_named_is_the_only_place_that_is_tried() {
        let address = "0000:01:00.0".parse().unwrap();
        let [(place, why)] = &attempts(Some("/nowhere/gpu.sock"), Ok(vec![address]))[..] else {
            panic!("not one attempt")
        };
        assert!(place.ends_with("/nowhere/gpu.sock"), "{place}");
        #[cfg(feature = "vhost-user")]
        assert!(why.contains("No such file"), "{why}");
    }

    #[test]
    fn a_device_that_cannot_be_opened_is_named() {
        let address = "ffff:ff:1f.7".parse().unwrap();
        let attempts = attempts(None, Ok(vec![address]));
        assert!(attempts[1].1.starts_with("ffff:ff:1f.7: "), "{attempts:?}");
    }
}
