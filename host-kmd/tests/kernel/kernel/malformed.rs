// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests that send arbitrary requests.

use crate::any_guest::{KINDS, Scene, Step};
use bellhop_protocol::control::{RequestCode, RequestHeader};
use proptest::prelude::*;
use zerocopy::IntoBytes;

fn step() -> impl Strategy<Value = Step> {
    let mutation = proptest::option::weighted(0.05, (0..64usize, 1..=255u8));
    (0..2usize, 0..KINDS, any::<[u8; 4]>(), mutation).prop_map(|(guest, kind, choice, mutation)| {
        Step { guest, kind, choice: choice.map(usize::from), mutation }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Nothing panics; see [`Scene::end`] for the other checks.
    #[test]
    fn any_sequence_of_requests_is_answered_once_each_and_leaves_nothing(
        gpus in 1..=2usize,
        steps in proptest::collection::vec(step(), 0..150),
    ) {
        let mut scene = Scene::new(gpus);
        for step in &steps {
            scene.take(step);
        }
        scene.end();
    }

    /// Bytes behind a plausible header.
    #[test]
    fn any_bytes_are_answered_once(
        gpus in 1..=2usize,
        code in 0..0x90u32,
        length in proptest::option::of(any::<u32>()),
        body in proptest::collection::vec(any::<u8>(), 0..100),
        cut in 0..20usize,
    ) {
        let mut scene = Scene::new(gpus);
        let total = (size_of::<RequestHeader>() + body.len()) as u32;
        let header = RequestHeader {
            code: RequestCode(code),
            length: length.unwrap_or(total),
            process: if code < 0x11 { 0 } else { scene.process(0) },
            reserved: 0,
        };
        scene.send(0, [header.as_bytes(), &body].concat());
        scene.send(0, body[..cut.min(body.len())].to_vec());
        scene.end();
    }
}
