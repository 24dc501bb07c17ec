// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why a request is refused.

use crate::ddi::display::VidPnRefusal;
use crate::ddi::dma_buffer::RenderError;
use crate::ddi::present::PresentError;
use crate::ddi::{ConnectDoorbellError, CreateDoorbellError};
use crate::dxgkrnl::object::handles::ObjectKind;
use crate::dxgkrnl::object::target::Target;
use crate::hardware::{HardwareError, HardwareFull, KernelRefusal, UnknownId, VideoRefusal};
use crate::port::ListError;
use crate::vidmm::error::VidMmError;
use bellhop_protocol::bar::AreaKind;
use bellhop_protocol::control::agent::AGENT_VERSION;
use bellhop_protocol::control::{Handle, RequestCode};
use bellhop_protocol::features::{Features, Version};
use bellhop_protocol::status::Status;

/// Why a request is refused. [`Self::status`] and [`Self::detail`] are reported to the guest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestError {
    /// The length is not what the code or the header requires.
    #[error("a request cannot be {0} bytes long")]
    BufferSize(u64),
    /// The guest's buffer cannot hold the whole reply.
    #[error("the reply takes {0} bytes, for which there is no room")]
    ReplyTooLong(u64),
    /// No request has this code.
    #[error("no request has code {0}")]
    UnknownRequest(RequestCode),
    /// The adapter is not open yet.
    #[error("{0} before OPEN_ADAPTER")]
    NotOpen(RequestCode),
    /// The driver speaks another version.
    #[error("the driver speaks protocol {driver}, this device {}", Version::CURRENT)]
    Version {
        /// The driver's version.
        driver: Version,
    },
    /// The driver requests features that the device does not offer.
    #[error("features {wanted:#x} are wanted, offered are: {offered}")]
    Features {
        /// The requested features.
        wanted: u64,
        /// The offered features.
        offered: Features,
    },
    /// A field has an invalid value.
    #[error("{field} cannot be {value:#x}")]
    InvalidParameter {
        /// The field's name.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// The guest has no such process.
    #[error("there is no process {0}")]
    NoSuchProcess(u32),
    /// The process has no such object.
    #[error("there is no object {0}")]
    InvalidHandle(Handle),
    /// The object is of another kind.
    #[error("{handle} is a {found:?}, not a {expected:?}")]
    TypeMismatch {
        /// The object.
        handle: Handle,
        /// The kind that the request needs.
        expected: ObjectKind,
        /// The actual kind.
        found: ObjectKind,
    },
    /// The object is of a kind that has no names.
    #[error("{handle} is a {kind:?}, which has no name")]
    Nameless {
        /// The object.
        handle: Handle,
        /// Its kind.
        kind: ObjectKind,
    },
    /// The guest did not negotiate it, or this queue or node does not support it.
    #[error("not supported: {0}")]
    NotSupported(&'static str),
    /// The guest has reached a limit.
    #[error("the guest has {limit} {what} already, which is the limit")]
    QuotaExceeded {
        /// The limited objects.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The hardware has no room.
    #[error(transparent)]
    HardwareFull(#[from] HardwareFull),
    /// A bug: the kernel named something that the GPU does not have.
    #[error(transparent)]
    UnknownId(#[from] UnknownId),
    /// The GPU has no physical doorbell.
    #[error(transparent)]
    NoPhysicalDoorbell(#[from] crate::ddi::NoPhysicalDoorbell),
    /// The VMM did not map a doorbell's page.
    #[error("the VMM did not map the doorbell's page of HW queue {0}")]
    PageNotMapped(Handle),
    /// Local memory has no run of this many bytes.
    #[error("local memory has no {0} bytes left")]
    NoVideoMemory(u64),
    /// VidMm cannot do it.
    #[error(transparent)]
    VidMm(#[from] VidMmError),
    /// The hardware could not move the memory, which is lost.
    #[error("memory could not be moved")]
    PagingFailed,
    /// The address range is taken, or was never mapped.
    #[error("the range at {0:#x} is taken or was never mapped")]
    ConflictingAddresses(u64),
    /// Another object needs this one.
    #[error("{0} is in use")]
    Busy(Handle),
    /// This many processes rely on the negotiated features.
    #[error("the adapter is open, and has {0} processes")]
    AdapterBusy(u64),
    /// Processes may use this area, or it was donated before.
    #[error("the area {0} is in use")]
    AreaBusy(AreaKind),
    /// A ring must be resident.
    #[error("allocation {0} is not resident")]
    NotResident(Handle),
    /// A display reads memory by physical addresses, in one run. Memory that the guest donated may be in pieces.
    #[error("{0} is not in one piece of memory")]
    Scattered(Handle),
    /// A request needed the device before it reached D3.
    #[error("the device was needed before it was in D3")]
    PoweredUpAgain,
    /// The object is being destroyed already.
    #[error("{0:?} is being destroyed")]
    Terminating(Target),
    /// The driver does not accept a doorbell's private data.
    #[error(transparent)]
    PrivateData(#[from] crate::ddi::BadPrivateData),
    /// The driver does not accept a command buffer.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The driver draws no such thing.
    #[error(transparent)]
    Present(#[from] PresentError),
    /// A doorbell, a context or a submission needs this allocation.
    #[error("allocation {0} is in use by a doorbell, a context or a submission")]
    AllocationBusy(Handle),
    /// The process has no memory there to read.
    #[error("the process can read no memory at {0:#x}")]
    Unreadable(u64),
    /// The guest hung engines too often.
    #[error("the guest hung engines {0} times, and gets nothing executed until it is reset")]
    TooManyHangs(u32),
    /// The agent speaks another version.
    #[error("the agent speaks version {0} of its escapes, this device {AGENT_VERSION}")]
    AgentVersion(Version),
    /// The guest has an agent already: this process.
    #[error("process {0} is the guest's agent")]
    AgentBusy(u32),
    /// The process is not the guest's agent.
    #[error("process {0} is not the guest's agent")]
    NotTheAgent(u32),
    /// The guest has no GPU now.
    #[error("the GPU {0}")]
    NoGpu(&'static str),
    /// The display cannot show these paths.
    #[error(transparent)]
    VidPn(#[from] VidPnRefusal),
    /// No monitor is plugged in.
    #[error("no monitor is plugged into connector {0}")]
    MonitorNotConnected(u32),
    /// The process has not committed the source, nor may it flip it.
    #[error("the process does not show source {0}")]
    SourceNotInTopology(u32),
    /// The queue, context or device is in error.
    #[error("{0} is in error")]
    DeviceRemoved(Handle),
}

impl From<HardwareError> for RequestError {
    fn from(error: HardwareError) -> Self {
        match error {
            HardwareError::Full(full) => full.into(),
            HardwareError::Unknown(unknown) => unknown.into(),
        }
    }
}

impl From<VideoRefusal> for RequestError {
    fn from(refusal: VideoRefusal) -> Self {
        match refusal {
            VideoRefusal::Unknown(unknown) => unknown.into(),
            VideoRefusal::NoVideo => Self::NotSupported("video sessions"),
            VideoRefusal::Full => HardwareFull("video session").into(),
        }
    }
}

impl From<KernelRefusal> for RequestError {
    fn from(refusal: KernelRefusal) -> Self {
        match refusal {
            KernelRefusal::Unknown(unknown) => unknown.into(),
            KernelRefusal::NoKernels => Self::NotSupported("kernels"),
            KernelRefusal::Unreadable(address) => Self::Unreadable(address),
            KernelRefusal::Full => HardwareFull("kernel").into(),
        }
    }
}

impl From<CreateDoorbellError> for RequestError {
    fn from(error: CreateDoorbellError) -> Self {
        match error {
            CreateDoorbellError::PrivateData(bad) => bad.into(),
            CreateDoorbellError::Unknown(unknown) => unknown.into(),
        }
    }
}

impl From<ConnectDoorbellError> for RequestError {
    fn from(error: ConnectDoorbellError) -> Self {
        match error {
            ConnectDoorbellError::NoPhysicalDoorbell(none) => none.into(),
            ConnectDoorbellError::Unknown(unknown) => unknown.into(),
        }
    }
}

impl From<RequestError> for ListError {
    fn from(error: RequestError) -> Self {
        let gone = error.status() == Status::INVALID_HANDLE;
        Self { gone, why: error.to_string() }
    }
}

impl RequestError {
    /// The error for a field with an invalid value.
    pub(crate) const fn parameter(field: &'static str, value: u64) -> Self {
        Self::InvalidParameter { field, value }
    }

    /// The reply's status.
    pub(crate) const fn status(&self) -> Status {
        match self {
            Self::BufferSize(_) => Status::INVALID_BUFFER_SIZE,
            Self::ReplyTooLong(_) => Status::BUFFER_TOO_SMALL,
            Self::UnknownRequest(_) | Self::NotOpen(_) => Status::INVALID_DEVICE_REQUEST,
            Self::Version { .. } | Self::Features { .. } | Self::AgentVersion(_) => {
                Status::REVISION_MISMATCH
            }
            Self::InvalidParameter { .. }
            | Self::PrivateData(_)
            | Self::Present(PresentError::InvalidParameter { .. }) => Status::INVALID_PARAMETER,
            Self::NoSuchProcess(_) | Self::InvalidHandle(_) | Self::Terminating(_) => {
                Status::INVALID_HANDLE
            }
            Self::TypeMismatch { .. } | Self::Nameless { .. } => Status::OBJECT_TYPE_MISMATCH,
            Self::NotSupported(_)
            | Self::NotTheAgent(_)
            | Self::Present(PresentError::NotSupported) => Status::NOT_SUPPORTED,
            Self::QuotaExceeded { .. } => Status::QUOTA_EXCEEDED,
            Self::HardwareFull(_) | Self::NoPhysicalDoorbell(_) => Status::INSUFFICIENT_RESOURCES,
            Self::PageNotMapped(_) | Self::PagingFailed | Self::UnknownId(_) => {
                Status::IO_DEVICE_ERROR
            }
            Self::VidMm(VidMmError::NoRoom(_)) => Status::INSUFFICIENT_RESOURCES,
            Self::VidMm(VidMmError::NoBacking(_)) => Status::NO_MEMORY,
            Self::VidMm(VidMmError::NoGpu) => Status::DEVICE_REMOVED,
            Self::VidMm(VidMmError::NotLockable) => Status::NOT_SUPPORTED,
            Self::VidMm(VidMmError::InUse) => Status::GRAPHICS_ALLOCATION_BUSY,
            Self::VidMm(VidMmError::Unbalanced) => Status::INVALID_PARAMETER,
            Self::VidMm(VidMmError::Unknown) => Status::INVALID_HANDLE,
            Self::VidMm(VidMmError::NeverFits(_)) | Self::NoVideoMemory(_) => {
                Status::GRAPHICS_NO_VIDEO_MEMORY
            }
            Self::Render(error) => match error {
                RenderError::IllegalInstruction { .. } => Status::ILLEGAL_INSTRUCTION,
                RenderError::PrivilegedInstruction { .. } => Status::PRIVILEGED_INSTRUCTION,
                RenderError::InvalidUserBuffer { .. } => Status::INVALID_USER_BUFFER,
                RenderError::BadPatchLocation { .. } => Status::INVALID_PARAMETER,
            },
            Self::ConflictingAddresses(_) => Status::CONFLICTING_ADDRESSES,
            Self::Busy(_)
            | Self::AreaBusy(_)
            | Self::AdapterBusy(_)
            | Self::AgentBusy(_)
            | Self::PoweredUpAgain => Status::DEVICE_BUSY,
            Self::NotResident(_) | Self::Scattered(_) => Status::GRAPHICS_ALLOCATION_INVALID,
            Self::AllocationBusy(_) => Status::GRAPHICS_ALLOCATION_BUSY,
            Self::Unreadable(_) => Status::ACCESS_VIOLATION,
            Self::VidPn(_) => Status::GRAPHICS_VIDPN_TOPOLOGY_NOT_SUPPORTED,
            Self::MonitorNotConnected(_) => Status::GRAPHICS_MONITOR_NOT_CONNECTED,
            Self::SourceNotInTopology(_) => Status::GRAPHICS_SOURCE_NOT_IN_TOPOLOGY,
            Self::DeviceRemoved(_) | Self::NoGpu(_) => Status::DEVICE_REMOVED,
            Self::TooManyHangs(_) => Status::GRAPHICS_GPU_EXCEPTION_ON_DEVICE,
        }
    }

    /// The reply's detail.
    pub(crate) fn detail(&self) -> u64 {
        match *self {
            Self::BufferSize(length) | Self::ReplyTooLong(length) => length,
            Self::UnknownRequest(code) | Self::NotOpen(code) => code.0.into(),
            Self::Version { .. } => packed(Version::CURRENT),
            Self::AgentVersion(_) => packed(AGENT_VERSION),
            Self::AgentBusy(process) | Self::NotTheAgent(process) => process.into(),
            Self::Features { offered, .. } => offered.bits(),
            Self::InvalidParameter { value, .. }
            | Self::Present(PresentError::InvalidParameter { value, .. }) => value,
            Self::NoSuchProcess(process) => process.into(),
            Self::InvalidHandle(handle)
            | Self::TypeMismatch { handle, .. }
            | Self::Nameless { handle, .. }
            | Self::Busy(handle)
            | Self::AllocationBusy(handle)
            | Self::PageNotMapped(handle)
            | Self::NotResident(handle)
            | Self::Scattered(handle)
            | Self::DeviceRemoved(handle) => handle.0,
            Self::Render(
                RenderError::IllegalInstruction { offset: place }
                | RenderError::PrivilegedInstruction { offset: place }
                | RenderError::InvalidUserBuffer { offset: place }
                | RenderError::BadPatchLocation { index: place },
            ) => place.into(),
            Self::AreaBusy(kind) => kind.0.into(),
            Self::AdapterBusy(processes) => processes,
            Self::QuotaExceeded { limit, .. } => limit,
            Self::NoVideoMemory(size)
            | Self::VidMm(
                VidMmError::NeverFits(size)
                | VidMmError::NoRoom(size)
                | VidMmError::NoBacking(size),
            ) => size,
            Self::TooManyHangs(count) => count.into(),
            Self::VidPn(VidPnRefusal { constraint, path, .. }) => {
                u64::from(constraint.0) << 32 | u64::from(path)
            }
            Self::MonitorNotConnected(of) | Self::SourceNotInTopology(of) => of.into(),
            Self::ConflictingAddresses(address) | Self::Unreadable(address) => address,
            Self::Terminating(
                Target::Doorbell(handle)
                | Target::HwQueue(handle)
                | Target::Context(handle)
                | Target::Device(handle)
                | Target::Allocation(handle),
            ) => handle.0,
            Self::PrivateData(crate::ddi::BadPrivateData(value)) => value.into(),
            Self::NotSupported(_)
            | Self::NoGpu(_)
            | Self::Present(PresentError::NotSupported)
            | Self::PagingFailed
            | Self::VidMm(
                VidMmError::NoGpu
                | VidMmError::NotLockable
                | VidMmError::InUse
                | VidMmError::Unbalanced
                | VidMmError::Unknown,
            )
            | Self::HardwareFull(_)
            | Self::UnknownId(_)
            | Self::NoPhysicalDoorbell(_)
            | Self::Terminating(_)
            | Self::PoweredUpAgain => 0,
        }
    }
}

/// A version as a detail.
fn packed(version: Version) -> u64 {
    u64::from(version.minor) << 16 | u64::from(version.major)
}
