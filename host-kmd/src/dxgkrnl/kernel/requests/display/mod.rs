// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about a display's children, monitors and topology.
//!
//! Source: Windows KMD overview, "Display".

mod flip;

use crate::ddi::Miniport;
use crate::ddi::display::{DisplayDdi, Modality, VidPn, VidPnRefusal};
use crate::dxgkrnl::display::flip::Outcomes;
use crate::dxgkrnl::display::paths;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::actions::flips::{flip_slack, has_monitor};
use crate::dxgkrnl::kernel::actions::nodes::display_ddi;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::object::error::RequestError;
use bellhop_protocol::control::display::{
    CHILD_HOT_PLUG_AWARE, COFUNC_MODALITY_DATA, ChildDescriptor, ChildRelations, ChildStatus,
    CofuncModality, CommitVidPn, ConnectorKind, Constraint, DeviceDescriptor, EDID_BLOCK,
    EnumVidPnCofuncModality, IsSupportedVidPn, MAX_PATHS, MONITOR_MODES_PAGE, MonitorModes, Pinned,
    Pivot, QueryChildRelations, QueryChildStatus, QueryDeviceDescriptor, RecommendMonitorModes,
    Rotation, Scaling, SourceMode, TargetMode, VidPnPath, VidPnSupport,
};
use zerocopy::{FromZeros, IntoBytes};

/// `DxgkDdiQueryChildRelations`.
pub(crate) fn query_child_relations(
    miniport: &dyn Miniport,
    request: QueryChildRelations,
) -> Handled<ChildRelations> {
    zero("reserved", request.reserved)?;
    let ddi = display_ddi(miniport)?;
    let caps = ddi.query_child_relations();
    let none = ChildDescriptor { kind: ConnectorKind(0), flags: 0 };
    let mut list = [none; MAX_PATHS as usize];
    for ((entry, connector), child) in list.iter_mut().zip(&caps.connectors).zip(0..) {
        let descriptor = ChildDescriptor { kind: connector.kind, flags: CHILD_HOT_PLUG_AWARE };
        *entry = descriptor.on_gpu(ddi.gpu_of_child(child).0);
    }
    let children = caps.connectors.len().min(list.len()) as u32;
    Ok(Answer::Done(ChildRelations { children, sources: caps.sources, list }))
}

/// Refuses a child that does not exist.
fn child(miniport: &dyn Miniport, child: u32) -> Result<&dyn DisplayDdi, RequestError> {
    let ddi = display_ddi(miniport)?;
    if child as usize >= ddi.query_child_relations().connectors.len() {
        return Err(RequestError::parameter("child", child.into()));
    }
    Ok(ddi)
}

/// Refuses a child of a GPU that was taken away, with its monitor.
fn monitor<'m>(
    guest: &Guest,
    miniport: &'m dyn Miniport,
    child: u32,
) -> Result<&'m dyn DisplayDdi, RequestError> {
    let ddi = self::child(miniport, child)?;
    let is_there = guest.presence.has(ddi.gpu_of_child(child));
    is_there.then_some(ddi).ok_or(RequestError::MonitorNotConnected(child))
}

/// `DxgkDdiQueryChildStatus`.
pub(crate) fn query_child_status(
    guest: &Guest,
    miniport: &dyn Miniport,
    request: QueryChildStatus,
) -> Handled<ChildStatus> {
    let QueryChildStatus { child, reserved } = request;
    let connected = has_monitor(guest, self::child(miniport, child)?, child);
    zero("reserved", reserved)?;
    let generation = guest.display.generation(child);
    Ok(Answer::Done(ChildStatus { connected: connected.into(), generation }))
}

/// `DxgkDdiQueryDeviceDescriptor`.
pub(crate) fn query_device_descriptor(
    guest: &Guest,
    miniport: &dyn Miniport,
    request: QueryDeviceDescriptor,
) -> Handled<DeviceDescriptor> {
    let QueryDeviceDescriptor { child, offset } = request;
    let edid = monitor(guest, miniport, child)?.query_device_descriptor(guest.id, child);
    let wrong = RequestError::parameter("offset", offset.into());
    if !offset.is_multiple_of(EDID_BLOCK) {
        return Err(wrong);
    }
    let edid = edid.ok_or(RequestError::MonitorNotConnected(child))?;
    let block = edid.chunks_exact(EDID_BLOCK as usize).nth((offset / EDID_BLOCK) as usize);
    let data = block.and_then(|block| block.try_into().ok()).ok_or(wrong)?;
    let length = u32::try_from(edid.len()).unwrap_or(u32::MAX);
    Ok(Answer::Done(DeviceDescriptor { length, reserved: 0, data }))
}

/// `DxgkDdiRecommendMonitorModes`.
pub(crate) fn recommend_monitor_modes(
    guest: &Guest,
    miniport: &dyn Miniport,
    request: RecommendMonitorModes,
) -> Handled<MonitorModes> {
    let RecommendMonitorModes { child, first } = request;
    let all = monitor(guest, miniport, child)?.recommend_monitor_modes(guest.id, child);
    let all = all.ok_or(RequestError::MonitorNotConnected(child))?;
    let mut modes = [TargetMode::new_zeroed(); MONITOR_MODES_PAGE as usize];
    for (entry, mode) in modes.iter_mut().zip(all.iter().skip(first as usize)) {
        *entry = *mode;
    }
    let count = u32::try_from(all.len()).unwrap_or(u32::MAX);
    Ok(Answer::Done(MonitorModes { count, reserved: 0, modes }))
}

/// Refuses paths to what another process has, or to a monitor of a GPU that was taken away.
fn check_paths(
    guest: &Guest,
    miniport: &dyn Miniport,
    process: u32,
    paths: &[VidPnPath],
) -> Result<Result<(), VidPnRefusal>, RequestError> {
    let ddi = display_ddi(miniport)?;
    let is_lost = |path: &VidPnPath| !guest.presence.has(ddi.gpu_of_child(path.target));
    let lost = paths.iter().position(is_lost);
    let is_free = guest.display.paths().check_free(guest.claimant(process), paths);
    Ok(is_free.and(lost.map_or(Ok(()), |path| {
        Err(VidPnRefusal {
            constraint: Constraint::NOT_CONNECTED,
            path: u32::try_from(path).unwrap_or(u32::MAX),
            limit: 0,
        })
    })))
}

/// Whether a VidPN is functional beside what other processes show.
fn check_vidpn(
    guest: &Guest,
    miniport: &dyn Miniport,
    process: u32,
    paths: &[VidPnPath],
) -> Result<Result<(), VidPnRefusal>, RequestError> {
    let ddi = display_ddi(miniport)?;
    let committed = guest.display.paths();
    let others = committed.others(guest.claimant(process));
    let vidpn = VidPn { paths, others: &others };
    let is_free = check_paths(guest, miniport, process, paths)?;
    Ok(is_free.and_then(|()| ddi.is_supported_vidpn(guest.id, vidpn)))
}

/// `DxgkDdiIsSupportedVidPn`.
pub(crate) fn is_supported_vidpn(
    guest: &Guest,
    miniport: &dyn Miniport,
    process: u32,
    request: IsSupportedVidPn,
    paths: Vec<VidPnPath>,
) -> Handled<VidPnSupport> {
    display_ddi(miniport)?;
    zero("reserved", request.reserved)?;
    check_form(0, &paths)?;
    let support = match check_vidpn(guest, miniport, process, &paths)? {
        Ok(()) => VidPnSupport {
            supported: 1,
            constraint: Constraint::NONE,
            path: 0,
            reserved: 0,
            limit: 0,
        },
        Err(VidPnRefusal { constraint, path, limit }) => {
            VidPnSupport { supported: 0, constraint, path, reserved: 0, limit }
        }
    };
    Ok(Answer::Done(support))
}

/// `DxgkDdiEnumVidPnCofuncModality`.
pub(crate) fn enum_vidpn_cofunc_modality(
    guest: &Guest,
    miniport: &dyn Miniport,
    process: u32,
    request: EnumVidPnCofuncModality,
    paths: Vec<VidPnPath>,
) -> Handled<CofuncModality> {
    let ddi = display_ddi(miniport)?;
    let EnumVidPnCofuncModality { pivot_path, pivot, first, .. } = request;
    check_form(1, &paths)?;
    if pivot_path as usize >= paths.len() {
        return Err(RequestError::parameter("pivot_path", pivot_path.into()));
    }
    let entry_size = match pivot {
        Pivot::SOURCE_MODE => size_of::<SourceMode>(),
        Pivot::TARGET_MODE => size_of::<TargetMode>(),
        Pivot::SCALING => size_of::<Scaling>(),
        Pivot::ROTATION => size_of::<Rotation>(),
        unknown => return Err(RequestError::parameter("pivot", unknown.0.into())),
    };
    let committed = guest.display.paths();
    let others = committed.others(guest.claimant(process));
    let values = match check_paths(guest, miniport, process, &paths)? {
        Ok(()) => {
            let vidpn = VidPn { paths: &paths, others: &others };
            ddi.enum_vidpn_cofunc_modality(guest.id, vidpn, pivot_path, pivot)
        }
        Err(_) => Vec::new(),
    };
    let mut data = [0; COFUNC_MODALITY_DATA];
    let shown = values.iter().skip(first as usize);
    for (entry, value) in data.chunks_exact_mut(entry_size).zip(shown) {
        entry.copy_from_slice(match value {
            Modality::Source(mode) => mode.as_bytes(),
            Modality::Target(mode) => mode.as_bytes(),
            Modality::Scaling(scaling) => scaling.as_bytes(),
            Modality::Rotation(rotation) => rotation.as_bytes(),
        });
    }
    let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
    Ok(Answer::Done(CofuncModality { count, entry_size: entry_size as u32, data }))
}

/// Refuses a process that ends, and shows nothing more.
fn check_shows(guest: &Guest, process: u32) -> Result<(), RequestError> {
    if guest.display.is_closed(process) {
        return Err(RequestError::NoSuchProcess(process));
    }
    Ok(())
}

impl ProcessAccess<'_> {
    /// `DxgkDdiCommitVidPn`: all or nothing.
    pub(crate) fn commit_vidpn(
        &mut self,
        request: CommitVidPn,
        paths: Vec<VidPnPath>,
    ) -> Handled<()> {
        let ddi = display_ddi(self.miniport)?;
        zero("reserved", request.reserved)?;
        check_form(0, &paths)?;
        check_shows(self.guest, self.process_id)?;
        let claimant = self.guest.claimant(self.process_id);
        self.guest.display.paths().check_free(claimant, &paths)?;
        let pinned = paths::pinned(&paths)?;
        let mut gpus = pinned.iter().map(|path| ddi.gpu_of_source(path.source));
        gpus.try_for_each(|gpu| self.guest.presence.check_gpu(gpu))?;
        check_vidpn(self.guest, self.miniport, self.process_id, &paths)??;
        let mut outcomes = Outcomes::default();
        let times = (self.now, flip_slack(self.timeout));
        let Self { guest, miniport, process_id, .. } = self;
        if let Some(ddi) = miniport.display() {
            if let Some(agent) = claimant.displaced().filter(|_| !pinned.is_empty()) {
                guest.display.commit(ddi, agent, Vec::new(), times, &mut outcomes);
            }
            guest.display.commit(ddi, *process_id, pinned, times, &mut outcomes);
        }
        self.tell_agent_of_sources();
        Ok(match self.finish_display(outcomes) {
            Some(ticket) => Answer::AfterDisplay(ticket),
            None => Answer::Done(()),
        })
    }
}

/// Refuses paths that are no paths.
fn check_form(least: usize, paths: &[VidPnPath]) -> Result<(), RequestError> {
    if !(least..=MAX_PATHS as usize).contains(&paths.len()) {
        return Err(RequestError::parameter("paths", paths.len() as u64));
    }
    for path in paths {
        zero("reserved", path.reserved)?;
        let pinned = Pinned::from_bits(path.flags)
            .ok_or(RequestError::parameter("flags", path.flags.into()))?;
        if pinned.contains(Pinned::SOURCE_MODE) {
            zero("reserved", path.source_mode.reserved)?;
        }
    }
    Ok(())
}
