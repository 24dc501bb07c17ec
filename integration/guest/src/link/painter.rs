// SPDX-License-Identifier: MIT OR Apache-2.0

//! What draws frames on one GPU of a chain.

use super::PATIENCE;
use super::chain::Chain;
use super::tunnel::{COMMANDS, PIXEL, Tunnel};
use crate::canvas::Canvas;
use bellhop_guest_umd::{CommandBuffer, Error, Fence, GpuMapping, UserModeQueue};
use bellhop_protocol::control::adapter::EngineType;

/// Bytes of a ring: room for the submissions of some hundred frames.
const RING: u64 = 16 << 10;

/// A queue of a GPU, and an image in its own local memory.
pub(super) struct Renderer {
    // Dropped in this order.
    pub(super) queue: UserModeQueue,
    image: GpuMapping,
}

impl Renderer {
    pub(super) fn new(chain: &Chain, gpu: u8, tunnel: Tunnel) -> anyhow::Result<Self> {
        let queue = queue(chain, gpu, EngineType::THREE_D)?;
        Ok(Self { queue, image: chain.local_memory(gpu, tunnel.image_size())? })
    }

    /// The image: its address and its pitch.
    pub(super) fn surface(&self, tunnel: Tunnel) -> (u64, u32) {
        (self.image.gpu_va() + tunnel.origin(), tunnel.pitch())
    }
}

/// A queue on a GPU's node of a type.
pub(super) fn queue(
    chain: &Chain,
    gpu: u8,
    engine_type: EngineType,
) -> Result<UserModeQueue, Error> {
    let node = chain.adapter.least_used_node_of(gpu, engine_type)?;
    chain.device.create_context(node)?.create_user_mode_queue(RING)
}

/// Draws frames on a GPU, and copies them to where the processor finds them.
pub(super) struct Painter {
    // Dropped in this order.
    renderer: Renderer,
    commands: Vec<CommandBuffer>,
    shot: GpuMapping,
    textures: u64,
    tunnel: Tunnel,
}

impl Painter {
    /// As many frames may be submitted before the first is done.
    pub(super) const AHEAD: usize = 4;

    pub(super) fn new(
        chain: &Chain,
        gpu: u8,
        tunnel: Tunnel,
        textures: &GpuMapping,
    ) -> anyhow::Result<Self> {
        let renderer = Renderer::new(chain, gpu, tunnel)?;
        let commands = CommandBuffer::many(&chain.device, COMMANDS, Self::AHEAD)?;
        let shot = chain.shared_memory(tunnel.frame_size())?;
        Ok(Self { renderer, commands, shot, textures: textures.gpu_va(), tunnel })
    }

    /// Has the GPU draw a frame, and do more with the image, which is at an address with a pitch. Returns the value that
    /// [`Self::progress`] has when that is done.
    pub(super) fn draw(
        &mut self,
        frame: u32,
        more: impl FnOnce(&mut CommandBuffer, (u64, u32)) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let Self { renderer, commands, shot, textures, tunnel } = self;
        let (image, row) = (renderer.surface(*tunnel), tunnel.width * PIXEL);
        let turn = renderer.queue.last_value() as usize % Self::AHEAD;
        let commands = &mut commands[turn];
        commands.reset();
        tunnel.draw(commands, frame % tunnel.frames, *textures, image.0)?;
        commands.copy_rect(image, (shot.gpu_va(), row), row, tunnel.height)?;
        more(commands, image)?;
        renderer.queue.submit(commands)
    }

    /// Has the GPU draw a frame, waits for it, and says whether it is what it is expected to be.
    pub(super) fn draws(&mut self, frame: u32, expected: &[Canvas]) -> anyhow::Result<bool> {
        let value = self.draw(frame, |_, _| Ok(()))?;
        self.progress().wait(value, PATIENCE)?;
        let expected = &expected[(frame % self.tunnel.frames) as usize];
        Ok(self.shot()?.pixels == expected.pixels)
    }

    /// The fence of what was submitted.
    pub(super) fn progress(&self) -> &Fence {
        self.renderer.queue.progress_fence()
    }

    /// The frame that was drawn last.
    fn shot(&self) -> anyhow::Result<Canvas> {
        let mut bytes = vec![0; self.tunnel.frame_size() as usize];
        self.shot.allocation().read(0, &mut bytes)?;
        Ok(Canvas::new(self.tunnel.surface(), &bytes)?)
    }
}
