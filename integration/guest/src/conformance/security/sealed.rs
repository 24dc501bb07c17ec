// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sealed data and statements.

use super::Lab;
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::Scene;
use crate::secrets::verify;
use bellhop_guest_umd::Error;
use bellhop_guest_umd::security::SecurityError;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::security::Ranges;
use bellhop_protocol::security::{SEALED_OVERHEAD, SEALED_PROTECTED, SealedHeader};
use zerocopy::FromBytes;

pub(super) fn node(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let caps = *lab.session.caps();
    let nodes = scene.adapter().nodes()?;
    let of_type = |node: &bellhop_protocol::control::adapter::NodeMetadata| {
        node.engine_type == EngineType::CRYPTO
    };
    let ordinal = nodes.iter().position(of_type);
    require!(ordinal == Some(caps.node as usize), "node {} is another", caps.node);
    require!(nodes.iter().filter(|node| of_type(node)).count() == 1, "there are several");
    require!((caps.max_sealed, caps.max_associated) == (1 << 20, 1024), "{caps:?}");
    require!(caps.public_key != [0; 32], "there is no key");
    Ok(())
}

pub(super) fn opens(scene: &Scene) -> Result<(), Mismatch> {
    let mut lab = Lab::new(scene)?;
    let longest = lab.session.caps().max_sealed as usize;
    for (length, about) in [(0, 0), (1, 1), (4097, 1024), (longest, 3)] {
        let text: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
        let about = vec![0x61; about];
        let sealed = lab.session.seal(&text, &about)?;
        require!(sealed.len() == length + SEALED_OVERHEAD, "{} bytes", sealed.len());
        let is_open = length >= 16 && sealed.windows(16).any(|part| part == &text[..16]);
        require!(!is_open, "the text is in it");
        require!(lab.session.open(&sealed, &about)? == text, "it opened to something else");
    }
    let one = lab.session.seal(b"twice", b"")?;
    require!(one != lab.session.seal(b"twice", b"")?, "it is sealed in the same way twice");
    // Another process of the guest has the guest's key.
    let mut other = Lab::new(scene)?;
    require!(other.session.open(&one, b"")? == b"twice", "another process opened something else");
    Ok(())
}

fn is_refused<T>(result: Result<T, SecurityError>) -> bool {
    matches!(result, Err(SecurityError::NotAuthentic | SecurityError::NotSealed))
}

pub(super) fn changed(scene: &Scene) -> Result<(), Mismatch> {
    let mut lab = Lab::new(scene)?;
    let sealed = lab.session.seal(b"secret", b"page 7")?;
    for about in [&b""[..], b"page 8", b"page 7 "] {
        let opened = lab.session.open(&sealed, about);
        require!(matches!(opened, Err(SecurityError::NotAuthentic)), "under {about:?}: {opened:?}");
    }
    for index in 0..sealed.len() {
        let mut other = sealed.clone();
        other[index] ^= 0x10;
        let opened = lab.session.open(&other, b"page 7");
        require!(is_refused(opened), "byte {index} may be changed");
    }
    require!(is_refused(lab.session.open(&sealed[..sealed.len() - 1], b"page 7")), "it may be cut");
    require!(is_refused(lab.session.open(b"", b"")), "nothing opens");
    // Nothing is written, not even what is not authentic.
    let memory = lab.device.create_allocation(AllocationKind::SYSTEM, 8192)?;
    let mapping = memory.map(Protection::WRITE)?;
    memory.write(4096, &[0x55; 64])?;
    let mut wrong = sealed.clone();
    *wrong.last_mut().unwrap_or(&mut 0) ^= 1;
    memory.write(0, &wrong)?;
    let ranges = Ranges {
        source: mapping.gpu_va(),
        length: wrong.len() as u32,
        destination: mapping.gpu_va() + 4096,
        associated: (0, 0),
        status: mapping.gpu_va() + 2048,
    };
    let context = lab.device.create_context(lab.session.caps().node)?;
    let mut queue = context.create_fallback_queue(4096)?;
    let mut commands = bellhop_guest_umd::CommandBuffer::new(&lab.device, 4096)?;
    commands.open_sealed(ranges)?;
    let value = queue.submit(&mut commands)?;
    queue.wait(value, crate::conformance::scene::TIMEOUT)?;
    let (mut seen, mut status) = ([0; 64], [0; 16]);
    memory.read(4096, &mut seen)?;
    memory.read(2048, &mut status)?;
    require!(seen == [0x55; 64], "something was written");
    require!(status[0] == 2 && status[8..] == [0; 8], "the status block is {status:?}");
    Ok(())
}

pub(super) fn confined(scene: &Scene) -> Result<(), Mismatch> {
    let mut lab = Lab::new(scene)?;
    let memory = lab.session.protected(4096)?;
    lab.session.put(&memory, 8, b"secret")?;
    let sealed = lab.session.seal_protected(&memory, 8, 6, b"")?;
    let header = SealedHeader::read_from_prefix(&sealed);
    require!(header.is_ok_and(|(header, _)| header.is_protected()), "it says nothing of that");
    lab.session.open_protected(&sealed, b"", &memory, 100)?;
    let is_kept = |opened: Result<Vec<u8>, SecurityError>| match opened {
        Err(SecurityError::Device(Error::QueueLost { fault: Some(fault), .. })) => {
            fault.reason == FaultReason::PROTECTED_MEMORY
        }
        _ => false,
    };
    require!(is_kept(lab.session.open(&sealed, b"")), "it opened where a CPU reads");
    // To say that it was not protected is to change it.
    let mut freed = sealed;
    freed[6] &= !(SEALED_PROTECTED as u8);
    let opened = lab.session.open(&freed, b"");
    require!(matches!(opened, Err(SecurityError::NotAuthentic)), "without the flag: {opened:?}");
    // What a CPU could read before may go anywhere.
    let plain = lab.session.seal(b"plain", b"")?;
    lab.session.open_protected(&plain, b"", &memory, 0)?;
    require!(lab.session.open(&plain, b"")? == b"plain", "it opened to something else");
    Ok(())
}

pub(super) fn submitted(scene: &Scene) -> Result<(), Mismatch> {
    let mut lab = Lab::new(scene)?;
    let memory = lab.device.create_allocation(AllocationKind::SYSTEM, 8192)?;
    let mapping = memory.map(Protection::WRITE)?;
    memory.write(0, b"by request")?;
    let at = mapping.gpu_va();
    let ranges = Ranges {
        source: at,
        length: 10,
        destination: at + 4096,
        associated: (0, 0),
        status: at + 2048,
    };
    let context = lab.device.create_context(lab.session.caps().node)?;
    let mut queue = context.create_kernel_mode_queue()?;
    let mut commands = bellhop_guest_umd::CommandBuffer::new(&lab.device, 4096)?;
    commands.seal(ranges)?;
    let value = queue.submit(&mut commands)?;
    queue.progress_fence().wait(value, crate::conformance::scene::TIMEOUT)?;
    let mut sealed = [0; 90];
    memory.read(4096, &mut sealed)?;
    require!(lab.session.open(&sealed, b"")? == b"by request", "it opened to something else");
    let mut bench = scene.bench_on(EngineType::COPY)?;
    let at = bench.va(0);
    bench.commands.seal(Ranges { source: at, destination: at + 64, status: at + 32, ..ranges })?;
    bench.expect_fault(FaultReason::NOT_SUPPORTED_BY_NODE, 0x38)?;
    let too_long = Ranges { length: (1 << 20) + 1, ..ranges };
    let mut commands = bellhop_guest_umd::CommandBuffer::new(&lab.device, 4096)?;
    commands.seal(too_long)?;
    let mut queue = context.create_kernel_mode_queue()?;
    let value = queue.submit(&mut commands)?;
    let ended = queue.progress_fence().wait(value, crate::conformance::scene::TIMEOUT);
    let reason = match &ended {
        Err(Error::QueueLost { fault: Some(fault), .. }) => fault.reason,
        _ => FaultReason::NONE,
    };
    require!(reason == FaultReason::BAD_SECURITY_ARGUMENTS, "too much: {ended:?}");
    Ok(())
}

pub(super) fn attested(scene: &Scene) -> Result<(), Mismatch> {
    let mut lab = Lab::new(scene)?;
    let key = lab.session.caps().public_key;
    let [one, two] = [[7; 32], [8; 32]];
    let (first, second) = (lab.session.attest(one)?, lab.session.attest(two)?);
    require!((first.nonce, second.nonce) == (one, two), "the nonces are others");
    require!(first.public_key == key, "it is signed with another key");
    for statement in [first, second] {
        require!(verify::signature(&statement, &key).is_ok(), "the signature is wrong");
    }
    let mut forged = second;
    forged.signature = first.signature;
    require!(verify::signature(&forged, &key).is_err(), "one signature is for both");
    let mut forged = first;
    forged.configuration[0] ^= 1;
    require!(verify::signature(&forged, &key).is_err(), "it is not all signed");
    Ok(())
}
