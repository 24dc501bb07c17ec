// SPDX-License-Identifier: MIT OR Apache-2.0

//! What an enumeration offers, and what it costs.

use super::*;
use crate::hardware::ConnectorCaps;
use bellhop_protocol::control::display::{ConnectorKind, MAX_PATHS};
use proptest::prelude::*;
use std::cell::Cell;
use zerocopy::FromZeros;

thread_local! {
    /// The target sizes that sizes of sources were compared with.
    static LOOKS: Cell<usize> = const { Cell::new(0) };
}

pub(super) fn count(looks: usize) {
    LOOKS.set(LOOKS.get() + looks);
}

const PIVOTS: [Pivot; 4] =
    [Pivot::SOURCE_MODE, Pivot::TARGET_MODE, Pivot::SCALING, Pivot::ROTATION];

fn target_mode(width: u32, height: u32) -> TargetMode {
    TargetMode {
        width,
        height,
        total_width: width,
        total_height: height,
        refresh_numerator: 60,
        refresh_denominator: 1,
        flags: 0,
        min_refresh: 0,
    }
}

fn caps(paths: u32, total_pixel_rate: u64, max_pixel_rate: u64) -> DisplayCaps {
    let connector = ConnectorCaps { kind: ConnectorKind::VIRTUAL, max_pixel_rate };
    DisplayCaps {
        sources: paths,
        connectors: vec![connector; paths as usize],
        total_pixel_rate,
        max_width: 16384,
        max_height: 16384,
    }
}

fn open_path(source: u32, target: u32) -> VidPnPath {
    VidPnPath { source, target, ..VidPnPath::new_zeroed() }
}

/// What an enumeration is to offer: each value with which the VidPN is functional.
fn one_by_one(problem: &Problem<'_>, pivot_path: usize, pivot: Pivot) -> Vec<Modality> {
    let before = problem.open[pivot_path];
    let values: Vec<Modality> = match pivot {
        Pivot::SOURCE_MODE => {
            problem.source_modes(pivot_path).into_iter().map(Modality::Source).collect()
        }
        Pivot::TARGET_MODE => {
            let modes = problem.monitors[pivot_path].clone().unwrap_or_default();
            modes.into_iter().map(Modality::Target).collect()
        }
        Pivot::SCALING => Scaling::ALL.iter().copied().map(Modality::Scaling).collect(),
        _ => Rotation::ALL.iter().copied().map(Modality::Rotation).collect(),
    };
    let works = |value: &Modality| {
        let mut open = problem.open.clone();
        open[pivot_path] = match *value {
            Modality::Source(mode) => Open { source_mode: Some(mode), ..before },
            Modality::Target(mode) => Open { target_mode: Some(mode), ..before },
            Modality::Scaling(scaling) => Open { scaling: Some(scaling), ..before },
            Modality::Rotation(rotation) => Open { rotation: Some(rotation), ..before },
        };
        let monitors = problem.monitors.clone();
        Problem { caps: problem.caps, vidpn: problem.vidpn, monitors, open }.solve().is_ok()
    };
    values.into_iter().filter(works).collect()
}

/// All sizes of a source are compared once with all modes of its paths, and each value once with the modes of its own:
/// for 16 paths with 16 modes each, in four formats and upright or turned.
const MOST_LOOKS: usize = 512 * 16 * 16 + 2048 * 16;

#[test]
fn an_enumeration_for_the_most_paths_and_modes_looks_at_each_once() {
    let caps = caps(MAX_PATHS, u64::MAX, u64::MAX);
    let modes = |path: u32| (0..16).map(move |mode| (100 + path * 40 + mode, 1000 + path + mode));
    let monitors = (0..MAX_PATHS).map(|path| {
        Some(modes(path).map(|(width, height)| target_mode(width, height)).collect::<Vec<_>>())
    });
    let monitors: Vec<_> = monitors.collect();
    for is_clone in [true, false] {
        for scaling in [None, Some(Scaling::CENTERED)] {
            for pivot in PIVOTS {
                let path = |path| VidPnPath {
                    flags: scaling.map_or(0, |_| Pinned::SCALING.bits()),
                    scaling: scaling.unwrap_or(Scaling(0)),
                    ..open_path(if is_clone { 0 } else { path }, path)
                };
                let paths: Vec<_> = (0..MAX_PATHS).map(path).collect();
                let vidpn = VidPn { paths: &paths, others: &[] };
                LOOKS.set(0);
                let found = Problem::new(&caps, vidpn, monitors.clone()).enumerate(0, pivot);
                assert!(!found.is_empty(), "{pivot:?}");
                let looks = LOOKS.get();
                assert!(looks <= MOST_LOOKS, "{pivot:?}, clone {is_clone}: {looks} looks");
            }
        }
    }
}

fn size() -> impl Strategy<Value = Size> {
    let side = || prop_oneof![Just(16u32), Just(32), Just(48), Just(64)];
    (side(), side())
}

fn any_path(target: u32) -> impl Strategy<Value = (VidPnPath, Option<Vec<TargetMode>>)> {
    let parts = (0..16u32, 0..3u32, 0..6u32, 0..6u32, size(), size(), 1..3u32);
    let path = parts.prop_map(move |(flags, source, scaling, rotation, from, to, format)| {
        let source_mode =
            SourceMode { width: from.0, height: from.1, format: PixelFormat(format), reserved: 0 };
        VidPnPath {
            flags,
            scaling: Scaling(scaling),
            rotation: Rotation(rotation),
            source_mode,
            target_mode: target_mode(to.0, to.1),
            ..open_path(source, target)
        }
    });
    let modes = proptest::collection::btree_set(size(), 1..5);
    let modes = modes.prop_map(|sizes| sizes.into_iter().map(|(w, h)| target_mode(w, h)).collect());
    (path, proptest::option::weighted(0.95, modes))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn an_enumeration_offers_each_value_with_which_the_vidpn_is_functional(
        paths in (any_path(0), any_path(1), any_path(2)),
        count in 1..4usize,
        pivot_path in 0..3usize,
        total in 50_000..1_000_000u64,
        link in 30_000..300_000u64,
    ) {
        let (paths, monitors): (Vec<_>, Vec<_>) =
            [paths.0, paths.1, paths.2].into_iter().take(count).unzip();
        let caps = caps(3, total, link);
        let pivot_path = pivot_path % count;
        for pivot in PIVOTS {
            let vidpn = VidPn { paths: &paths, others: &[] };
            let problem = Problem::new(&caps, vidpn, monitors.clone());
            let expected = one_by_one(&problem, pivot_path, pivot);
            prop_assert_eq!(problem.enumerate(pivot_path, pivot), expected, "{:?}", pivot);
        }
    }
}
