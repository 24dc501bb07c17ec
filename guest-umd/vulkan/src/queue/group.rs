// SPDX-License-Identifier: MIT OR Apache-2.0

//! Submissions to several GPUs: the packets of each go into its own ring. Nothing but semaphores and meetings orders GPUs.

use super::meetings::Meetings;
use super::packets::{Packets, Places, Words, signal, wait};
use super::ring::Failed;
use super::{Member, Queue};
use crate::command::Chunk;
use crate::device::wait::Target;
use ash::vk;

/// Submits packets to the GPU of a device index.
type Submit<'m> = dyn FnMut(usize, &[Words]) -> Result<(), vk::Result> + 'm;

/// The packets of a submission, for each GPU.
pub(super) struct Parts<'m> {
    meetings: &'m Meetings,
    /// The slots of the meetings' fences, by device index.
    slots: Vec<u32>,
    /// The packets that are in no ring yet, by device index.
    lists: Vec<Vec<Words>>,
    submit: &'m mut Submit<'m>,
    outcome: Result<(), vk::Result>,
}

impl<'m> Parts<'m> {
    /// None, for so many GPUs.
    fn new(count: usize, meetings: &'m Meetings, submit: &'m mut Submit<'m>) -> Self {
        let slots = meetings.slots();
        Self { meetings, slots, lists: vec![Vec::new(); count], submit, outcome: Ok(()) }
    }

    /// Submits what is in no ring yet: whoever waits for it may keep others out of a ring.
    fn flush(&mut self) {
        for (device, list) in self.lists.iter_mut().enumerate() {
            if self.outcome.is_ok() && !list.is_empty() {
                self.outcome = (self.submit)(device, list);
            }
            list.clear();
        }
    }

    /// Has GPUs wait for each other.
    fn meet(&mut self, devices: u32) {
        if devices.count_ones() < 2 {
            return;
        }
        let number = self.meetings.next();
        let slots = (0..).zip(self.slots.clone()).filter(|(device, _)| is_in(devices, *device));
        let slots: Vec<(u32, u32)> = slots.collect();
        for (device, slot) in &slots {
            self.put(*device, signal(*slot, number));
        }
        self.flush();
        for (device, _) in &slots {
            for (_, slot) in slots.iter().filter(|(other, _)| other != device) {
                self.put(*device, wait(*slot, number));
            }
        }
    }
}

/// Whether a mask has a device index.
const fn is_in(devices: u32, device: u32) -> bool {
    matches!(devices.checked_shr(device), Some(rest) if rest & 1 == 1)
}

impl Places for Parts<'_> {
    const ARE_SEVERAL: bool = true;

    fn put(&mut self, device: u32, packet: Words) {
        if let Some(list) = self.lists.get_mut(device as usize) {
            list.push(packet);
        }
    }

    fn execute(&mut self, devices: u32, chunk: &Chunk) {
        let devices = devices & u32::from(chunk.devices);
        if chunk.meets {
            self.meet(devices);
        }
        for (device, list) in (0..).zip(&mut self.lists) {
            if is_in(devices, device) {
                list.push(chunk.packet);
            }
        }
    }

    fn end_batch(&mut self) {
        self.flush();
    }
}

impl Queue {
    /// Whether it is on several GPUs.
    #[inline]
    pub(super) fn is_of_group(&self) -> bool {
        !self.others.is_empty()
    }

    /// Submits what `fill` appends, to several GPUs. Returns the values that the progress fences get when it and everything before it
    /// are done.
    pub(super) fn submit_to_group(
        &self,
        fill: impl FnOnce(&mut Parts<'_>),
    ) -> Result<Vec<Target>, vk::Result> {
        if self.device.is_known_to_be_lost() {
            return Err(vk::Result::ERROR_DEVICE_LOST);
        }
        let members: Vec<&Member> = self.members().collect();
        let mut has_begun = false;
        let mut submit = |device: usize, packets: &[Words]| {
            let Some(member) = members.get(device) else { return Ok(()) };
            let append = |ring: &mut Packets<'_>| packets.iter().for_each(|one| ring.push(*one));
            let submitted = member.ring().submit(append);
            match submitted {
                Ok(_) => {
                    has_begun = true;
                    Ok(())
                }
                // Nobody takes back what others have.
                Err(Failed::Nothing(error)) if has_begun => Err(self.device.lose(&error)),
                Err(failed) => Err(failed.result(self.device)),
            }
        };
        let mut parts = Parts::new(members.len(), &self.meetings, &mut submit);
        fill(&mut parts);
        parts.outcome?;
        Ok(members.into_iter().map(Member::last).collect())
    }
}

#[cfg(test)]
mod tests;
