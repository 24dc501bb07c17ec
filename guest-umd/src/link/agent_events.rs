// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the event queue says to the guest's agent, and to others of what it does.
//!
//! Source: Windows KMD overview, "EEU".

use crate::link::display_events::HotPlug;
use bellhop_protocol::control::agent::topology::WantedTopology;
use bellhop_protocol::control::agent::{AgentTopology, DevicePresence, PowerPolicy, RecoveryKind};
use bellhop_protocol::event::{Event, EventKind};
use std::time::Duration;

/// Names a request to the agent, which it answers once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentRequest(pub(crate) u64);

/// What happened, or is wanted of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentEvent {
    /// A monitor was plugged in or unplugged.
    HotPlug(HotPlug),
    /// The monitors shall show something else.
    Topology(AgentRequest, WantedTopology),
    /// The guest shall use power in another way.
    PowerPolicy(AgentRequest, PowerPolicy),
    /// The device and its clients shall stop.
    Stop(AgentRequest),
    /// The device and its clients shall start.
    Start(AgentRequest),
    /// A GPU is there again: its ordinal.
    GpuArrived(u32),
    /// A GPU was taken away: its ordinal.
    GpuLeft(u32),
    /// Other processes show other sources than before: a bit for each of them.
    SourcesOfPrograms(u64),
    /// Something was reset after a hang; of a node, or of the adapter.
    Recovered(RecoveryKind, Option<u32>),
}

impl AgentEvent {
    /// The event for an agent; `None` if it is another program's, or a later version's.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        let request = AgentRequest(event.cookie);
        let ordinal = event.object as u32;
        Some(match event.kind {
            EventKind::CHILD_STATUS_CHANGED => Self::HotPlug(HotPlug::of(event)),
            EventKind::TOPOLOGY_WANTED => Self::Topology(request, wanted(event)?),
            EventKind::POWER_POLICY_WANTED => {
                Self::PowerPolicy(request, PowerPolicy(event.value as u32))
            }
            EventKind::DEVICE_STOP_WANTED => Self::Stop(request),
            EventKind::DEVICE_START_WANTED => Self::Start(request),
            EventKind::SOURCES_CHANGED => Self::SourcesOfPrograms(event.value),
            EventKind::GPU_ARRIVED => Self::GpuArrived(ordinal),
            EventKind::GPU_LEFT => Self::GpuLeft(ordinal),
            EventKind::RECOVERED => {
                let node = u32::try_from(event.object).ok();
                Self::Recovered(RecoveryKind(event.value as u32), node)
            }
            _ => return None,
        })
    }
}

/// What an agent does with the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PresenceChange {
    /// It stops. Programs that have not left it in this time lose what they have on it.
    Stops {
        /// The time; zero if it is stopped already.
        within: Duration,
    },
    /// It is started again: new devices can be created on it.
    Started,
}

impl PresenceChange {
    /// What an event says; `None` for a later version's.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        match DevicePresence(event.value as u32) {
            DevicePresence::STARTED => Some(Self::Started),
            DevicePresence::STOPPED => {
                Some(Self::Stops { within: Duration::from_millis(event.cookie) })
            }
            _ => None,
        }
    }
}

/// The topology that an event names; `None` for a later version's.
pub(crate) fn wanted(event: &Event) -> Option<WantedTopology> {
    Some(match AgentTopology(event.value as u32) {
        AgentTopology::EXTEND => WantedTopology::Extend,
        AgentTopology::CLONE => WantedTopology::Clone,
        AgentTopology::SINGLE => WantedTopology::Single,
        AgentTopology::OFF => WantedTopology::Off,
        AgentTopology::ENUMERATE => WantedTopology::Enumerate,
        AgentTopology::MODE => WantedTopology::Mode {
            connector: event.object as u32,
            width: event.context as u32,
            height: (event.context >> 32) as u32,
            refresh: event.time as u32,
        },
        AgentTopology::ROTATE => WantedTopology::Rotate {
            connector: event.object as u32,
            // The device refuses other rotations than those four.
            quarters: (event.context as u32).wrapping_sub(1) % 4,
        },
        // A later minor version may have more.
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn a_wanted_mode_is_read_as_the_protocol_lays_it_out() {
        let event = Event {
            kind: EventKind::TOPOLOGY_WANTED,
            object: 1,
            value: 6,
            cookie: 9,
            context: 1080 << 32 | 1920,
            time: 59_940,
            ..Event::new_zeroed()
        };
        let mode =
            WantedTopology::Mode { connector: 1, width: 1920, height: 1080, refresh: 59_940 };
        assert_eq!(AgentEvent::of(&event), Some(AgentEvent::Topology(AgentRequest(9), mode)));
        assert_eq!(AgentEvent::of(&Event { value: 77, ..event }), None);
    }

    #[test]
    fn the_adapter_s_recovery_is_of_no_node() {
        let event =
            |object| Event { kind: EventKind::RECOVERED, object, value: 3, ..Event::new_zeroed() };
        let adapter = AgentEvent::Recovered(RecoveryKind::ADAPTER, None);
        assert_eq!(AgentEvent::of(&event(u64::MAX)), Some(adapter));
        let node = AgentEvent::Recovered(RecoveryKind::ADAPTER, Some(2));
        assert_eq!(AgentEvent::of(&event(2)), Some(node));
    }
}
