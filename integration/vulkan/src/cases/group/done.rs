// SPDX-License-Identifier: MIT OR Apache-2.0

//! When the devices of a group are done.

use super::count::{Count, all, each};
use crate::case::{Case, case};
use crate::lab::{At, Batch, Lab, Outcome, PATIENCE, require, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("group.done.fence", "a fence is signaled when all devices are done", fence),
    case("group.done.idle", "a queue and a device are idle when all of their devices are", idle),
    case("group.done.any-fence", "a wait for any fence ends when all devices of one are done", any),
];

fn fence(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let (count, queue) = (Count::new(&gpu)?, gpu.queue()?);
    let commands = gpu.record(queue, |commands| count.dispatch(commands, 1))?;
    for late in 0..devices {
        let (start, fence) = (gpu.timeline(0)?, gpu.fence(false)?);
        let (wait, commands) = (&[(At(start, 1), late)], &[(commands, all(devices))]);
        gpu.submit_to(queue, Batch { wait, commands, signal: &[] }, fence)?;
        require!(!gpu.is_signaled(fence)?, "it is signaled before {late} is done");
        same!(gpu.wait_fences(&[fence], true, 1_000_000), Err(vk::Result::TIMEOUT));
        gpu.signal(At(start, 1))?;
        gpu.wait_fences(&[fence], true, PATIENCE)?;
        require!(gpu.is_signaled(fence)?, "it is not signaled any more");
        same!(count.take(devices), each(devices, |_| 1));
    }
    Ok(())
}

fn idle(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let (count, queue) = (Count::new(&gpu)?, gpu.queue()?);
    let commands = gpu.record(queue, |commands| count.dispatch(commands, 1000))?;
    for round in 0..6 {
        let mask = if round % 3 == 0 { all(devices) } else { 1 << (round % 3 - 1) };
        let batch = Batch { commands: &[(commands, mask)], ..Batch::default() };
        gpu.submit_to(queue, batch, vk::Fence::null())?;
        if round % 2 == 0 {
            gpu.wait_idle()?
        } else {
            gpu.wait_queue_idle(queue)?
        }
        same!(count.take(devices), each(devices, |device| 1000 * (mask >> device & 1)));
    }
    Ok(())
}

fn any(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.group()?;
    let (count, queue) = (Count::new(&gpu)?, gpu.queue()?);
    let commands = gpu.record(queue, |commands| count.dispatch(commands, 1))?;
    let [first, second] = [gpu.timeline(0)?, gpu.timeline(0)?];
    let fences = [gpu.fence(false)?, gpu.fence(false)?];
    for (start, fence) in [first, second].into_iter().zip(fences) {
        let wait: Vec<_> = (0..devices).map(|device| (At(start, 1), device)).collect();
        for (device, wait) in (0..).zip(&wait) {
            let own = [(commands, 1 << device)];
            let batch = Batch { wait: std::slice::from_ref(wait), commands: &own, signal: &[] };
            let fence = if device + 1 == devices { fence } else { vk::Fence::null() };
            gpu.submit_to(queue, batch, fence)?;
        }
    }
    same!(gpu.wait_fences(&fences, false, 1_000_000), Err(vk::Result::TIMEOUT));
    gpu.signal(At(first, 1))?;
    gpu.wait_fences(&fences, false, PATIENCE)?;
    same!(fences.map(|fence| gpu.is_signaled(fence)), [Ok(true), Ok(false)]);
    gpu.signal(At(second, 1))?;
    gpu.wait_fences(&fences, true, PATIENCE)?;
    same!(count.take(devices), each(devices, |_| 2));
    Ok(())
}
