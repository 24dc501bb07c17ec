//! `km.*`: kernel-mode submission, beside user-mode submission.

use super::scene::{Scene, TIMEOUT};
use super::{Behaviour, Mismatch, require, source};
use bellhop_guest_umd::CommandBuffer;

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour {
        id: "km.submit",
        shows: "a command buffer submitted through the control queue executes, and its fence is signaled",
        section: source::KMD_DMA,
        check: submit,
    },
    Behaviour {
        id: "km.wait.blocked",
        shows: "its completion wakes a blocked waiter",
        section: source::KMD_INTERRUPT,
        check: wait_blocked,
    },
    Behaviour {
        id: "km.beside-um",
        shows: "both kinds of queue work on one engine at the same time",
        section: source::UM_INTRODUCTION,
        check: beside_um,
    },
];

fn submit(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let mut queue = bench.context.create_kernel_mode_queue()?;
    for expected in 1..=20 {
        bench.commands.reset();
        bench.commands.write_data(bench.va(0), &u64::to_le_bytes(expected))?;
        let value = queue.submit(&mut bench.commands)?;
        queue.progress_fence().poll(value, TIMEOUT)?;
        let written = bench.word(0)?;
        require!(written == expected, "submission {expected} wrote {written}");
    }
    Ok(())
}

fn wait_blocked(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let mut queue = bench.context.create_kernel_mode_queue()?;
    bench.commands.nop()?;
    for _ in 0..20 {
        let value = queue.submit(&mut bench.commands)?;
        queue.progress_fence().wait(value, TIMEOUT)?;
    }
    Ok(())
}

fn beside_um(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let mut queue = bench.context.create_kernel_mode_queue()?;
    let mut commands = CommandBuffer::new(&bench.device, 64)?;
    commands.fill(bench.va(8192), 4096, 2)?;
    bench.commands.fill(bench.va(0), 4096, 1)?;
    for _ in 0..50 {
        let user_mode = bench.queue.submit(&mut bench.commands)?;
        let kernel_mode = queue.submit(&mut commands)?;
        bench.queue.progress_fence().poll(user_mode, TIMEOUT)?;
        queue.progress_fence().poll(kernel_mode, TIMEOUT)?;
    }
    let (user_mode, kernel_mode) = (bench.word(0)? as u32, bench.word(8192)? as u32);
    require!((user_mode, kernel_mode) == (1, 2), "filled with {user_mode} and {kernel_mode}");
    Ok(())
}
