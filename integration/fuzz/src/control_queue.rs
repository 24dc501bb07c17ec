// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests in the control queue, as sequences.

use crate::any_guest::{KINDS, Scene, Step};
use arbitrary::{Arbitrary, Unstructured};
use bellhop_protocol::control::{RequestCode, RequestHeader};
use zerocopy::IntoBytes;

/// Most actions of one input.
const MOST: usize = 200;

/// One action.
#[derive(Debug, Arbitrary)]
struct Action {
    /// Odd for the second guest; the higher bits say whether the request is mutated.
    who: u8,
    what: u8,
    choice: [u8; 4],
}

impl Action {
    fn take(self, scene: &mut Scene, rest: &mut Unstructured<'_>) -> arbitrary::Result<()> {
        let guest = usize::from(self.who % 2);
        let [code, length, in_process, field] = self.choice;
        if self.what % (KINDS + 1) == KINDS {
            // A body of any bytes behind a plausible header.
            let body = rest.bytes(rest.len().min(usize::from(length)))?;
            let total = (size_of::<RequestHeader>() + body.len()) as u32;
            let header = RequestHeader {
                code: RequestCode(code.into()),
                length: if field == 0 { field.into() } else { total },
                process: if in_process % 8 == 0 { 0 } else { scene.process(guest) },
                reserved: 0,
            };
            scene.send(guest, [header.as_bytes(), body].concat());
            return Ok(());
        }
        let mutation = match self.who {
            0..240 => None,
            _ => Some((usize::from(rest.arbitrary::<u8>()?), rest.arbitrary::<u8>()?)),
        };
        let (kind, choice) = (self.what % (KINDS + 1), self.choice.map(usize::from));
        scene.take(&Step { guest, kind, choice, mutation });
        Ok(())
    }
}

/// Two guests send requests to one kernel, over a model GPU that panics when the kernel breaks a rule of
/// `Hardware`. Every request is answered exactly once, and when both guests have gone the GPU has nothing left of
/// them.
pub fn control_queue(data: &[u8]) {
    play(data).end();
}

/// The scene after all requests.
fn play(data: &[u8]) -> Scene {
    let mut rest = Unstructured::new(data);
    let mut scene = Scene::new();
    for _ in 0..MOST {
        let action = rest.arbitrary::<Action>();
        if rest.is_empty() || action.and_then(|action| action.take(&mut scene, &mut rest)).is_err()
        {
            break;
        }
    }
    scene
}

#[cfg(test)]
mod seeds {
    //! First inputs with guests' own kernels.

    use super::{RequestCode, play};
    use crate::seeds::is_in_corpus;

    /// Steps of `any_guest`, each with its four choices.
    const QUERY: [u8; 5] = [62, 1, 0, 0, 0];
    /// A page of memory, mapped; then a kernel that is there.
    const ALLOCATE: [u8; 5] = [11, 1, 0, 0, 0];
    const MAP: [u8; 5] = [15, 1, 0, 0, 7];
    const CREATE: [u8; 5] = [60, 1, 1, 2, 7];
    const COMPILED: [u8; 5] = [63, 0, 1, 1, 0];
    const REFUSED: [u8; 5] = [63, 0, 4, 1, 0];
    const DESTROY: [u8; 5] = [62, 1, 0, 0, 1];
    const DESTROY_DEVICE: [u8; 5] = [4, 1, 0, 0, 0];
    const DESTROY_PROCESS: [u8; 5] = [1, 1, 65, 0, 0];

    #[test]
    fn seeds_are_in_the_corpus_and_have_kernels_created() {
        for (name, steps, lives) in [
            ("kernel-and-its-end", &[QUERY, CREATE, COMPILED, DESTROY, DESTROY][..], true),
            ("kernel-refused", &[CREATE, REFUSED, DESTROY], false),
            (
                "kernels-compiled-together",
                &[CREATE, CREATE, CREATE, COMPILED, COMPILED, REFUSED, DESTROY],
                true,
            ),
            ("kernel-whose-device-ends", &[CREATE, DESTROY_DEVICE, COMPILED], false),
            ("kernel-whose-process-ends", &[CREATE, DESTROY_PROCESS, COMPILED], false),
            ("kernel-that-outlives-nothing", &[CREATE, COMPILED, DESTROY_PROCESS, DESTROY], true),
        ] {
            // Each of both guests in its turn. The last byte is left over: input that is used up ends the sequence.
            let steps =
                [ALLOCATE, MAP].iter().chain(steps).flat_map(|step| [0, 1].map(|who| (who, step)));
            let mut bytes: Vec<_> =
                steps.flat_map(|(who, step)| [&[who], &step[..]].concat()).collect();
            bytes.push(0);
            is_in_corpus("control_queue", name, &bytes);
            let scene = play(&bytes);
            for guest in [0, 1] {
                assert_eq!(scene.has_seen(guest, RequestCode::CREATE_KERNEL), lives, "{name}");
            }
            scene.end();
        }
    }
}
