// SPDX-License-Identifier: MIT OR Apache-2.0

//! Engines that refuse to go to F1, and are asked again before the refusal is read.

use bellhop_protocol::handoff::attention::Attention;
use bellhop_protocol::handoff::pending::PendingSet;
use bellhop_protocol::handoff::power::{Asked, PowerSwitch};
use loom::sync::Arc;

const POWER: u64 = 1;

/// The engine thread's state. It refuses the first question to give up power, because it has work; later it has
/// none.
struct Engine {
    has_power: bool,
    has_refused: bool,
    answered: u64,
}

impl Engine {
    fn attend(&mut self, attention: &Attention, switch: &PowerSwitch, told: &PendingSet) {
        if attention.take() & POWER == 0 {
            return;
        }
        let Some(Asked { on, transition }) = switch.asked(self.answered) else { return };
        (self.has_power, self.answered) = (on, transition);
        if !on && !self.has_refused {
            (self.has_power, self.has_refused) = (true, true);
            switch.refuse(transition);
            told.mark(POWER);
        }
    }
}

/// The control plane's record of the engine.
struct Recorded {
    on: bool,
    transition: u64,
}

impl Recorded {
    fn ask(&mut self, on: bool, attention: &Attention, switch: &PowerSwitch) {
        self.transition += 1;
        self.on = on;
        switch.ask(Asked { on, transition: self.transition });
        let _ = attention.raise(POWER);
    }

    fn read(&mut self, switch: &PowerSwitch, told: &PendingSet) {
        if told.take() != 0 && switch.take_refusal() == Some(self.transition) {
            self.on = true;
        }
    }
}

#[test]
fn the_recorded_states_of_an_engine_are_right_even_if_a_refusal_is_read_late() {
    for reads_between in [false, true] {
        loom::model(move || {
            let shared = Arc::new((Attention::new(), PowerSwitch::new(), PendingSet::new()));
            let engine = spawn!(shared => {
                let (attention, switch, told) = &*shared;
                let mut engine = Engine { has_power: true, has_refused: false, answered: 0 };
                for _ in 0..2 {
                    engine.attend(attention, switch, told);
                }
                engine
            });
            let (attention, switch, told) = &*shared;
            let mut recorded = Recorded { on: true, transition: 0 };
            recorded.ask(false, attention, switch);
            if reads_between {
                recorded.read(switch, told);
            }
            // A connect, and then idleness again.
            recorded.ask(true, attention, switch);
            recorded.ask(false, attention, switch);
            let mut engine = engine.join().unwrap();
            engine.attend(attention, switch, told);
            recorded.read(switch, told);
            assert_eq!(recorded.on, engine.has_power);
        });
    }
}
