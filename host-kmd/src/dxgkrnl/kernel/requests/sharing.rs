// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about allocations that processes of a guest share.
//!
//! Each process has its own object, with its own handle, devices and mappings. The processes share VidMm's
//! allocation: the bytes, wherever they are. The last process to close it destroys it.

use crate::ddi::paging::AllocationId;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::{Answer, Handled};
use crate::dxgkrnl::memory::allocation::Allocation;
use crate::dxgkrnl::object::device::Device;
use crate::dxgkrnl::object::error::RequestError;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{
    OpenSharedAllocation, OpenedAllocation, ShareAllocation,
};
use bellhop_protocol::control::fence::NtHandle;

impl ProcessAccess<'_> {
    /// `D3DKMTShareObjects`.
    pub(crate) fn share_allocation(&mut self, request: ShareAllocation) -> Handled<NtHandle> {
        let id = self.get::<Allocation>(request.allocation)?.paged();
        let name = id.and_then(|id| self.guest.shared_allocations.name(id));
        let why = "sharing an allocation that was not created for it";
        name.map(|name| Answer::Done(NtHandle(name))).ok_or(RequestError::NotSupported(why))
    }

    /// `D3DKMTOpenResourceFromNtHandle`.
    pub(crate) fn open_shared_allocation(
        &mut self,
        request: OpenSharedAllocation,
    ) -> Handled<OpenedAllocation> {
        let OpenSharedAllocation { device, nt_handle: NtHandle(name) } = request;
        self.get::<Device>(device)?;
        let shared = &self.guest.shared_allocations;
        let unknown = RequestError::parameter("nt_handle", name);
        let id = shared.with_name(name).ok_or(unknown.clone())?;
        let allocation = match shared.handle_of(id, self.process_id) {
            Some(allocation) => {
                self.open_on(device, allocation)?;
                allocation
            }
            None => {
                let (other, handle) = shared.any_handle(id).ok_or(unknown)?;
                let original = self.guest.handles.get::<Allocation>(other, handle)?;
                let opened = original.open_elsewhere(id, device);
                self.insert_opened(id, device, opened)?
            }
        };
        let size = self.get::<Allocation>(allocation)?.size();
        Ok(Answer::Done(OpenedAllocation { allocation, size }))
    }

    /// Gives this process an allocation that other processes have.
    fn insert_opened(
        &mut self,
        id: AllocationId,
        device: Handle,
        opened: Allocation,
    ) -> Result<Handle, RequestError> {
        let process = self.process_id;
        let handle = self.insert(opened)?;
        self.guest.vidmm.open(process, id)?;
        self.guest.shared_allocations.insert(id, process, handle);
        self.get_mut::<Device>(device)?.add_allocation(handle);
        Ok(handle)
    }
}
