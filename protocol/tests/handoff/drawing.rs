// SPDX-License-Identifier: MIT OR Apache-2.0

//! What engines draw into a picture that somebody watches.

use bellhop_protocol::handoff::drawing::{Marks, Watching};
use bellhop_protocol::handoff::sync::{AtomicU64, Ordering};
use loom::sync::Arc;

#[test]
fn who_takes_a_mark_sees_what_was_drawn_before_it() {
    loom::model(|| {
        let shared = Arc::new((Marks::new(), AtomicU64::new(0)));
        let engine = spawn!(shared => {
            let (marks, pixel) = &*shared;
            pixel.store(7, Ordering::Relaxed);
            marks.mark(3, 1 << 9);
        });
        let (marks, pixel) = &*shared;
        let taken = marks.take(3);
        let seen = pixel.load(Ordering::Relaxed);
        assert!(taken == 0 || (taken, seen) == (1 << 9, 7), "{taken:#x}: the pixel is {seen}");
        engine.join().unwrap();
        let left = marks.take(3);
        assert_eq!(taken | left, 1 << 9, "a mark is lost");
        assert_eq!(taken & left, 0, "a mark is taken twice");
    });
}

#[test]
fn what_is_drawn_while_another_picture_begins_to_be_watched_is_read_or_marked() {
    loom::model(|| {
        // What is watched: 0 for nothing, 1 for the picture with this pixel.
        let shared = Arc::new((Watching::new(), AtomicU64::new(0), AtomicU64::new(0)));
        let engine = spawn!(shared => {
            let (watching, watched, pixel) = &*shared;
            let begun = watching.begin();
            let is_watched = watched.load(Ordering::Acquire) == 1;
            pixel.store(7, Ordering::Relaxed);
            // It marks what it drew, or everything of what is watched then.
            is_watched || !watching.is_still(begun) && watched.load(Ordering::Relaxed) == 1
        });
        let (watching, watched, pixel) = &*shared;
        watched.store(1, Ordering::Release);
        watching.change();
        let seen = pixel.load(Ordering::Relaxed);
        let is_marked = engine.join().unwrap();
        assert!(seen == 7 || is_marked, "what was drawn is not seen");
    });
}
