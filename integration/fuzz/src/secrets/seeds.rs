// SPDX-License-Identifier: MIT OR Apache-2.0

//! First inputs: each answer of a worker with keys where it is believed, and where it is not.

use super::{Action, DONE, READY, Said, Work, play};
use crate::seeds::{Bytes, Seed, input, is_in_corpus};

/// Kinds of actions, of messages and of work.
const ACTIONS: u64 = 4;
const SAID: u64 = 6;
const WORK: u64 = 4;

impl Seed for Work {
    fn write(&self, bytes: &mut Bytes) {
        match self {
            Work::Seal(length) => bytes.variant(0, WORK).put(&length.to_le_bytes()),
            Work::Open(length) => bytes.variant(1, WORK).put(&length.to_le_bytes()),
            Work::Attest => bytes.variant(2, WORK),
            Work::TooMuch => bytes.variant(3, WORK),
        };
    }
}

impl Seed for Said {
    fn write(&self, bytes: &mut Bytes) {
        let each = |bytes: &mut Bytes, byte: &u8| _ = bytes.put(&[*byte]);
        match self {
            Said::Ready(first) => bytes.variant(0, SAID).put(&[*first]),
            Said::Refused => bytes.variant(1, SAID),
            Said::Done(behind, outcome, longer) => {
                bytes.variant(2, SAID).put(&[*behind, *outcome, *longer])
            }
            Said::DoneWith(outcome, more) => {
                bytes.variant(3, SAID).put(&[*outcome]).list(more, each)
            }
            Said::Raw(raw) => bytes.variant(4, SAID).list(raw, each),
            Said::Header(kind, version, more) => {
                bytes.variant(5, SAID).put(&[*kind, *version]).list(more, each)
            }
        };
    }
}

impl Seed for Action {
    fn write(&self, bytes: &mut Bytes) {
        match self {
            Action::AwaitKeys => bytes.variant(0, ACTIONS),
            Action::Begin(work) => bytes.variant(1, ACTIONS).of(work),
            Action::Send(said) => bytes.variant(2, ACTIONS).of(said),
            Action::Poll => bytes.variant(3, ACTIONS),
        };
    }
}

/// The messages of a worker that are believed, by number, until the first that is not.
fn seeds() -> Vec<(&'static str, Vec<Action>, &'static [u32])> {
    use Action::{AwaitKeys, Begin, Poll, Send};
    use Said::{Done, DoneWith, Header, Raw, Ready, Refused};
    use Work::{Attest, Open, Seal, TooMuch};
    let asked = |work, said| vec![Begin(work), Poll, Send(said), Poll];
    vec![
        (
            "keys-and-every-work",
            [
                vec![AwaitKeys, Send(Ready(1)), AwaitKeys],
                asked(Seal(100), Done(0, 1, 0)),
                asked(Open(180), Done(0, 1, 0)),
                asked(Open(180), Done(0, 2, 0)),
                asked(Open(3), Done(0, 3, 0)),
                asked(Attest, Done(0, 1, 0)),
                vec![Begin(TooMuch), Begin(Seal(0)), Begin(Attest), Poll],
            ]
            .into_iter()
            .flatten()
            .collect(),
            &[READY, DONE, DONE, DONE, DONE, DONE],
        ),
        ("refused", vec![Send(Refused), AwaitKeys], &[]),
        ("keys-of-another-length", vec![Send(Header(0x80, 4, vec![1; 31])), AwaitKeys], &[]),
        ("keys-as-an-answer", asked(Attest, Ready(1)), &[]),
        ("answer-instead-of-keys", vec![Send(Done(0, 1, 0)), AwaitKeys], &[]),
        ("answer-before-the-work", vec![Poll, Send(Done(0, 1, 0)), Poll, Begin(Attest), Poll], &[]),
        ("answer-to-work-before", asked(Attest, Done(1, 1, 0)), &[]),
        (
            "answer-twice",
            [asked(Attest, Done(0, 1, 0)), vec![Send(Done(0, 1, 0))], asked(Attest, Done(0, 1, 0))]
                .into_iter()
                .flatten()
                .collect(),
            &[DONE],
        ),
        ("longer-than-what-was-asked-for", asked(Seal(9), Done(0, 1, 1)), &[]),
        ("not-authentic-what-is-sealed", asked(Seal(9), Done(0, 2, 0)), &[]),
        ("not-sealed-with-bytes", asked(Open(90), Done(0, 3, 1)), &[]),
        ("unknown-outcome", asked(Open(90), Done(0, 4, 0)), &[]),
        ("answer-with-more", asked(Attest, DoneWith(1, vec![0])), &[]),
        ("answer-of-another-version", asked(Attest, Header(0x81, 2, vec![0; 16])), &[]),
        ("packet-of-an-owner", asked(Attest, Header(2, 4, vec![0; 88])), &[]),
        ("no-packet", asked(Attest, Raw(vec![0x81, 2])), &[]),
        ("empty-packet", asked(Attest, Raw(Vec::new())), &[]),
        ("packet-that-is-too-long", asked(Attest, DoneWith(1, vec![0; 2080])), &[]),
    ]
}

#[test]
fn seeds_are_in_the_corpus_and_are_believed_as_far_as_they_may_be() {
    for (name, actions, believed) in seeds() {
        let bytes = input(&actions);
        is_in_corpus("secrets", name, &bytes);
        let read: Vec<_> = crate::actions::<Action>(&bytes, actions.len()).collect();
        assert_eq!(format!("{read:?}"), format!("{actions:?}"), "{name}");
        assert_eq!(play(&bytes), believed, "{name}");
    }
}
