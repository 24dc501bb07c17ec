// SPDX-License-Identifier: MIT OR Apache-2.0

//! First inputs: a program with everything that it may have, and one that asks for what is another's.

use super::{Action, Message, Piece, Who, play};
use crate::seeds::{Bytes, Seed, input, is_in_corpus};
use bellhop_protocol::control::RequestCode;
use std::collections::BTreeSet;

impl Seed for Who {
    fn write(&self, bytes: &mut Bytes) {
        match self {
            Self::Nobody => bytes.variant(0, 4),
            Self::Living(index) => bytes.variant(1, 4).put(&[*index]),
            Self::Number(number) => bytes.variant(2, 4).put(&[*number]),
            Self::Last => bytes.variant(3, 4),
        };
    }
}

impl Seed for Piece {
    fn write(&self, bytes: &mut Bytes) {
        bytes.put(&[self.of, self.page.cast_unsigned(), self.pages, self.odd]);
    }
}

impl Seed for Message {
    fn write(&self, bytes: &mut Bytes) {
        let text = |bytes: &mut Bytes, text: &[u8]| {
            bytes.list(text, |bytes, byte| {
                bytes.put(&[*byte]);
            });
        };
        match self {
            Self::Any(code, who, body) => {
                bytes.variant(0, 8).put(&[*code]).of(who);
                text(bytes, body);
            }
            Self::Open { features, version } => {
                bytes.variant(1, 8).put(&features.to_le_bytes()).put(&[*version]);
            }
            Self::Create { reserved } => {
                bytes.variant(2, 8).put(&[u8::from(*reserved)]);
            }
            Self::Destroy(who) => {
                bytes.variant(3, 8).of(who);
            }
            Self::Allocate { who, pieces, cut } => {
                bytes.variant(4, 8).of(who).all(pieces).put(&[*cut]);
            }
            Self::Lying(code, who, length) => {
                bytes.variant(5, 8).put(&[*code]).of(who).put(&length.to_le_bytes());
            }
            Self::Kick => {
                bytes.variant(6, 8);
            }
            Self::Raw(raw) => {
                bytes.variant(7, 8);
                text(bytes, raw);
            }
        }
    }
}

impl Seed for Action {
    fn write(&self, bytes: &mut Bytes) {
        match self {
            Self::Connect(user) => bytes.variant(0, 4).put(&[*user]),
            Self::Leave(program) => bytes.variant(1, 4).put(&[*program]),
            Self::Say { program, post, message, answer } => {
                bytes.variant(2, 4).put(&[*program, u8::from(*post)]).of(message).put(&[*answer])
            }
            Self::Event(who) => bytes.variant(3, 4).of(who),
        };
    }
}

fn say(program: u8, message: Message) -> Action {
    Action::Say { program, post: false, message, answer: 0 }
}

fn answered(program: u8, message: Message, answer: u8) -> Action {
    Action::Say { program, post: false, message, answer }
}

fn create() -> Message {
    Message::Create { reserved: false }
}

fn piece(of: u8, page: i8, pages: u8) -> Piece {
    Piece { of, page, pages, odd: 255 }
}

const OWN: Who = Who::Living(0);
const OTHERS: Who = Who::Living(1);

fn code(wanted: RequestCode) -> u8 {
    RequestCode::ALL.iter().position(|code| *code == wanted).unwrap() as u8
}

/// A program from its connection to its end.
fn polite() -> Vec<Action> {
    let allocate = Message::Allocate { who: OWN, pieces: vec![piece(0, 0, 3)], cut: 0 };
    vec![
        Action::Connect(1),
        say(0, Message::Open { features: 1, version: 0 }),
        say(0, create()),
        say(0, create()),
        say(0, Message::Any(code(RequestCode::CREATE_DEVICE), OWN, vec![0; 8])),
        say(0, allocate),
        say(0, Message::Kick),
        Action::Event(OWN),
        Action::Event(Who::Nobody),
        Action::Say { program: 0, post: true, message: create(), answer: 0 },
        say(0, create()),
        say(0, Message::Destroy(OWN)),
        Action::Leave(0),
    ]
}

/// A program that asks for what is another's, or nobody's.
fn rude() -> Vec<Action> {
    let allocate = |pieces, cut| say(1, Message::Allocate { who: OTHERS, pieces, cut });
    let mut actions =
        vec![Action::Connect(1), say(0, create()), Action::Connect(2), say(1, create())];
    for who in [OWN, Who::Nobody, Who::Last, Who::Number(9)] {
        actions.push(say(1, Message::Destroy(who)));
        actions.push(say(1, Message::Any(code(RequestCode::CREATE_DEVICE), who, vec![0; 8])));
    }
    actions.extend([
        allocate(vec![piece(0, 0, 1)], 0),
        allocate(vec![piece(1, 0, 1), piece(0, 2, 1)], 0),
        allocate(vec![piece(1, 2, 2)], 0),
        allocate(vec![Piece { odd: 1, ..piece(1, 0, 1) }], 0),
        allocate(vec![piece(1, 0, 1), piece(0, 0, 1)], 201),
        say(1, Message::Any(code(RequestCode::ESCAPE), OTHERS, vec![0; 24])),
        say(1, Message::Any(code(RequestCode::REGISTER_AGENT), OTHERS, vec![0; 8])),
        say(1, Message::Lying(0, OTHERS, 1 << 20)),
        say(1, Message::Open { features: u64::MAX, version: 0 }),
        say(1, Message::Open { features: 0, version: 255 }),
        say(1, Message::Raw(vec![9, 0, 0, 0, 0, 0, 0, 0])),
        Action::Event(OWN),
    ]);
    actions
}

/// All places and processes, and a device that refuses, and goes.
fn crowded() -> Vec<Action> {
    let mut actions: Vec<_> = [0, 0, 0, 1, 2].map(Action::Connect).into();
    actions.extend((0..5).map(|_| say(0, create())));
    let register = || Message::Any(code(RequestCode::REGISTER_AGENT), OWN, vec![0; 8]);
    let query = || Message::Any(code(RequestCode::QUERY_STATISTICS), Who::Nobody, vec![0; 8]);
    actions.extend([
        say(0, register()),
        answered(0, query(), 6),
        answered(0, Message::Destroy(OWN), 6),
        answered(0, query(), 7),
        say(0, Message::Raw(Vec::new())),
        Action::Connect(0),
    ]);
    actions
}

#[test]
fn seeds_are_in_the_corpus_and_lead_to_everything_that_a_program_hears() {
    let mut all = BTreeSet::new();
    for (name, actions) in [("polite", polite()), ("rude", rude()), ("crowded", crowded())] {
        let bytes = input(&actions);
        is_in_corpus("broker", name, &bytes);
        let heard = play(&bytes);
        println!("{name}: {heard:?}");
        all.extend(heard);
    }
    let expected =
        ["done", "end", "event", "gone", "nothing", "opened", "refused", "refused by the device"];
    assert_eq!(all.into_iter().collect::<Vec<_>>(), expected);
}
