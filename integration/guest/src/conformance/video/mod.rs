// SPDX-License-Identifier: MIT OR Apache-2.0

//! `video.*`: sessions that decode and encode. Where the adapter has no video nodes, only `video.caps` has something to
//! show.

mod decoding;
mod encoding;
mod faults;
mod lab;
mod sessions;

use crate::conformance::behaviour::Behaviour;
use crate::conformance::source;

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("video.caps", source::VIDEO, sessions::caps).shows(
        "the device says what sessions can be, or why there are none, and then refuses them",
    ),
    Behaviour::new("video.session.bad-fields", source::VIDEO, sessions::bad_fields)
        .shows("sessions that cannot be are refused, such as one of 65,536 x 65,536"),
    Behaviour::new("video.session.counted", source::VIDEO, sessions::counted)
        .shows("a guest can have as many sessions as the device says"),
    Behaviour::new("video.session.unknown", source::VIDEO, sessions::unknown).shows(
        "a packet of a session that there is not, no longer, or in another process loses its queue",
    ),
    Behaviour::new("video.decode.exact", source::VIDEO, decoding::exact)
        .shows("pictures of 8 and 10 bits equal the reference decoder's, bit by bit"),
    Behaviour::new("video.decode.formats", source::VIDEO, decoding::formats)
        .shows("each format has the same samples, where it has them"),
    Behaviour::new("video.decode.corrupt", source::VIDEO, decoding::corrupt).shows(
        "a wrong stream is told in the status, and the session goes on with the next key frame",
    ),
    Behaviour::new("video.decode.misfits", source::VIDEO, decoding::misfits).shows(
        "pictures that are too large for session or packet, or of another depth, are told apart",
    ),
    Behaviour::new("video.decode.flush", source::VIDEO, decoding::flush)
        .shows("after a flush, a decoder knows nothing of what came before"),
    Behaviour::new("video.encode.round-trip", source::VIDEO, encoding::round_trip).shows(
        "what is encoded is decoded to nearly the same pictures, in order, with their times",
    ),
    Behaviour::new("video.encode.key-frames", source::VIDEO, encoding::key_frames)
        .shows("a decoder can begin with a key frame that was asked for"),
    Behaviour::new("video.encode.no-room", source::VIDEO, encoding::no_room)
        .shows("a unit without room is kept for the next packet"),
    Behaviour::new("video.fault.read", source::VIDEO, faults::read).shows(
        "a bitstream that is not mapped loses the queue, at the exact address, and no session",
    ),
    Behaviour::new("video.fault.write", source::VIDEO, faults::write).shows(
        "a picture that is not mapped loses the queue, at the exact address, and no session",
    ),
    Behaviour::new("video.arguments", source::VIDEO, faults::arguments)
        .shows("packets that a session cannot have lose their queue, which names what is wrong"),
    Behaviour::new("video.wrong-node", source::VIDEO, faults::wrong_node)
        .shows("each packet is executed on its own type of node alone"),
    Behaviour::new("video.kernel-mode", source::VIDEO, decoding::kernel_mode)
        .shows("sessions work with kernel-mode submission too"),
    Behaviour::new("video.neighbours", source::VIDEO, decoding::neighbours)
        .shows("two sessions decode in turns, and one with a broken stream disturbs no other"),
];
