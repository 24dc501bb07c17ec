// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Semaphores that programs pass to each other: `VK_KHR_external_semaphore_fd`.

use super::Semaphore;
use super::payload::Payload;
use crate::device::Device;
use crate::handle;
use crate::physical_device::EXPORTED;
use ash::vk::{self, Handle as _};
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

unsafe extern "system" fn export(
    _device: vk::Device,
    information: *const vk::SemaphoreGetFdInfoKHR<'_>,
    descriptor: *mut RawFd,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it, and no other call uses the semaphore.
    unsafe {
        let semaphore = handle::get::<Semaphore>((*information).semaphore.as_raw());
        // A valid program exports what it has made for that.
        let Some(token) = semaphore.token() else { return vk::Result::ERROR_UNKNOWN };
        match token.descriptor() {
            Ok(given) => *descriptor = given.into_raw_fd(),
            Err(_) => return vk::Result::ERROR_TOO_MANY_OBJECTS,
        }
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn import(
    device: vk::Device,
    information: *const vk::ImportSemaphoreFdInfoKHR<'_>,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it: the descriptor is open, and no other call uses the semaphore.
    unsafe {
        let vk::ImportSemaphoreFdInfoKHR { semaphore, flags, handle_type, fd, .. } = *information;
        let semaphore = handle::get::<Semaphore>(semaphore.as_raw());
        if handle_type != EXPORTED || fd < 0 {
            return vk::Result::ERROR_INVALID_EXTERNAL_HANDLE;
        }
        // A failed import leaves the program its descriptor.
        let Ok(descriptor) = BorrowedFd::borrow_raw(fd).try_clone_to_owned() else {
            return vk::Result::ERROR_INVALID_EXTERNAL_HANDLE;
        };
        let imported = match Payload::open(Device::get(device), descriptor) {
            Ok(imported) => imported,
            Err(error) => return error,
        };
        if imported.is_timeline() != semaphore.payload().is_timeline() {
            return vk::Result::ERROR_INVALID_EXTERNAL_HANDLE;
        }
        semaphore.import(imported, flags.contains(vk::SemaphoreImportFlags::TEMPORARY));
        drop(OwnedFd::from_raw_fd(fd));
    }
    vk::Result::SUCCESS
}

crate::entry::entry_points! {
    vkGetSemaphoreFdKHR = export,
    vkImportSemaphoreFdKHR = import,
}
