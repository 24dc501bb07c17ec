// SPDX-License-Identifier: MIT OR Apache-2.0

//! Scenarios: guests that act as a file describes, on a real device, without a VM.
//!
//! A [`Scenario`] describes guests with their contexts and HW queues, the submissions to those, the events of the
//! run and when they happen, and the conditions that must hold at the end. Running it starts the device of
//! `bellhopd` in this process, and each guest that the scenario describes; every guest is the front end of a
//! separate vhost-user connection. The [`Report`] has the result of each queue and of each expectation.
//! `docs/harness.md` has every key; [`EXAMPLES`] are scenarios to begin from.
//!
//! Counters do not prove that each submission was executed exactly once and in the order of its queue. So every
//! submission hashes a word of its queue's memory in place, on the GPU, with its own number as the seed, and the
//! harness computes this chain of digests too.
//!
//! A `#[test]` of another project can take its scenario from text, or build it:
//!
//! ```
//! use bellhop_integration::harness::scenario::{
//!     Action, Condition, ContextSpec, EventSpec, Expect, GuestSpec, QueueSpec, Work,
//! };
//! use bellhop_integration::harness::{Options, Scenario};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let good = QueueSpec::new("good").submissions(200).work(Work::Copy);
//! let bad = QueueSpec::new("bad").submissions(1_000_000).work(Work::Write);
//! let condition = Condition {
//!     queue: Some("vm/main/bad".into()),
//!     completed: Some(50),
//!     ..Condition::default()
//! };
//! let scenario = Scenario {
//!     title: "A bad packet loses its own queue alone".into(),
//!     guest: vec![GuestSpec::new("vm").with(ContextSpec::new(0).with(good).with(bad))],
//!     event: vec![EventSpec::when(condition, Action::BadPacket { queue: "vm/main/bad".into() })],
//!     expect: Expect { lost: vec!["vm/main/bad".into()], ..Expect::default() },
//!     ..Scenario::default()
//! };
//! let report = scenario.run(&Options::default())?;
//! assert!(report.passed, "{report}");
//! assert_eq!(report.queues[0].completed, 200);
//!
//! // A scenario from a file, and a shipped one.
//! let text = "
//!     [[guest]]
//!     name = \"vm\"
//!     context = [{ queue = [{ name = \"q\", submissions = 100 }] }]
//! ";
//! assert!(Scenario::parse(text, "mine.toml")?.run(&Options::default())?.passed);
//! assert!(Scenario::example("batch-ordering").is_ok());
//! # Ok(())
//! # }
//! ```

mod board;
mod control;
mod events;
mod flag;
mod guest;
mod report;
mod run;
pub mod scenario;

pub use events::Happened;
pub use report::expect::Check;
pub use report::junit::to_junit;
pub use report::measure::Waits;
pub use report::{QueueReport, Report};
pub use run::{Options, RunError};
pub use scenario::Scenario;
pub use scenario::parse::ScenarioError;
pub use scenario::shipped::{EXAMPLES, Example};
