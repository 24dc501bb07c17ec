// SPDX-License-Identifier: MIT OR Apache-2.0

//! Has a bar run down the screen, one frame a VSYNC.

use bellhop_guest_umd::display::{DisplayError, Path, PresentMode, Surface, SwapChain, Topology};
use bellhop_guest_umd::protocol::control::adapter::EngineType;
use bellhop_guest_umd::{Adapter, CommandBuffer};
use std::time::Duration;

const FRAMES: u32 = 120;
const TIMEOUT: Duration = Duration::from_secs(10);

fn main() -> Result<(), DisplayError> {
    let adapter = Adapter::open_default()?;
    // Fails with `NoDisplay` where the host has given this guest none.
    let display = adapter.display()?;
    // Source 0 on connector 0; the rest is found: the monitor's preferred mode, and a picture of its size.
    let topology = display.complete(&Topology::new().path(Path::new(0, 0)))?;
    display.commit(&topology)?;
    let surface = Surface::from(topology.paths()[0].get().source_mode);
    let (pitch, height) = (surface.pitch()?, surface.height);

    let device = adapter.create_device()?;
    let node = adapter.least_used_node(EngineType::THREE_D)?;
    let mut queue = device.create_context(node)?.create_user_mode_queue(4096)?;
    let mut chain = SwapChain::new(&display, &device, 0, surface, 3)?;
    let mut commands = CommandBuffer::many(&device, 4096, 3)?;

    for frame in 0..FRAMES {
        let image = chain.acquire(TIMEOUT)?;
        let picture = chain.primary(&image).gpu_va();
        let bar = u64::from(frame * 4 % (height - 16)) * u64::from(pitch);
        let commands = &mut commands[image.index()];
        commands.reset();
        commands.fill(picture, u64::from(pitch) * u64::from(height), 0x0020_3040)?;
        commands.fill(picture + bar, u64::from(pitch) * 16, 0x00FF_C040)?;
        // Nobody waits here: the flip itself waits until the GPU has drawn the frame.
        let drawn = queue.submit(commands)?;
        chain.present(image, PresentMode::Vsync, &[(queue.progress_fence(), drawn)])?;
    }
    chain.finish(TIMEOUT)?;
    let statistics = chain.statistics()?;
    println!("{} frames presented, {} shown", statistics.presented, statistics.shown);
    Ok(())
}
