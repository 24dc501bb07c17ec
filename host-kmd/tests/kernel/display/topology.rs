// SPDX-License-Identifier: MIT OR Apache-2.0

//! Children, monitors, and which VidPNs are functional.

use super::*;
use bellhop_host_kmd::hardware::DisplayCaps;
use bellhop_protocol::control::display::{
    ChildStatus, CofuncModality, ConnectorKind, EnumVidPnCofuncModality, IsSupportedVidPn, Pinned,
    Pivot, QueryChildRelations, QueryChildStatus, QueryDeviceDescriptor, RecommendMonitorModes,
    Rotation, Scaling, SourceMode, TargetMode, VidPnSupport,
};
use bellhop_protocol::pixel_format::PixelFormat;
use proptest::prelude::*;

fn supported(bench: &mut Bench, client: Client, paths: &[VidPnPath]) -> VidPnSupport {
    let request = IsSupportedVidPn { paths: paths.len() as u32, reserved: 0 };
    let token = bench.send(client.guest, bytes_with_list(client.process, &request, paths));
    body(bench, client.guest, token)
}

/// All values of a part of a path, as bytes.
fn enumerate(
    bench: &mut Bench,
    client: Client,
    paths: &[VidPnPath],
    pivot_path: u32,
    pivot: Pivot,
) -> Vec<Vec<u8>> {
    let mut values = Vec::new();
    loop {
        let (paths_count, first) = (paths.len() as u32, values.len() as u32);
        let request = EnumVidPnCofuncModality { paths: paths_count, pivot_path, pivot, first };
        let token = bench.send(client.guest, bytes_with_list(client.process, &request, paths));
        let CofuncModality { count, entry_size, data } = body(bench, client.guest, token);
        let left = count as usize - values.len();
        let page = data.chunks_exact(entry_size as usize).take(left);
        values.extend(page.map(<[u8]>::to_vec));
        if values.len() == count as usize {
            return values;
        }
    }
}

#[test]
fn a_guest_without_displays_is_told_so() {
    let (mut bench, client) = Bench::with_client(2);
    let none = (Status::NOT_SUPPORTED, 0);
    let relations = bench.ask(client.guest, 0, &QueryChildRelations { reserved: 0 });
    assert_eq!(relations, Err(none));
    assert_eq!(flip(&mut bench, client, Handle(1), 1), Err(none));
    let request = CreateAllocation {
        supported_segments: SegmentSet::PRIVATE.bits(),
        flags: AllocationFlags::PRIMARY.bits(),
        ..CreateAllocation::fixed(client.device, AllocationKind::PAGED, 4096, 0)
    };
    assert_eq!(bench.call(client, &request).map(|_| ()), Err(none));
}

#[test]
fn children_have_status_edid_and_modes_while_a_monitor_is_plugged_in() {
    let (mut bench, client) = world();
    let guest = client.guest;
    let relations = bench.ask(guest, 0, &QueryChildRelations { reserved: 0 }).unwrap();
    assert_eq!((relations.children, relations.sources), (2, 2));
    assert_eq!(relations.list[1].kind, ConnectorKind::VIRTUAL);
    assert_eq!(relations.list[2].kind, ConnectorKind(0));
    let status = QueryChildStatus { child: 1, reserved: 0 };
    let before = bench.ask(guest, 0, &status).unwrap();
    assert_eq!(before, ChildStatus { connected: 1, generation: 1 });
    let block = bench.ask(guest, 0, &QueryDeviceDescriptor { child: 1, offset: 128 }).unwrap();
    assert_eq!((block.length, block.data), (256, [7; 128]));
    let over = bench.ask(guest, 0, &QueryDeviceDescriptor { child: 1, offset: 256 });
    assert_eq!(over, Err((Status::INVALID_PARAMETER, 256)));
    let modes = bench.ask(guest, 0, &RecommendMonitorModes { child: 1, first: 1 }).unwrap();
    assert_eq!((modes.count, modes.modes[0]), (2, target_mode(32, 32)));

    bench.model.plug(guest, 1, None);
    bench.interrupt();
    let (_, event) = bench.events.pop().unwrap();
    assert_eq!(event.kind, EventKind::CHILD_STATUS_CHANGED);
    assert_eq!((event.process, event.object, event.value, event.cookie), (0, 1, 0, 2));
    let after = bench.ask(guest, 0, &status).unwrap();
    assert_eq!(after, ChildStatus { connected: 0, generation: 2 });
    let gone = Some((Status::GRAPHICS_MONITOR_NOT_CONNECTED, 1));
    let block = bench.ask(guest, 0, &QueryDeviceDescriptor { child: 1, offset: 0 });
    assert_eq!(block.err(), gone);
    let modes = bench.ask(guest, 0, &RecommendMonitorModes { child: 1, first: 0 });
    assert_eq!(modes.err(), gone);
}

#[test]
fn each_refusal_names_its_constraint_and_changes_nothing() {
    let (mut bench, client) = lit();
    let other = bench.client(client.guest);
    let commits = bench.model.state().displays.commits;
    let of = |change: &dyn Fn(&mut VidPnPath)| {
        let mut changed = path(0, 1);
        change(&mut changed);
        vec![changed]
    };
    let fast = TargetMode { refresh_numerator: 61, ..target_mode(64, 32) };
    let cases: Vec<(Constraint, u32, Vec<VidPnPath>)> = vec![
        (Constraint::NO_SUCH_SOURCE, 0, of(&|path| path.source = 2)),
        (Constraint::NO_SUCH_TARGET, 0, of(&|path| path.target = 2)),
        (Constraint::TARGET_TWICE, 1, vec![path(0, 1), path(1, 1)]),
        (Constraint::NOT_PINNED, 0, of(&|path| path.flags = 0b1011)),
        (
            Constraint::SOURCE_MODES_DIFFER,
            1,
            vec![path(0, 0), VidPnPath { source_mode: source_mode(32, 32), ..path(0, 1) }],
        ),
        (Constraint::SOURCE_FORMAT, 0, of(&|path| path.source_mode.format = PixelFormat(9))),
        (Constraint::SOURCE_SIZE, 0, of(&|path| path.source_mode.width = 0)),
        (Constraint::SOURCE_SIZE, 0, of(&|path| path.source_mode.height = 257)),
        (Constraint::TARGET_MODE, 0, of(&|path| path.target_mode = fast)),
        (Constraint::SCALING, 0, of(&|path| path.scaling = Scaling(5))),
        (Constraint::ROTATION, 0, of(&|path| path.rotation = Rotation(0))),
        (Constraint::SCALING_SIZE, 0, of(&|path| path.rotation = Rotation::ROTATE_90)),
        (Constraint::SCALING_SIZE, 0, of(&|path| path.source_mode.width = 63)),
    ];
    for (constraint, index, paths) in cases {
        assert_eq!(commit(&mut bench, client, &paths), Err((constraint, index)), "{constraint}");
    }
    assert_eq!(commit(&mut bench, other, &[path(1, 0)]), Err((Constraint::IN_USE, 0)));
    assert_eq!(commit(&mut bench, other, &[path(0, 1)]), Err((Constraint::IN_USE, 0)));
    let in_use = supported(&mut bench, other, &[path(1, 0)]);
    assert_eq!((in_use.constraint, in_use.limit), (Constraint::IN_USE, client.process.into()));
    bench.model.plug(client.guest, 1, None);
    let gone = Err((Constraint::NOT_CONNECTED, 0));
    assert_eq!(commit(&mut bench, client, &[path(0, 1)]), gone);
    assert_eq!(bench.model.state().displays.commits, commits);
    assert!(bench.model.state().displays.sources.contains_key(&(client.guest, 0)));
}

#[test]
fn links_and_the_hardware_carry_a_number_of_pixels() {
    // 70 x 35 x 60 = 147,000 pixels a second.
    let (rate, guest) = (147_000, GuestId(1));
    for (connector, total, expected) in [
        (rate, 2 * rate, None),
        (rate - 1, 2 * rate, Some((Constraint::CONNECTOR_PIXEL_RATE, 0, rate - 1))),
        (rate, 2 * rate - 1, Some((Constraint::TOTAL_PIXEL_RATE, 1, 2 * rate - 1))),
    ] {
        let mut caps = DisplayCaps { total_pixel_rate: total, ..caps() };
        for link in &mut caps.connectors {
            link.max_pixel_rate = connector;
        }
        let mut bench = Bench::of(vec![Arc::new(Model::with_displays(caps))], Limits::default());
        bench.guest(1);
        for child in 0..2 {
            bench.model.plug(guest, child, Some(monitor()));
        }
        let client = bench.client(guest);
        let found = supported(&mut bench, client, &[path(0, 0), path(1, 1)]);
        let refused = (found.supported == 0).then_some((found.constraint, found.path, found.limit));
        assert_eq!(refused, expected);
        // In clone mode the monitors take as much.
        let found = supported(&mut bench, client, &[path(0, 0), path(0, 1)]);
        assert_eq!(found.supported == 1, expected.is_none());
    }
}

#[test]
fn what_others_show_leaves_fewer_pixels() {
    let caps = DisplayCaps { total_pixel_rate: 250_000, ..caps() };
    let mut bench = Bench::of(vec![Arc::new(Model::with_displays(caps))], Limits::default());
    let guest = bench.guest(1);
    for child in 0..2 {
        bench.model.plug(guest, child, Some(monitor()));
    }
    let (client, other) = (bench.client(guest), bench.client(guest));
    assert_eq!(commit(&mut bench, client, &[path(0, 0)]), Ok(()));
    let found = supported(&mut bench, other, &[path(1, 1)]);
    assert_eq!((found.constraint, found.limit), (Constraint::TOTAL_PIXEL_RATE, 250_000 - 147_000));
    // 35 x 35 x 60 = 73,500.
    let open = VidPnPath { flags: 0, ..path(1, 1) };
    assert_eq!(supported(&mut bench, other, &[open]).supported, 1);
    let modes = enumerate(&mut bench, other, &[open], 0, Pivot::TARGET_MODE);
    assert_eq!(modes, [zerocopy::IntoBytes::as_bytes(&target_mode(32, 32))]);
}

#[test]
fn enumeration_keeps_to_what_is_pinned() {
    let (mut bench, client) = world();
    let turned = VidPnPath {
        flags: (Pinned::SCALING | Pinned::ROTATION | Pinned::TARGET_MODE).bits(),
        rotation: Rotation::ROTATE_90,
        ..path(0, 0)
    };
    let modes = enumerate(&mut bench, client, &[turned], 0, Pivot::SOURCE_MODE);
    let sizes: Vec<_> = modes
        .iter()
        .map(|mode| SourceMode::read_from_bytes(mode).unwrap())
        .map(|mode| (mode.width, mode.height, mode.format.0))
        .collect();
    // 64 x 32, turned, in four formats.
    assert_eq!(sizes, [(32, 64, 1), (32, 64, 2), (32, 64, 3), (32, 64, 4)]);
    let fixed = VidPnPath { source_mode: source_mode(32, 64), flags: 0b1011, ..turned };
    let scalings = enumerate(&mut bench, client, &[fixed], 0, Pivot::SCALING);
    assert_eq!(scalings.len(), 4);
    let upright = VidPnPath { rotation: Rotation::IDENTITY, ..fixed };
    let scalings = enumerate(&mut bench, client, &[upright], 0, Pivot::SCALING);
    assert_eq!(scalings, [3u32, 4].map(|scaling| scaling.to_le_bytes().to_vec()));
}

fn any_path(source: u32, target: u32) -> impl Strategy<Value = VidPnPath> {
    let sizes = prop_oneof![Just((64, 32)), Just((32, 32)), Just((32, 64)), Just((48, 20))];
    let modes = prop_oneof![Just((64, 32)), Just((32, 32)), Just((16, 16))];
    (0..16u32, 1..5u32, 1..5u32, sizes, modes, 1..5u32).prop_map(
        move |(flags, scaling, rotation, size, mode, format)| VidPnPath {
            flags,
            scaling: Scaling(scaling),
            rotation: Rotation(rotation),
            source_mode: SourceMode { format: PixelFormat(format), ..source_mode(size.0, size.1) },
            target_mode: target_mode(mode.0, mode.1),
            ..path(source, target)
        },
    )
}

fn any_vidpn() -> impl Strategy<Value = Vec<VidPnPath>> {
    prop_oneof![
        any_path(0, 1).prop_map(|path| vec![path]),
        (any_path(0, 0), any_path(0, 1)).prop_map(|(one, two)| vec![one, two]),
        (any_path(1, 0), any_path(0, 1)).prop_map(|(one, two)| vec![one, two]),
    ]
}

/// A display with this many pixels a second for all.
fn limited(total_pixel_rate: u64) -> (Bench, Client) {
    let caps = DisplayCaps { total_pixel_rate, ..caps() };
    let mut bench = Bench::of(vec![Arc::new(Model::with_displays(caps))], Limits::default());
    let guest = bench.guest(1);
    for child in 0..2 {
        bench.model.plug(guest, child, Some(monitor()));
    }
    let client = bench.client(guest);
    (bench, client)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Pinning any value that is offered, one part after another, ends in a VidPN that a commit takes. Where nothing is
    /// offered, the VidPN was refused.
    #[test]
    fn a_commit_takes_whatever_enumeration_offers(
        paths in any_vidpn(),
        choices in proptest::collection::vec(any::<prop::sample::Index>(), 8),
        total in prop_oneof![Just(2_000_000u64), Just(200_000), Just(150_000)],
    ) {
        let (mut bench, client) = limited(total);
        let mut paths = paths;
        let was_supported = supported(&mut bench, client, &paths).supported == 1;
        let mut choices = choices.into_iter();
        let mut offered_all = true;
        for index in 0..paths.len() {
            for (bit, pivot) in
                [Pivot::SOURCE_MODE, Pivot::TARGET_MODE, Pivot::SCALING, Pivot::ROTATION]
                    .into_iter()
                    .enumerate()
            {
                if paths[index].flags & 1 << bit != 0 {
                    continue;
                }
                let values = enumerate(&mut bench, client, &paths, index as u32, pivot);
                if values.is_empty() {
                    offered_all = false;
                    break;
                }
                let value = choices.next().unwrap().get(&values).clone();
                let path = &mut paths[index];
                path.flags |= 1 << bit;
                match pivot {
                    Pivot::SOURCE_MODE => {
                        path.source_mode = SourceMode::read_from_bytes(&value).unwrap();
                    }
                    Pivot::TARGET_MODE => {
                        path.target_mode = TargetMode::read_from_bytes(&value).unwrap();
                    }
                    Pivot::SCALING => path.scaling = Scaling::read_from_bytes(&value).unwrap(),
                    _ => path.rotation = Rotation::read_from_bytes(&value).unwrap(),
                }
            }
        }
        let taken = commit(&mut bench, client, &paths);
        prop_assert_eq!(taken.is_ok(), was_supported && offered_all, "{:?}: {:?}", paths, taken);
    }

    /// A constraint with a limit is the reason: with that limit lifted, it is not named again.
    #[test]
    fn a_limit_that_is_lifted_is_not_named_again(paths in any_vidpn(), total in 50_000..300_000u64) {
        let (mut bench, client) = limited(total);
        let found = supported(&mut bench, client, &paths);
        let constraint = found.constraint;
        prop_assert_eq!(found.supported == 1, constraint == Constraint::NONE);
        if constraint == Constraint::TOTAL_PIXEL_RATE {
            prop_assert_eq!(found.limit, total);
            let (mut bench, client) = limited(2_000_000);
            let lifted = supported(&mut bench, client, &paths);
            prop_assert_eq!(lifted.constraint, Constraint::NONE);
        }
    }
}
