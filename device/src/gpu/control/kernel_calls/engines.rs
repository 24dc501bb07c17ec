// SPDX-License-Identifier: MIT OR Apache-2.0

//! Engines: progress, power, resets and quiescence.

use super::Gpu;
use crate::gpu::shared::chip::{attention, reset};
use bellhop_host_kmd::hardware::{
    EngineProgress, Engines, GuestId, HwQueueId, Quiescence, Ticket, UnknownId,
};
use bellhop_protocol::control::power::EnginePowerState;
use bellhop_protocol::handoff::power::Asked;

impl Engines for Gpu {
    fn engine_progress(&self, node: u32) -> Result<EngineProgress, UnknownId> {
        let port = self.engine(node)?;
        let (turns, executing) = port.turns.read();
        let is_asleep = port.attention.is_asleep();
        Ok(EngineProgress {
            is_asleep,
            turns,
            executing,
            stands: !is_asleep && port.thread.stands(),
        })
    }

    fn reset_engine(&self, node: u32) -> Result<(), UnknownId> {
        self.engine(node)?.reset(reset::ENGINE);
        Ok(())
    }

    fn reset_adapter(&self) {
        for port in self.chip.own_engines() {
            port.reset(reset::ADAPTER);
        }
    }

    fn set_engine_power(
        &self,
        node: u32,
        state: EnginePowerState,
        transition: u64,
    ) -> Result<(), UnknownId> {
        let port = self.engine(node)?;
        port.power.ask(Asked { on: state == EnginePowerState::F0, transition });
        port.raise(attention::POWER);
        Ok(())
    }
}

impl Quiescence for Gpu {
    fn quiesce(&self, guest: Option<GuestId>) -> Ticket {
        let registry = self.registry();
        // Engines cache nothing of a removed guest.
        for (_, partition) in
            registry.guests.iter().filter(|(id, _)| guest.is_none_or(|guest| guest == **id))
        {
            partition.flush();
        }
        self.chip.quiesce()
    }

    fn quiesced(&self) -> Ticket {
        self.chip.quiesced()
    }

    fn withheld(&self) -> Vec<(GuestId, Ticket)> {
        self.chip.withheld()
    }

    fn lose_hw_queue(&self, queue: HwQueueId) -> Result<(), UnknownId> {
        let queue = self.queue(queue)?;
        queue.lose();
        self.kick_queue(&queue);
        Ok(())
    }
}
