// SPDX-License-Identifier: MIT OR Apache-2.0

//! Descriptors of nothing, and what is beyond a descriptor's end (`VK_EXT_robustness2`).

use crate::case::{Case, case};
use crate::lab::{Lab, Module, Outcome, Slot, compile, part, same, whole};
use ash::vk;

pub(in super::super) const CASES: &[Case] = &[
    case("set.nothing", "a descriptor of no buffer has zeros, and keeps nothing", |lab| {
        lab.needs("nullDescriptor", lab.extended()?.robustness2.null_descriptor)?;
        let none = vk::DescriptorBufferInfo::default().range(vk::WHOLE_SIZE);
        same!(read(lab, none)?, vec![7, 7, 7, 7]);
        Ok(())
    }),
    case("set.beyond", "what is beyond a descriptor's end is zeros, and is kept nowhere", |lab| {
        lab.needs("robustBufferAccess2", lab.extended()?.robustness2.robust_buffer_access2)?;
        same!(beyond(lab)?, (vec![8, 9, 7, 7], vec![1, 2, 3, 4]));
        Ok(())
    }),
];

const SOURCE: &str = "
    @group(0) @binding(0) var<storage, read_write> source: array<u32>;
    @group(0) @binding(1) var<storage, read_write> to: array<u32>;
    @compute @workgroup_size(4) fn main(@builtin(local_invocation_index) at: u32) {
        to[at] = 7u + source[at];
        source[at + 2u] = 99u;
    }";

const SLOTS: [Slot; 2] = [
    Slot(0, vk::DescriptorType::STORAGE_BUFFER, 1),
    Slot(1, vk::DescriptorType::STORAGE_BUFFER, 1),
];

/// What four invocations read from a descriptor, and 7.
fn read(lab: &Lab, from: vk::DescriptorBufferInfo) -> Outcome<Vec<u32>> {
    let gpu = lab.gpu()?;
    let kernel = gpu.kernel(Module(&compile(SOURCE)?), &[&SLOTS], 0, &[])?;
    let (to, set) = (gpu.buffer(4)?, gpu.empty_set(&kernel, 0)?);
    gpu.write(set, 0, vk::DescriptorType::STORAGE_BUFFER, &[from]);
    gpu.write(set, 1, vk::DescriptorType::STORAGE_BUFFER, &[whole(&to)]);
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).dispatch(1, 1, 1).barrier();
    })?;
    Ok(to.read())
}

/// The same of the first half of a buffer, and what is in that then.
fn beyond(lab: &Lab) -> Outcome<(Vec<u32>, Vec<u32>)> {
    let gpu = lab.gpu()?;
    let kernel = gpu.kernel(Module(&compile(SOURCE)?), &[&SLOTS], 0, &[])?;
    let (from, to) = (gpu.buffer_of(&[1, 2, 3, 4])?, gpu.buffer(4)?);
    let set = gpu.empty_set(&kernel, 0)?;
    gpu.write(set, 0, vk::DescriptorType::STORAGE_BUFFER, &[part(&from, 0, 8)]);
    gpu.write(set, 1, vk::DescriptorType::STORAGE_BUFFER, &[whole(&to)]);
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).dispatch(1, 1, 1).barrier();
    })?;
    Ok((to.read(), from.read()))
}
