// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests in the control queue, as sequences.

#[cfg(test)]
mod seeds;

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

/// Two guests send requests to one kernel, over an adapter of one model GPU or of two linked ones. These panic when the
/// kernel breaks a rule of `Platform` or `Gpu`. Every request is answered exactly once, and when both guests have gone the GPUs have
/// nothing left of them.
pub fn control_queue(data: &[u8]) {
    play(data).end();
}

/// The scene after all requests.
fn play(data: &[u8]) -> Scene {
    let mut rest = Unstructured::new(data);
    let gpus = 1 + usize::from(rest.arbitrary().unwrap_or(false));
    let mut scene = Scene::new(gpus);
    for _ in 0..MOST {
        let action = rest.arbitrary::<Action>();
        if rest.is_empty() || action.and_then(|action| action.take(&mut scene, &mut rest)).is_err()
        {
            break;
        }
    }
    scene
}
