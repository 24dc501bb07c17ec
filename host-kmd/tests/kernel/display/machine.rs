// SPDX-License-Identifier: MIT OR Apache-2.0

//! Anything in any order: each flip that is accepted ends once, and the guest leaves nothing behind.

use super::*;
use bellhop_host_kmd::port::Command;
use bellhop_host_kmd::port::Input;
use bellhop_protocol::control::allocation::DestroyAllocation;
use bellhop_protocol::control::fence::CreateNativeFence;
use bellhop_protocol::control::flip::SetVidPnSourceVisibility;
use bellhop_protocol::control::power::DevicePowerState;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug, Clone)]
enum Step {
    Plug(u32, bool),
    /// One of some VidPNs.
    Commit(usize),
    /// Primary, flags, and the value of a fence to wait for.
    Flip(usize, u32, Option<u64>),
    /// Signals the fence with its next value.
    Signal,
    Vsync,
    /// The VSYNCs are late.
    Later(u64),
    Visible(bool),
    LetGo,
    /// Destroys a primary, and makes another.
    Renew(usize),
    D3,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0..2u32, any::<bool>()).prop_map(|(child, on)| Step::Plug(child, on)),
        2 => (0..5usize).prop_map(Step::Commit),
        8 => (0..3usize, 0..4u32, prop::option::of(0..6u64))
            .prop_map(|(primary, flags, fence)| Step::Flip(primary, flags, fence)),
        3 => Just(Step::Signal),
        8 => Just(Step::Vsync),
        1 => prop_oneof![Just(20u64), Just(700)].prop_map(Step::Later),
        1 => any::<bool>().prop_map(Step::Visible),
        2 => Just(Step::LetGo),
        1 => (0..3usize).prop_map(Step::Renew),
        1 => Just(Step::D3),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn each_accepted_flip_ends_once_and_an_immediate_one_is_answered_by_then(
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let (mut bench, client) = world();
        let guest = client.guest;
        bench.model.state().displays.lets_go_late = true;
        let created = bench.call(client, &CreateNativeFence::new(client.device, 0)).unwrap();
        let (fence, slot, mut value) = (created.fence, created.slot, 0);
        let mut primaries = [(); 3].map(|()| primary(&mut bench, client));
        let small = VidPnPath {
            source_mode: source_mode(32, 32),
            target_mode: target_mode(32, 32),
            ..path(0, 0)
        };
        let vidpns = [
            vec![],
            vec![path(0, 0)],
            vec![path(0, 0), path(0, 1)],
            vec![small],
            vec![path(0, 1), path(1, 0)],
        ];
        let mut ends: BTreeMap<u64, u32> = BTreeMap::new();
        let mut immediate = Vec::new();
        let mut sent = 0;
        for step in steps {
            match step {
                Step::Plug(child, on) => {
                    bench.model.plug(guest, child, on.then(monitor));
                    bench.interrupt();
                }
                Step::Commit(index) => {
                    begin_commit(&mut bench, client, &vidpns[index]);
                }
                Step::Flip(index, flags, awaited) => {
                    sent += 1;
                    let flags = FlipFlags::from_bits(flags).unwrap();
                    let request = address(primaries[index], sent, flags);
                    let fences: Vec<_> = awaited.map(|awaited| (fence, awaited)).into_iter().collect();
                    let token = begin_flip(&mut bench, client, request, &fences);
                    if bench.outcome(client, token).is_none_or(|status| status.is_success()) {
                        ends.insert(sent, 0);
                        if flags.contains(FlipFlags::IMMEDIATE) {
                            immediate.push((sent, token));
                        }
                    }
                }
                Step::Signal => {
                    value += 1;
                    bench.model.signal(guest, slot, value);
                    bench.interrupt();
                }
                Step::Vsync => {
                    for source in 0..2 {
                        vsync(&mut bench, guest, source);
                    }
                }
                Step::Later(milliseconds) => bench.later(Duration::from_millis(milliseconds)),
                Step::Visible(visible) => {
                    let request = SetVidPnSourceVisibility { source: 0, visible: visible.into() };
                    let _ = bench.call(client, &request);
                }
                Step::LetGo => {
                    bench.model.let_go(guest);
                    bench.interrupt();
                }
                Step::Renew(index) => {
                    let request = DestroyAllocation { allocation: primaries[index] };
                    let token = bench.begin(client, &request);
                    bench.model.let_go(guest);
                    bench.interrupt();
                    prop_assert_eq!(bench.outcome(client, token), Some(Status::SUCCESS));
                    primaries[index] = primary(&mut bench, client);
                }
                Step::D3 => {
                    bench.command(Command::SetDevicePower(DevicePowerState::D3));
                }
            }
            bench.interrupt();
            for (number, _) in take_flipped(&mut bench) {
                *ends.get_mut(&number).expect("a flip that was accepted") += 1;
            }
            for (number, token) in &immediate {
                let is_answered = bench.outcome(client, *token).is_some();
                prop_assert_eq!(is_answered, ends[number] == 1, "flip {}", number);
            }
        }
        // What still waits ends with its source.
        begin_commit(&mut bench, client, &[]);
        for (number, _) in take_flipped(&mut bench) {
            *ends.get_mut(&number).expect("a flip that was accepted") += 1;
        }
        for (number, count) in &ends {
            prop_assert_eq!(*count, 1, "flip {} ended {} times", number, count);
        }
        bench.input(Input::Detach { guest });
        bench.model.let_go(guest);
        for _ in 0..3 {
            bench.pass_tickets();
        }
        prop_assert_eq!(&bench.detached, &[guest]);
        prop_assert!(bench.model.is_empty());
    }
}
