// SPDX-License-Identifier: MIT OR Apache-2.0

//! The model's engines under the kernel's control: power, resets, tickets and interrupts.

use crate::model::{Call, Model};
use bellhop_host_kmd::hardware::{
    EngineProgress, Engines, GuestId, HwQueueId, Interrupt, Interrupts, Quiescence, Ticket,
    UnknownId,
};
use bellhop_protocol::control::power::EnginePowerState;

impl Engines for Model {
    fn engine_progress(&self, node: u32) -> Result<EngineProgress, UnknownId> {
        self.known(UnknownId::Node(node))?;
        let asleep = EngineProgress { is_asleep: true, ..EngineProgress::default() };
        let state = self.state();
        if let Some(queue) = state.engines.stuck_in(node) {
            let executing = Some(queue);
            return Ok(EngineProgress { is_asleep: false, turns: 1, executing, stands: false });
        }
        Ok(state.progress.get(&node).copied().unwrap_or(asleep))
    }

    fn reset_engine(&self, node: u32) -> Result<(), UnknownId> {
        self.known(UnknownId::Node(node))?;
        let mut state = self.state();
        state.log.push(Call::ResetEngine(node));
        self.reset(&mut state, node, false);
        Ok(())
    }

    fn reset_adapter(&self) {
        let mut state = self.state();
        state.log.push(Call::ResetAdapter);
        if state.engines.is_any_stuck() {
            for node in (0..).take(self.nodes.len()) {
                self.reset(&mut state, node, true);
            }
        }
    }

    fn set_engine_power(
        &self,
        node: u32,
        power: EnginePowerState,
        transition: u64,
    ) -> Result<(), UnknownId> {
        self.known(UnknownId::Node(node))?;
        let mut state = self.state();
        let changed = match power {
            EnginePowerState::F1 => {
                let connected =
                    state.watches.values().any(|queue| state.queues[queue].node == node);
                assert!(!connected, "a doorbell of the engine is connected");
                state.without_power.insert(node)
            }
            _ => state.without_power.remove(&node),
        };
        assert!(changed, "engine {node} was in {power} already");
        let last = state.transitions.insert(node, transition);
        assert!(last.is_none_or(|last| last < transition), "a transition's number is used again");
        state.engines.change_power(node, power == EnginePowerState::F0, transition);
        state.log.push(Call::EnginePower(node, power));
        Ok(())
    }
}

impl Quiescence for Model {
    fn quiesce(&self, _: Option<GuestId>) -> Ticket {
        let mut state = self.state();
        state.log.push(Call::Quiesce);
        state.issued += 1;
        if state.prompt && !state.engines.is_any_stuck() {
            state.passed = state.issued;
        }
        Ticket(state.issued)
    }

    fn quiesced(&self) -> Ticket {
        Ticket(self.state().passed)
    }

    fn withheld(&self) -> Vec<(GuestId, Ticket)> {
        self.state().withheld.clone()
    }

    fn lose_hw_queue(&self, queue: HwQueueId) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))
    }
}

impl Interrupts for Model {
    fn take_interrupts(&self) -> Vec<Interrupt> {
        std::mem::take(&mut self.state().interrupts)
    }
}
