// SPDX-License-Identifier: MIT OR Apache-2.0

//! First inputs: whole conversations, each message where it is believed and where it is not.

use super::{Action, Pages, Said, Small, play};
use crate::seeds::{Bytes, Seed, input, is_in_corpus};
use std::collections::BTreeSet;

/// Kinds of actions and of messages.
const ACTIONS: u64 = 8;
const SAID: u64 = 13;

impl Seed for Said {
    fn write(&self, bytes: &mut Bytes) {
        match self {
            Said::Ready(Small(pointers), Small(resident)) => {
                bytes.variant(0, SAID).put(&[*pointers, *resident])
            }
            Said::Refused => bytes.variant(1, SAID),
            Said::Loaded(Small(kernel)) => bytes.variant(2, SAID).put(&[*kernel]),
            Said::NotLoaded(Small(kernel)) => bytes.variant(3, SAID).put(&[*kernel]),
            Said::Done(Small(count)) => bytes.variant(4, SAID).put(&[*count]),
            Said::NotDone(Small(index)) => bytes.variant(5, SAID).put(&[*index]),
            Said::Missing(slot, Small(store), Pages(page, count), offset) => bytes
                .variant(6, SAID)
                .put(&[*slot, *store, *page, *count])
                .put(&offset.to_le_bytes()),
            Said::Wild(Small(store), Small(known), address) => {
                bytes.variant(7, SAID).put(&[*store, *known]).put(&address.to_le_bytes())
            }
            Said::Unmapped(Pages(page, count)) => bytes.variant(8, SAID).put(&[*page, *count]),
            Said::UnmappedAsAsked => bytes.variant(9, SAID),
            Said::Raw(raw) => {
                bytes.variant(10, SAID).list(raw, |bytes, byte| _ = bytes.put(&[*byte]))
            }
            Said::Header(kind, version, more) => bytes
                .variant(11, SAID)
                .put(&[*kind, *version])
                .list(more, |bytes, byte| _ = bytes.put(&[*byte])),
            Said::Answer(length, first) => {
                bytes.variant(12, SAID).put(&length.to_le_bytes()).put(&[*first])
            }
        };
    }
}

impl Seed for Action {
    fn write(&self, bytes: &mut Bytes) {
        match self {
            Action::Load(Small(kernel)) => bytes.variant(0, ACTIONS).put(&[*kernel]),
            Action::Unload(Small(kernel)) => bytes.variant(1, ACTIONS).put(&[*kernel]),
            Action::Dispatch(count) => bytes.variant(2, ACTIONS).put(&[*count]),
            Action::Map(Pages(page, count)) => bytes.variant(3, ACTIONS).put(&[*page, *count]),
            Action::Answer(which, Pages(page, count)) => {
                bytes.variant(4, ACTIONS).put(&[*which, *page, *count])
            }
            Action::Unmap(Pages(page, count)) => bytes.variant(5, ACTIONS).put(&[*page, *count]),
            Action::Send(said) => bytes.variant(6, ACTIONS).of(said),
            Action::Task(length) => bytes.variant(7, ACTIONS).put(&[*length]),
        };
    }
}

/// The messages of a worker that are believed, by number, until the first that is not.
struct Case {
    name: &'static str,
    actions: Vec<Action>,
    believed: &'static [u32],
}

fn seeds() -> Vec<Case> {
    use Action::{Answer, Dispatch, Load, Map, Send, Task, Unload, Unmap};
    use Said::{Done, Header, Loaded, Missing, NotDone, NotLoaded, Raw, Ready, Unmapped};
    const ONE: Small = Small(1);
    const PAGES: Pages = Pages(1, 2);
    let seed = |name, actions, believed| Case { name, actions, believed };
    // A worker that has started, and what follows.
    let then = |more: Vec<Action>| [vec![Send(Ready(ONE, Small(0)))], more].concat_actions();
    let fault = |slot| Send(Missing(slot, ONE, PAGES, 8));
    let loaded = || vec![Load(ONE), Send(Loaded(ONE))];
    vec![
        seed(
            "kernel-that-faults-and-ends",
            then(
                [
                    loaded(),
                    vec![
                        Dispatch(1),
                        fault(0),
                        fault(63),
                        Answer(0, PAGES),
                        Answer(0, PAGES),
                        fault(0),
                        Answer(0, PAGES),
                        Send(Done(Small(2))),
                        Unload(ONE),
                    ],
                ]
                .concat_actions(),
            ),
            &[0x81, 0x83, 0x87, 0x87, 0x87, 0x85],
        ),
        seed(
            "memory-taken-back-while-a-kernel-runs",
            then(
                [
                    loaded(),
                    vec![
                        Map(PAGES),
                        Dispatch(0),
                        Unmap(PAGES),
                        Unmap(Pages(3, 1)),
                        Send(Said::UnmappedAsAsked),
                        fault(5),
                        Send(Said::UnmappedAsAsked),
                        Answer(0, PAGES),
                        Send(Done(ONE)),
                    ],
                ]
                .concat_actions(),
            ),
            &[0x81, 0x83, 0x89, 0x87, 0x89, 0x85],
        ),
        seed(
            "kernel-not-loaded-batch-not-done",
            then(vec![
                Load(ONE),
                Send(NotLoaded(ONE)),
                Dispatch(2),
                Send(NotDone(Small(2))),
                Send(NotDone(Small(2))),
            ]),
            &[0x81, 0x84, 0x86],
        ),
        seed("refused", vec![Load(ONE), Send(Said::Refused)], &[0x82]),
        seed("refused-after-ready", then(vec![Send(Said::Refused)]), &[0x81]),
        seed("ready-twice", then(vec![Send(Ready(ONE, ONE))]), &[0x81]),
        seed("ready-with-another-flag", vec![Send(Ready(Small(2), ONE))], &[]),
        seed(
            "wild-pointer",
            then(vec![Dispatch(0), Send(Said::Wild(ONE, ONE, 0x1008))]),
            &[0x81, 0x88],
        ),
        seed("wild-pointer-of-nothing", then(vec![Send(Said::Wild(ONE, ONE, 8))]), &[0x81]),
        seed("loaded-without-a-request", then(vec![Send(Loaded(ONE))]), &[0x81]),
        seed("loaded-another", then(vec![Load(ONE), Send(Loaded(Small(2)))]), &[0x81]),
        seed("done-without-a-request", then(vec![Send(Done(ONE))]), &[0x81]),
        seed("done-with-another-number", then(vec![Dispatch(0), Send(Done(Small(2)))]), &[0x81]),
        seed(
            "done-while-a-thread-waits",
            then(vec![Dispatch(0), fault(1), Send(Done(ONE))]),
            &[0x81, 0x87],
        ),
        seed("not-done-beyond-the-batch", then(vec![Dispatch(0), Send(NotDone(ONE))]), &[0x81]),
        seed("fault-twice", then(vec![Dispatch(0), fault(1), fault(1)]), &[0x81, 0x87]),
        seed("fault-of-no-kernel", then(vec![fault(1)]), &[0x81]),
        seed("fault-of-no-thread", then(vec![Dispatch(0), fault(64)]), &[0x81]),
        seed(
            "fault-outside-the-window",
            then(vec![Dispatch(0), Send(Missing(1, ONE, Pages(0, 1), 8))]),
            &[0x81],
        ),
        seed(
            "fault-of-another-kind",
            then(vec![Dispatch(0), Send(Missing(1, Small(2), PAGES, 8))]),
            &[0x81],
        ),
        seed("unmapped-without-a-request", then(vec![Send(Unmapped(PAGES))]), &[0x81]),
        seed(
            "unmapped-another-first",
            then(vec![Unmap(PAGES), Unmap(Pages(9, 1)), Send(Unmapped(Pages(9, 1)))]),
            &[0x81],
        ),
        seed("no-packet", then(vec![Send(Raw(vec![0x85, 0, 0]))]), &[0x81]),
        seed(
            "packet-of-another-version",
            then(vec![Dispatch(0), Send(Header(5, 9, vec![1, 0, 0, 0]))]),
            &[0x81],
        ),
        seed(
            "packet-with-more",
            then(vec![Dispatch(0), Send(Header(5, 4, vec![1, 0, 0, 0, 0]))]),
            &[0x81],
        ),
        seed("packet-of-an-owner", then(vec![Send(Header(11, 4, vec![0; 16]))]), &[0x81]),
        seed(
            "task-that-faults-and-is-answered",
            then(vec![Task(9), fault(2), Answer(0, PAGES), Send(Said::Answer(40, 1))]),
            &[0x81, 0x87, 0x8a],
        ),
        seed("answer-without-a-task", then(vec![Dispatch(0), Send(Said::Answer(4, 0))]), &[0x81]),
        seed("answer-that-is-too-long", then(vec![Task(1), Send(Said::Answer(257, 1))]), &[0x81]),
    ]
}

/// Lists one after another, of actions, which are not cloned.
trait ConcatActions {
    fn concat_actions(self) -> Vec<Action>;
}

impl ConcatActions for [Vec<Action>; 2] {
    fn concat_actions(self) -> Vec<Action> {
        self.into_iter().flatten().collect()
    }
}

#[test]
fn seeds_are_in_the_corpus_and_are_believed_as_far_as_they_may_be() {
    let mut all = BTreeSet::new();
    for Case { name, actions, believed } in seeds() {
        let bytes = input(&actions);
        is_in_corpus("worker", name, &bytes);
        let read: Vec<_> = crate::actions::<Action>(&bytes, actions.len()).collect();
        assert_eq!(format!("{read:?}"), format!("{actions:?}"), "{name}");
        assert_eq!(play(&bytes), believed, "{name}");
        all.extend(believed.iter().copied());
    }
    // Each message of a worker.
    assert_eq!(all, (0x81..=0x8a).collect());
}
