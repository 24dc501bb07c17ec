// SPDX-License-Identifier: MIT OR Apache-2.0

//! Lists of objects for tools, a page at a time.
//!
//! A page shows what the control plane knows; making it changes nothing. Its size is bounded, so that a query cannot
//! block the control plane for long. A guest asks through `D3DKMTEscape` and sees its own objects; the host's
//! operator sees all.

mod describe;
mod page;

use crate::ddi::Miniport;
use crate::dxgkrnl::doorbell::table::Doorbells;
use crate::dxgkrnl::fence::state::NativeFence;
use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::kernel::state::Identity;
use crate::dxgkrnl::object::changes::Changes;
use crate::dxgkrnl::object::device::Device;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::recorder::Recorder;
use crate::dxgkrnl::power::gpus::GpuPower;
use crate::dxgkrnl::power::state::Power;
use crate::dxgkrnl::queue::context::Context;
use crate::dxgkrnl::queue::hw_queue::HwQueue;
use crate::hardware::{GuestId, Platform, Reported as _};
use crate::port::{ListError, ListObjects, ObjectPage};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::escape::{ESCAPE_DATA_SIZE, Escape, EscapeReply, ObjectList};
use describe::{describe_allocation, describe_context, describe_device, describe_kernel, entry};
use page::{Called, Members, page};
use std::ops::Bound::{Excluded, Unbounded};
use std::time::Duration;

/// The state that a page comes from.
struct View<'a> {
    miniport: &'a dyn Miniport,
    platform: &'a dyn Platform,
    doorbells: &'a Doorbells,
    power: &'a Power,
    gpu_power: &'a GpuPower,
    now: Duration,
    recorder: &'a Recorder,
    /// What the host's operator has changed of the adapter. No guest sees it.
    changes: &'a Changes,
    /// The adapter's place on its host. `None` if a guest asks: the guest must not learn of it, nor of other guests'
    /// objects.
    identity: Option<&'a Identity>,
}

impl Kernel {
    /// Returns a page of the objects of a list. Its text takes at most `room` bytes.
    ///
    /// # Errors
    /// Fails if there is no such list, or its guest, process or parent does not exist.
    pub fn list(&self, wanted: ListObjects, room: usize) -> Result<ObjectPage, ListError> {
        let view = View {
            miniport: self.miniport.as_ref(),
            platform: self.platform.as_ref(),
            doorbells: &self.callbacks.doorbells,
            power: &self.power,
            gpu_power: &self.gpu_power,
            now: self.now,
            recorder: &self.recorder,
            changes: &self.changes,
            identity: Some(&self.identity),
        };
        let ListObjects { guest, list, process, parent, after } = wanted;
        check_list(list, process, parent)?;
        match list {
            ObjectList::ADAPTER | ObjectList::NODES => {}
            ObjectList::GUESTS => {
                let guests = self.guests.range((Excluded(GuestId(after)), Unbounded));
                let guests = guests.map(|(id, guest)| (id.0, view.guest(*id, guest)));
                return Ok(page(guests, room));
            }
            ObjectList::WORKERS => {
                let workers = view.workers(|id| self.guests.get(&id), after);
                return Ok(page(workers.into_iter(), room));
            }
            _ => {
                let found = self.guests.get(&guest);
                let found = found.ok_or(ListError { gone: true, why: no_guest(guest) })?;
                let escape = Escape { list, process, parent, after };
                return Ok(view.list_of_guest(guest, found, escape, room)?);
            }
        }
        Ok(view.list_of_adapter(list, after, room)?)
    }
}

impl ProcessAccess<'_> {
    /// `D3DKMTEscape`.
    pub(crate) fn escape(&mut self, request: Escape) -> Handled<EscapeReply> {
        let view = View {
            miniport: self.miniport,
            platform: self.platform,
            doorbells: &self.callbacks.doorbells,
            power: self.power,
            gpu_power: self.gpu_power,
            now: self.now,
            recorder: self.recorder,
            changes: &Changes::default(),
            identity: None,
        };
        check_list(request.list, request.process, request.parent)?;
        let (id, guest) = (self.guest_id, &*self.guest);
        let page = match request.list {
            ObjectList::ADAPTER | ObjectList::NODES => {
                view.list_of_adapter(request.list, request.after, ESCAPE_DATA_SIZE)?
            }
            ObjectList::GUESTS => {
                let own = (id.0 > request.after).then(|| (id.0, view.guest(id, guest)));
                page(own.into_iter(), ESCAPE_DATA_SIZE)
            }
            ObjectList::WORKERS => {
                let workers = view.workers(|of| (of == id).then_some(guest), request.after);
                page(workers.into_iter(), ESCAPE_DATA_SIZE)
            }
            _ => view.list_of_guest(id, guest, request, ESCAPE_DATA_SIZE)?,
        };
        let mut data = [0; ESCAPE_DATA_SIZE];
        for (to, from) in data.iter_mut().zip(&page.objects) {
            *to = *from;
        }
        // A page fits in its room.
        let length = page.objects.len() as u32;
        Ok(Answer::Done(EscapeReply { next: page.next, length, reserved: 0, data }))
    }
}

impl View<'_> {
    fn list_of_adapter(
        &self,
        list: ObjectList,
        after: u64,
        room: usize,
    ) -> Result<ObjectPage, RequestError> {
        match list {
            ObjectList::ADAPTER => Ok(page([(1, self.adapter())].into_iter(), room)),
            ObjectList::NODES => {
                let first = u32::try_from(after).unwrap_or(u32::MAX);
                let nodes = (first..self.miniport.node_count())
                    .filter_map(|node| Some((u64::from(node) + 1, self.node(node)?)));
                Ok(page(nodes, room))
            }
            list => Err(RequestError::parameter("list", list.0.into())),
        }
    }

    fn list_of_guest(
        &self,
        id: GuestId,
        guest: &Guest,
        wanted: Escape,
        room: usize,
    ) -> Result<ObjectPage, RequestError> {
        let Escape { list, process, parent, after } = wanted;
        let found = || guest.processes.get(&process).ok_or(RequestError::NoSuchProcess(process));
        let device = || {
            found()?;
            guest.handles.get::<Device>(process, parent)
        };
        let members = Members { guest, process, after };
        Ok(match list {
            ObjectList::PROCESSES => {
                let after = u32::try_from(after).unwrap_or(u32::MAX);
                let processes = guest.processes.range((Excluded(after), Unbounded));
                page(processes.map(|(id, process)| (u64::from(*id), entry(*id, process))), room)
            }
            ObjectList::KERNELS => {
                let kernels = self.platform.kernels(found()?.space()).into_iter();
                let left = kernels.filter(|kernel| u64::from(kernel.number) > after);
                page(left.map(|kernel| (kernel.number.into(), describe_kernel(kernel))), room)
            }
            ObjectList::DISPLAYS => page(self.displays(id, guest, after), room),
            ObjectList::DEVICES => page(members.of(found()?.devices(), describe_device), room),
            ObjectList::CONTEXTS => {
                let describe = |called, context: &Context| {
                    let node = self.miniport.get_node_metadata(context.node());
                    describe_context(called, context, node.map_or(0, |node| node.gpu()))
                };
                page(members.of(device()?.contexts(), describe), room)
            }
            ObjectList::HW_QUEUES => {
                found()?;
                let context = guest.handles.get::<Context>(process, parent)?;
                let describe = |called, queue: &HwQueue| {
                    self.hw_queue((id, guest, process), context, called, queue)
                };
                page(members.of(context.hw_queues(), describe), room)
            }
            ObjectList::ALLOCATIONS => {
                let describe =
                    |called, allocation: &_| describe_allocation(guest, called, allocation);
                page(members.of(device()?.allocations(), describe), room)
            }
            ObjectList::FENCES => {
                let describe = |Called { handle, name }, fence: &NativeFence| {
                    let value = self.platform.fence_value(id, fence.global).reported();
                    let global = guest.fences.get(fence.global)?;
                    Some(global.describe((handle, name), value))
                };
                page(members.of(device()?.fences(), describe), room)
            }
            list => return Err(RequestError::parameter("list", list.0.into())),
        })
    }
}

/// Refuses an unknown list, and a process or parent that the list does not take.
fn check_list(list: ObjectList, process: u32, parent: Handle) -> Result<(), RequestError> {
    if list.name().is_none() {
        return Err(RequestError::parameter("list", list.0.into()));
    }
    let is_of_process = !matches!(
        list,
        ObjectList::ADAPTER
            | ObjectList::NODES
            | ObjectList::GUESTS
            | ObjectList::PROCESSES
            | ObjectList::WORKERS
            | ObjectList::DISPLAYS
    );
    if !is_of_process {
        zero("process", process)?;
    }
    if !is_of_process || matches!(list, ObjectList::DEVICES | ObjectList::KERNELS) {
        zero("parent", parent.0)?;
    }
    Ok(())
}

fn no_guest(guest: GuestId) -> String {
    format!("there is no guest {}", guest.0)
}
