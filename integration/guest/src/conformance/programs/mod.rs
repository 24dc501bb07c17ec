// SPDX-License-Identifier: MIT OR Apache-2.0

//! `program.*`: what programs of several users may rely on that share a guest's device through its broker.
//!
//! Each behaviour has two or more programs: processes of the operating system, which the suite starts, asks to do things
//! (`wire`), stops and kills. `performer` is their side. `apart` has what one program cannot do to another, `together` what
//! they do with each other.

mod apart;
mod performer;
mod program;
mod stage;
mod together;
mod wire;

pub use performer::perform;
pub use stage::Start;

pub(super) use stage::Stage;

use super::behaviour::Behaviour;

/// All of them, in the order in which they run.
pub(super) fn behaviours() -> impl Iterator<Item = &'static Behaviour<Stage>> {
    apart::BEHAVIOURS.into_iter().chain(together::BEHAVIOURS).flatten()
}
