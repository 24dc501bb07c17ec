// SPDX-License-Identifier: MIT OR Apache-2.0

//! The output of `--print-capabilities`.

use bellhop_protocol::config::{QUEUE_COUNT, VIRTIO_DEVICE_ID};
use bellhop_protocol::features::{Features, Version};
use serde::Serialize;

/// `type` and `features` follow the vhost-user back-end conventions. The other fields tell people and scripts how
/// to attach the device.
#[derive(Serialize)]
struct Capabilities {
    r#type: &'static str,
    features: Vec<&'static str>,
    version: String,
    protocol: String,
    virtio_id: u32,
    queues: u16,
}

/// The capabilities as one JSON object.
#[must_use]
pub fn json() -> String {
    let capabilities = Capabilities {
        r#type: "bellhop",
        features: Features::all().iter_names().map(|(name, _)| name).collect(),
        version: env!("CARGO_PKG_VERSION").into(),
        protocol: Version::CURRENT.to_string(),
        virtio_id: VIRTIO_DEVICE_ID,
        queues: QUEUE_COUNT,
    };
    serde_json::to_string_pretty(&capabilities).unwrap_or_default()
}
