// SPDX-License-Identifier: MIT OR Apache-2.0

use super::{LinkedPlatform, Proxy};
use crate::ddi::paging::{PageSize, PagingBuffer, PagingOperation};
use crate::ddi::{DxgkCallbacks, InvalidParameter, Miniport};
use crate::hardware::{
    AccessedBits as _, Adapter as _, AddressSpaceId, EngineState, GpuOrdinal, GpuSet, GuestId,
    HwContextId, HwQueueDescription, HwQueueId, Interrupt, PhysicalAddress, PhysicalPage, Platform,
    ProcessShare, Pte, Quiescence as _, Segment, Video as _, VideoSettings,
};
use crate::hardware::{FenceStorage, Fences as _};
use crate::miniport::BellhopMiniport;
use crate::model::{Call, Model};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::power::EnginePowerState;
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::handoff::fence::SignalRule;
use bellhop_protocol::packet::Packet;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const GUEST: GuestId = GuestId(1);

/// A chain of model GPUs with their drivers.
struct Rig {
    models: Vec<Arc<Model>>,
    platform: LinkedPlatform,
    proxy: Proxy,
}

impl Rig {
    fn new(gpus: u8) -> Self {
        let model = |gpu| Arc::new(Model::new(2).at(GpuOrdinal(gpu)));
        let models: Vec<_> = (0..gpus).map(model).collect();
        let mut drivers = models.iter().map(|model| -> Box<dyn Miniport> {
            Box::new(BellhopMiniport::new(Arc::clone(model) as _))
        });
        let proxy = Proxy::new(drivers.next().unwrap(), drivers.collect());
        let mut all = models.iter().map(|model| Arc::clone(model) as Arc<dyn Platform>);
        let platform = LinkedPlatform::new(all.next().unwrap(), all.collect(), &proxy);
        Self { models, platform, proxy }
    }

    /// Creates a queue; its progress fence is one of all GPUs, as a chain's GPUs share the fences of a guest.
    fn queue(&mut self, node: u32, address_space: AddressSpaceId) -> HwQueueId {
        let place = |address| PhysicalAddress { segment: Segment::Fence, address };
        let storage = FenceStorage {
            current: place(0),
            monitored: place(PAGE_SIZE),
            published: true,
            native: true,
            rule: SignalRule::Monotonic,
        };
        for model in &self.models {
            if !model.state().fences.contains_key(&(GUEST, 0)) {
                model.create_fence(GUEST, 0, storage, Some(0)).unwrap();
                model.state().opened.insert((GUEST, 0), (0, address_space));
            }
        }
        let description = HwQueueDescription {
            guest: GUEST,
            context: HwContextId(1),
            address_space,
            process: address_space,
            share: ProcessShare::default(),
            node,
            progress_fence: 0,
            native_progress_fence: true,
            disable_gpu_timeout: false,
        };
        self.proxy.create_hw_queue(description).unwrap()
    }
}

/// Keeps what drivers tell.
#[derive(Default)]
pub(super) struct Told(pub(super) Vec<Interrupt>);

impl DxgkCallbacks for Told {
    fn disconnect_doorbell(
        &mut self,
        _: HwQueueId,
        _: ConnectionStatus,
    ) -> Result<(), InvalidParameter> {
        Ok(())
    }

    fn notify_interrupt(&mut self, interrupt: Interrupt) {
        self.0.push(interrupt);
    }
}

#[test]
fn a_queue_is_made_by_the_gpu_of_its_node_in_the_process_s_tables_of_that_gpu() {
    let mut rig = Rig::new(3);
    // Each model has two nodes.
    assert_eq!((rig.proxy.node_count(), rig.platform.nodes().len()), (6, 6));
    let space = rig.proxy.create_process(GUEST).unwrap();
    for node in 0..6 {
        let queue = rig.queue(node, space);
        let gpu = node / 2;
        assert_eq!(u32::from(queue.gpu().0), gpu);
        assert_eq!(u32::from(rig.proxy.get_node_metadata(node).unwrap().gpu()), gpu);
        let made = rig.models[gpu as usize].state().queues[&queue];
        assert_eq!(made.node, node % 2);
        assert_eq!(made.address_space.0 >> 56, u64::from(gpu));
        // The GPUs share the fences of the process.
        assert_eq!(made.process, space);
    }
    assert_eq!(rig.proxy.get_node_metadata(6), None);
}

#[test]
fn a_call_about_a_node_or_a_queue_reaches_one_gpu_and_no_other() {
    let mut rig = Rig::new(2);
    let space = rig.proxy.create_process(GUEST).unwrap();
    let queue = rig.queue(3, space);
    rig.models.iter().for_each(|model| drop(model.take_log()));
    rig.proxy.reset_engine(3);
    rig.proxy.reset_from_timeout(2);
    rig.proxy.suspend_context(&[queue]).unwrap();
    rig.proxy.set_power_component_f_state(2, EnginePowerState::F1, 1);
    assert_eq!(rig.models[0].take_log(), []);
    assert_eq!(
        rig.models[1].take_log(),
        [
            Call::ResetEngine(1),
            Call::ResetAdapter,
            Call::Suspend(vec![queue]),
            Call::EnginePower(0, EnginePowerState::F1),
        ]
    );
}

#[test]
fn interrupts_have_the_nodes_of_the_chain() {
    let mut rig = Rig::new(2);
    let mut told = Told::default();
    assert!(!rig.proxy.interrupt_routine(&mut told), "nothing was raised");
    rig.models[0].raise(Interrupt::EngineReset { node: 1 });
    rig.models[1].raise(Interrupt::EngineReset { node: 1 });
    let new_state = EngineState::TransitionToF1;
    rig.models[1].raise(Interrupt::GpuEngineStateChange { node: 0, new_state });
    assert!(rig.proxy.interrupt_routine(&mut told));
    let expected = [
        Interrupt::EngineReset { node: 1 },
        Interrupt::EngineReset { node: 3 },
        Interrupt::GpuEngineStateChange { node: 2, new_state },
    ];
    assert_eq!(told.0, expected);
}

#[test]
fn a_process_that_one_gpu_has_no_room_for_is_on_none() {
    let mut rig = Rig::new(2);
    rig.models[1].state().page_table_room = 0;
    // In the model's rules an address space is destroyed after a ticket has passed.
    let _ = rig.models[0].quiesce(None);
    rig.models[0].pass_tickets();
    assert!(rig.proxy.create_process(GUEST).is_err());
    assert!(rig.models.iter().all(|model| model.state().spaces.is_empty()));
}

#[test]
fn an_operation_for_all_gpus_fits_into_one_paging_buffer() {
    let mut rig = Rig::new(crate::hardware::MAX_GPUS as u8);
    rig.proxy.create_system_context(GUEST).unwrap();
    let space = rig.proxy.create_process(GUEST).unwrap();
    // As many entries as an operation has, no two of which lie together.
    let page = |page: u64| PhysicalPage { segment: Segment::System, address: (page * page) << 12 };
    let entries: Vec<_> = (1..=512).map(|number| Pte::new(page(number), true)).collect();
    let operation = PagingOperation::UpdatePageTable {
        gpus: GpuSet::ALL,
        space,
        gpu_va: 511 * PAGE_SIZE,
        page_size: PageSize::Small,
        entries: &entries,
    };
    let mut buffer = PagingBuffer::new();
    rig.proxy.build_paging_buffer(GUEST, &operation, &mut buffer).unwrap();
    let mut rest = buffer.packets();
    let mut written = 0;
    while let Ok((Packet::WritePageTable(write), size)) = Packet::decode(rest) {
        written += write.count();
        rest = &rest[size..];
    }
    assert_eq!(written as usize, 512 * rig.models.len());
}

#[test]
fn a_video_session_belongs_to_the_gpu_that_has_its_node() {
    let mut rig = Rig::new(2);
    rig.models[1].state().video_room = 2;
    assert!(rig.platform.video_caps().are_supported(), "one GPU of the chain decodes");
    let space = rig.proxy.create_process(GUEST).unwrap();
    let settings = |node| VideoSettings {
        node,
        encodes: false,
        format: 1,
        size: [64, 48],
        is_bit_rate: false,
        rate: 0,
        frame_rate: [0, 0],
        key_frame_interval: 0,
        speed: 0,
    };
    let session = rig.platform.create_video_session(space, settings(3)).unwrap();
    let made: Vec<_> = rig.models[1].state().video_sessions.clone().into_iter().collect();
    let [((own, number), made)] = made.as_slice() else { panic!("{made:?}") };
    assert_eq!((number, own.0 >> 56, made.node), (&session, 1, 1));
    assert!(rig.models[0].state().video_sessions.is_empty());
    assert!(rig.platform.create_video_session(space, settings(0)).is_err(), "the master has none");
    rig.platform.destroy_video_session(space, session).unwrap();
    assert!(rig.models[1].state().video_sessions.is_empty());
    assert!(rig.platform.destroy_video_session(space, session).is_err());
}

proptest! {
    /// Page tables are mirrored: after any updates each GPU has in its own tables what was mapped, and nothing else.
    #[test]
    fn page_tables_are_mirrored(
        gpus in 1u8..=4,
        steps in proptest::collection::vec((0usize..3, 0u64..24, any::<bool>()), 1..80),
    ) {
        let mut rig = Rig::new(gpus);
        let spaces: Vec<_> = (0..3).map(|_| rig.proxy.create_process(GUEST).unwrap()).collect();
        let own: Vec<Vec<_>> = (0..gpus as usize)
            .map(|gpu| {
                let mut all: Vec<_> = rig.models[gpu].state().spaces.keys().copied().collect();
                all.sort();
                all
            })
            .collect();
        let mut expected: Vec<BTreeMap<u64, Pte>> = vec![BTreeMap::new(); 3];
        for (which, page, maps) in steps {
            let va = page * PAGE_SIZE;
            let is_mapped = expected[which].contains_key(&va);
            let address = (page + 7) * PAGE_SIZE;
            let entry = if maps && !is_mapped {
                Pte::new(PhysicalPage { segment: Segment::Private, address }, page % 2 == 0)
            } else {
                Pte::INVALID
            };
            rig.proxy.update_page_table(spaces[which], va, PageSize::Small, &[entry]).unwrap();
            match entry.page() {
                Some(_) => { expected[which].insert(va, entry); }
                None => { expected[which].remove(&va); }
            }
            for (model, own) in rig.models.iter().zip(&own) {
                for (space, expected) in own.iter().zip(&expected) {
                    prop_assert_eq!(&model.state().spaces[space], expected);
                }
            }
            // An access on any GPU is one of the process.
            let on = page as usize % rig.models.len();
            rig.models[on].state().accessed.insert((own[on][which], va));
            let seen = rig.platform.take_accessed(spaces[which], va, PAGE_SIZE).unwrap();
            prop_assert!(seen);
        }
    }
}
