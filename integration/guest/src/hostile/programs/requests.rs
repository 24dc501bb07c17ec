// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests: wrong ones, those of the guest and of nobody, and guesses at what others have.

use super::scene::{Group, Scene};
use super::session::{Session, encode};
use crate::hostile::request;
use anyhow::ensure;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::adapter::OpenAdapter;
use bellhop_protocol::control::allocation::{OpenAllocation, OpenSharedAllocation};
use bellhop_protocol::control::context::DestroyContext;
use bellhop_protocol::control::device::DestroyDevice;
use bellhop_protocol::control::fence::{DestroyNativeFence, NtHandle, OpenNativeFence};
use bellhop_protocol::control::{Handle, RequestCode, RequestHeader};
use bellhop_protocol::features::{Features, Version};
use bellhop_protocol::status::Status;
use zerocopy::IntoBytes;

pub(super) const ATTACKS: Group = &[
    ("random-bodies", random),
    ("unknown-codes", unknown),
    ("requests-of-the-guest", of_the_guest),
    ("requests-of-nobody", of_nobody),
    ("lengths-that-lie", lengths),
    ("features-of-others", features),
    ("guessed-handles", handles),
    ("guessed-names", names),
];

/// How many random requests there are.
const MANY: usize = 2000;
/// How often is guessed.
const GUESSES: u64 = 500;

/// Each code, with any body, in the name of its own process.
fn random(scene: &mut Scene) -> anyhow::Result<()> {
    let mut session = Session::open(&scene.socket)?;
    let (mut process, mut device) = session.device()?;
    for _ in 0..MANY {
        let words = [0, 1, PAGE_SIZE, 1 << 32, device.0, u64::MAX, scene.noise.number()];
        let processes = [0, process, process, process, scene.victim];
        let request = request(&mut scene.noise, &processes, &words);
        session.ask_bytes(&request)?;
        if scene.noise.below(500) == 0 {
            drop(session);
            session = Session::open(&scene.socket)?;
            (process, device) = session.device()?;
        }
    }
    for code in RequestCode::ALL.iter().filter(|code| **code != RequestCode::DESTROY_PROCESS) {
        for length in (0..128).step_by(8) {
            let body = scene.noise.bytes(length);
            session.ask_bytes(&encode(*code, process, &body))?;
        }
    }
    session.is_served()
}

/// What concerns the whole guest: only an administrator's programs ask.
pub const OF_GUEST: [RequestCode; 9] = [
    RequestCode::REGISTER_AGENT,
    RequestCode::UNREGISTER_AGENT,
    RequestCode::ASK_AGENT,
    RequestCode::ANSWER_AGENT_REQUEST,
    RequestCode::SET_POWER_POLICY,
    RequestCode::SET_DEVICE_PRESENCE,
    RequestCode::ASK_FOR_CONSENT,
    RequestCode::ANNOUNCE_STOP,
    RequestCode::ESCAPE,
];
/// What concerns what the broker has, or everybody's power: no program asks, and the broker does not either.
pub const OF_NOBODY: [RequestCode; 4] = [
    RequestCode::SET_DEVICE_POWER,
    RequestCode::SET_ENGINE_POWER,
    RequestCode::QUERY_BAR_LAYOUT,
    RequestCode::DONATE_AREA,
];

fn unknown(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    let process = session.process()?;
    let known = |code: &RequestCode| RequestCode::ALL.contains(code);
    for code in (0..0x400).chain([1 << 16, 1 << 31, u32::MAX]).map(RequestCode) {
        if !known(&code) {
            let (status, _) = session.ask_bytes(&encode(code, process, &[0; 16]))?;
            ensure!(status == Status::INVALID_DEVICE_REQUEST, "{code}: {status}");
        }
    }
    Ok(())
}

/// Each of these is refused, whatever its body and whoever is named.
fn are_refused(scene: &mut Scene, codes: &[RequestCode]) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    let own = session.process()?;
    for code in codes {
        for process in [0, own, scene.victim, u32::MAX] {
            for length in (0..128).step_by(8) {
                let body = if length % 16 == 0 { vec![0; 16] } else { scene.noise.bytes(length) };
                let (status, _) = session.ask_bytes(&encode(*code, process, &body))?;
                ensure!(status == Status::NOT_SUPPORTED, "{code} of process {process}: {status}");
            }
        }
    }
    Ok(())
}

/// What the guest's agent does, and whether the guest has a device at all.
fn of_the_guest(scene: &mut Scene) -> anyhow::Result<()> {
    are_refused(scene, &OF_GUEST)
}

/// What concerns the broker's own, or everybody's power, and what the broker itself asks for programs.
fn of_nobody(scene: &mut Scene) -> anyhow::Result<()> {
    are_refused(scene, &OF_NOBODY)?;
    are_refused(
        scene,
        &[
            RequestCode::CREATE_PROCESS_WITH_BAR,
            RequestCode::DESCRIBE_PROCESS,
            RequestCode::SET_PROCESS_SHARE,
        ],
    )
}

/// Headers that claim another length than the message has.
fn lengths(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    let process = session.process()?;
    for code in RequestCode::ALL {
        for length in [0, 1, 15, 17, 4096, 1 << 16, u32::MAX] {
            let header = RequestHeader { code: *code, length, process, reserved: 0 };
            let (status, _) = session.ask_bytes(header.as_bytes())?;
            ensure!(status == Status::INVALID_BUFFER_SIZE, "{code}, {length} bytes: {status}");
        }
    }
    for length in 0..size_of::<RequestHeader>() {
        let (status, _) = session.ask_bytes(&vec![0xff; length])?;
        ensure!(status == Status::INVALID_BUFFER_SIZE, "{length} bytes: {status}");
    }
    Ok(())
}

/// Features that the guest has and programs do not, and that nobody has.
fn features(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    let offered = session.welcome.config.features;
    let of_all = Features::POWER_CONTROL | Features::DONATED_AREAS;
    ensure!(offered & of_all.bits() == 0, "programs are offered {offered:#x}");
    let version = Version::CURRENT;
    for features in [of_all.bits(), offered | of_all.bits(), 1 << 63, u64::MAX] {
        let open = OpenAdapter { version, reserved: 0, features };
        session.expect(0, &open, &[], Status::REVISION_MISMATCH)?;
    }
    let other = Version { major: version.major.wrapping_add(1), ..version };
    let open = OpenAdapter { version: other, reserved: 0, features: offered };
    session.expect(0, &open, &[], Status::REVISION_MISMATCH)
}

/// Handles of others, which are small numbers or near its own.
fn handles(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    let (process, own) = session.device()?;
    let near = |guess: u64| [guess, own.0.wrapping_add(guess), own.0.wrapping_sub(guess)];
    let guesses = (1..GUESSES).flat_map(near).map(Handle).filter(|handle| *handle != own);
    for guess in guesses {
        let is_refused = |status: Status| {
            ensure!(!status.is_success(), "it has {guess:?} of another");
            Ok(())
        };
        is_refused(session.ask(process, &DestroyDevice { device: guess }, &[])?.0)?;
        is_refused(session.ask(process, &DestroyContext { context: guess }, &[])?.0)?;
        is_refused(session.ask(process, &DestroyNativeFence { fence: guess }, &[])?.0)?;
        let open = OpenAllocation { device: own, allocation: guess };
        is_refused(session.ask(process, &open, &[])?.0)?;
    }
    Ok(())
}

/// Names of what others share.
fn names(scene: &mut Scene) -> anyhow::Result<()> {
    let session = Session::open(&scene.socket)?;
    let (process, device) = session.device()?;
    for number in 0..GUESSES {
        for guess in [number, u64::MAX - number, number << 32, scene.noise.number()] {
            let nt_handle = NtHandle(guess);
            let fence = OpenNativeFence { device, nt_handle };
            session.expect(process, &fence, &[], Status::INVALID_PARAMETER)?;
            let allocation = OpenSharedAllocation { device, nt_handle };
            session.expect(process, &allocation, &[], Status::INVALID_PARAMETER)?;
        }
    }
    Ok(())
}
