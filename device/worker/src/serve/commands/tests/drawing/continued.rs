// SPDX-License-Identifier: MIT OR Apache-2.0

//! Streams that go on elsewhere.

use super::*;
use crate::messages::commands::{CommandsTask, CommandsTaskKind, Scope};

fn next(fake: &Fake, at: u64, length: usize) -> Continue {
    Continue { address: fake.start + at, length: length as u64, ..Continue::new_zeroed() }
}

fn copy(fake: &Fake, stream: &[u8]) -> Result<Vec<u8>, Wrong> {
    fake.put(0, stream);
    let (address, length) = (fake.start, stream.len() as u32);
    let task = CommandsTask { address, length, kind: CommandsTaskKind::EXECUTE, scope: Scope::ALL };
    let mut bytes = Vec::new();
    Stream::copy(&task, &fake.memory, &mut bytes).unwrap().map(|()| bytes)
}

#[test]
fn parts_are_joined_without_the_commands_that_say_where_they_are() {
    let fake = Fake::new();
    let fill = |word| {
        let fill = Fill { destination: fake.start, length: 4, ..Fill::new_zeroed() };
        one(fill, word, &[])
    };
    let third = fill(3);
    fake.put(8192, &third);
    let second = [fill(2), one(next(&fake, 8192, third.len()), 0, &[])].concat();
    fake.put(4096, &second);
    let first = [fill(1), one(next(&fake, 4096, second.len()), 0, &[])].concat();
    assert_eq!(copy(&fake, &first).unwrap(), [fill(1), fill(2), fill(3)].concat());
    // Nothing follows.
    let nothing = [fill(1), one(next(&fake, 0, 0), 0, &[])].concat();
    assert_eq!(copy(&fake, &nothing).unwrap(), fill(1));
    // What is no command, or not the last one, is left to be told where it is.
    let early = [one(next(&fake, 4096, 24), 0, &[]), fill(1)].concat();
    let early = copy(&fake, &early).unwrap();
    refused(Stream::read(&early, &fake.memory).map(drop), "byte 0: a continuation");
    for broken in [vec![0; 8], fill(1)[..16].to_vec(), [fill(1), vec![0; 4]].concat()] {
        assert_eq!(copy(&fake, &broken).unwrap(), broken);
    }
}

#[test]
fn a_continuation_that_is_none_is_malformed_where_it_is_in_the_whole() {
    let fake = Fake::new();
    for (what, command, argument) in [
        ("an argument", next(&fake, 4096, 8), 1),
        ("no multiple of 8", next(&fake, 4100, 8), 0),
        ("no multiple of 8", next(&fake, 4096, 12), 0),
        ("more than one can have", next(&fake, 4096, (1 << 20) + 8), 0),
        ("not in the window", next(&fake, 32_760, 16), 0),
        // One that goes on with itself.
        ("too long", next(&fake, 8, 24), 0),
    ] {
        let stream = [one(Barrier::new_zeroed(), 0, &[]), one(command, argument, &[])].concat();
        assert_malformed(copy(&fake, &stream), what);
    }
}
