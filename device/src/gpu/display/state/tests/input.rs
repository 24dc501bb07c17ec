// SPDX-License-Identifier: MIT OR Apache-2.0

//! Input of viewers, on its way to the guest.

use super::*;

#[test]
fn input_reaches_the_source_that_is_seen_and_its_queue_is_bounded() {
    let mut state = state();
    let viewer = view(&mut state, 0);
    let key = |keysym| Input::Key { keysym, down: true };
    assert!(!state.input(viewer, key(1)), "nothing is shown");
    let mut turned = path(1, 0);
    turned.rotation = Rotation::ROTATE_180;
    state.commit(&[turned], 0);
    assert!(state.input(viewer, key(0x61)));
    assert!(state.input(viewer, Input::Pointer { x: 0, y: 1, buttons: 1 }));
    assert!(state.input(viewer, Input::Pointer { x: 1, y: 1, buttons: 1 }));
    assert!(state.input(viewer, Input::Pointer { x: 1, y: 1, buttons: 0 }));
    let input = |kind, value| Interrupt::DisplayInput { guest: GUEST, source: 1, kind, value };
    assert_eq!(
        reports(&mut state),
        [
            input(InputKind::KEY, 0x61 << 1 | 1),
            input(InputKind::POINTER, 2 << 32 | 6 << 16 | 1),
            input(InputKind::POINTER, 2 << 32 | 6 << 16),
        ]
    );
    // `a` is held already.
    let typed = |state: &mut State, keysym| {
        let down = state.input(viewer, key(keysym));
        down && state.input(viewer, Input::Key { keysym, down: false })
    };
    let taken = (0..1000).filter(|keysym| typed(&mut state, *keysym)).count();
    assert_eq!((taken, reports(&mut state).len()), (32, 64));
}

/// What a guest is told that a viewer does: `+` and `-` with a key, or the pointer's buttons.
fn told_of_input(state: &mut State) -> Vec<String> {
    let told = reports(state).into_iter().filter_map(|report| match report {
        Interrupt::DisplayInput { kind: InputKind::KEY, value, .. } => {
            Some(format!("{}{}", if value & 1 == 1 { '+' } else { '-' }, value >> 1))
        }
        Interrupt::DisplayInput { value, .. } => Some(format!("buttons {}", value & 0xffff)),
        _ => None,
    });
    told.collect()
}

#[test]
fn a_viewer_that_leaves_lets_go_of_what_it_holds() {
    let mut state = state();
    let viewers = [view(&mut state, 0), view(&mut state, 0)];
    state.commit(&[path(0, 0)], 0);
    let key = |keysym, down| Input::Key { keysym, down };
    for (viewer, input) in [
        (viewers[0], key(1, true)),
        (viewers[1], key(2, true)),
        (viewers[0], key(3, true)),
        (viewers[0], key(1, false)),
        (viewers[0], Input::Pointer { x: 1, y: 1, buttons: 1 }),
    ] {
        assert!(state.input(viewer, input));
    }
    assert_eq!(told_of_input(&mut state), ["+1", "+2", "+3", "-1", "buttons 1"]);
    state.remove_viewer(viewers[0]);
    assert_eq!(told_of_input(&mut state), ["-3", "buttons 0"]);
    state.remove_viewer(viewers[1]);
    assert_eq!(told_of_input(&mut state), ["-2"]);
}

#[test]
fn what_was_pressed_comes_up_however_much_else_is_dropped() {
    let mut state = state();
    let viewer = view(&mut state, 0);
    state.commit(&[path(0, 0)], 0);
    let key = |keysym, down| Input::Key { keysym, down };
    let pointer = |buttons| Input::Pointer { x: 1, y: 1, buttons };
    assert!(state.input(viewer, pointer(1)));
    let pressed: Vec<u32> =
        (0..1000).filter(|keysym| state.input(viewer, key(*keysym, true))).collect();
    assert_eq!(pressed.len(), 63);
    assert!(state.input(viewer, pointer(0)), "buttons end as they are");
    let released: Vec<u32> =
        (0..1000).filter(|keysym| state.input(viewer, key(*keysym, false))).collect();
    assert_eq!(released, pressed, "and no other key");
    let told = told_of_input(&mut state);
    assert_eq!((told[0].as_str(), told.len()), ("buttons 0", 1 + 2 * 63));
    // Nor does the room grow with presses that are followed by no release.
    for _ in 0..1000 {
        state.input(viewer, key(1, true));
        state.input(viewer, key(1, false));
    }
    assert_eq!(told_of_input(&mut state).len(), 64);
}
