// SPDX-License-Identifier: MIT OR Apache-2.0

//! Steps about video sessions, and about the power of a chain's GPUs.

use super::seen::{Seen, Step};
use crate::bench::bytes;
use crate::model::NODES_WITH_VIDEO;
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::control::power::QueryGpuPower;
use bellhop_protocol::control::video::{
    CreateVideoSession, DestroyVideoSession, QueryVideoCaps, RateControl, VideoCodec, VideoFormat,
};

/// The kind of step that is a request.
pub(super) const REQUEST: u8 = 76;
/// The sessions that the GPU has room for, which are fewer than both guests may have.
pub(super) const ROOM: u32 = 5;
/// The sessions that a guest may have.
pub(super) const MOST: u32 = 3;
/// Widths and heights: the least and the greatest, and those beyond.
const SIZES: [u32; 8] = [64, 48, 16, 8192, 0, 15, 8193, u32::MAX];

/// The request of a step.
pub(super) fn request(step: &Step, seen: &Seen, gpus: usize) -> Vec<u8> {
    let [a, b, c, d] = step.choice;
    match b % 8 {
        0 => bytes(0, &QueryVideoCaps { reserved: 0 }),
        1 => bytes(0, &QueryGpuPower { gpu: c as u32 % 4, reserved: 0 }),
        2 | 3 => {
            let (process, session) = seen.pick(RequestCode::CREATE_VIDEO_SESSION, a);
            bytes(process, &DestroyVideoSession { session })
        }
        _ => {
            let (process, device) = seen.pick(RequestCode::CREATE_DEVICE, a);
            let size = [SIZES[c % 8], SIZES[c / 8 % 8]];
            let format = VideoFormat(1 + d as u32 % 5);
            // Mostly a node that decodes: the last of each GPU.
            let decodes = NODES_WITH_VIDEO.len() * (d / 32 % gpus + 1) - 1;
            let node = if d / 8 % 4 == 0 { d as u32 / 32 } else { decodes as u32 };
            let right = CreateVideoSession::decoding(device, node, format, size);
            let request = match b / 8 % 8 {
                0 => CreateVideoSession { codec: VideoCodec(d as u32 % 3), ..right },
                1 => CreateVideoSession { rate_control: RateControl(d as u32 % 4), ..right },
                2 => CreateVideoSession { rate: d as u32, ..right },
                _ => right,
            };
            bytes(process, &request)
        }
    }
}
