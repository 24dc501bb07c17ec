// SPDX-License-Identifier: MIT OR Apache-2.0

use crate::ddi::Miniport;
use crate::ddi::display::{DisplayDdi, VidPn, VidPnRefusal};
use crate::hardware::{
    ConnectorCaps, DisplayCaps, DisplayPath, DisplayTicket, GpuOrdinal, GuestId, Interrupt,
    Monitor, PhysicalAddress, Segment, SourceAddress,
};
use crate::miniport::BellhopMiniport;
use crate::model::Model;
use crate::proxy::Proxy;
use crate::proxy::tests::Told;
use bellhop_protocol::control::display::{
    ConnectorKind, Constraint, Pinned, Pivot, Rotation, Scaling, SourceMode, TargetMode, VidPnPath,
};
use bellhop_protocol::pixel_format::PixelFormat;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

const GUEST: GuestId = GuestId(1);
const SOURCE: SourceMode =
    SourceMode { width: 64, height: 64, format: PixelFormat::X8R8G8B8, reserved: 0 };
const TARGET: TargetMode = TargetMode {
    width: 64,
    height: 64,
    total_width: 100,
    total_height: 100,
    refresh_numerator: 60,
    refresh_denominator: 1,
    flags: 0,
    min_refresh: 0,
};

/// A chain of model GPUs with so many connectors each, into each of which a monitor is plugged.
struct Rig {
    models: Vec<Arc<Model>>,
    proxy: Proxy,
}

impl Rig {
    fn new(connectors: &[u32]) -> Self {
        let model = |(gpu, count): (u8, &u32)| {
            let kind = ConnectorKind::VIRTUAL;
            let connector = ConnectorCaps { kind, max_pixel_rate: 1_000_000 };
            let caps = DisplayCaps {
                sources: *count,
                connectors: vec![connector; *count as usize],
                // Two modes of 600,000 pixels a second.
                total_pixel_rate: 1_200_000,
                max_width: 4096,
                max_height: 4096,
            };
            let model = Model::with_displays(caps).at(GpuOrdinal(gpu));
            for child in 0..*count {
                let monitor = Monitor { edid: vec![gpu; 128], modes: vec![TARGET] };
                model.state().displays.monitors.insert((GUEST, child), monitor);
            }
            Arc::new(model)
        };
        let models: Vec<_> = (0..).zip(connectors).map(model).collect();
        let mut drivers = models.iter().map(|model| -> Box<dyn Miniport> {
            Box::new(BellhopMiniport::new(Arc::clone(model) as _))
        });
        let proxy = Proxy::new(drivers.next().unwrap(), drivers.collect());
        Self { models, proxy }
    }

    fn ddi(&self) -> &dyn DisplayDdi {
        self.proxy.display().unwrap()
    }

    fn check(&self, paths: &[VidPnPath], others: &[DisplayPath]) -> Result<(), VidPnRefusal> {
        self.ddi().is_supported_vidpn(GUEST, VidPn { paths, others })
    }

    /// What the drivers have told since the last call.
    fn interrupts(&mut self) -> Vec<Interrupt> {
        let mut told = Told::default();
        self.proxy.interrupt_routine(&mut told);
        told.0
    }

    /// What each GPU has committed: its own numbers of sources and targets.
    fn committed(&self) -> Vec<BTreeSet<(u32, u32)>> {
        let of_model = |model: &Arc<Model>| {
            let state = model.state();
            let sources = state.displays.sources.values();
            let paths = sources.flat_map(|source| source.paths.clone());
            paths.map(|path| (path.source, path.target)).collect()
        };
        self.models.iter().map(of_model).collect()
    }
}

fn open(source: u32, target: u32) -> VidPnPath {
    VidPnPath {
        source,
        target,
        flags: (Pinned::SOURCE_MODE | Pinned::TARGET_MODE).bits(),
        scaling: Scaling(0),
        rotation: Rotation(0),
        reserved: 0,
        source_mode: SOURCE,
        target_mode: TARGET,
    }
}

fn pinned(source: u32, target: u32) -> DisplayPath {
    DisplayPath {
        source,
        target,
        scaling: Scaling::IDENTITY,
        rotation: Rotation::IDENTITY,
        source_mode: SOURCE,
        target_mode: TARGET,
    }
}

fn address(flip: u64) -> SourceAddress {
    let base = PhysicalAddress { segment: Segment::Private, address: 0x1000 * flip };
    SourceAddress { flip, number: 10 * flip, base, pitch: 256, immediate: false }
}

#[test]
fn a_call_about_a_source_or_a_connector_reaches_the_gpu_that_has_it() {
    let rig = Rig::new(&[1, 0, 2]);
    let ddi = rig.ddi();
    let caps = ddi.query_child_relations();
    assert_eq!((caps.sources, caps.connectors.len()), (3, 3));
    let gpus: Vec<_> = (0..3).map(|n| (ddi.gpu_of_source(n).0, ddi.gpu_of_child(n).0)).collect();
    assert_eq!(gpus, [(0, 0), (2, 2), (2, 2)]);
    assert_eq!(ddi.query_device_descriptor(GUEST, 2).unwrap()[0], 2);
    assert!(ddi.query_child_status(GUEST, 1) && !ddi.query_child_status(GUEST, 3));
    ddi.commit_vidpn(GUEST, &[pinned(0, 0), pinned(2, 1)]);
    assert_eq!(rig.committed(), [BTreeSet::from([(0, 0)]), BTreeSet::new(), [(1, 0)].into()]);
    ddi.control_interrupt(GUEST, 2, 2, &[7]);
    ddi.set_vidpn_source_address(GUEST, 2, Some(address(1)));
    assert_eq!(ddi.set_vidpn_source_address(GUEST, 2, Some(address(2))), Some(1));
    ddi.set_vidpn_source_visibility(GUEST, 0, false);
    let source = rig.models[2].state().displays.source(GUEST, 1).clone();
    // The hardware tells the guest's processes itself, by the number that they know.
    assert_eq!((source.known_as, source.wanted_by), (2, vec![7]));
    assert_eq!(source.pending, Some(address(2)));
    assert!(source.visible && !rig.models[0].state().displays.source(GUEST, 0).visible);
    // One GPU's display is reset alone.
    ddi.reset_from_timeout(GUEST, 2);
    let resets: Vec<_> = rig.models.iter().map(|model| model.state().displays.resets).collect();
    assert_eq!(resets, [0, 0, 1]);
}

#[test]
fn a_chain_without_displays_has_none() {
    assert!(Rig::new(&[0, 0]).proxy.display().is_none());
    assert!(Rig::new(&[0, 1]).proxy.display().is_some());
}

#[test]
fn interrupts_have_the_sources_and_connectors_of_the_chain() {
    let mut rig = Rig::new(&[2, 1]);
    rig.ddi().commit_vidpn(GUEST, &[pinned(2, 2)]);
    rig.ddi().set_vidpn_source_address(GUEST, 2, Some(address(1)));
    rig.models[1].vsync(GUEST, 0);
    rig.models[1].plug(GUEST, 0, None);
    let vsync =
        Interrupt::CrtcVsync { guest: GUEST, source: 2, target: 2, flip: 1, count: 1, time: 1001 };
    let unplugged = Interrupt::ChildStatusChanged { guest: GUEST, child: 2 };
    assert_eq!(rig.interrupts(), [vsync, unplugged]);
}

#[test]
fn a_path_between_gpus_is_refused_and_each_gpu_has_pixels_of_its_own() {
    let rig = Rig::new(&[2, 3]);
    let refused = |constraint, path, limit| Err(VidPnRefusal { constraint, path, limit });
    // Each GPU scans two, so that the chain scans four; of three on one, the third is too much.
    assert_eq!(rig.check(&[open(0, 0), open(1, 1), open(2, 2), open(3, 3)], &[]), Ok(()));
    let three = [open(0, 0), open(2, 2), open(3, 3), open(4, 4)];
    assert_eq!(rig.check(&three, &[]), refused(Constraint::TOTAL_PIXEL_RATE, 3, 1_200_000));
    let others = [pinned(2, 2), pinned(0, 0)];
    assert_eq!(
        rig.check(&[open(3, 3), open(4, 4)], &others),
        refused(Constraint::TOTAL_PIXEL_RATE, 1, 600_000)
    );
    assert_eq!(rig.check(&[open(0, 0), open(1, 2)], &[]), refused(Constraint::OTHER_GPU, 1, 0));
    assert_eq!(rig.check(&[open(2, 0)], &[]), refused(Constraint::OTHER_GPU, 0, 1));
    assert_eq!(rig.check(&[open(5, 0)], &[]), refused(Constraint::NO_SUCH_SOURCE, 0, 5));
    assert_eq!(rig.check(&[open(0, 5)], &[]), refused(Constraint::NO_SUCH_TARGET, 0, 5));
    // Of two that offend, the first is named, though it is of the second GPU.
    let differ = VidPnPath { source_mode: SourceMode { width: 0, ..SOURCE }, ..open(3, 3) };
    let twice = [open(2, 2), differ, open(0, 0), open(1, 0)];
    assert_eq!(rig.check(&twice, &[]), refused(Constraint::SOURCE_SIZE, 1, 0));
}

#[test]
fn what_is_offered_goes_with_what_the_other_gpus_show() {
    let rig = Rig::new(&[1, 2]);
    let ddi = rig.ddi();
    let offered = |paths: &[VidPnPath], pivot_path| {
        let vidpn = VidPn { paths, others: &[] };
        ddi.enum_vidpn_cofunc_modality(GUEST, vidpn, pivot_path, Pivot::TARGET_MODE).len()
    };
    assert_eq!(offered(&[open(0, 0), open(2, 1)], 1), 1);
    assert_eq!(offered(&[open(0, 1)], 0), 0, "across GPUs");
    let broken = VidPnPath { source_mode: SourceMode { height: 0, ..SOURCE }, ..open(0, 0) };
    assert_eq!(offered(&[broken, open(2, 1)], 1), 0, "the master cannot show its part");
}

#[test]
fn a_ticket_passes_when_the_display_of_every_gpu_has_let_go() {
    let mut rig = Rig::new(&[1, 0, 1]);
    rig.models.iter().for_each(|model| model.state().displays.lets_go_late = true);
    let ticket = rig.ddi().quiesce(GUEST).unwrap();
    rig.models[2].let_go(GUEST);
    assert_eq!(rig.interrupts(), []);
    let later = rig.ddi().quiesce(GUEST).unwrap();
    assert!(later > ticket);
    rig.models[0].let_go(GUEST);
    let passed = |ticket: DisplayTicket| Interrupt::DisplayQuiesced { guest: GUEST, ticket };
    assert_eq!(rig.interrupts(), [passed(ticket)]);
    rig.models[2].let_go(GUEST);
    assert_eq!(rig.interrupts(), [passed(later)]);
}

proptest! {
    /// Whatever is committed, each GPU has exactly the paths that are on it, and shows them by its own numbers.
    #[test]
    fn each_gpu_shows_its_own_part_of_a_topology(
        connectors in proptest::collection::vec(0u32..4, 1..=4),
        commits in proptest::collection::vec(proptest::collection::btree_set(0u32..16, 0..4), 1..8),
    ) {
        let rig = Rig::new(&connectors);
        let all: u32 = connectors.iter().sum();
        prop_assume!(all > 0);
        let ddi = rig.ddi();
        for numbers in commits {
            let numbers: Vec<_> = numbers.into_iter().filter(|number| *number < all).collect();
            let paths: Vec<_> = numbers.iter().map(|n| open(*n, *n)).collect();
            let is_possible = rig.check(&paths, &[]).is_ok();
            let mut expected = vec![BTreeSet::new(); connectors.len()];
            for number in &numbers {
                let mut own = *number;
                let mut gpu = 0;
                while own >= connectors[gpu] {
                    own -= connectors[gpu];
                    gpu += 1;
                }
                expected[gpu].insert((own, own));
            }
            // Each GPU scans two at once.
            prop_assert_eq!(is_possible, expected.iter().all(|of_gpu| of_gpu.len() <= 2));
            if is_possible {
                let paths: Vec<_> = numbers.iter().map(|n| pinned(*n, *n)).collect();
                ddi.commit_vidpn(GUEST, &paths);
                prop_assert_eq!(rig.committed(), expected);
            }
        }
    }
}
