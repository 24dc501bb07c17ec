// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Semaphores that several devices have, of one program or of several.

use super::{Failure, Gpu, Outcome};
use ash::khr::external_semaphore_fd;
use ash::vk;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

const KIND: vk::ExternalSemaphoreHandleTypeFlags = vk::ExternalSemaphoreHandleTypeFlags::OPAQUE_FD;

impl Gpu<'_> {
    fn shared_semaphores(&self) -> Outcome<&external_semaphore_fd::Device> {
        let extension = self.shared_semaphores.as_ref();
        extension.ok_or_else(|| Failure::not_offered("the device shares no semaphores"))
    }

    /// A semaphore that others may have.
    pub(crate) fn shared(&self, kind: vk::SemaphoreType, value: u64) -> Outcome<vk::Semaphore> {
        self.shared_semaphores()?;
        let mut export = vk::ExportSemaphoreCreateInfo::default().handle_types(KIND);
        let information = vk::SemaphoreCreateInfo::default().push_next(&mut export);
        self.semaphore_with(kind, value, information)
    }

    /// The descriptor of a semaphore that others may have.
    pub(crate) fn export(&self, semaphore: vk::Semaphore) -> Outcome<OwnedFd> {
        let extension = self.shared_semaphores()?;
        let information =
            vk::SemaphoreGetFdInfoKHR::default().semaphore(semaphore).handle_type(KIND);
        // SAFETY: the semaphore is the device's, and this thread alone uses it.
        let descriptor = unsafe { extension.get_semaphore_fd(&information) }?;
        // SAFETY: the descriptor is new, and the caller's.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    /// Has a semaphore be what a descriptor names, until its next wait if that is `temporary`.
    pub(crate) fn import(
        &self,
        semaphore: vk::Semaphore,
        descriptor: OwnedFd,
        temporary: bool,
    ) -> Outcome<Result<(), vk::Result>> {
        let extension = self.shared_semaphores()?;
        let flags = match temporary {
            true => vk::SemaphoreImportFlags::TEMPORARY,
            false => vk::SemaphoreImportFlags::empty(),
        };
        let information = vk::ImportSemaphoreFdInfoKHR::default()
            .semaphore(semaphore)
            .flags(flags)
            .handle_type(KIND)
            .fd(descriptor.as_raw_fd());
        // SAFETY: the semaphore is the device's, and nothing uses it. The descriptor is open.
        let imported = unsafe { extension.import_semaphore_fd(&information) };
        if imported.is_ok() {
            // It is the driver's now.
            let _ = descriptor.into_raw_fd();
        }
        Ok(imported)
    }
}
