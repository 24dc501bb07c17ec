// SPDX-License-Identifier: MIT OR Apache-2.0

//! `security.*`: protected memory, sealing and attestation. Where the host has no security node, none is offered.

mod protected;
mod sealed;

use crate::conformance::behaviour::{Behaviour, Mismatch};
use crate::conformance::scene::Scene;
use crate::conformance::source::SECURITY;
use bellhop_guest_umd::security::{SecureSession, SecurityError};
use bellhop_guest_umd::{Adapter, Device};

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("security.node", SECURITY, sealed::node)
        .shows("the security node is a node of its type, and has a key that verifies"),
    Behaviour::new("security.protected.refused", SECURITY, protected::refused).shows(
        "nothing is protected that a CPU or a physical address reaches, and no CPU locks it",
    ),
    Behaviour::new("security.protected.kept", SECURITY, protected::kept)
        .shows("no packet makes protected memory readable; the fault has the address"),
    Behaviour::new("security.protected.kernel", SECURITY, protected::kernel)
        .shows("no kernel of the guest's own reads or writes protected memory"),
    Behaviour::new("security.protected.shared", SECURITY, protected::shared)
        .shows("a process that opens a protected allocation has it protected"),
    Behaviour::new("security.protected.evicted", SECURITY, protected::evicted)
        .shows("a protected allocation that had to make room is still protected"),
    Behaviour::new("security.protected.freed", SECURITY, protected::freed)
        .shows("whoever has the memory next finds zeroes"),
    Behaviour::new("security.sealed.opens", SECURITY, sealed::opens)
        .shows("what was sealed opens again, up to the greatest length"),
    Behaviour::new("security.sealed.changed", SECURITY, sealed::changed)
        .shows("changed data, or other associated data, opens nothing and writes nothing"),
    Behaviour::new("security.sealed.confined", SECURITY, sealed::confined)
        .shows("what was sealed from protected memory opens into protected memory only"),
    Behaviour::new("security.sealed.submitted", SECURITY, sealed::submitted)
        .shows("kernel-mode submission seals too, and other nodes do not"),
    Behaviour::new("security.attested", SECURITY, sealed::attested)
        .shows("a statement has the nonce, is signed, and no other statement has its signature"),
];

/// A process with a session.
struct Lab {
    session: SecureSession,
    device: Device,
    process: Adapter,
}

impl Lab {
    fn new(scene: &Scene) -> Result<Self, Mismatch> {
        let process = scene.adapter().open_process()?;
        let device = process.create_device()?;
        let session = SecureSession::new(&process, &device)?;
        Ok(Self { session, device, process })
    }
}

impl From<SecurityError> for Mismatch {
    fn from(error: SecurityError) -> Self {
        match error {
            SecurityError::NotOffered => Self::NotOffered(error.to_string()),
            SecurityError::Device(error) => error.into(),
            error => Self::Seen(error.to_string()),
        }
    }
}
