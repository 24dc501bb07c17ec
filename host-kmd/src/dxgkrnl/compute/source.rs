// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a kernel is made from, as a guest asks for it: nothing of it is trusted.

use crate::dxgkrnl::object::error::RequestError;
use crate::hardware::KernelSource;
use bellhop_protocol::control::gpu_va::{GPU_VA_END, GPU_VA_START};
use bellhop_protocol::control::kernel::{
    CreateKernel, KernelCaps, MAX_SPECIALISATION_CONSTANTS, MAX_SPIRV, MIN_SPIRV,
    SpecialisationConstant,
};
use bellhop_protocol::packet::UNIT;
use bellhop_protocol::packet::dispatch::{MAX_DESCRIPTORS, MAX_PUSH_CONSTANTS};
use std::collections::BTreeSet;

/// Bytes of a word of SPIR-V, and of push constants.
const WORD: u32 = size_of::<u32>() as u32;

/// Checks what a kernel is to be made from, against what the hardware has.
pub(crate) fn check(
    request: &CreateKernel,
    constants: &[SpecialisationConstant],
    caps: &KernelCaps,
) -> Result<KernelSource, RequestError> {
    let refused = |field, value: u32| Err(RequestError::parameter(field, value.into()));
    let CreateKernel { spirv, spirv_length: length, push_constants, descriptors, .. } = *request;
    if !spirv.is_multiple_of(UNIT as u64) {
        return Err(RequestError::parameter("spirv", spirv));
    }
    if !length.is_multiple_of(WORD)
        || !(MIN_SPIRV..=caps.max_spirv.min(MAX_SPIRV)).contains(&length)
    {
        return refused("spirv_length", length);
    }
    if !push_constants.is_multiple_of(WORD)
        || push_constants > caps.max_push_constants.min(MAX_PUSH_CONSTANTS)
    {
        return refused("push_constants", push_constants);
    }
    if descriptors > caps.max_descriptors.min(MAX_DESCRIPTORS) {
        return refused("descriptors", descriptors);
    }
    if constants.len() > MAX_SPECIALISATION_CONSTANTS as usize {
        return refused("constant_count", request.constant_count);
    }
    let mut ids = BTreeSet::new();
    // Vulkan takes each constant once.
    if let Some(again) = constants.iter().find(|constant| !ids.insert(constant.id)) {
        return refused("id", again.id);
    }
    let entry_point = name(&request.entry_point)?;
    // Behind everything that is wrong in itself.
    let is_inside = spirv >= GPU_VA_START && spirv <= GPU_VA_END - u64::from(length);
    if !is_inside {
        return Err(RequestError::Unreadable(spirv));
    }
    let constants = constants.iter().map(|constant| [constant.id, constant.value]).collect();
    Ok(KernelSource { spirv, length, entry_point, push_constants, descriptors, constants })
}

/// The name of an entry point: printable ASCII, then zeroes, of each at least one. The error names the first byte that is
/// wrong.
fn name(bytes: &[u8]) -> Result<String, RequestError> {
    let wrong = |byte: u8| RequestError::parameter("entry_point", byte.into());
    let mut name = String::new();
    let mut rest = bytes.iter().copied();
    for byte in rest.by_ref().take_while(|byte| *byte != 0) {
        if !matches!(byte, b' '..=b'~') {
            return Err(wrong(byte));
        }
        name.push(char::from(byte));
    }
    if let Some(behind) = rest.find(|byte| *byte != 0) {
        return Err(wrong(behind));
    }
    match bytes.last() {
        Some(0) if !name.is_empty() => Ok(name),
        last => Err(wrong(last.copied().unwrap_or(0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_protocol::control::Handle;
    use bellhop_protocol::control::kernel::padded;
    use bellhop_protocol::status::Status;
    use proptest::prelude::*;

    /// What the protocol has, and what a small device has.
    fn caps() -> [KernelCaps; 2] {
        let most = KernelCaps {
            max_push_constants: u32::MAX,
            max_descriptors: u32::MAX,
            max_spirv: u32::MAX,
            ..KernelCaps::none("")
        };
        let small =
            KernelCaps { max_push_constants: 128, max_descriptors: 4, max_spirv: 4096, ..most };
        [most, small]
    }

    fn request() -> CreateKernel {
        CreateKernel {
            device: Handle(1),
            spirv: 0x10_0000,
            spirv_length: 20,
            push_constants: 0,
            descriptors: 0,
            constant_count: 0,
            entry_point: padded("main"),
        }
    }

    /// The status and detail with which a request is refused.
    fn refusal(request: &CreateKernel, caps: &KernelCaps) -> Option<(Status, u64)> {
        let error = check(request, &[], caps).err()?;
        Some((error.status(), error.detail()))
    }

    #[test]
    fn what_is_taken_is_what_was_asked_for() {
        let constants = [(7, 1), (3, 2)].map(|(id, value)| SpecialisationConstant { id, value });
        let request =
            CreateKernel { push_constants: 12, descriptors: 3, constant_count: 2, ..request() };
        let expected = KernelSource {
            spirv: 0x10_0000,
            length: 20,
            entry_point: "main".into(),
            push_constants: 12,
            descriptors: 3,
            constants: vec![[7, 1], [3, 2]],
        };
        assert_eq!(check(&request, &constants, &caps()[0]), Ok(expected));
    }

    #[test]
    fn each_number_has_its_bounds_and_the_device_s_are_below_the_protocol_s() {
        let wrong = |value: u32| Some((Status::INVALID_PARAMETER, value.into()));
        let [most, small] = caps();
        for (caps, spirv, constants, descriptors) in
            [(most, 1 << 20, 256, 16), (small, 4096, 128, 4)]
        {
            let of = |spirv_length| refusal(&CreateKernel { spirv_length, ..request() }, &caps);
            for length in [20, 24, spirv] {
                assert_eq!(of(length), None);
            }
            for length in [0, 16, 19, 21, 22, spirv + 1, spirv + 4, u32::MAX, u32::MAX - 3] {
                assert_eq!(of(length), wrong(length));
            }
            let of = |push_constants| refusal(&CreateKernel { push_constants, ..request() }, &caps);
            for bytes in [0, 4, constants] {
                assert_eq!(of(bytes), None);
            }
            for bytes in [1, 2, 6, constants + 1, constants + 4, u32::MAX - 3] {
                assert_eq!(of(bytes), wrong(bytes));
            }
            let of = |descriptors| refusal(&CreateKernel { descriptors, ..request() }, &caps);
            assert_eq!(of(descriptors), None);
            assert_eq!(of(descriptors + 1), wrong(descriptors + 1));
        }
    }

    #[test]
    fn spir_v_lies_within_the_addresses_that_a_process_can_have() {
        let of = |spirv| refusal(&CreateKernel { spirv, ..request() }, &caps()[0]);
        let end = 1u64 << 40;
        assert_eq!(of(end - 24), None);
        for outside in [0, 0xF_FFF8, end - 16, end, u64::MAX - 7] {
            assert_eq!(of(outside), Some((Status::ACCESS_VIOLATION, outside)));
        }
        for odd in [0x10_0004, u64::MAX] {
            assert_eq!(of(odd), Some((Status::INVALID_PARAMETER, odd)));
        }
    }

    #[test]
    fn there_are_at_most_sixteen_constants_and_each_is_given_once() {
        let constant = |id| SpecialisationConstant { id, value: 5 };
        let of = |constants: &[SpecialisationConstant]| {
            let constant_count = constants.len() as u32;
            let error = check(&CreateKernel { constant_count, ..request() }, constants, &caps()[0])
                .err()?;
            Some((error.status(), error.detail()))
        };
        let many: Vec<_> = (0..17).map(constant).collect();
        assert_eq!(of(&many[..16]), None);
        assert_eq!(of(&many), Some((Status::INVALID_PARAMETER, 17)));
        assert_eq!(of(&[9, 8, 9].map(constant)), Some((Status::INVALID_PARAMETER, 9)));
    }

    #[test]
    fn an_entry_point_s_name_is_printable_and_ends() {
        let of =
            |entry_point: [u8; 64]| refusal(&CreateKernel { entry_point, ..request() }, &caps()[0]);
        let wrong = |byte: u8| Some((Status::INVALID_PARAMETER, byte.into()));
        assert_eq!(of(padded("m")), None);
        assert_eq!(of(padded(&"x".repeat(63))), None);
        assert_eq!(of(padded("a b~")), None);
        assert_eq!(of(padded("")), wrong(0));
        assert_eq!(of([b'x'; 64]), wrong(b'x'));
        assert_eq!(of(padded("a\tb")), wrong(9));
        assert_eq!(of(padded("a\x7f")), wrong(0x7f));
        assert_eq!(of(padded("caf\u{e9}")), wrong(0xc3));
        assert_eq!(of(padded("a\0b")), wrong(b'b'));
        assert_eq!(of(padded("\0main")), wrong(b'm'));
    }

    proptest! {
        #[test]
        fn a_name_that_is_taken_is_what_comes_before_the_first_zero(
            bytes in proptest::collection::vec(prop_oneof![Just(0), any::<u8>()], 64)
        ) {
            if let Ok(name) = name(&bytes) {
                prop_assert!(!name.is_empty() && name.is_ascii());
                let mut padded = name.into_bytes();
                padded.resize(64, 0);
                prop_assert_eq!(padded, bytes);
            }
        }
    }
}
