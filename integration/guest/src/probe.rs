// SPDX-License-Identifier: MIT OR Apache-2.0

//! The offers of a device to this guest, and the cost of accesses to it.

use crate::guest::Guest;
use anyhow::Context;
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{AccessCost, Adapter, Costs, PlacementPolicy, Placements};
use bellhop_protocol::control::adapter::NODE_USER_MODE_SUBMISSION_SUPPORTED;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::kernel::{KernelCaps, unpadded};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// A device, as this guest sees it.
#[derive(Debug, Serialize)]
pub struct Description {
    /// How the guest reaches the device.
    pub reached: String,
    /// Version of the protocol.
    pub version: String,
    /// The features that are on.
    pub features: String,
    /// The device's nodes.
    pub nodes: Vec<Node>,
    /// Doorbells that this guest can have.
    pub doorbells: u32,
    /// Fences that this guest can have.
    pub fences: u32,
    /// Physical doorbells, which all guests share.
    pub physical_doorbells: u32,
    /// Bytes of the BAR; 0 where the VMM has none.
    pub bar_size: u64,
    /// The slowest memory type with which the processor accesses the BAR.
    pub bar_memory_type: Option<String>,
    /// Bytes of local memory.
    pub local_memory: u64,
    /// The cost of accesses, in nanoseconds.
    pub costs: Option<AreaCosts>,
    /// Where shared memory is.
    pub placement: Placement,
    /// What the device runs this guest's own kernels with, and their limits.
    pub own_kernels: OwnKernels,
    /// What the host has to run kernels with, where it told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernels: Option<serde_json::Value>,
    /// Which cgroups the host has for workers, where it told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroups: Option<serde_json::Value>,
    /// How the host decodes and encodes video, where it told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codecs: Option<serde_json::Value>,
}

/// What the device runs a guest's own kernels with.
#[derive(Debug, Serialize)]
pub struct OwnKernels {
    /// Why it runs none, and what to install on the host.
    pub missing: Option<String>,
    /// Otherwise, what it runs them with.
    #[serde(flatten)]
    pub with: Option<KernelDevice>,
}

/// The Vulkan device that runs a guest's kernels.
#[derive(Debug, Serialize)]
pub struct KernelDevice {
    /// Its name.
    pub device: String,
    /// Its driver, with version.
    pub driver: String,
    /// Whether kernels reach any GPU virtual address; otherwise only what descriptors cover.
    pub pointers: bool,
    /// Most invocations in a work group, by dimension.
    pub work_group_size: [u32; 3],
    /// Most invocations in a work group, in all.
    pub work_group_invocations: u32,
    /// Most work groups in a dispatch, by dimension.
    pub work_groups: [u32; 3],
    /// Most bytes of shared memory in a work group.
    pub shared_memory: u32,
    /// Most bytes of push constants.
    pub push_constants: u32,
    /// Most descriptors.
    pub descriptors: u32,
    /// Alignment of a descriptor's address, in bytes.
    pub descriptor_alignment: u32,
    /// Most kernels that this guest can have.
    pub kernels: u32,
}

impl From<KernelCaps> for OwnKernels {
    fn from(caps: KernelCaps) -> Self {
        let text = |bytes| unpadded(bytes).to_owned();
        let missing = (!caps.are_supported()).then(|| text(&caps.missing));
        let with = caps.are_supported().then(|| KernelDevice {
            device: text(&caps.device),
            driver: text(&caps.driver),
            pointers: caps.have_pointers(),
            work_group_size: caps.max_group_size,
            work_group_invocations: caps.max_invocations,
            work_groups: caps.max_groups,
            shared_memory: caps.shared_memory,
            push_constants: caps.max_push_constants,
            descriptors: caps.max_descriptors,
            descriptor_alignment: caps.descriptor_alignment,
            kernels: caps.max_kernels,
        });
        Self { missing, with }
    }
}

/// A node.
#[derive(Debug, Serialize)]
pub struct Node {
    /// The engine type.
    pub engine_type: String,
    /// Its name.
    pub name: String,
    /// Whether it takes user-mode submission.
    pub user_mode_submission: bool,
}

/// The cost of an access, in nanoseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Cost {
    /// A load.
    pub load: f64,
    /// A store and a full fence.
    pub store: f64,
}

/// The costs of accesses, by place.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct AreaCosts {
    /// Accesses to the BAR.
    pub bar: Cost,
    /// Accesses to the guest's own memory.
    pub guest_memory: Cost,
}

/// Where shared memory is, and why.
#[derive(Debug, Serialize)]
pub struct Placement {
    /// Doorbells and last-queued values.
    pub doorbells: String,
    /// Doorbell statuses and fence values.
    pub fences: String,
    /// Local memory.
    pub local_memory: String,
    /// Rings and command buffers.
    pub rings: String,
    /// The reason.
    pub reason: String,
}

/// Queries the device.
///
/// # Errors
/// When the device cannot be opened or asked.
pub fn probe(guest: Arc<dyn Guest>, policy: PlacementPolicy) -> anyhow::Result<Description> {
    let transport: Arc<dyn Transport> = Arc::clone(&guest) as _;
    let adapter = Adapter::open_with(transport, policy).context("cannot open the adapter")?;
    let config = guest.config();
    let nodes = adapter.nodes().context("cannot query the nodes")?;
    let caps = adapter.user_mode_submission_caps().context("cannot query the doorbells")?;
    let bar = guest.bar();
    let cost = |AccessCost { load, store }| Cost { load, store };
    let costs = adapter.costs();
    Ok(Description {
        reached: guest.reached(),
        version: config.version.to_string(),
        features: adapter.features().to_string(),
        nodes: nodes
            .iter()
            .map(|node| Node {
                engine_type: node.engine_type.to_string(),
                name: String::from_utf8_lossy(&node.friendly_name)
                    .trim_end_matches('\0')
                    .to_owned(),
                user_mode_submission: node.flags & NODE_USER_MODE_SUBMISSION_SUPPORTED != 0,
            })
            .collect(),
        doorbells: config.doorbell_count,
        fences: config.fence_count,
        physical_doorbells: caps.physical_doorbells,
        bar_size: bar.as_ref().map_or(0, |_| config.bar_size),
        bar_memory_type: bar.as_ref().map(|bar| bar.memory_type.to_string()),
        local_memory: adapter.local_memory(),
        costs: costs.map(|costs| AreaCosts {
            bar: cost(costs.bar),
            guest_memory: cost(costs.guest_memory),
        }),
        placement: placement(adapter.placements(), policy, costs, bar.is_some()),
        own_kernels: adapter.kernel_caps().context("cannot query the kernels")?.into(),
        kernels: None,
        cgroups: None,
        codecs: None,
    })
}

fn placement(
    placements: Placements,
    policy: PlacementPolicy,
    costs: Option<Costs>,
    has_bar: bool,
) -> Placement {
    let rings = match placements.rings {
        AllocationKind::SYSTEM => "guest memory".into(),
        _ => placements.local_memory.to_string(),
    };
    let reason = match (policy, costs) {
        _ if !has_bar => "the VMM maps no BAR",
        (PlacementPolicy::Fixed(_), _) => "requested with --placement",
        (PlacementPolicy::Measured, Some(costs)) if costs.is_bar_slow() => {
            "accesses to the BAR are much slower than to memory"
        }
        (PlacementPolicy::Measured, Some(_)) => "accesses to the BAR are as fast as to memory",
        (PlacementPolicy::Measured, None) => "the device does not accept guest memory for it",
    };
    Placement {
        doorbells: placements.doorbells.to_string(),
        fences: placements.fences.to_string(),
        local_memory: placements.local_memory.to_string(),
        rings,
        reason: reason.into(),
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Bellhop GPU, protocol {}, {}", self.version, self.reached)?;
        writeln!(f, "  features        {}", self.features)?;
        for node in &self.nodes {
            let how = if node.user_mode_submission { "doorbells" } else { "control queue only" };
            writeln!(f, "  node            {:<10} {:<8} {how}", node.name, node.engine_type)?;
        }
        writeln!(
            f,
            "  doorbells       {}, over {} physical ones that all guests share",
            self.doorbells, self.physical_doorbells
        )?;
        writeln!(f, "  fences          {}", self.fences)?;
        match &self.bar_memory_type {
            Some(memory_type) => {
                writeln!(f, "  BAR             {} MiB, {memory_type}", self.bar_size >> 20)?;
            }
            None => writeln!(f, "  BAR             none")?,
        }
        writeln!(f, "  local memory    {} MiB", self.local_memory >> 20)?;
        if let Some(AreaCosts { bar, guest_memory }) = self.costs {
            writeln!(f, "  access, ns             load  store and fence")?;
            writeln!(f, "    BAR          {:>10.1} {:>16.1}", bar.load, bar.store)?;
            writeln!(
                f,
                "    guest memory {:>10.1} {:>16.1}",
                guest_memory.load, guest_memory.store
            )?;
        }
        let Placement { doorbells, fences, local_memory, rings, reason } = &self.placement;
        writeln!(f, "  placement       {reason}:")?;
        writeln!(f, "    doorbells     {doorbells}")?;
        writeln!(f, "    fences        {fences}")?;
        writeln!(f, "    rings         {rings}")?;
        writeln!(f, "    local memory  {local_memory}")?;
        write!(f, "{}", self.own_kernels)
    }
}

impl fmt::Display for OwnKernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(with) = &self.with else {
            let why = self.missing.as_deref().unwrap_or_default();
            return writeln!(f, "  own kernels     none: {why}");
        };
        writeln!(f, "  own kernels     {} at most, with {}", with.kernels, with.device)?;
        writeln!(f, "    driver        {}", with.driver)?;
        let reach = if with.pointers { "any GPU virtual address" } else { "descriptors only" };
        writeln!(f, "    reach         {reach}")?;
        let [x, y, z] = with.work_group_size;
        let most = with.work_group_invocations;
        writeln!(f, "    work group    at most {x} x {y} x {z}, {most} invocations in all")?;
        writeln!(
            f,
            "    arguments     {} bytes of push constants, {} descriptors",
            with.push_constants, with.descriptors
        )
    }
}
