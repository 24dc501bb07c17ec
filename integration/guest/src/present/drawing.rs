// SPDX-License-Identifier: MIT OR Apache-2.0

//! What draws a frame: a kernel where the device runs kernels, and otherwise packets that fill.

use anyhow::Context as _;
use bellhop_guest_umd::display::{Primary, Surface};
use bellhop_guest_umd::{
    Adapter, Arguments, CommandBuffer, Device, Error, Kernel, KernelError, UserModeQueue,
};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::kernel::unpadded;

const ANIMATION: &str = include_str!("animation.wgsl");

/// Bars of a frame that is filled.
const BARS: u32 = 8;
/// Room for the packets of a frame.
const COMMANDS: usize = 4096;

/// Draws frames, each with a command buffer that belongs to its image.
pub(super) struct Drawing {
    // Dropped in this order.
    pub(super) queue: UserModeQueue,
    commands: Vec<CommandBuffer>,
    kernel: Option<Kernel>,
    /// What draws, for people.
    pub(super) by: String,
    surface: Surface,
}

impl Drawing {
    pub(super) fn new(
        adapter: &Adapter,
        device: &Device,
        surface: Surface,
        images: usize,
    ) -> anyhow::Result<Self> {
        let node = adapter.least_used_node(EngineType::THREE_D);
        let node = node.context("there is no compute node")?;
        let queue = device.create_context(node)?.create_user_mode_queue(4096)?;
        let commands = CommandBuffer::many(device, COMMANDS, images)?;
        let (kernel, by) = match Kernel::from_wgsl(device, ANIMATION).name("animation").create() {
            Ok(kernel) => {
                let vulkan = adapter.kernel_caps()?;
                (Some(kernel), format!("a kernel on {}", unpadded(&vulkan.device)))
            }
            Err(KernelError::NotOffered { .. }) => {
                (None, "fills, since this host runs no kernels".to_owned())
            }
            Err(error) => return Err(error).context("cannot compile the animation"),
        };
        Ok(Self { queue, commands, kernel, by, surface })
    }

    /// Has the GPU draw a frame on an image. Returns the value that the queue's progress fence gets when it has.
    pub(super) fn draw(
        &mut self,
        image: usize,
        primary: &Primary,
        frame: u32,
    ) -> anyhow::Result<u64> {
        let commands = self.commands.get_mut(image).context("an image without commands")?;
        commands.reset();
        match &self.kernel {
            Some(kernel) => dispatch(commands, kernel, self.surface, primary, frame)?,
            None => fill(commands, self.surface, primary, frame)?,
        }
        Ok(self.queue.submit(commands)?)
    }
}

fn dispatch(
    commands: &mut CommandBuffer,
    kernel: &Kernel,
    surface: Surface,
    primary: &Primary,
    frame: u32,
) -> anyhow::Result<()> {
    let Surface { width, height, .. } = surface;
    let mut arguments = Arguments::new();
    arguments.u32(width).u32(height).u32(surface.pitch()? / 4).u32(frame);
    arguments.descriptor(primary.gpu_va(), surface.size()?);
    let groups = [width.div_ceil(8), height.div_ceil(8), 1];
    commands.dispatch_kernel(kernel, groups, &arguments)?;
    Ok(())
}

/// Bars that run down over a ground.
fn fill(
    commands: &mut CommandBuffer,
    surface: Surface,
    primary: &Primary,
    frame: u32,
) -> anyhow::Result<()> {
    let (pitch, height) = (u64::from(surface.pitch()?), u64::from(surface.height));
    let mut lines = |first: u64, count: u64, colour: u32| -> Result<(), Error> {
        let count = count.min(height.saturating_sub(first));
        if count > 0 {
            commands.fill(primary.gpu_va() + first * pitch, count * pitch, colour)?;
        }
        Ok(())
    };
    lines(0, height, 0x0020_3040)?;
    let step = height.div_ceil(BARS.into());
    for bar in 0..u64::from(BARS) {
        let first = (bar * step + u64::from(frame) * 3) % height;
        let bar = bar as u32;
        lines(first, step / 3, (0x20 * bar) << 16 | (0xFF - 0x18 * bar) << 8 | 0x60)?;
    }
    Ok(())
}
