// SPDX-License-Identifier: MIT OR Apache-2.0

//! What UPower and logind say when they are asked.
//!
//! Sources: UPower's reference manual, `org.freedesktop.UPower`; org.freedesktop.login1(5).

use super::sessions::{self, Session};
use std::collections::HashMap;
use std::os::fd;
use zbus::message::{Body, Message};
use zbus::{Connection, DynamicType, Error, OwnedFd, OwnedObjectPath, OwnedVariant};

/// The bus itself.
pub const BUS: Service = Service {
    name: "org.freedesktop.DBus",
    path: "/org/freedesktop/DBus",
    interface: "org.freedesktop.DBus",
};
/// Lids and batteries.
pub const UPOWER: Service = Service {
    name: "org.freedesktop.UPower",
    path: "/org/freedesktop/UPower",
    interface: "org.freedesktop.UPower",
};
/// Sessions and sleep.
pub const LOGIND: Service = Service {
    name: "org.freedesktop.login1",
    path: "/org/freedesktop/login1",
    interface: "org.freedesktop.login1.Manager",
};
/// Objects that have properties.
pub const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
/// A session of logind's.
pub const SESSION: &str = "org.freedesktop.login1.Session";
/// The longest answer that is read, in bytes.
const LONGEST: usize = 64 << 10;

/// A service of the system's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// Its name on the bus.
    pub name: &'static str,
    /// The path of its main object.
    pub path: &'static str,
    /// The interface of that.
    pub interface: &'static str,
}

/// Properties of an object by name.
type Properties = HashMap<String, OwnedVariant>;

/// What UPower says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Power {
    /// Whether the lid is closed, if there is one.
    pub is_lid_closed: Option<bool>,
    /// Whether power comes from a battery.
    pub is_on_battery: Option<bool>,
}

/// The body of a message that is not longer than any that means something here.
///
/// # Errors
/// For a longer one.
pub fn body(message: &Message) -> Result<Body, Error> {
    let body = message.body();
    if body.len() > LONGEST {
        return Err(Error::Failure(format!("a message has {} bytes", body.len())));
    }
    Ok(body)
}

impl Service {
    /// Calls a method of the main object.
    ///
    /// # Errors
    /// When it fails, is not answered in time, or the answer is too long.
    pub async fn call<B: serde::Serialize + DynamicType>(
        self,
        bus: &Connection,
        method: &str,
        arguments: &B,
    ) -> Result<Body, Error> {
        let Self { name, path, interface } = self;
        let answer = bus.call_method(Some(name), path, Some(interface), method, arguments).await?;
        body(&answer)
    }

    async fn properties(
        self,
        bus: &Connection,
        path: &str,
        interface: &str,
    ) -> Result<Properties, Error> {
        let call = bus.call_method(Some(self.name), path, Some(PROPERTIES), "GetAll", &interface);
        body(&call.await?)?.deserialize()
    }
}

/// Asks UPower.
///
/// # Errors
/// When it does not answer, or not in its words.
pub async fn power(bus: &Connection) -> Result<Power, Error> {
    let properties = UPOWER.properties(bus, UPOWER.path, UPOWER.interface).await?;
    let is = |name| flag(&properties, name);
    // A machine without a lid says that it is open.
    let is_lid_closed = is("LidIsClosed").filter(|_| is("LidIsPresent") == Some(true));
    Ok(Power { is_lid_closed, is_on_battery: is("OnBattery") })
}

/// Asks logind for the sessions at seats, of which it lists the first ones.
///
/// # Errors
/// When it does not answer, or not in its words.
pub async fn sessions(bus: &Connection) -> Result<Vec<Session>, Error> {
    let listed = LOGIND.call(bus, "ListSessions", &()).await?;
    let listed: Vec<(String, u32, String, String, OwnedObjectPath)> = listed.deserialize()?;
    let at_seats = listed.into_iter().filter(|(.., seat, _)| !seat.is_empty());
    let mut sessions = Vec::new();
    for (.., path) in at_seats.take(sessions::MOST) {
        // It may have ended just now.
        let Ok(properties) = LOGIND.properties(bus, path.as_str(), SESSION).await else { continue };
        let is = |name| flag(&properties, name) == Some(true);
        let (is_active, is_hinted) = (is("Active"), is("LockedHint"));
        sessions.push(Session { path: path.to_string(), is_active, is_hinted });
    }
    Ok(sessions)
}

/// Has sleep wait for hooks while the descriptor is open, for as long as logind lets it wait.
///
/// # Errors
/// When logind refuses.
pub async fn hold_sleep(bus: &Connection) -> Result<fd::OwnedFd, Error> {
    let arguments = ("sleep", "bellhop-guest agent", "hooks run before sleep", "delay");
    let held = LOGIND.call(bus, "Inhibit", &arguments).await?;
    Ok(held.deserialize::<OwnedFd>()?.into())
}

/// Has a service started that the system has, as any client's first question does.
///
/// # Errors
/// When the system has none, or it cannot be started.
pub async fn start(bus: &Connection, service: Service) -> Result<(), Error> {
    BUS.call(bus, "StartServiceByName", &(service.name, 0_u32)).await.map(drop)
}

/// The owner of a service's name; `None` if it has none.
///
/// # Errors
/// When the bus does not answer.
pub async fn owner(bus: &Connection, service: Service) -> Result<Option<String>, Error> {
    match BUS.call(bus, "GetNameOwner", &service.name).await {
        Ok(owner) => Ok(Some(owner.deserialize()?)),
        Err(Error::MethodError(..) | Error::FDO(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn flag(properties: &Properties, name: &str) -> Option<bool> {
    bool::try_from(properties.get(name)?).ok()
}
