// SPDX-License-Identifier: MIT OR Apache-2.0

//! Finding the device of this guest, whatever kind of guest it is.
//!
//! | where | when it is tried |
//! |---|---|
//! | the socket of a broker in the variable [`BROKER_VARIABLE`] | if the variable is set: nothing else is tried then |
//! | the socket of a `bellhopd` in the variable [`SOCKET_VARIABLE`] | if the variable is set: nothing else is tried then |
//! | the broker's [usual socket](bellhop_protocol::broker::USUAL_SOCKET) | if it is there: nothing else is tried then |
//! | the first Bellhop GPU among the PCI devices | in a VM |

#[cfg(feature = "broker")]
use super::broker::Broker;
#[cfg(feature = "vhost-user")]
use super::vhost_user::{self, VhostUser};
use super::virtio_pci::{self, VirtioPci};
use super::{Transport, TransportError};
use bellhop_protocol::broker::USUAL_SOCKET;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The variable that names the socket of a guest's broker.
pub const BROKER_VARIABLE: &str = "BELLHOP_BROKER";
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
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let variables = [variable(BROKER_VARIABLE), variable(SOCKET_VARIABLE)];
    find_with(variables, Path::new(USUAL_SOCKET), virtio_pci::discover)
}

type Discovered = Result<Vec<virtio_pci::PciAddress>, TransportError>;
type Found = Result<Arc<dyn Transport>, TransportError>;

fn find_with(
    [broker, socket]: [Option<OsString>; 2],
    usual: &Path,
    discover: impl FnOnce() -> Discovered,
) -> Result<Arc<dyn Transport>, NoDevice> {
    // A place that somebody chose is the only one that is tried.
    let chosen = |place: String, found: Found| {
        let attempt = |error: TransportError| Attempt { place, outcome: error.to_string() };
        found.map_err(|error| NoDevice { attempts: vec![attempt(error)] })
    };
    if let Some(broker) = broker {
        let path = Path::new(&broker);
        let place = format!("the variable {BROKER_VARIABLE}, {}", path.display());
        return chosen(place, over_broker(path));
    }
    if let Some(socket) = socket {
        let path = Path::new(&socket);
        let place = format!("the variable {SOCKET_VARIABLE}, {}", path.display());
        return chosen(place, over_socket(path));
    }
    if usual.exists() {
        return chosen(format!("the broker at {}", usual.display()), over_broker(usual));
    }
    let why = match over_pci(discover()) {
        Ok(device) => return Ok(device),
        Err(why) => why,
    };
    let attempts = [
        (
            format!("the variables {BROKER_VARIABLE} and {SOCKET_VARIABLE}"),
            "they are not set; in a container, or beside a bellhopd, set the second one to the daemon's socket, such as \
             /run/bellhop/gpu.sock"
                .into(),
        ),
        (
            format!("the broker at {}", usual.display()),
            "it is not there; for several programs in one guest, start bellhop-guest broker".into(),
        ),
        ("the PCI devices of this machine".into(), why),
    ];
    let attempts = attempts.map(|(place, outcome)| Attempt { place, outcome }).into();
    Err(NoDevice { attempts })
}

#[cfg(feature = "broker")]
fn over_broker(socket: &Path) -> Found {
    Ok(Broker::connect(socket)?)
}

#[cfg(not(feature = "broker"))]
fn over_broker(_: &Path) -> Found {
    let problem = "this program was built without the feature `broker` of bellhop-guest-umd";
    Err(TransportError::Protocol(problem.into()))
}

#[cfg(feature = "vhost-user")]
fn over_socket(socket: &Path) -> Found {
    Ok(VhostUser::connect(socket, vhost_user::Options::default())?)
}

#[cfg(not(feature = "vhost-user"))]
fn over_socket(_: &Path) -> Found {
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

    fn attempts(chosen: [Option<&str>; 2], discovered: Discovered) -> Vec<(String, String)> {
        let usual = Path::new("/nowhere/broker.sock");
        let chosen = chosen.map(|place| place.map(Into::into));
        let error = find_with(chosen, usual, || discovered).err().unwrap();
        let shown = error.to_string();
        assert_eq!(format!("{error:?}"), shown);
        assert_eq!(shown.lines().count(), 1 + error.attempts.len());
        error.attempts.into_iter().map(|attempt| (attempt.place, attempt.outcome)).collect()
    }

    #[test]
    fn without_any_device_each_place_is_named_with_what_to_do() {
        let tried = attempts([None; 2], Ok(Vec::new()));
        let [variables, broker, pci] = &tried[..] else { panic!("{tried:?}") };
        assert!(variables.0.contains(SOCKET_VARIABLE) && variables.1.contains("set the second"));
        assert!(broker.1.contains("bellhop-guest broker"), "{broker:?}");
        assert!(pci.1.contains("attach one"), "{pci:?}");
        let hidden = TransportError::Io("cannot list", std::io::ErrorKind::PermissionDenied.into());
        assert!(attempts([None; 2], Err(hidden))[2].1.starts_with("cannot list"));
    }

    #[test]
    fn a_place_that_is_named_is_the_only_one_that_is_tried() {
        let address = || Ok(vec!["0000:01:00.0".parse().unwrap()]);
        let (socket, broker) = (Some("/nowhere/gpu.sock"), Some("/nowhere/else.sock"));
        for (chosen, path) in [([None, socket], socket), ([broker, socket], broker)] {
            let tried = attempts(chosen, address());
            let [(place, why)] = &tried[..] else { panic!("{tried:?}") };
            assert!(place.ends_with(path.unwrap()), "{place}");
            assert!(why.contains("No such file") || why.contains("feature"), "{why}");
        }
    }

    #[test]
    fn a_broker_that_is_where_brokers_are_is_asked_before_the_device() {
        let folder = std::env::temp_dir();
        let found = find_with([None, None], &folder, || panic!("the device is the broker's"));
        assert!(found.err().unwrap().attempts[0].place.starts_with("the broker at"));
    }

    #[test]
    fn a_device_that_cannot_be_opened_is_named() {
        let address = "ffff:ff:1f.7".parse().unwrap();
        let attempts = attempts([None; 2], Ok(vec![address]));
        assert!(attempts[2].1.starts_with("ffff:ff:1f.7: "), "{attempts:?}");
    }
}
