// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Why a device is lost: `VK_EXT_device_fault`.

use super::Device;
use crate::physical_device::properties::text;
use ash::vk;
use bellhop_guest_umd::protocol::PAGE_SIZE;
use bellhop_guest_umd::protocol::event::FaultReason;
use bellhop_guest_umd::{Error, QueueFault};

/// Why a device is lost.
pub(super) struct Fault {
    description: String,
    address: Option<vk::DeviceFaultAddressInfoEXT>,
}

impl Fault {
    pub(super) fn new(why: &Error) -> Self {
        let fault = match why {
            Error::QueueLost { fault, .. } => fault.as_ref(),
            _ => None,
        };
        let description = fault.map_or_else(|| why.to_string(), ToString::to_string);
        Self { description, address: fault.and_then(address) }
    }
}

/// What a fault says of an address.
fn address(fault: &QueueFault) -> Option<vk::DeviceFaultAddressInfoEXT> {
    let kind = match fault.reason {
        FaultReason::READ_PAGE_FAULT => vk::DeviceFaultAddressTypeEXT::READ_INVALID,
        FaultReason::WRITE_PAGE_FAULT | FaultReason::WRITE_PROTECTION_FAULT => {
            vk::DeviceFaultAddressTypeEXT::WRITE_INVALID
        }
        FaultReason::ADDRESS_OUT_OF_RANGE => vk::DeviceFaultAddressTypeEXT::READ_INVALID,
        _ => return None,
    };
    Some(vk::DeviceFaultAddressInfoEXT {
        address_type: kind,
        reported_address: fault.address,
        address_precision: if fault.reason.is_page_fault() { 1 } else { PAGE_SIZE },
    })
}

unsafe extern "system" fn fault_information(
    device: vk::Device,
    counts: *mut vk::DeviceFaultCountsEXT<'_>,
    information: *mut vk::DeviceFaultInfoEXT<'_>,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let (fault, counts) = unsafe { (Device::get(device).fault.get(), &mut *counts) };
    let address = fault.and_then(|fault| fault.address);
    let room = counts.address_info_count;
    let all = u32::from(address.is_some());
    (counts.vendor_info_count, counts.vendor_binary_size) = (0, 0);
    // SAFETY: as above.
    let Some(information) = (unsafe { information.as_mut() }) else {
        counts.address_info_count = all;
        return vk::Result::SUCCESS;
    };
    information.description = text(fault.map_or("", |fault| &fault.description));
    counts.address_info_count = all.min(room);
    if let Some(address) = address.filter(|_| room > 0 && !information.p_address_infos.is_null()) {
        // SAFETY: as above: there is room for at least one.
        unsafe { *information.p_address_infos = address };
    }
    if room < all { vk::Result::INCOMPLETE } else { vk::Result::SUCCESS }
}

crate::entry::entry_points! {
    vkGetDeviceFaultInfoEXT = fault_information,
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_guest_umd::protocol::control::Handle;
    use bellhop_guest_umd::protocol::packet::Opcode;
    use zerocopy::FromZeros;

    fn fault(reason: FaultReason) -> Fault {
        let opcode = Opcode::EXECUTE_COMMANDS;
        let fault = QueueFault { reason, opcode, address: 0x7000, read_pointer: 0 };
        Fault::new(&Error::QueueLost { queue: Handle::new_zeroed(), fault: Some(fault) })
    }

    #[test]
    fn a_page_fault_has_its_address() {
        let write = fault(FaultReason::WRITE_PAGE_FAULT);
        assert!(write.description.starts_with("WRITE_PAGE_FAULT at 0x7000"));
        let address = write.address.unwrap();
        assert!(address.address_type == vk::DeviceFaultAddressTypeEXT::WRITE_INVALID);
        assert_eq!((address.reported_address, address.address_precision), (0x7000, 1));
    }

    #[test]
    fn what_is_no_page_fault_has_none() {
        assert!(fault(FaultReason::ENGINE_TIMEOUT).address.is_none());
        let other = Fault::new(&Error::NotAvailable("memory"));
        assert!(other.address.is_none() && other.description.starts_with("memory"));
    }
}
