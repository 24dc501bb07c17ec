// SPDX-License-Identifier: MIT OR Apache-2.0

//! The adapter, which all instances of a program share: a socket of the device or of a broker serves one connection.

use super::caps::Caps;
use super::memory::Memory;
use bellhop_guest_umd::protocol::control::adapter::EngineType;
use bellhop_guest_umd::protocol::control::allocation::AllocationKind;
use bellhop_guest_umd::protocol::control::gpu_va::Protection;
use bellhop_guest_umd::protocol::features::Features;
use bellhop_guest_umd::{Adapter, CommandBuffer, Error};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::kernel::{KernelCaps, unpadded};
use bellhop_protocol::vulkan::{CommandCaps, CommandCode, CommandHeader, Encoded, QueryCaps};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use zerocopy::{FromZeros, IntoBytes};

/// How long the device may take to say what it can do. It starts a worker for that.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of the ring that it is asked through.
const RING: u64 = 4096;
/// Where in their memory the answer is, behind the question.
const ANSWER: u64 = 64;

/// An open adapter.
pub(crate) struct Opened {
    pub(crate) adapter: Adapter,
    pub(crate) caps: Arc<Caps>,
    pub(crate) memory: Memory,
}

/// The adapter of this program, as long as an instance or a device uses it.
static OPENED: Mutex<Weak<Opened>> = Mutex::new(Weak::new());

impl Opened {
    /// The adapter of this program, opened if it is not.
    ///
    /// # Errors
    /// Why there is none that serves Vulkan programs.
    pub(crate) fn get() -> Result<Arc<Self>, String> {
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = opened.upgrade() {
            return Ok(opened);
        }
        let new = Arc::new(Self::open()?);
        *opened = Arc::downgrade(&new);
        Ok(new)
    }

    fn open() -> Result<Self, String> {
        let text = |error: Error| error.to_string();
        let adapter = Adapter::open_default().map_err(text)?;
        let kernels = adapter.kernel_caps().map_err(text)?;
        if !kernels.are_supported() {
            return Err(format!("the device runs no kernels: {}", unpadded(&kernels.missing)));
        }
        let needed = Features::USER_MODE_SUBMISSION | Features::NATIVE_FENCES;
        let missing = needed.difference(adapter.features());
        if !missing.is_empty() {
            return Err(format!("the device offers this guest no {missing}"));
        }
        let host = ask(&adapter).map_err(|error| format!("the host's Vulkan: {error}"))?;
        let caps = Caps::new(&host, kernels.have_pointers(), &driver(&kernels))?;
        let memory = Memory::of(&adapter);
        Ok(Self { adapter, caps: Arc::new(caps), memory })
    }
}

fn driver(kernels: &KernelCaps) -> String {
    unpadded(&kernels.driver).to_owned()
}

/// Asks the device what its host's Vulkan can do, by a command in a queue.
fn ask(adapter: &Adapter) -> Result<CommandCaps, Error> {
    let device = adapter.create_device()?;
    let memory = device.create_allocation(AllocationKind::SYSTEM, PAGE_SIZE)?;
    let mapping = memory.map(Protection::WRITE)?;
    let question = QueryCaps {
        header: CommandHeader { code: CommandCode::QUERY_CAPS, units: 0, argument: 0 },
        destination: mapping.gpu_va() + ANSWER,
        length: size_of::<CommandCaps>() as u64,
    };
    let question = question.with_header(0, 0);
    memory.write(0, question.as_bytes())?;
    let node = adapter.least_used_node(EngineType::THREE_D)?;
    let mut queue = device.create_context(node)?.create_user_mode_queue(RING)?;
    let mut commands = CommandBuffer::new(&device, 64)?;
    commands.execute_commands(mapping.gpu_va(), size_of::<QueryCaps>() as u32)?;
    let value = queue.submit(&mut commands)?;
    queue.progress_fence().wait(value, PATIENCE)?;
    let mut answer = CommandCaps::new_zeroed();
    memory.read(ANSWER as usize, answer.as_mut_bytes())?;
    Ok(answer)
}
