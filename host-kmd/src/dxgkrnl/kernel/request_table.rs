// SPDX-License-Identifier: MIT OR Apache-2.0

//! Each request, declared once: its body, the list behind the body, its handler, and the rules that are checked
//! before the handler runs.

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::{
    Answer, Body, Handled, check_header, fixed, split_header, with_list, zero,
};
use crate::dxgkrnl::kernel::requests::external::consent;
use crate::dxgkrnl::kernel::requests::{adapter, display, donation, external, power};
use crate::dxgkrnl::object::error::RequestError;
use bellhop_protocol::control::adapter::{
    DonateArea, GetNodeMetadata, OpenAdapter, QueryBarLayout, QueryClockCalibration,
    QueryNativeFenceCaps, QueryStatistics, QueryUserModeSubmissionCaps,
};
use bellhop_protocol::control::agent::consent::{AnnounceStop, AnswerConsent, AskForConsent};
use bellhop_protocol::control::agent::{
    AnswerAgentRequest, AskAgent, QueryAgent, RegisterAgent, SetDevicePresence, SetPowerPolicy,
    UnregisterAgent,
};
use bellhop_protocol::control::allocation::{
    CloseAllocation, CreateAllocation, DestroyAllocation, Evict, Lock, MakeResident,
    OpenAllocation, OpenSharedAllocation, QueryVideoMemoryInfo, SetAllocationPriority,
    ShareAllocation, Unlock,
};
use bellhop_protocol::control::context::{
    CreateContext, DestroyContext, ResumeContext, SetContextSchedulingPriority, SuspendContext,
};
use bellhop_protocol::control::device::{CreateDevice, DestroyDevice};
use bellhop_protocol::control::display::{
    CommitVidPn, EnumVidPnCofuncModality, IsSupportedVidPn, QueryChildRelations, QueryChildStatus,
    QueryDeviceDescriptor, RecommendMonitorModes,
};
use bellhop_protocol::control::doorbell::{
    ConnectDoorbell, CreateDoorbell, DestroyDoorbell, NotifyWorkSubmission,
};
use bellhop_protocol::control::escape::Escape;
use bellhop_protocol::control::fence::{
    CancelWait, CreateMonitoredFence, CreateNativeFence, DestroyNativeFence, OpenNativeFence,
    ShareNativeFence, SignalFences, SignalFromGpu, WaitForFences, WaitFromGpu,
};
use bellhop_protocol::control::flip::{
    ControlInterrupt, GetScanLine, SetPointerPosition, SetPointerShape, SetVidPnSourceAddress,
    SetVidPnSourceOwner, SetVidPnSourceVisibility,
};
use bellhop_protocol::control::gpu_va::{
    FreeGpuVirtualAddress, MapGpuVirtualAddress, ReserveGpuVirtualAddress, UpdateGpuVirtualAddress,
};
use bellhop_protocol::control::hw_queue::{CreateHwQueue, DestroyHwQueue, SubmitCommand};
use bellhop_protocol::control::kernel::{CreateKernel, DestroyKernel, QueryKernelCaps};
use bellhop_protocol::control::node_context::{CreateNodeContext, Render, SubmitCommandVirtual};
use bellhop_protocol::control::power::{QueryGpuPower, QueryPower, SetDevicePower, SetEnginePower};
use bellhop_protocol::control::present::Present;
use bellhop_protocol::control::process::{
    CreateProcess, CreateProcessWithBar, DescribeProcess, DestroyProcess, SetObjectName,
    SetProcessShare,
};
use bellhop_protocol::control::security::QuerySecurityCaps;
use bellhop_protocol::control::video::{CreateVideoSession, DestroyVideoSession, QueryVideoCaps};
use bellhop_protocol::control::{Request, RequestCode, RequestHeader};
use bitflags::bitflags;
use zerocopy::{Immutable, IntoBytes};

/// What a request is about. It determines the process that the header must name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    /// The adapter: the header names process 0.
    Adapter,
    /// An existing process of the guest.
    Process,
}

bitflags! {
    /// Further rules for a request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Rules: u8 {
        /// The request may come before the adapter is open.
        const BEFORE_OPEN = 1 << 0;
        /// It needs the device in D0: it executes work, or may release a waiting queue. A guest that waits for a
        /// fence needs the work executed that will signal the fence.
        const NEEDS_POWER = 1 << 1;
        /// The request is a step towards executing work. It is refused to a guest that hung engines too often.
        const NEW_WORK = 1 << 2;
    }
}

/// The declaration of a request.
pub(crate) struct Declaration {
    /// The code in its header.
    pub(crate) code: RequestCode,
    /// What it is about.
    pub(crate) about: About,
    /// Its rules.
    pub(crate) rules: Rules,
    /// Parses the body and answers.
    pub(crate) serve: fn(&mut ProcessAccess<'_>, Body<'_>) -> Handled<Vec<u8>>,
}

impl Declaration {
    /// Refuses a request that is not allowed now, or not for this process.
    pub(crate) fn check(&self, access: &mut ProcessAccess<'_>) -> Result<(), RequestError> {
        access.guest.system()?;
        if !access.guest.is_open() && !self.rules.contains(Rules::BEFORE_OPEN) {
            return Err(RequestError::NotOpen(self.code));
        }
        if self.rules.contains(Rules::NEW_WORK) {
            access.guest.hangs.check_new_work()?;
            access.guest.presence.check_new_work()?;
        }
        match self.about {
            About::Adapter => zero("process", access.process_id),
            About::Process => access.process().map(|_| ()),
        }
    }
}

/// Makes the table. A line names a request's body, its handler and its rules. A handler is a function of a file of
/// `requests` with what it is lent, or a method of [`ProcessAccess`]. `Body[count]` has a list behind it, of the length
/// in that field of the body; `Body[..]` has more than one list, and its handler parses them.
macro_rules! declare {
    ($($about:ident {
        $(
            $body:ident $([$($list:tt)+])? =>
                $($handler:ident)? $(|$access:ident| $room:ident::$function:ident($($lent:expr),+))?
                $(, $($rule:ident)|+)?;
        )+
    })+) => {
        &[$($(Declaration {
            code: <$body as Request>::CODE,
            about: About::$about,
            rules: Rules::empty()$($(.union(Rules::$rule))+)?,
            serve: declare!(@serve $body $([$($list)+])?, $($handler)? $(|$access| $room::$function($($lent),+))?),
        },)+)+]
    };
    (@serve $body:ident, |$access:ident| $room:ident::$function:ident($($lent:expr),+)) => {
        |$access, body| into_bytes($room::$function($($lent,)+ fixed::<$body>(body)?))
    };
    (@serve $body:ident[$count:ident], |$access:ident| $room:ident::$function:ident($($lent:expr),+)) => {
        |$access, body| {
            let (request, list) = with_list(body, |request: &$body| request.$count)?;
            into_bytes($room::$function($($lent,)+ request, list))
        }
    };
    (@serve $body:ident, $handler:ident) => {
        |access, body| into_bytes(access.$handler(fixed::<$body>(body)?))
    };
    (@serve $body:ident[..], $handler:ident) => {
        |access, body| into_bytes(access.$handler(body))
    };
    (@serve $body:ident[$count:ident], $handler:ident) => {
        |access, body| {
            let (request, list) = with_list(body, |request: &$body| request.$count)?;
            into_bytes(access.$handler(request, list))
        }
    };
}

/// Every request.
const REQUESTS: &[Declaration] = declare! {
    Adapter {
        OpenAdapter => |a| adapter::open_adapter(a.guest, a.miniport), BEFORE_OPEN;
        GetNodeMetadata => |a| adapter::get_node_metadata(a.guest, a.miniport);
        QueryUserModeSubmissionCaps => |a| adapter::query_user_mode_submission_caps(a.miniport);
        QueryNativeFenceCaps => |a| adapter::query_native_fence_caps(a.guest);
        QueryClockCalibration => |a| adapter::query_clock_calibration(a.platform);
        QueryStatistics => |a| adapter::query_statistics(a.guest, a.callbacks, a.platform);
        QueryBarLayout => |a| donation::query_bar_layout(a.guest);
        DonateArea[extent_count] => |a| donation::donate_area(a.guest, a.platform);
        QueryPower => |a| power::query_power(a.power);
        QueryGpuPower => |a| power::query_gpu_power(a.gpu_power, a.platform, a.now);
        SetDevicePower => |a| power::set_device_power(a.guest);
        SetEnginePower => |a| power::set_engine_power(a.guest, a.miniport);
        Escape => escape;
        QueryKernelCaps => query_kernel_caps;
        QueryVideoCaps => query_video_caps;
        QuerySecurityCaps => |a| adapter::query_security_caps(a.platform);
        QueryChildRelations => |a| display::query_child_relations(a.miniport);
        QueryChildStatus => |a| display::query_child_status(a.guest, a.miniport);
        QueryDeviceDescriptor => |a| display::query_device_descriptor(a.guest, a.miniport);
        RecommendMonitorModes => |a| display::recommend_monitor_modes(a.guest, a.miniport);
        GetScanLine => get_scan_line;
        QueryAgent => |a| external::query_agent(a.guest);
        CreateProcess => create_process, NEW_WORK;
        CreateProcessWithBar[extent_count] => create_process_with_bar, NEW_WORK;
    }
    Process {
        DescribeProcess => describe_process;
        SetProcessShare => set_process_share;
        SetObjectName => set_object_name;
        DestroyProcess => destroy_process;
        CreateDevice => create_device, NEW_WORK;
        DestroyDevice => destroy_device;

        CreateContext => create_context, NEEDS_POWER | NEW_WORK;
        DestroyContext => destroy_context;
        SuspendContext => suspend_own_context;
        ResumeContext => resume_own_context, NEEDS_POWER;
        SetContextSchedulingPriority => set_context_scheduling_priority;
        CreateHwQueue => create_hw_queue, NEEDS_POWER | NEW_WORK;
        DestroyHwQueue => destroy_hw_queue;
        SubmitCommand => submit_command, NEEDS_POWER | NEW_WORK;
        CreateNodeContext => create_node_context, NEEDS_POWER | NEW_WORK;
        Render[..] => render, NEEDS_POWER | NEW_WORK;
        Present[rects] => present, NEEDS_POWER | NEW_WORK;
        SubmitCommandVirtual => submit_command_virtual, NEEDS_POWER | NEW_WORK;

        CreateAllocation[extent_count] => create_allocation, NEW_WORK;
        DestroyAllocation => destroy_allocation;
        MakeResident[count] => make_resident, NEEDS_POWER;
        Evict[count] => evict;
        Lock => lock;
        Unlock => unlock;
        SetAllocationPriority => set_allocation_priority;
        QueryVideoMemoryInfo => query_video_memory_info;
        OpenAllocation => open_allocation;
        CloseAllocation => close_allocation;
        ShareAllocation => share_allocation;
        OpenSharedAllocation => open_shared_allocation;
        MapGpuVirtualAddress => map_gpu_virtual_address;
        FreeGpuVirtualAddress => free_gpu_virtual_address;
        ReserveGpuVirtualAddress => reserve_gpu_virtual_address;
        UpdateGpuVirtualAddress => update_gpu_virtual_address;

        CreateNativeFence => create_native_fence, NEW_WORK;
        DestroyNativeFence => destroy_native_fence;
        WaitForFences[count] => wait_for_fences, NEEDS_POWER;
        CancelWait => cancel_wait;
        ShareNativeFence => share_native_fence;
        OpenNativeFence => open_native_fence;
        SignalFences[count] => signal_fences, NEEDS_POWER;
        CreateMonitoredFence => create_monitored_fence, NEW_WORK;
        WaitFromGpu[count] => wait_from_gpu;
        SignalFromGpu[count] => signal_from_gpu, NEEDS_POWER;

        CreateDoorbell => create_doorbell, NEEDS_POWER | NEW_WORK;
        ConnectDoorbell => connect_doorbell, NEEDS_POWER | NEW_WORK;
        DestroyDoorbell => destroy_doorbell;
        NotifyWorkSubmission => notify_work_submission;

        CreateKernel[constant_count] => create_kernel, NEW_WORK;
        DestroyKernel => destroy_kernel;

        CreateVideoSession => create_video_session, NEW_WORK;
        DestroyVideoSession => destroy_video_session;

        IsSupportedVidPn[paths] => |a| display::is_supported_vidpn(a.guest, a.miniport, a.process_id);
        EnumVidPnCofuncModality[paths] => |a| display::enum_vidpn_cofunc_modality(a.guest, a.miniport, a.process_id);
        CommitVidPn[paths] => commit_vidpn, NEEDS_POWER | NEW_WORK;
        SetVidPnSourceVisibility => set_vidpn_source_visibility, NEEDS_POWER;
        SetVidPnSourceAddress[fences] => set_vidpn_source_address, NEEDS_POWER | NEW_WORK;
        ControlInterrupt => control_interrupt;
        SetPointerShape => set_pointer_shape, NEEDS_POWER;
        SetPointerPosition => set_pointer_position;
        SetVidPnSourceOwner => set_vidpn_source_owner;

        RegisterAgent => |a| external::register_agent(a.guest, a.work, a.process_id);
        UnregisterAgent => |a| external::unregister_agent(a.guest, a.outbox, a.process_id);
        AskAgent => |a| external::ask_agent(a.guest);
        AnswerAgentRequest => |a| external::answer_agent_request(a.guest, a.outbox, a.process_id);
        SetPowerPolicy => |a| external::set_power_policy(a.guest, a.process_id);
        SetDevicePresence => |a| external::set_device_presence(a.guest, a.process_id);
        AskForConsent => |a| consent::ask_for_consent(a.guest, a.process_id);
        AnswerConsent => |a| consent::answer_consent(a.guest, a.work, a.process_id);
        AnnounceStop => |a| consent::announce_stop(a.guest, a.process_id);
    }
};

/// Splits a request into its header and the rest, and finds its declaration.
pub(crate) fn parse(
    request: Body<'_>,
) -> Result<(RequestHeader, &'static Declaration, Body<'_>), RequestError> {
    let (header, body) = split_header(request)?;
    let declaration = find(header.code).ok_or(RequestError::UnknownRequest(header.code))?;
    check_header(&header, request)?;
    Ok((header, declaration, body))
}

fn find(code: RequestCode) -> Option<&'static Declaration> {
    REQUESTS.iter().find(|declaration| declaration.code == code)
}

/// Converts the reply of an answer to bytes.
fn into_bytes<R: IntoBytes + Immutable>(answer: Handled<R>) -> Handled<Vec<u8>> {
    Ok(match answer? {
        Answer::Done(reply) => Answer::Done(reply.as_bytes().to_vec()),
        Answer::Pending => Answer::Pending,
        Answer::AfterRotation(queue, hw_queue) => Answer::AfterRotation(queue, hw_queue),
        Answer::AfterQuiesce => Answer::AfterQuiesce,
        Answer::AfterPaging(reply) => Answer::AfterPaging(reply.as_bytes().to_vec()),
        Answer::SubmitAfterPaging(deferred) => Answer::SubmitAfterPaging(deferred),
        Answer::AfterCompiling(compiling) => Answer::AfterCompiling(compiling),
        Answer::CompileAfterPaging(deferred) => Answer::CompileAfterPaging(deferred),
        Answer::AfterDisplay(ticket) => Answer::AfterDisplay(ticket),
        Answer::AfterFlip(flip) => Answer::AfterFlip(flip),
        Answer::FlipAfterPaging(flip) => Answer::FlipAfterPaging(flip),
        Answer::Terminate(target, manner) => Answer::Terminate(target, manner),
        Answer::DevicePower(state) => Answer::DevicePower(state),
        Answer::EnginePower(node, state) => Answer::EnginePower(node, state),
        Answer::AskAgent(request) => Answer::AskAgent(request),
        Answer::AskForConsent(request) => Answer::AskForConsent(request),
        Answer::AnnounceStop(patience_ms) => Answer::AnnounceStop(patience_ms),
        Answer::DevicePresence(presence) => Answer::DevicePresence(presence),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_code_of_the_protocol_is_declared_once() {
        let declared: Vec<_> = REQUESTS.iter().map(|declaration| declaration.code).collect();
        let codes: BTreeSet<_> = declared.iter().copied().collect();
        assert_eq!(codes.len(), declared.len(), "a code is declared twice");
        assert_eq!(codes, RequestCode::ALL.iter().copied().collect());
    }

    #[test]
    fn no_request_is_found_by_another_code() {
        assert!(find(RequestCode(0)).is_none());
        assert!(find(RequestCode(u32::MAX)).is_none());
        for code in RequestCode::ALL {
            assert_eq!(find(*code).unwrap().code, *code);
        }
    }

    #[test]
    fn the_adapter_is_opened_first() {
        let first = REQUESTS.iter().filter(|request| request.rules.contains(Rules::BEFORE_OPEN));
        let first: Vec<_> = first.map(|request| request.code).collect();
        assert_eq!(first, [RequestCode::OPEN_ADAPTER]);
    }

    #[test]
    fn a_guest_that_may_do_no_new_work_can_still_clean_up_and_ask() {
        for code in [
            RequestCode::DESTROY_DEVICE,
            RequestCode::DESTROY_KERNEL,
            RequestCode::QUERY_STATISTICS,
            RequestCode::QUERY_KERNEL_CAPS,
        ] {
            assert!(!find(code).unwrap().rules.contains(Rules::NEW_WORK), "{code}");
        }
    }

    #[test]
    fn a_kernel_is_new_work_and_is_compiled_without_power() {
        let rules = find(RequestCode::CREATE_KERNEL).unwrap().rules;
        assert_eq!(rules, Rules::NEW_WORK);
    }

    #[test]
    fn every_way_to_submit_is_new_work_and_needs_power() {
        for code in [
            RequestCode::CREATE_CONTEXT,
            RequestCode::CREATE_NODE_CONTEXT,
            RequestCode::CREATE_HW_QUEUE,
            RequestCode::SUBMIT_COMMAND,
            RequestCode::SUBMIT_COMMAND_VIRTUAL,
            RequestCode::RENDER,
            RequestCode::PRESENT,
            RequestCode::CREATE_DOORBELL,
            RequestCode::CONNECT_DOORBELL,
        ] {
            let rules = Rules::NEW_WORK | Rules::NEEDS_POWER;
            assert!(find(code).unwrap().rules.contains(rules), "{code}");
        }
    }
}
