// SPDX-License-Identifier: MIT OR Apache-2.0

//! Groups, and devices of their members.

use super::count::{Count, all, each};
use crate::case::{Case, case};
use crate::lab::{Lab, Outcome, require, same};

pub(super) const CASES: &[Case] = &[
    case("group.one-each", "each physical device is in one group, and in no other", one_each),
    case(
        "group.alike",
        "the members of a group have the same features, limits and names, and numbers of their own",
        alike,
    ),
    case("group.alone", "each member of a group is a device of its own, at index 0", alone),
    case("group.beside", "devices of single members work beside one of all of them", beside),
    case("group.any-order", "a device may consist of the members in any order", any_order),
    case("group.again", "a device of a group comes as often as it is opened", again),
];

fn one_each(lab: &Lab) -> Outcome {
    lab.members()?;
    let grouped = lab.groups()?.concat();
    let mut devices = lab.devices()?;
    same!(grouped.len(), devices.len());
    devices.retain(|device| !grouped.contains(device));
    require!(devices.is_empty(), "{} devices are in no group", devices.len());
    Ok(())
}

fn alike(lab: &Lab) -> Outcome {
    let members = lab.members()?;
    let mut numbers = Vec::new();
    let mut others = Vec::new();
    for member in members {
        let (said, can) = lab.member(member);
        numbers.push(said.since_1_1.device_uuid);
        let (limits, core) = (said.properties.limits, can.core);
        let limits = [
            limits.max_compute_shared_memory_size,
            limits.max_compute_work_group_invocations,
            limits.max_push_constants_size,
            limits.max_storage_buffer_range,
        ];
        let features = [
            core.robust_buffer_access,
            core.shader_int64,
            can.since_1_1.storage_buffer16_bit_access,
            can.since_1_2.buffer_device_address,
            can.since_1_3.synchronization2,
        ];
        let (name, driver) = (said.properties.device_name, said.since_1_1.driver_uuid);
        others.push((said.properties.api_version, name, driver, limits, features));
    }
    others.dedup();
    same!(others.len(), 1);
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    same!(numbers.len(), count);
    Ok(())
}

fn alone(lab: &Lab) -> Outcome {
    for member in lab.members()? {
        let gpu = lab.alone(member)?;
        let count = Count::new(&gpu)?;
        gpu.run(|commands| count.dispatch(commands, 5))?;
        same!(count.take(3), [5, 0, 0]);
    }
    Ok(())
}

fn beside(lab: &Lab) -> Outcome {
    let (group, devices) = lab.group()?;
    let of_group = Count::new(&group)?;
    let queue = group.queue()?;
    let commands = group.record(queue, |commands| of_group.dispatch(commands, 3))?;
    for member in lab.members()? {
        let gpu = lab.alone(member)?;
        let count = Count::new(&gpu)?;
        group.finish_on(queue, commands, all(devices))?;
        gpu.run(|commands| count.dispatch(commands, 7))?;
        same!(count.take(2), [7, 0]);
        same!(of_group.take(devices), each(devices, |_| 3));
    }
    Ok(())
}

fn any_order(lab: &Lab) -> Outcome {
    let mut members = lab.members()?;
    members.reverse();
    let (gpu, devices) = lab.group_of(&members)?;
    let count = Count::new(&gpu)?;
    let queue = gpu.queue()?;
    for device in 0..devices {
        let commands = gpu.record(queue, |commands| count.dispatch(commands, device + 1))?;
        gpu.finish_on(queue, commands, 1 << device)?;
    }
    same!(count.take(devices), each(devices, |device| device + 1));
    Ok(())
}

fn again(lab: &Lab) -> Outcome {
    for round in 1..=8 {
        let (gpu, devices) = lab.group()?;
        let count = Count::new(&gpu)?;
        let queue = gpu.queue()?;
        let commands = gpu.record(queue, |commands| count.dispatch(commands, round))?;
        gpu.finish_on(queue, commands, all(devices))?;
        same!(count.take(devices), each(devices, |_| round));
    }
    Ok(())
}
