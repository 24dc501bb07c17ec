// SPDX-License-Identifier: MIT OR Apache-2.0

//! The conformance suite against devices that break a promise: each behaviour about the promise fails.
//!
//! An interceptor between device and driver breaks the device: it answers a request without carrying it out, or
//! with another answer than the device's, or carries out another request.

use crate::support::{self, DISPLAYS, Daemon, LINK, quick};
use bellhop_guest::conformance::{self, Outcome, Selection};
use bellhop_guest::intercepted::{Intercept, Intercepted};
use bellhop_guest_umd::display::{Rotation, Scaling};
use bellhop_guest_umd::{PlacementPolicy, Placements};
use bellhop_integration::screen::onlooker;
use bellhop_protocol::control::adapter::{INTRA_GPU_FENCE_SUPPORTED, NativeFenceCaps};
use bellhop_protocol::control::display::{CommitVidPn, VidPnPath};
use bellhop_protocol::control::fence::{
    CreateNativeFence, FenceFlags, NOT_PUBLISHED, NativeFenceType, OpenedFence,
};
use bellhop_protocol::control::flip::{SetPointerPosition, SetVidPnSourceAddress};
use bellhop_protocol::control::{Handle, RequestCode};
use bellhop_protocol::status::Status;
use std::sync::{Arc, Mutex};
use zerocopy::{FromBytes, IntoBytes};

/// A fault of a device.
#[derive(Clone, Copy)]
enum Fault {
    /// It answers this request with success, and does nothing.
    Ignores(RequestCode),
    /// It refuses fences like this with `NOT_SUPPORTED`.
    RefusesFences(fn(&CreateNativeFence) -> bool),
    /// It denies having intra-GPU fences, but has them.
    HidesIntraGpuFences,
    /// It denies that CPUs read CurrentValues of monitored fences.
    HidesMonitoredFences,
    /// It shows the picture that was flipped before the one that it was told to show.
    ShowsTheOneBefore(&'static Mutex<Option<Handle>>),
    /// It commits other paths than it was told to.
    Commits(fn(usize, &mut VidPnPath)),
    /// Its fences begin with all values that the suite waits for.
    HoldsNobody,
    /// It has the pointer a pixel further to the right.
    MovesThePointer,
    /// No fault.
    None,
}

impl Intercept for Fault {
    fn answer(&self, code: RequestCode, body: &[u8]) -> Option<Status> {
        match self {
            Self::Ignores(ignored) if code == *ignored => Some(Status::SUCCESS),
            Self::RefusesFences(refuses) if code == RequestCode::CREATE_NATIVE_FENCE => {
                let request = CreateNativeFence::read_from_bytes(body).ok()?;
                refuses(&request).then_some(Status::NOT_SUPPORTED)
            }
            _ => None,
        }
    }

    fn change(&self, code: RequestCode, body: &mut [u8]) {
        match (self, code) {
            (Self::ShowsTheOneBefore(before), RequestCode::SET_VIDPN_SOURCE_ADDRESS) => {
                let (flip, _) = SetVidPnSourceAddress::mut_from_prefix(body).unwrap();
                let before = before.lock().unwrap().replace(flip.allocation);
                flip.allocation = before.unwrap_or(flip.allocation);
            }
            (Self::Commits(change), RequestCode::COMMIT_VIDPN) => {
                let (_, paths) = CommitVidPn::mut_from_prefix(body).unwrap();
                let paths = <[VidPnPath]>::mut_from_bytes(paths).unwrap();
                paths.iter_mut().enumerate().for_each(|(at, path)| change(at, path));
            }
            (Self::HoldsNobody, RequestCode::CREATE_NATIVE_FENCE) => {
                let (fence, _) = CreateNativeFence::mut_from_prefix(body).unwrap();
                fence.initial_value = fence.initial_value.saturating_add(1000);
            }
            (Self::MovesThePointer, RequestCode::SET_POINTER_POSITION) => {
                let (pointer, _) = SetPointerPosition::mut_from_prefix(body).unwrap();
                pointer.x = pointer.x.saturating_add(1);
            }
            _ => {}
        }
    }

    fn alter(&self, code: RequestCode, body: &mut [u8]) {
        match (self, code) {
            (Self::HidesIntraGpuFences, RequestCode::QUERY_NATIVE_FENCE_CAPS) => {
                let mut caps = NativeFenceCaps::read_from_bytes(body).unwrap();
                caps.flags &= !INTRA_GPU_FENCE_SUPPORTED;
                body.copy_from_slice(caps.as_bytes());
            }
            (Self::HidesMonitoredFences, RequestCode::CREATE_MONITORED_FENCE) => {
                let mut opened = OpenedFence::read_from_bytes(body).unwrap();
                opened.mapping.current_value_offset = NOT_PUBLISHED;
                body.copy_from_slice(opened.as_bytes());
            }
            _ => {}
        }
    }
}

/// Asserts that a behaviour fails on a device with a fault, and passes on a device without one.
#[track_caller]
fn assert_noticed(daemon: &Daemon, behaviour: &str, fault: Fault) {
    assert_eq!(outcome(daemon, behaviour, Fault::None), Outcome::Passed, "{behaviour}");
    assert_ne!(outcome(daemon, behaviour, fault), Outcome::Passed, "{behaviour}");
}

fn outcome(daemon: &Daemon, behaviour: &str, fault: Fault) -> Outcome {
    let guest = support::guest(daemon, 0);
    let broken = Arc::new(Intercepted { guest: Arc::clone(&guest), intercept: fault });
    let policy = PlacementPolicy::Fixed(Placements::BAR);
    let selection = Selection { filter: Some(behaviour), skip: &[] };
    let onlooker = Some(onlooker(&daemon.control_socket(), &daemon.socket(0)));
    let report = conformance::run(broken, policy, onlooker, selection, false).unwrap();
    let check = report.checks.iter().find(|check| check.id == behaviour).expect(behaviour);
    eprintln!("{behaviour}: {:?}: {}", check.outcome, check.detail);
    guest.kill();
    daemon.await_log("front end disconnected");
    check.outcome
}

/// A daemon that offers everything that these behaviours need.
fn daemon() -> Daemon {
    let configuration = support::quick("", "");
    Daemon::start_with(1, &format!("{configuration}\n[fence_sharing]\nalone = [\"gpu0.sock\"]\n"))
}

#[test]
fn a_device_that_claims_work_it_did_not_do_is_noticed() {
    let daemon = daemon();
    for (ignored, behaviour) in [
        (RequestCode::DESTROY_PROCESS, "handle.process-unknown"),
        (RequestCode::DESTROY_DEVICE, "handle.cascade"),
        (RequestCode::DESTROY_ALLOCATION, "memory.local.exhausted"),
        (RequestCode::FREE_GPU_VIRTUAL_ADDRESS, "memory.free.takes-effect"),
        (RequestCode::EVICT, "memory.sharing.residency"),
        (RequestCode::UNLOCK, "memory.sharing.residency"),
        (RequestCode::CLOSE_ALLOCATION, "memory.sharing.lifetime"),
        (RequestCode::DESTROY_NATIVE_FENCE, "fence.share.lifetime"),
        (RequestCode::SIGNAL_FENCES, "fence.rewind.cpu"),
    ] {
        assert_noticed(&daemon, behaviour, Fault::Ignores(ignored));
    }
}

#[test]
fn a_device_without_the_fences_that_it_should_have_is_noticed() {
    let daemon = daemon();
    let intra_gpu = |request: &CreateNativeFence| request.fence_type == NativeFenceType::INTRA_GPU;
    let cross_adapter =
        |request: &CreateNativeFence| request.flags & FenceFlags::CROSS_ADAPTER.bits() != 0;
    for (behaviour, fault) in [
        ("fence.cross.policy", Fault::RefusesFences(cross_adapter)),
        ("fence.types.intra-gpu", Fault::RefusesFences(intra_gpu)),
        ("fence.types.intra-gpu", Fault::HidesIntraGpuFences),
        ("fence.monitored.cpu", Fault::HidesMonitoredFences),
    ] {
        assert_noticed(&daemon, behaviour, fault);
    }
}

/// A guest cannot see what becomes of its pictures: all that it reads and is told is right on these devices.
#[test]
fn a_screen_that_shows_something_else_is_noticed() {
    static BEFORE: Mutex<Option<Handle>> = Mutex::new(None);
    let daemon = Daemon::start_with(1, &format!("{}{DISPLAYS}{LINK}", quick("", "")));
    let the_one_before = Fault::ShowsTheOneBefore(&BEFORE);
    let turned_wrongly = Fault::Commits(|_, path| {
        path.rotation = match path.rotation {
            Rotation::ROTATE_90 => Rotation::ROTATE_270,
            Rotation::ROTATE_270 => Rotation::ROTATE_90,
            other => other,
        };
    });
    let stretched = Fault::Commits(|_, path| {
        if path.scaling == Scaling::ASPECT_RATIO_CENTERED_MAX {
            path.scaling = Scaling::STRETCHED;
        }
    });
    let second_upside_down = Fault::Commits(|at, path| {
        if at == 1 {
            path.rotation = Rotation::ROTATE_180;
        }
    });
    for (behaviour, fault) in [
        ("display.flip.vsync", the_one_before),
        ("display.exclusive", the_one_before),
        ("display.independent-flip", the_one_before),
        ("link.displays.flip", the_one_before),
        ("link.displays.peer", the_one_before),
        ("screen.flips", the_one_before),
        ("screen.paths", turned_wrongly),
        ("screen.paths", stretched),
        ("screen.several", second_upside_down),
        ("screen.pointer", turned_wrongly),
        ("screen.pointer", Fault::MovesThePointer),
        ("screen.blanked", Fault::Ignores(RequestCode::SET_VIDPN_SOURCE_VISIBILITY)),
        ("screen.ended", Fault::Ignores(RequestCode::DESTROY_ALLOCATION)),
        ("screen.ended", Fault::Ignores(RequestCode::DESTROY_PROCESS)),
    ] {
        *BEFORE.lock().unwrap() = None;
        assert_noticed(&daemon, behaviour, fault);
    }
}

#[test]
fn a_device_that_loses_its_power_against_the_policy_is_noticed() {
    let daemon = Daemon::start_with(1, &quick("device_idle = \"1s\"", ""));
    let ignored = Fault::Ignores(RequestCode::SET_POWER_POLICY);
    for behaviour in ["agent.power-policy.performance", "agent.power-policy.saving"] {
        assert_noticed(&daemon, behaviour, ignored);
    }
}

#[test]
fn a_gpu_that_does_not_wait_for_another_is_noticed() {
    let daemon = Daemon::start_with(1, &format!("{}{LINK}", quick("", "")));
    assert_noticed(&daemon, "link.fence", Fault::HoldsNobody);
}
