// SPDX-License-Identifier: MIT OR Apache-2.0

//! Objects as snapshots show them.

use super::View;
use super::page::Called;
use crate::dxgkrnl::display::describe::kind_name;
use crate::dxgkrnl::doorbell::object::Doorbell;
use crate::dxgkrnl::fence::log::QueueLogs;
use crate::dxgkrnl::fence::state::NativeFence;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::process::Process;
use crate::dxgkrnl::memory::allocation::{Allocation, Content};
use crate::dxgkrnl::object::device::Device;
use crate::dxgkrnl::queue::context::Context;
use crate::dxgkrnl::queue::hw_queue::{HwQueue, QueueIdentity};
use crate::dxgkrnl::queue::node::Model;
use crate::hardware::{
    BusyOf, ConnectorCaps, DoorbellModel, FrontEnd, GpuOrdinal, GuestId, KernelDescription,
    ProcessShare, Reported as _, Segment, WorkerDescription, fence_segment_size,
};
use crate::vidmm::segment::LocalSegment;
use bellhop_protocol::control::adapter::{NODE_USER_MODE_SUBMISSION_SUPPORTED, Statistics};
use bellhop_protocol::control::power::GPU_POWER_WHEN_NEEDED;
use bellhop_protocol::features::Version;
use bellhop_protocol::snapshot;

impl View<'_> {
    /// The connectors of a guest. The position of one is its number, and one more.
    pub(super) fn displays(
        &self,
        id: GuestId,
        guest: &Guest,
        after: u64,
    ) -> impl Iterator<Item = (u64, snapshot::Display)> {
        let ddi = self.miniport.display();
        let connectors = ddi.map(|ddi| ddi.query_child_relations().connectors).unwrap_or_default();
        let describe = move |(connector, caps): (u32, ConnectorCaps)| {
            let plugged = ddi.is_some_and(|ddi| ddi.query_child_status(id, connector));
            let known =
                self.identity.map(|_| self.platform.connector_use(id, connector).reported());
            let (name, viewers) = known.map(|known| (known.name, known.viewers)).unzip();
            let display = snapshot::Display {
                connector,
                name,
                kind: kind_name(caps.kind).into(),
                plugged,
                plugs: guest.display.generation(connector),
                viewers,
                resets: guest.display.resets(),
                path: guest.display.describe_path(connector),
            };
            (u64::from(connector) + 1, display)
        };
        let left = (0..).zip(connectors).filter(move |(number, _)| u64::from(*number) >= after);
        left.map(describe)
    }

    pub(super) fn adapter(&self) -> snapshot::Adapter {
        let (power, power_transitions) = self.power.describe_device();
        let (doorbell_model, physical_doorbells) = match self.platform.doorbell_model() {
            DoorbellModel::Dedicated => ("dedicated", self.platform.physical_doorbells()),
            DoorbellModel::Global => ("global", 0),
        };
        snapshot::Adapter {
            ordinal: self.identity.map_or(0, |identity| identity.ordinal),
            name: self.identity.map(|identity| identity.name.clone()).unwrap_or_default(),
            protocol: Version::CURRENT.to_string(),
            doorbell_model: doorbell_model.into(),
            physical_doorbells,
            physical_doorbells_used: self
                .identity
                .map(|_| self.miniport.physical_doorbells_in_use()),
            power: power.into(),
            power_transitions,
            gpus: self.gpus(),
            time: self.platform.gpu_clock(),
            traced: self.recorder.is_recording(),
            changes: self.changes.all(),
            cgroups: self.identity.and_then(|_| self.platform.cgroups()),
        }
    }

    /// The GPUs of a chain.
    fn gpus(&self) -> Vec<snapshot::Gpu> {
        let describe = |gpu: GpuOrdinal| {
            let info = self.gpu_power.info(gpu, self.now)?;
            Some(snapshot::Gpu {
                ordinal: gpu.0,
                power: info.state.to_string(),
                when_needed: info.flags & GPU_POWER_WHEN_NEEDED != 0,
                power_transitions: info.d3_entries,
                powered_time: info.d0_time,
            })
        };
        let is_chain = self.gpu_power.all().count() > 1;
        self.gpu_power.all().filter(|_| is_chain).filter_map(describe).collect()
    }

    pub(super) fn node(&self, ordinal: u32) -> Option<snapshot::Node> {
        let metadata = self.miniport.get_node_metadata(ordinal)?;
        let (power, power_transitions) = self.power.describe_engine(ordinal)?;
        let name = String::from_utf8_lossy(&metadata.friendly_name);
        Some(snapshot::Node {
            ordinal,
            gpu: metadata.gpu().into(),
            engine_type: metadata.engine_type.to_string(),
            name: name.trim_end_matches('\0').into(),
            user_mode_submission: metadata.flags & NODE_USER_MODE_SUBMISSION_SUPPORTED != 0,
            power: power.to_string(),
            power_transitions,
            busy_time: self
                .identity
                .map(|_| self.platform.busy_time(BusyOf::Engine(ordinal)).reported()),
            processor: self.identity.and_then(|_| self.processor(ordinal)),
            run_list: Vec::new(),
        })
    }

    fn processor(&self, node: u32) -> Option<u32> {
        let node = self.platform.nodes().get(usize::try_from(node).ok()?)?;
        node.processor.and_then(|processor| u32::try_from(processor).ok())
    }

    /// The workers after this position. The operator sees all, a guest those that work for it.
    pub(super) fn workers<'g>(
        &self,
        guest: impl Fn(GuestId) -> Option<&'g Guest>,
        after: u64,
    ) -> Vec<(u64, snapshot::Worker)> {
        let is_seen = |worker: &WorkerDescription| {
            self.identity.is_some() || worker.guest.is_some_and(|id| guest(id).is_some())
        };
        let describe = |worker: WorkerDescription| {
            let WorkerDescription { pid, role, state, guest: id, space, node, memory, shared } =
                worker;
            let processes = || id.and_then(&guest).into_iter().flat_map(|guest| &guest.processes);
            let process = processes().find(|(_, process)| Some(process.space()) == space);
            snapshot::Worker {
                pid: self.identity.map(|_| pid),
                role: role.into(),
                state: state.into(),
                guest: id.map(|id| id.0),
                process: process.map(|(id, _)| *id),
                node,
                memory,
                shared,
            }
        };
        let seen = self.platform.workers().into_iter().filter(is_seen);
        // A guest must not learn the numbers of the host's processes.
        let position = |(place, worker): (u64, WorkerDescription)| {
            (if self.identity.is_some() { worker.pid.into() } else { place }, worker)
        };
        let seen = (1..).zip(seen).map(position).filter(|(position, _)| *position > after);
        seen.map(|(position, worker)| (position, describe(worker))).collect()
    }

    pub(super) fn guest(&self, id: GuestId, guest: &Guest) -> snapshot::Guest {
        let state = match (guest.is_detaching(), guest.is_open()) {
            (true, _) => "leaving",
            (false, true) => "open",
            (false, false) => "attached",
        };
        let statistics = Statistics {
            control_messages: guest.control_messages(),
            notifies: guest.notifies(),
            victims: self.doorbells.victims(id),
            ..self.platform.statistics(id).reported()
        };
        // A guest must not learn what only the host knows about it.
        let front_end = self.identity.and_then(|_| self.platform.front_end(id));
        let (socket, connection, pid, command) = front_end
            .map(|front_end| {
                let FrontEnd { socket, connection, pid, command } = front_end;
                (Some(socket), connection, pid, command)
            })
            .unwrap_or_default();
        snapshot::Guest {
            id: id.0,
            socket,
            connection,
            pid,
            command,
            state: state.into(),
            bar_mapped: guest.resources.bar_mapped,
            features: guest.features().to_string(),
            weight: self.platform.guest_weight(id).reported(),
            suspended: guest.is_suspended,
            gpu: guest.presence.name().into(),
            gpus_removed: (1..self.platform.gpu_count())
                .filter(|gpu| guest.presence.is_removed(GpuOrdinal(*gpu)))
                .map(u32::from)
                .collect(),
            changes: self.identity.map(|_| guest.changes.all()).unwrap_or_default(),
            cgroups: self.identity.map(|_| self.platform.guest_cgroups(id)).unwrap_or_default(),
            agent: guest.agency.describe(),
            statistics: statistics.into(),
            quotas: guest.describe_quotas(),
            memory: describe_segments(guest),
            displays: Vec::new(),
            processes: Vec::new(),
        }
    }

    pub(super) fn hw_queue(
        &self,
        (guest_id, guest, process): (GuestId, &Guest, u32),
        context: &Context,
        Called { handle, name }: Called,
        queue: &HwQueue,
    ) -> snapshot::HwQueue {
        let state = if queue.is_in_error() {
            "error"
        } else if queue.is_terminating() {
            "ending"
        } else if context.state().is_running() {
            "listed"
        } else {
            "suspended"
        };
        let QueueIdentity { id, user_mode_submission, progress_fence, .. } = queue.identity();
        let fence = guest.handles.get::<NativeFence>(process, progress_fence);
        let completed =
            fence.map_or(0, |fence| self.platform.fence_value(guest_id, fence.global).reported());
        let queued = match (user_mode_submission, queue.doorbell()) {
            (true, Some(_)) => self.platform.last_queued_value(id).reported(),
            (true, None) => 0,
            (false, _) => queue.last_submitted(),
        };
        let doorbell = queue.doorbell().and_then(|handle| {
            let doorbell = guest.handles.get::<Doorbell>(process, handle).ok()?;
            let state = self.doorbells.state(id)?;
            Some(snapshot::Doorbell {
                handle: handle.into(),
                state: state.name().into(),
                status: state.status().to_string(),
                physical: self.miniport.physical_doorbell(id).map(|doorbell| doorbell.0),
                ring_size: doorbell.ring_size(),
            })
        });
        snapshot::HwQueue {
            handle,
            name,
            submission: if user_mode_submission { "user-mode" } else { "kernel-mode" }.into(),
            state: state.into(),
            progress_fence: progress_fence.into(),
            queued,
            completed,
            logged: guest.logs.of(id).map_or(0, QueueLogs::read),
            log_entries_lost: guest.logs.of(id).map_or(0, QueueLogs::lost),
            busy_time: self.platform.busy_time(BusyOf::Queue(id)).reported(),
            doorbell,
        }
    }
}

pub(super) fn entry(id: u32, process: &Process) -> snapshot::Process {
    let mappings = process.gpu_va.mapping_count() as u64;
    let program = process.program().map(|program| snapshot::Program {
        user: program.user,
        pid: program.pid,
        command: printable(&program.command),
    });
    let ProcessShare { group, weight } = process.share();
    snapshot::Process { id, program, weight, group, mappings, ..Default::default() }
}

/// A guest's text up to its first zero or its end. What is no printable ASCII could do something to a terminal.
fn printable(text: &[u8]) -> String {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let printable = |byte: &u8| match byte {
        b' ' | b'!'..=b'~' => char::from(*byte),
        _ => '?',
    };
    text.iter().map(printable).collect()
}

pub(super) fn describe_kernel(kernel: KernelDescription) -> snapshot::Kernel {
    let KernelDescription { number, entry_point, is_compiled, spirv } = kernel;
    let state = if is_compiled { "compiled" } else { "compiling" };
    snapshot::Kernel { number, entry_point, state: state.into(), spirv }
}

pub(super) fn describe_device(called: Called, device: &Device) -> snapshot::Device {
    let (Called { handle, name }, in_error) = (called, device.is_in_error());
    snapshot::Device { handle, name, in_error, ..Default::default() }
}

pub(super) fn describe_context(called: Called, context: &Context, gpu: u8) -> snapshot::Context {
    let state = match context.state() {
        state if state.is_running() => "running",
        state if state.is_lost() => "lost",
        _ => "suspended",
    };
    snapshot::Context {
        handle: called.handle,
        name: called.name,
        node: context.node(),
        gpu: gpu.into(),
        priority: context.priority().number(),
        state: state.into(),
        model: context.node_submission().map(|submission| model_name(submission.model()).into()),
        suspended_by: context.state().suspended_by(),
        hw_queues: Vec::new(),
    }
}

pub(super) fn describe_allocation(
    guest: &Guest,
    Called { handle, name }: Called,
    allocation: &Allocation,
) -> snapshot::Allocation {
    let (segment, resident, gpu) = match allocation.content() {
        Content::Fixed(memory, _) => (Some(memory.segment), allocation.is_resident(), None),
        Content::Paged(id) => {
            let memory = guest.vidmm.memory(*id).ok();
            let gpu = guest.vidmm.private_of(*id).filter(|_| guest.vidmm.is_chain());
            (memory.map(|memory| memory.segment), guest.vidmm.is_present(*id), gpu)
        }
    };
    snapshot::Allocation {
        handle,
        name,
        size: allocation.size(),
        segment: segment.map_or("none", segment_name).into(),
        gpu: gpu.map(|gpu| gpu.0.into()),
        resident,
        extents: allocation.extent_count(),
        mappings: allocation.mapping_count(),
        doorbells: allocation.doorbells(),
        processes: allocation.paged().map_or(0, |id| guest.shared_allocations.count(id)),
    }
}

/// The segments that have a size.
pub(super) fn describe_segments(guest: &Guest) -> Vec<snapshot::SegmentUse> {
    let sizes = guest.resources.segments;
    let vidmm = &guest.vidmm;
    let describe = |(segment, gpu, size, used): (_, Option<GpuOrdinal>, _, _)| {
        let (segment, gpu) = (segment_name(segment).into(), gpu.map(|gpu| gpu.0.into()));
        snapshot::SegmentUse { segment, gpu, size: Some(size), used, allocations: 0 }
    };
    let visible = vidmm.used(LocalSegment::Visible);
    let local = (Segment::Local, None, guest.resources.bar.local_memory, visible);
    let private = vidmm.gpus().map(|gpu| {
        let of_fences = match gpu {
            GpuOrdinal::MASTER => guest.fences.used_local_storage(),
            _ => 0,
        };
        let used = vidmm.used(LocalSegment::Private(gpu)) + of_fences;
        (Segment::Private, vidmm.is_chain().then_some(gpu), sizes.private, used)
    });
    let fence_size = fence_segment_size(guest.resources.bar.fence_count);
    let of_host = [
        (Segment::Backing, None, sizes.backing, vidmm.used_backing()),
        (Segment::Fence, None, fence_size, guest.fences.used_storage() + guest.logs.size()),
    ];
    std::iter::once(local).chain(private).chain(of_host).map(describe).collect()
}

pub(super) fn segment_name(segment: Segment) -> &'static str {
    match segment {
        Segment::System => "system",
        Segment::Local => "local",
        Segment::Private => "private",
        Segment::Backing => "backing",
        Segment::Fence => "fence",
        Segment::CrossAdapter => "cross-adapter",
    }
}

pub(super) fn model_name(model: Model) -> &'static str {
    match model {
        Model::Basic => "basic",
        Model::BasicPlusPlus => "basic++",
        Model::Virtual(_) => "virtual",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::MAX_GPUS;
    use bellhop_protocol::control::escape::ESCAPE_DATA_SIZE;
    use bellhop_protocol::control::flip::MAX_FLIPS;
    use bellhop_protocol::control::process::MAX_OBJECT_NAME;
    use bellhop_protocol::snapshot::Name;

    /// The largest possible objects, or larger ones.
    #[test]
    fn the_largest_object_of_each_kind_fits_into_a_reply() {
        let name = Name(u64::MAX);
        let long = || "x".repeat(64);
        let words = u64::MAX;
        let sizes = [
            serde_json::to_vec(&snapshot::Adapter {
                ordinal: u32::MAX,
                name: long(),
                protocol: long(),
                doorbell_model: long(),
                physical_doorbells: u32::MAX,
                physical_doorbells_used: Some(u32::MAX),
                power: long(),
                power_transitions: words,
                gpus: vec![
                    snapshot::Gpu {
                        ordinal: u8::MAX,
                        power: "D0".into(),
                        when_needed: false,
                        power_transitions: words,
                        powered_time: words,
                    };
                    MAX_GPUS
                ],
                time: words,
                traced: false,
                changes: Vec::new(),
                cgroups: None,
            }),
            serde_json::to_vec(&snapshot::HwQueue {
                handle: name,
                name: Some("\\".repeat(MAX_OBJECT_NAME)),
                submission: long(),
                state: long(),
                progress_fence: name,
                queued: words,
                completed: words,
                logged: words,
                log_entries_lost: words,
                busy_time: words,
                doorbell: Some(snapshot::Doorbell {
                    handle: name,
                    state: long(),
                    status: long(),
                    physical: Some(u32::MAX),
                    ring_size: words,
                }),
            }),
            serde_json::to_vec(&snapshot::Context {
                handle: name,
                name: Some("\\".repeat(MAX_OBJECT_NAME)),
                node: u32::MAX,
                gpu: u32::MAX,
                priority: i8::MIN,
                state: long(),
                model: Some(long()),
                suspended_by: vec![long(); 8],
                hw_queues: Vec::new(),
            }),
            serde_json::to_vec(&snapshot::Guest {
                id: words,
                // A guest does not get these, and the host's operator has more room.
                socket: None,
                connection: None,
                pid: None,
                command: None,
                state: long(),
                bar_mapped: false,
                weight: 10_000,
                suspended: false,
                gpu: long(),
                gpus_removed: vec![u32::MAX; crate::hardware::MAX_GPUS - 1],
                changes: Vec::new(),
                cgroups: Vec::new(),
                agent: snapshot::Agent {
                    process: Some(u32::MAX),
                    power_policy: long(),
                    pending: u32::MAX,
                    asked: words,
                    answered: words,
                    refused: words,
                },
                features: long().repeat(4),
                statistics: snapshot::Counts {
                    packets: words,
                    bytes: words,
                    doorbells: words,
                    interrupts: words,
                    control_messages: words,
                    notifies: words,
                    victims: words,
                    engine_time: words,
                },
                quotas: vec![
                    snapshot::Quota { what: "x".repeat(24), used: words, limit: words };
                    16
                ],
                memory: vec![
                    snapshot::SegmentUse {
                        segment: "aperture".into(),
                        gpu: Some(u32::MAX),
                        size: Some(words),
                        used: words,
                        allocations: words,
                    };
                    4 + crate::hardware::MAX_GPUS
                ],
                displays: Vec::new(),
                processes: Vec::new(),
            }),
            serde_json::to_vec(&snapshot::Display {
                connector: u32::MAX,
                // As for guests.
                name: None,
                kind: long(),
                plugged: false,
                plugs: u32::MAX,
                viewers: None,
                resets: words,
                path: Some(snapshot::DisplayPath {
                    process: u32::MAX,
                    lent_to: Some(u32::MAX),
                    source: u32::MAX,
                    width: u32::MAX,
                    height: u32::MAX,
                    format: long(),
                    monitor_width: u32::MAX,
                    monitor_height: u32::MAX,
                    refresh_numerator: u32::MAX,
                    refresh_denominator: u32::MAX,
                    scaling: long(),
                    rotation: 270,
                    visible: false,
                    flip: words,
                    pending: vec![words; MAX_FLIPS as usize],
                    vsyncs: words,
                    shown: words,
                    missed: words,
                    dropped: words,
                    lost: words,
                }),
            }),
        ];
        for text in sizes {
            let length = text.unwrap().len();
            assert!(length + 2 <= ESCAPE_DATA_SIZE, "{length}");
        }
    }
}
