// SPDX-License-Identifier: MIT OR Apache-2.0

//! Keeps a key where no CPU reads it, and makes what to store on a disk.

use bellhop_guest_umd::Adapter;
use bellhop_guest_umd::security::{SecureSession, SecurityError};

fn main() -> Result<(), SecurityError> {
    let key = b"sixteen bytes...";
    let adapter = Adapter::open_default()?;
    let device = adapter.create_device()?;
    // Fails with what to configure, where the host has no security node.
    let mut session = SecureSession::new(&adapter, &device)?;

    let memory = session.protected(key.len() as u64)?;
    session.put(&memory, 0, key)?;
    // Opens for this guest, on this adapter, with the same words, into protected memory.
    let sealed = session.seal_protected(&memory, 0, key.len(), b"the key, version 1")?;

    let again = session.protected(key.len() as u64)?;
    session.open_protected(&sealed, b"the key, version 1", &again, 0)?;
    let refused = session.open_protected(&sealed, b"the key, version 2", &again, 0);
    assert!(matches!(refused, Err(SecurityError::NotAuthentic)));
    println!("a key of {} bytes, sealed in {}", key.len(), sealed.len());
    Ok(())
}
