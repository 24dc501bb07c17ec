// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a viewer is told of a picture of which a part changes.

use super::{ONE, Shows, colours, next_frame};
use crate::support::{Daemon, TIMEOUT};
use bellhop_guest_umd::CommandBuffer;
use bellhop_guest_umd::display::Surface;
use bellhop_integration::screen::View;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::rect::Rect;
use bellhop_protocol::screen::Connector;

/// A screen of 640 x 480 pixels has cells of 10 x 8.
#[test]
fn what_an_engine_draws_into_the_picture_that_is_shown_is_told_as_the_part_that_changed() {
    let daemon = Daemon::start_with(1, ONE);
    let shows = Shows::new(&daemon);
    let surface = shows.commit();
    let picture = shows.primary(surface, colours);
    shows.show(&picture);
    let mut view = View::open(&daemon.control_socket(), &Connector::default()).unwrap();
    let first = next_frame(&mut view);
    let Surface { width, height, .. } = surface;
    assert_eq!(first.changed, Rect::whole(width, height));
    let mut pixels: Vec<_> = (0..width * height).map(colours).collect();
    let mut seen = view.picture(first.buffer).unwrap();
    assert!(seen.pixels == pixels);
    view.give_back(first.buffer).unwrap();
    let node = shows.adapter.least_used_node(EngineType::THREE_D).unwrap();
    let context = shows.device.create_context(node).unwrap();
    let mut queue = context.create_user_mode_queue(4096).unwrap();
    let mut commands = CommandBuffer::new(&shows.device, 4096).unwrap();
    let pitch = surface.pitch().unwrap();
    for (number, (left, top)) in [(20, 16), (630, 472), (0, 0)].into_iter().enumerate() {
        let place = picture.gpu_va() + u64::from(top * pitch + left * 4);
        let colour = 0x00ff_00ff - number as u32;
        commands.reset();
        commands.fill_rect((place, pitch), 10 * 4, 8, colour).unwrap();
        queue.submit(&mut commands).unwrap();
        let value = queue.last_value();
        queue.progress_fence().wait(value, TIMEOUT).unwrap();
        let frame = next_frame(&mut view);
        let (right, bottom) = (left + 10, top + 8);
        let part = Rect { left, top, right, bottom };
        assert_eq!((frame.changed, frame.flip, frame.torn_at), (part, first.flip, 0));
        for row in top..top + 8 {
            let start = (row * width + left) as usize;
            pixels[start..start + 10].fill(colour);
        }
        // Who copies the part has the whole picture.
        assert!(view.copy(frame.buffer, frame.changed, &mut seen).unwrap());
        assert!(seen.pixels == pixels);
        assert!(view.picture(frame.buffer).unwrap().pixels == pixels);
        view.give_back(frame.buffer).unwrap();
    }
}
