// SPDX-License-Identifier: MIT OR Apache-2.0

//! The sections that behaviours come from.

pub(super) const UM_INTRODUCTION: &str = "User-mode work submission (introduction)";
pub(super) const UM_DOORBELLS: &str = "User-mode work submission: Doorbells";
pub(super) const UM_DISCOVERY: &str =
    "User-mode work submission: Discovering user-mode work submission support";
pub(super) const UM_HW_QUEUE: &str =
    "User-mode work submission: D3DDDI_CREATEHWQUEUEFLAGS::UserModeSubmission";
pub(super) const UM_APIS: &str = "User-mode work submission: User-mode work submission APIs";
pub(super) const UM_RESIDENCY: &str =
    "User-mode work submission: Residency model of doorbell memory and ring buffer allocations";
pub(super) const UM_PROGRESS: &str = "User-mode work submission: HW queue progress fence changes";
pub(super) const UM_PSEUDOCODE: &str =
    "User-mode work submission: Work submission pseudocode in UMD";
pub(super) const UM_VICTIM: &str =
    "User-mode work submission: Victimizing doorbell pseudocode in KMD";
pub(super) const UM_SUSPENSION: &str = "User-mode work submission: Hardware context suspension";
pub(super) const UM_F_STATES: &str = "User-mode work submission: Engine F-state transitions";
pub(super) const UM_D_STATES: &str = "User-mode work submission: Engine D-state transitions";
pub(super) const UM_TERMINATION: &str =
    "User-mode work submission: Normal and abnormal process termination";
pub(super) const FENCE_NATIVE: &str =
    "Native GPU fence object: GPU native fence synchronization object";
pub(super) const FENCE_DESIGN: &str =
    "Native GPU fence object: GPU native fence sync object design";
pub(super) const FENCE_EXISTING: &str =
    "Native GPU fence object: Existing monitored fence synchronization object";
pub(super) const FENCE_STORAGE: &str =
    "Native GPU fence object: Physical memory storage for current and monitored fence values";
pub(super) const FENCE_CAPS: &str = "Native GPU fence object: Native fence caps";
pub(super) const FENCE_TYPES: &str = "Native GPU fence object: D3DDDI_NATIVEFENCE_TYPE";
pub(super) const FENCE_OPEN: &str = "Native GPU fence object: D3DKMTOpenNativeFenceFromNTHandle";
pub(super) const FENCE_CROSS_ADAPTER: &str = "Native GPU fence object: Cross-adapter native fences";
pub(super) const FENCE_CPU_SIGNAL: &str = "Native GPU fence object: DdiUpdateCurrentValuesFromCpu";
pub(super) const FENCE_SYNC: &str = "Native GPU fence object: Synchronization issues";
pub(super) const FENCE_LOG: &str = "Native GPU fence object: Native fence log buffer design";
pub(super) const FENCE_LOG_ORDER: &str =
    "Native GPU fence object: Order of Operations on GPU when signaling or unblocking a fence";
pub(super) const FENCE_LOG_OVERRUN: &str =
    "Native GPU fence object: Log buffer overrun is permitted";
pub(super) const FENCE_ALWAYS_SIGNALED: &str = "Native GPU fence object: AlwaysSignaled";
pub(super) const FENCE_PROGRESS: &str = "Native GPU fence object: Native HWQueueProgressFence";
pub(super) const FENCE_HANDLES: &str =
    "Native GPU fence object: Global and local handles for shared fences";
pub(super) const KMD_DISPLAY: &str = "Windows KMD overview: Display";
pub(super) const KMD_FLIP: &str = "Windows KMD overview: Flip/Present";
pub(super) const KMD_DMA: &str = "Windows KMD overview: DMA buffers";
pub(super) const KMD_INTERRUPT: &str = "Windows KMD overview: Interrupt";
pub(super) const KMD_ENGINES: &str = "Windows KMD overview: Engines, nodes, contexts, etc.";
pub(super) const KMD_MGPU: &str = "Windows KMD overview: MGPU";
pub(super) const KMD_TDR: &str = "Windows KMD overview: TDR";
pub(super) const KMD_RINGS: &str = "Windows KMD overview: Ring buffers and the CP";
pub(super) const KMD_ALLOCATIONS: &str = "Windows KMD overview: Allocations";
pub(super) const KMD_PAGING: &str = "Windows KMD overview: Build paging buffer";
pub(super) const KMD_MIGRATION: &str = "Windows KMD overview: Page migration";
pub(super) const KMD_VIRTUAL: &str = "Windows KMD overview: Physical vs virtual submission";
pub(super) const KMD_ESCAPE: &str = "Windows KMD overview: The External Events Utility";
pub(super) const NOTIFICATION: &str =
    "Allocation notification: How to request allocation notifications";
pub(super) const PROTOCOL_DEVICE: &str = "docs/protocol.md: 1. The virtio device";
pub(super) const PROTOCOL_PACKETS: &str = "docs/protocol.md: 5. Packets";
pub(super) const PROTOCOL_REQUESTS: &str = "docs/protocol.md: 6. Requests";
pub(super) const NAMES: &str = "docs/protocol.md: Names";
pub(super) const KERNELS: &str = "docs/kernels.md: The protocol";
pub(super) const VIDEO: &str = "docs/video.md: The protocol";
pub(super) const SECURITY: &str = "docs/protocol.md: Sealed bytes and statements";
pub(super) const VIRTIO: &str = "VIRTIO 1.3: 2.7 Split Virtqueues";
pub(super) const PROGRAMS: &str = "docs/programs.md: Several programs in one guest";
pub(super) const PROCESS_BARS: &str = "docs/protocol.md: BARs of processes' own";
