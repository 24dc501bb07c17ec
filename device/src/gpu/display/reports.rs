// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a guest's display has to report to the control plane, until the control plane takes it.
//!
//! It stays small however late the control plane is: movements of the pointer become one, flips wait for one another in
//! the kernel, and what a viewer types beyond the room is dropped. What a viewer lets go of is not: a key whose press the
//! guest was told of comes up again, and the pointer's buttons end as they are. Of these there are few, since few viewers
//! hold few keys each.

use bellhop_host_kmd::hardware::Interrupt;
use bellhop_protocol::event::InputKind;
use std::collections::VecDeque;

/// Most events of viewers that wait. A person types slower than any control plane is.
const INPUTS: usize = 64;

/// Reports in their order.
#[derive(Debug, Default)]
pub struct Reports(VecDeque<Interrupt>);

impl Reports {
    /// Adds a report, or updates an earlier one that it makes needless. Returns false if there is no room for it.
    pub fn add(&mut self, report: Interrupt) -> bool {
        match report {
            Interrupt::DisplayInput { guest, source, kind, value } => {
                // The lowest bit of a key says whether it is down.
                let is_end = kind == InputKind::KEY && value & 1 == 0;
                if let Some(last) = self.0.back_mut()
                    && let Interrupt::DisplayInput {
                        guest: of,
                        source: at,
                        kind: before,
                        value: old,
                    } = *last
                    && let Interrupt::DisplayInput { value, .. } = report
                    && (of, at, before, kind)
                        == (guest, source, InputKind::POINTER, InputKind::POINTER)
                    && old & 0xffff == value & 0xffff
                {
                    *last = report;
                    return true;
                }
                let is_input =
                    |waiting: &&Interrupt| matches!(waiting, Interrupt::DisplayInput { .. });
                if !is_end && self.0.iter().filter(is_input).count() >= INPUTS {
                    // The pointer's last state stays right, whatever it did meanwhile.
                    let is_pointer = |waiting: &&mut Interrupt| {
                        matches!(waiting, Interrupt::DisplayInput { source: of, kind, .. }
                            if (*of, *kind) == (source, InputKind::POINTER))
                    };
                    if kind != InputKind::POINTER {
                        return false;
                    }
                    if let Some(last) = self.0.iter_mut().rev().find(is_pointer) {
                        *last = report;
                        return true;
                    }
                }
            }
            // The kernel reads what is plugged in when it takes the report.
            Interrupt::ChildStatusChanged { .. } if self.0.contains(&report) => return true,
            _ => {}
        }
        self.0.push_back(report);
        true
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes all reports.
    pub fn take(&mut self) -> impl Iterator<Item = Interrupt> + use<> {
        std::mem::take(&mut self.0).into_iter()
    }
}
