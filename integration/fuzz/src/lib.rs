// SPDX-License-Identifier: MIT OR Apache-2.0

//! Hostile guests as functions of bytes.
//!
//! Each target takes any bytes, reads them as a guest's actions, and panics when the guest gets further than it
//! may. The bytes come from libFuzzer (`cargo xtask fuzz`), and in tests from the corpus and from a random number
//! generator. The guest's surroundings are those of the crates' tests.

mod bar;
mod broker;
mod burst;
mod codec;
mod control_queue;
mod edid;
mod host;
mod neighbour;
mod packets;
mod page_tables;
mod places;
mod ring;
mod secrets;
#[cfg(test)]
mod seeds;
mod stepped;
mod tenant;
mod vhost_user;
mod viewer;
mod virtqueue;
mod worker;

#[path = "../../../host-kmd/tests/kernel/any_guest/mod.rs"]
#[allow(dead_code, reason = "each user takes a part")]
mod any_guest;
#[path = "../../../host-kmd/tests/kernel/bench.rs"]
#[allow(dead_code, reason = "each user takes a part")]
mod bench;
#[path = "../../../host-kmd/tests/kernel/model/mod.rs"]
#[allow(dead_code, reason = "each user takes a part")]
mod model;
#[path = "../../../device/tests/gpu/support/rig.rs"]
#[allow(dead_code, reason = "each user takes a part")]
mod rig;

use arbitrary::{Arbitrary, Unstructured};
pub use bar::bar;
pub use broker::broker;
pub use burst::burst;
pub use codec::codec;
pub use codec::ivf;
pub use control_queue::control_queue;
pub use edid::edid;
pub use page_tables::page_tables;
pub use ring::ring;
pub use secrets::secrets;
pub use vhost_user::vhost_user;
pub use viewer::viewer;
pub use virtqueue::virtqueue;
pub use worker::commands;
pub use worker::worker;

/// A function that may be given any bytes.
pub type Target = fn(&[u8]);

/// All targets, by name.
pub const TARGETS: [(&str, Target); 15] = [
    ("bar", bar),
    ("broker", broker),
    ("burst", burst),
    ("codec", codec),
    ("commands", commands),
    ("control_queue", control_queue),
    ("edid", edid),
    ("ivf", ivf),
    ("page_tables", page_tables),
    ("ring", ring),
    ("secrets", secrets),
    ("vhost_user", vhost_user),
    ("viewer", viewer),
    ("virtqueue", virtqueue),
    ("worker", worker),
];

/// At most `most` actions of a guest, read from bytes.
fn actions<'a, T: Arbitrary<'a> + 'a>(data: &'a [u8], most: usize) -> impl Iterator<Item = T> + 'a {
    let rest = Unstructured::new(data).arbitrary_take_rest_iter();
    rest.into_iter().flatten().map_while(Result::ok).take(most)
}
