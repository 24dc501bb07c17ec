// SPDX-License-Identifier: MIT OR Apache-2.0

//! Control-queue requests and replies.
//!
//! A request is one descriptor chain of the control queue. Its readable part is a [`RequestHeader`], the request's
//! fixed structure and possibly a list; its writable part takes a [`ReplyHeader`] and, on success, the request's
//! reply. Requests may complete out of order.
//!
//! Each request has the name of the D3DKMT call that it carries.

pub mod adapter;
pub mod agent;
pub mod allocation;
pub mod context;
pub mod device;
pub mod display;
pub mod doorbell;
pub mod escape;
pub mod fence;
pub mod flip;
pub mod gpu_va;
pub mod hw_queue;
pub mod kernel;
pub mod node_context;
pub mod power;
pub mod present;
pub mod process;
pub mod security;
pub mod video;

use crate::status::Status;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Maximum size of a request in bytes, including its header.
pub const MAX_REQUEST_SIZE: usize = 64 * 1024;
/// Maximum size of a reply in bytes, including its header.
pub const MAX_REPLY_SIZE: usize = 4096;

open_enum! {
    /// The code of a request.
    pub struct RequestCode: u32 {
        /// [`adapter::OpenAdapter`]
        OPEN_ADAPTER = 0x01;
        /// [`adapter::GetNodeMetadata`]
        GET_NODE_METADATA = 0x02;
        /// [`adapter::QueryUserModeSubmissionCaps`]
        QUERY_USER_MODE_SUBMISSION_CAPS = 0x03;
        /// [`adapter::QueryStatistics`]
        QUERY_STATISTICS = 0x04;
        /// [`adapter::QueryBarLayout`]
        QUERY_BAR_LAYOUT = 0x05;
        /// [`adapter::DonateArea`]
        DONATE_AREA = 0x06;
        /// [`power::QueryPower`]
        QUERY_POWER = 0x07;
        /// [`power::SetDevicePower`]
        SET_DEVICE_POWER = 0x08;
        /// [`power::SetEnginePower`]
        SET_ENGINE_POWER = 0x09;
        /// [`escape::Escape`]
        ESCAPE = 0x0A;
        /// [`adapter::QueryNativeFenceCaps`]
        QUERY_NATIVE_FENCE_CAPS = 0x0B;
        /// [`adapter::QueryClockCalibration`]
        QUERY_CLOCK_CALIBRATION = 0x0C;
        /// [`power::QueryGpuPower`]
        QUERY_GPU_POWER = 0x0D;
        /// [`process::CreateProcess`]
        CREATE_PROCESS = 0x10;
        /// [`process::DestroyProcess`]
        DESTROY_PROCESS = 0x11;
        /// [`process::CreateProcessWithBar`]
        CREATE_PROCESS_WITH_BAR = 0x12;
        /// [`process::DescribeProcess`]
        DESCRIBE_PROCESS = 0x13;
        /// [`process::SetProcessShare`]
        SET_PROCESS_SHARE = 0x14;
        /// [`process::SetObjectName`]
        SET_OBJECT_NAME = 0x15;
        /// [`device::CreateDevice`]
        CREATE_DEVICE = 0x20;
        /// [`device::DestroyDevice`]
        DESTROY_DEVICE = 0x21;
        /// [`context::CreateContext`]
        CREATE_CONTEXT = 0x30;
        /// [`context::DestroyContext`]
        DESTROY_CONTEXT = 0x31;
        /// [`context::SuspendContext`]
        SUSPEND_CONTEXT = 0x32;
        /// [`context::ResumeContext`]
        RESUME_CONTEXT = 0x33;
        /// [`context::SetContextSchedulingPriority`]
        SET_CONTEXT_SCHEDULING_PRIORITY = 0x34;
        /// [`hw_queue::CreateHwQueue`]
        CREATE_HW_QUEUE = 0x38;
        /// [`hw_queue::DestroyHwQueue`]
        DESTROY_HW_QUEUE = 0x39;
        /// [`hw_queue::SubmitCommand`]
        SUBMIT_COMMAND = 0x3A;
        /// [`node_context::CreateNodeContext`]
        CREATE_NODE_CONTEXT = 0x3B;
        /// [`node_context::Render`]
        RENDER = 0x3C;
        /// [`node_context::SubmitCommandVirtual`]
        SUBMIT_COMMAND_VIRTUAL = 0x3D;
        /// [`allocation::CreateAllocation`]
        CREATE_ALLOCATION = 0x40;
        /// [`allocation::DestroyAllocation`]
        DESTROY_ALLOCATION = 0x41;
        /// [`allocation::MakeResident`]
        MAKE_RESIDENT = 0x42;
        /// [`allocation::Evict`]
        EVICT = 0x43;
        /// [`allocation::Lock`]
        LOCK = 0x44;
        /// [`allocation::Unlock`]
        UNLOCK = 0x45;
        /// [`allocation::SetAllocationPriority`]
        SET_ALLOCATION_PRIORITY = 0x46;
        /// [`allocation::QueryVideoMemoryInfo`]
        QUERY_VIDEO_MEMORY_INFO = 0x47;
        /// [`gpu_va::MapGpuVirtualAddress`]
        MAP_GPU_VIRTUAL_ADDRESS = 0x48;
        /// [`gpu_va::FreeGpuVirtualAddress`]
        FREE_GPU_VIRTUAL_ADDRESS = 0x49;
        /// [`gpu_va::ReserveGpuVirtualAddress`]
        RESERVE_GPU_VIRTUAL_ADDRESS = 0x4A;
        /// [`gpu_va::UpdateGpuVirtualAddress`]
        UPDATE_GPU_VIRTUAL_ADDRESS = 0x4B;
        /// [`allocation::OpenAllocation`]
        OPEN_ALLOCATION = 0x4C;
        /// [`allocation::CloseAllocation`]
        CLOSE_ALLOCATION = 0x4D;
        /// [`allocation::ShareAllocation`]
        SHARE_ALLOCATION = 0x4E;
        /// [`allocation::OpenSharedAllocation`]
        OPEN_SHARED_ALLOCATION = 0x4F;
        /// [`fence::CreateNativeFence`]
        CREATE_NATIVE_FENCE = 0x50;
        /// [`fence::DestroyNativeFence`]
        DESTROY_NATIVE_FENCE = 0x51;
        /// [`fence::WaitForFences`]
        WAIT_FOR_FENCES = 0x52;
        /// [`fence::CancelWait`]
        CANCEL_WAIT = 0x53;
        /// [`fence::SignalFences`]
        SIGNAL_FENCES = 0x54;
        /// [`fence::ShareNativeFence`]
        SHARE_NATIVE_FENCE = 0x55;
        /// [`fence::OpenNativeFence`]
        OPEN_NATIVE_FENCE = 0x56;
        /// [`fence::CreateMonitoredFence`]
        CREATE_MONITORED_FENCE = 0x57;
        /// [`fence::WaitFromGpu`]
        WAIT_FROM_GPU = 0x58;
        /// [`fence::SignalFromGpu`]
        SIGNAL_FROM_GPU = 0x59;
        /// [`doorbell::CreateDoorbell`]
        CREATE_DOORBELL = 0x60;
        /// [`doorbell::ConnectDoorbell`]
        CONNECT_DOORBELL = 0x61;
        /// [`doorbell::DestroyDoorbell`]
        DESTROY_DOORBELL = 0x62;
        /// [`doorbell::NotifyWorkSubmission`]
        NOTIFY_WORK_SUBMISSION = 0x63;
        /// [`kernel::QueryKernelCaps`]
        QUERY_KERNEL_CAPS = 0x70;
        /// [`kernel::CreateKernel`]
        CREATE_KERNEL = 0x71;
        /// [`kernel::DestroyKernel`]
        DESTROY_KERNEL = 0x72;
        /// [`display::QueryChildRelations`]
        QUERY_CHILD_RELATIONS = 0x80;
        /// [`display::QueryChildStatus`]
        QUERY_CHILD_STATUS = 0x81;
        /// [`display::QueryDeviceDescriptor`]
        QUERY_DEVICE_DESCRIPTOR = 0x82;
        /// [`display::RecommendMonitorModes`]
        RECOMMEND_MONITOR_MODES = 0x83;
        /// [`display::IsSupportedVidPn`]
        IS_SUPPORTED_VIDPN = 0x84;
        /// [`display::EnumVidPnCofuncModality`]
        ENUM_VIDPN_COFUNC_MODALITY = 0x85;
        /// [`display::CommitVidPn`]
        COMMIT_VIDPN = 0x86;
        /// [`flip::SetVidPnSourceVisibility`]
        SET_VIDPN_SOURCE_VISIBILITY = 0x87;
        /// [`flip::SetVidPnSourceAddress`]
        SET_VIDPN_SOURCE_ADDRESS = 0x88;
        /// [`flip::GetScanLine`]
        GET_SCAN_LINE = 0x89;
        /// [`flip::ControlInterrupt`]
        CONTROL_INTERRUPT = 0x8A;
        /// [`flip::SetPointerShape`]
        SET_POINTER_SHAPE = 0x8B;
        /// [`flip::SetPointerPosition`]
        SET_POINTER_POSITION = 0x8C;
        /// [`flip::SetVidPnSourceOwner`]
        SET_VIDPN_SOURCE_OWNER = 0x8D;
        /// [`present::Present`]
        PRESENT = 0x8E;
        /// [`agent::RegisterAgent`]
        REGISTER_AGENT = 0x90;
        /// [`agent::UnregisterAgent`]
        UNREGISTER_AGENT = 0x91;
        /// [`agent::AskAgent`]
        ASK_AGENT = 0x92;
        /// [`agent::AnswerAgentRequest`]
        ANSWER_AGENT_REQUEST = 0x93;
        /// [`agent::SetPowerPolicy`]
        SET_POWER_POLICY = 0x94;
        /// [`agent::SetDevicePresence`]
        SET_DEVICE_PRESENCE = 0x95;
        /// [`agent::QueryAgent`]
        QUERY_AGENT = 0x96;
        /// [`agent::consent::AskForConsent`]
        ASK_FOR_CONSENT = 0x97;
        /// [`agent::consent::AnswerConsent`]
        ANSWER_CONSENT = 0x98;
        /// [`agent::consent::AnnounceStop`]
        ANNOUNCE_STOP = 0x99;
        /// [`video::QueryVideoCaps`]
        QUERY_VIDEO_CAPS = 0xA0;
        /// [`video::CreateVideoSession`]
        CREATE_VIDEO_SESSION = 0xA1;
        /// [`video::DestroyVideoSession`]
        DESTROY_VIDEO_SESSION = 0xA2;
        /// [`security::QuerySecurityCaps`]
        QUERY_SECURITY_CAPS = 0xB0;
    }
}

/// A handle names an object of one process and is never 0.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
)]
#[repr(transparent)]
pub struct Handle(pub u64);

impl core::fmt::Display for Handle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The first 16 bytes of every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct RequestHeader {
    /// The code of the request.
    pub code: RequestCode,
    /// Length of the request in bytes, including header and lists.
    pub length: u32,
    /// The requesting process, from [`process::CreateProcess`]; 0 for adapter requests and for creating a process.
    pub process: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(RequestHeader, 16, code at 0, length at 4, process at 8, reserved at 12);

/// The first 16 bytes of every reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ReplyHeader {
    /// The result of the request.
    pub status: Status,
    /// Length of the reply in bytes, including the header.
    pub length: u32,
    /// Detail of the status, for example the invalid handle; 0 if there is none.
    pub detail: u64,
}
crate::assert_layout!(ReplyHeader, 16, status at 0, length at 4, detail at 8);

/// A request's fixed structure.
pub trait Request: FromBytes + IntoBytes + KnownLayout + Immutable {
    /// The code in the request's header.
    const CODE: RequestCode;
    /// The content of the reply after its header.
    type Reply: FromBytes + IntoBytes + KnownLayout + Immutable;
}

/// Implements [`Request`] for a structure.
macro_rules! request {
    ($type:ty, $code:ident -> $reply:ty) => {
        impl crate::control::Request for $type {
            const CODE: crate::control::RequestCode = crate::control::RequestCode::$code;
            type Reply = $reply;
        }
        const _: () = assert!(
            size_of::<crate::control::ReplyHeader>() + size_of::<$reply>()
                <= crate::control::MAX_REPLY_SIZE
        );
    };
}
pub(crate) use request;
