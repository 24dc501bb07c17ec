// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a program may ask for: each request, once.

use bellhop_protocol::control::RequestCode;

/// What the broker does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// The broker answers: it has opened the adapter for all.
    Open,
    /// Anyone may ask this about the adapter.
    Adapter,
    /// The program gets a process with a BAR in its own memory.
    CreateProcess,
    /// One of the program's processes ends.
    DestroyProcess,
    /// It names memory of the guest's, which must be the program's.
    NamesMemory,
    /// It concerns one of the program's processes.
    Process,
    /// It concerns the whole guest: an administrator's programs may ask.
    Guest,
    /// It lists what all programs have: an administrator's programs may ask.
    Lists,
    /// Nobody may ask: it concerns what the broker has.
    Nobody,
}

/// What the broker does with a request of this code; `None` for a code that it does not know.
pub(super) fn of(code: RequestCode) -> Option<Access> {
    Some(match code {
        RequestCode::OPEN_ADAPTER => Access::Open,
        RequestCode::GET_NODE_METADATA
        | RequestCode::QUERY_USER_MODE_SUBMISSION_CAPS
        | RequestCode::QUERY_STATISTICS
        | RequestCode::QUERY_POWER
        | RequestCode::QUERY_GPU_POWER
        | RequestCode::QUERY_NATIVE_FENCE_CAPS
        | RequestCode::QUERY_CLOCK_CALIBRATION
        | RequestCode::QUERY_KERNEL_CAPS
        | RequestCode::QUERY_VIDEO_CAPS
        | RequestCode::QUERY_SECURITY_CAPS
        | RequestCode::QUERY_CHILD_RELATIONS
        | RequestCode::QUERY_CHILD_STATUS
        | RequestCode::QUERY_DEVICE_DESCRIPTOR
        | RequestCode::RECOMMEND_MONITOR_MODES
        | RequestCode::GET_SCAN_LINE
        | RequestCode::QUERY_AGENT => Access::Adapter,
        RequestCode::CREATE_PROCESS => Access::CreateProcess,
        RequestCode::DESTROY_PROCESS => Access::DestroyProcess,
        RequestCode::CREATE_ALLOCATION => Access::NamesMemory,
        RequestCode::SET_OBJECT_NAME
        | RequestCode::CREATE_DEVICE
        | RequestCode::DESTROY_DEVICE
        | RequestCode::CREATE_CONTEXT
        | RequestCode::DESTROY_CONTEXT
        | RequestCode::SUSPEND_CONTEXT
        | RequestCode::RESUME_CONTEXT
        | RequestCode::SET_CONTEXT_SCHEDULING_PRIORITY
        | RequestCode::CREATE_HW_QUEUE
        | RequestCode::DESTROY_HW_QUEUE
        | RequestCode::SUBMIT_COMMAND
        | RequestCode::CREATE_NODE_CONTEXT
        | RequestCode::RENDER
        | RequestCode::SUBMIT_COMMAND_VIRTUAL
        | RequestCode::PRESENT
        | RequestCode::DESTROY_ALLOCATION
        | RequestCode::MAKE_RESIDENT
        | RequestCode::EVICT
        | RequestCode::LOCK
        | RequestCode::UNLOCK
        | RequestCode::SET_ALLOCATION_PRIORITY
        | RequestCode::QUERY_VIDEO_MEMORY_INFO
        | RequestCode::OPEN_ALLOCATION
        | RequestCode::CLOSE_ALLOCATION
        | RequestCode::SHARE_ALLOCATION
        | RequestCode::OPEN_SHARED_ALLOCATION
        | RequestCode::MAP_GPU_VIRTUAL_ADDRESS
        | RequestCode::FREE_GPU_VIRTUAL_ADDRESS
        | RequestCode::RESERVE_GPU_VIRTUAL_ADDRESS
        | RequestCode::UPDATE_GPU_VIRTUAL_ADDRESS
        | RequestCode::CREATE_NATIVE_FENCE
        | RequestCode::DESTROY_NATIVE_FENCE
        | RequestCode::WAIT_FOR_FENCES
        | RequestCode::CANCEL_WAIT
        | RequestCode::SIGNAL_FENCES
        | RequestCode::SHARE_NATIVE_FENCE
        | RequestCode::OPEN_NATIVE_FENCE
        | RequestCode::CREATE_MONITORED_FENCE
        | RequestCode::WAIT_FROM_GPU
        | RequestCode::SIGNAL_FROM_GPU
        | RequestCode::CREATE_DOORBELL
        | RequestCode::CONNECT_DOORBELL
        | RequestCode::DESTROY_DOORBELL
        | RequestCode::NOTIFY_WORK_SUBMISSION
        | RequestCode::CREATE_KERNEL
        | RequestCode::DESTROY_KERNEL
        | RequestCode::CREATE_VIDEO_SESSION
        | RequestCode::DESTROY_VIDEO_SESSION
        | RequestCode::IS_SUPPORTED_VIDPN
        | RequestCode::ENUM_VIDPN_COFUNC_MODALITY
        | RequestCode::COMMIT_VIDPN
        | RequestCode::SET_VIDPN_SOURCE_VISIBILITY
        | RequestCode::SET_VIDPN_SOURCE_ADDRESS
        | RequestCode::CONTROL_INTERRUPT
        | RequestCode::SET_POINTER_SHAPE
        | RequestCode::SET_POINTER_POSITION
        | RequestCode::SET_VIDPN_SOURCE_OWNER
        | RequestCode::ANSWER_CONSENT => Access::Process,
        // The agent acts for the whole guest.
        RequestCode::REGISTER_AGENT
        | RequestCode::UNREGISTER_AGENT
        | RequestCode::ASK_AGENT
        | RequestCode::ANSWER_AGENT_REQUEST
        | RequestCode::SET_POWER_POLICY
        | RequestCode::SET_DEVICE_PRESENCE
        | RequestCode::ASK_FOR_CONSENT
        | RequestCode::ANNOUNCE_STOP => Access::Guest,
        RequestCode::ESCAPE => Access::Lists,
        // Power is that of all guests, and the broker says itself whose a process is.
        RequestCode::SET_DEVICE_POWER
        | RequestCode::SET_ENGINE_POWER
        | RequestCode::QUERY_BAR_LAYOUT
        | RequestCode::DONATE_AREA
        | RequestCode::DESCRIBE_PROCESS
        | RequestCode::SET_PROCESS_SHARE
        | RequestCode::CREATE_PROCESS_WITH_BAR => Access::Nobody,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_of_the_protocol_is_decided_upon() {
        for code in RequestCode::ALL {
            assert!(of(*code).is_some(), "{code}");
        }
        assert_eq!(of(RequestCode(u32::MAX)), None);
    }

    #[test]
    fn only_requests_that_the_broker_looks_into_name_memory_of_the_guest() {
        let naming: Vec<_> = RequestCode::ALL
            .iter()
            .filter(|code| of(**code) == Some(Access::NamesMemory))
            .collect();
        assert_eq!(naming, [&RequestCode::CREATE_ALLOCATION]);
        for code in [RequestCode::DONATE_AREA, RequestCode::CREATE_PROCESS_WITH_BAR] {
            assert_eq!(of(code), Some(Access::Nobody));
        }
    }
}
