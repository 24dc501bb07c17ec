// SPDX-License-Identifier: MIT OR Apache-2.0

//! Dynamic state.

use super::*;
use crate::serve::commands::drawing::Current;

fn set(commands: Commands, state: u32, words: &[u32]) -> Commands {
    let set = SetState { words: words.len() as u32, ..SetState::new_zeroed() };
    commands.with(set, state, words.as_bytes())
}

#[test]
fn words_that_are_no_state_or_that_the_device_does_not_take_are_malformed() {
    let fake = Fake::new();
    let viewport = [0.0_f32, 0.0, 8.0, 8.0, 0.0, 1.0];
    let with = |at: usize, value: f32| {
        let mut viewport = viewport;
        viewport[at] = value;
        viewport.map(f32::to_bits)
    };
    let two = [with(0, 0.0), with(0, 1.0)].concat();
    let (one, half) = (1.0_f32.to_bits(), 0.5_f32.to_bits());
    let nan = f32::NAN.to_bits();
    let good: &[(u32, &[u32])] = &[
        (0, &with(3, -8.0)),
        (1_000_267_003, &with(0, -4.5)),
        (1, &[0, 0, 4, 4]),
        (2, &[one]),
        (3, &[half, 0, half]),
        (4, &[nan; 4]),
        (5, &[0, one]),
        (6, &[3, 9]),
        (8, &[1, u32::MAX]),
        (1_000_267_011, &[2, 7, 0, 7, 7]),
        (1_000_267_000, &[3]),
        (1_000_267_002, &[3]),
        (1_000_267_007, &[1]),
        (1_000_377_001, &[0]),
    ];
    for (state, words) in good {
        set(Commands::new(), *state, words).plan(&fake, plain()).unwrap();
    }
    let bad: &[(u32, &[u32])] = &[
        (0, &[]),
        (0, &[0; 5]),
        (0, &with(2, 0.0)),
        (0, &with(2, -1.0)),
        (0, &with(3, 0.0)),
        (0, &with(0, f32::NAN)),
        (0, &with(4, 1.5)),
        (1_000_267_003, &with(5, f32::NAN)),
        (1, &[0; 6]),
        (1, &[0x8000_0000, 0, 1, 1]),
        (1, &[1, 0, i32::MAX as u32, 1]),
        (2, &[nan]),
        (2, &[one; 2]),
        (3, &[0, nan, 0]),
        (4, &[0; 3]),
        (5, &[0, 2.0_f32.to_bits()]),
        (6, &[0, 9]),
        (7, &[4, 9]),
        (8, &[1]),
        (9, &[1]),
        (1_000_267_000, &[4]),
        (1_000_267_001, &[2]),
        (1_000_267_002, &[11]),
        (1_000_267_005, &[16]),
        (1_000_267_008, &[8]),
        (1_000_267_010, &[2]),
        (1_000_267_011, &[1, 8, 0, 0, 0]),
        (1_000_267_011, &[1, 0, 0, 0, 8]),
        (1_000_377_003, &[0]),
        (u32::MAX, &[0]),
    ];
    for (state, words) in bad {
        assert_malformed(set(Commands::new(), *state, words).read(&fake), "unknown state");
    }
    let of_features: &[(u32, &[u32])] = &[
        (0, &two),
        (1, &[0; 8]),
        (2, &[2.0_f32.to_bits()]),
        (3, &[0, half, 0]),
        (1_000_267_002, &[6]),
        (1_000_267_002, &[10]),
        (1_000_267_009, &[1]),
    ];
    for (state, words) in of_features {
        set(Commands::new(), *state, words).plan(&fake, rich()).unwrap();
        let on_plain = set(Commands::new(), *state, words).plan(&fake, plain());
        assert_malformed(on_plain, "does not take");
    }
    for words in [with(2, 65.0), with(3, -65.0), with(0, -129.0), with(1, 127.0)] {
        assert_malformed(set(Commands::new(), 0, &words).plan(&fake, rich()), "does not take");
    }
}

#[test]
fn state_of_a_face_leaves_that_of_the_other() {
    let mut bytes = Commands::new();
    bytes = set(bytes, 7, &[1, 5]);
    bytes = set(bytes, 7, &[2, 6]);
    bytes = set(bytes, 8, &[2, 9]);
    bytes = set(bytes, 1_000_267_011, &[3, 1, 2, 3, 4]);
    bytes = set(bytes, 1_000_267_011, &[2, 5, 6, 7, 0]);
    let mut current = Current::new();
    for command in commands(&bytes.0) {
        let (offset, command) = command.unwrap();
        current.follow(offset as u32, &command);
    }
    let states = &current.states;
    assert_eq!((states.get(6), states.get(7), states.get(8)), (vec![0, 0], vec![5, 6], vec![0, 9]));
    assert_eq!(states.get(1_000_267_011), [1, 2, 3, 4, 5, 6, 7, 0]);
    assert_eq!(states.get_several(0, 2).len(), 12);
}
