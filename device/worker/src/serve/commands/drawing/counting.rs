// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a device counts, and which transformed vertices it stores.

use crate::vulkan::{OfGraphics, OfTransform};
use ash::vk::{QueryType, TRUE};
use bellhop_protocol::vulkan::{BeginQuery, BeginTransform};

/// Checks that the device counts what a query asks for, whose own fields have been checked.
///
/// # Errors
/// When it does not.
pub fn check_query(begin: &BeginQuery, device: &OfGraphics) -> Result<(), &'static str> {
    let features = &device.features;
    let streams = device.transform.map_or(1, |of| of.streams);
    let [makes, _, of_other_streams] = device.extensions.primitives_generated_query;
    let counts = match QueryType::from_raw(begin.header.argument as i32) {
        QueryType::OCCLUSION => begin.flags == 0 || features.occlusion_query_precise == TRUE,
        QueryType::PIPELINE_STATISTICS => features.pipeline_statistics_query == TRUE,
        QueryType::TRANSFORM_FEEDBACK_STREAM_EXT => {
            device.transform.is_some_and(|of| of.counts) && begin.stream < streams
        }
        QueryType::PRIMITIVES_GENERATED_EXT => {
            // They begin as queries of streams do.
            makes == TRUE
                && device.transform.is_some()
                && (begin.stream == 0 || (of_other_streams == TRUE && begin.stream < streams))
        }
        // The structure of the stream has been checked.
        _ => true,
    };
    if counts { Ok(()) } else { Err("a query of what the device does not count") }
}

fn transform(device: &OfGraphics) -> Result<OfTransform, &'static str> {
    device.transform.ok_or("vertices that are stored, on a device that does not")
}

/// Checks that the device takes buffers for transformed vertices.
///
/// # Errors
/// When it does not.
pub fn check_stored(data: &[u8], device: &OfGraphics) -> Result<(), &'static str> {
    let of = transform(device)?;
    let buffers = BeginTransform::buffers(data);
    check_stored_count(buffers.len() as u32, device)?;
    if buffers.into_iter().any(|buffer| buffer.length > of.longest) {
        return Err("a buffer for transformed vertices that is longer than the device takes");
    }
    Ok(())
}

/// Checks that the device takes so many buffers for transformed vertices.
///
/// # Errors
/// When it does not.
pub fn check_stored_count(count: u32, device: &OfGraphics) -> Result<(), &'static str> {
    match count <= transform(device)?.buffers {
        true => Ok(()),
        false => Err("more buffers for transformed vertices than the device takes"),
    }
}
