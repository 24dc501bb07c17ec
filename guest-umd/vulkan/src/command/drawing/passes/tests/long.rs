// SPDX-License-Identifier: MIT OR Apache-2.0

//! Renderings that are longer than a piece of memory, or than a stream may be.

use super::*;

#[test]
fn a_rendering_of_many_draws_goes_on_in_other_pieces() {
    let mut recording = recording(true);
    bind(&mut recording, 8, Vec::new());
    recording.timestamp(64);
    recording.begin_plain(rendering(0), false);
    for vertices in 0..10_000 {
        if vertices % 100 == 99 {
            recording.push_graphics_set(0, &Arc::default(), |_| ());
            recording.stale &= !stale::BOUND;
        }
        draw(&mut recording, vertices);
    }
    recording.end_rendering();
    recording.fill(64, 4, 2);
    assert_eq!(recording.end(), vk::Result::SUCCESS);
    assert!(recording.chunks()[0].goes_on && recording.chunks()[0].length <= 64 << 10);
    let told = told(&mut recording);
    assert_eq!(told.len(), 10_005);
    assert_eq!((told[1].as_str(), told[9_000].as_str()), (WHOLE, "draw 8997"));
    assert_eq!(told[10_003..], ["end", "fill 64 2"]);
    // A secondary command buffer with it is copied whole.
    let mut primary = self::recording(true);
    primary.execute(&recording);
    assert_eq!(self::told(&mut primary), told);
}

#[test]
fn a_rendering_that_is_too_long_for_a_chunk_goes_on_in_another() {
    let mut recording = recording(true);
    bind(&mut recording, 8, Vec::new());
    recording.begin_plain(rendering(0), false);
    let count = (MAX_CONTINUED + (1 << 20)) / 24;
    for vertices in 0..count {
        draw(&mut recording, vertices);
    }
    recording.end_rendering();
    assert_eq!(recording.end(), vk::Result::SUCCESS);
    let all = chunks(&recording);
    assert_eq!(all.len(), 2);
    let bind = "bind 8 [0, 0, 0, 0]";
    assert_eq!(
        (all[0][..2].to_vec(), all[0].last().unwrap().as_str()),
        (vec![FIRST.to_owned(), bind.to_owned()], "end")
    );
    assert_eq!(all[1][..2], [LAST, bind]);
    assert_eq!(all.concat().iter().filter(|line| line.starts_with("draw")).count(), count as usize);
}
