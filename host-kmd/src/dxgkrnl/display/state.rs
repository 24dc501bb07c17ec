// SPDX-License-Identifier: MIT OR Apache-2.0

//! The display of one guest.
//!
//! A surface is let go in one of two ways. The hardware shows a later flip; or the surface is taken away, and the
//! hardware says that it has passed a ticket drawn after that.

use crate::ddi::display::DisplayDdi;
use crate::dxgkrnl::display::counts::FlipCounts;
use crate::dxgkrnl::display::flip::{Ended, Flip, FlipId, Outcomes, Surface};
use crate::dxgkrnl::display::paths::Paths;
use crate::dxgkrnl::display::source::{Shown, Source, UnexpectedFlip};
use crate::dxgkrnl::object::promises::Promise;
use crate::hardware::{DisplayPath, DisplayTicket, GpuOrdinal, GuestId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The display of one guest.
#[derive(Debug)]
pub(crate) struct Display {
    guest: GuestId,
    /// How often a monitor was plugged in or unplugged, by child.
    generations: BTreeMap<u32, u32>,
    paths: Paths,
    sources: BTreeMap<u32, Source>,
    last_flip: u64,
    /// Surfaces that the hardware may read until it has passed a ticket, in ticket order.
    letting_go: VecDeque<(DisplayTicket, Vec<Surface>)>,
    /// Requests that are answered when the hardware has passed a ticket.
    waiting: VecDeque<(DisplayTicket, Promise)>,
    /// Processes that end: they show nothing more.
    closed: BTreeSet<u32>,
    /// How often the display was reset.
    resets: u64,
    /// What became of flips, by source.
    counts: BTreeMap<u32, FlipCounts>,
}

impl Display {
    /// The display of a guest that shows nothing.
    pub(crate) fn new(guest: GuestId) -> Self {
        Self {
            guest,
            generations: BTreeMap::new(),
            paths: Paths::default(),
            sources: BTreeMap::new(),
            last_flip: 0,
            letting_go: VecDeque::new(),
            waiting: VecDeque::new(),
            closed: BTreeSet::new(),
            resets: 0,
            counts: BTreeMap::new(),
        }
    }

    /// Whether nothing of it is in use.
    pub(crate) fn is_unused(&self) -> bool {
        self.sources.is_empty() && self.letting_go.is_empty()
    }

    /// Whether a monitor shows something.
    pub(crate) fn is_lit(&self) -> bool {
        self.sources.values().any(Source::is_visible)
    }

    /// Whether a source that is selected shows something, or flips.
    pub(crate) fn needs_power(&self, is_selected: impl Fn(u32) -> bool) -> bool {
        let needs = |source: &Source| source.is_visible() || source.is_flipping();
        self.sources.iter().any(|(index, source)| is_selected(*index) && needs(source))
    }

    /// How often a monitor was plugged in or unplugged.
    pub(crate) fn generation(&self, child: u32) -> u32 {
        self.generations.get(&child).copied().unwrap_or(0)
    }

    /// A monitor was plugged in or unplugged. Returns how often that was.
    pub(crate) fn count_plug(&mut self, child: u32) -> u32 {
        let generation = self.generations.entry(child).or_insert(0);
        *generation = generation.wrapping_add(1);
        *generation
    }

    /// The committed paths.
    pub(crate) fn paths(&self) -> &Paths {
        &self.paths
    }

    /// A committed source.
    pub(crate) fn source(&self, source: u32) -> Option<&Source> {
        self.sources.get(&source)
    }

    /// A committed source.
    pub(crate) fn source_mut(&mut self, source: u32) -> Option<&mut Source> {
        self.sources.get_mut(&source)
    }

    /// Whether a process ends.
    pub(crate) fn is_closed(&self, process: u32) -> bool {
        self.closed.contains(&process)
    }

    /// Returns an id for a new flip.
    pub(crate) fn new_flip(&mut self) -> FlipId {
        self.last_flip += 1;
        FlipId(self.last_flip)
    }

    /// A flip that waits.
    pub(crate) fn waiting_flip(&mut self, id: FlipId) -> Option<&mut Flip> {
        self.sources.values_mut().find_map(|source| source.waiting(id))
    }

    /// A process shows these paths, and no others. Sources that it had and that go, or change their mode, lose
    /// everything. Flips that stay may take as long as if they were given now, plus a slack, if their frames begin anew.
    pub(crate) fn commit(
        &mut self,
        ddi: &dyn DisplayDdi,
        process: u32,
        paths: Vec<DisplayPath>,
        times: (Duration, Duration),
        outcomes: &mut Outcomes,
    ) {
        let mut firsts: BTreeMap<u32, DisplayPath> = BTreeMap::new();
        for path in &paths {
            firsts.entry(path.source).or_insert(*path);
        }
        let goes = |index: &u32, source: &mut Source| {
            let stays = firsts.get(index).is_some_and(|path| path.source_mode == source.mode());
            source.owner() == process && !stays
        };
        let gone: Vec<_> = self.sources.extract_if(.., goes).collect();
        for (_, mut source) in gone {
            source.lose_given(outcomes);
            source.lose_waiting(|_| true, outcomes);
            source.take_shown(|_| true, outcomes);
        }
        let last = FlipId(self.last_flip);
        for (index, path) in &firsts {
            let source = self.sources.entry(*index);
            let source = source.or_insert_with(|| Source::new(process, path, last));
            source.set_first_path(path, times);
        }
        self.paths.set(process, paths);
        ddi.commit_vidpn(self.guest, &self.paths.all());
    }

    /// A process ends: its paths go, and what it shows on sources of others.
    pub(crate) fn close(&mut self, ddi: &dyn DisplayDdi, process: u32, outcomes: &mut Outcomes) {
        self.closed.insert(process);
        if !self.paths.of(process).is_empty() {
            // No flip stays that could get its time again.
            self.commit(ddi, process, Vec::new(), Default::default(), outcomes);
        }
        let guest = self.guest;
        for (index, source) in &mut self.sources {
            if source.granted() == Some(process) {
                let wanted = source.grant(None);
                ddi.control_interrupt(guest, *index, *index, &wanted);
            }
        }
        self.take_away(ddi, |surface| surface.process == process, outcomes);
    }

    /// A process has ended.
    pub(crate) fn forget(&mut self, process: u32) {
        self.closed.remove(&process);
    }

    /// Takes the surfaces that are selected from all sources. A source that shows one is black from then on, until its next
    /// flip.
    pub(crate) fn take_away(
        &mut self,
        ddi: &dyn DisplayDdi,
        is_lost: impl Fn(&Surface) -> bool,
        outcomes: &mut Outcomes,
    ) {
        for source in self.sources.values_mut() {
            source.lose_waiting(&is_lost, outcomes);
        }
        let seen: Vec<u32> = self
            .sources
            .iter()
            .filter(|(_, source)| source.is_seen(&is_lost))
            .map(|(index, _)| *index)
            .collect();
        for index in seen {
            if let Some(source) = self.sources.get_mut(&index) {
                source.take_back_given(&is_lost, outcomes);
                source.take_shown(&is_lost, outcomes);
            }
            self.restore(ddi, index);
        }
    }

    /// Gives a source without flips in the hardware the address of what it shows again, or none.
    fn restore(&mut self, ddi: &dyn DisplayDdi, index: u32) {
        let id = self.new_flip();
        let guest = self.guest;
        let Some(source) = self.sources.get_mut(&index) else { return };
        // Nothing that is pending happens after this.
        ddi.set_vidpn_source_address(guest, index, None);
        if let Some(shown) = source.show_again(id) {
            ddi.set_vidpn_source_address(guest, index, Some(shown.address(true)));
        }
    }

    /// The CRTCs of a GPU begin anew: flips of its sources are lost, what they show comes back.
    pub(crate) fn reset(&mut self, ddi: &dyn DisplayDdi, gpu: GpuOrdinal, outcomes: &mut Outcomes) {
        let of_gpu = |source: &u32| ddi.gpu_of_source(*source) == gpu;
        let sources: Vec<u32> = self.sources.keys().copied().filter(of_gpu).collect();
        let Some(first) = sources.first() else { return };
        self.resets += 1;
        ddi.reset_from_timeout(self.guest, *first);
        for index in sources {
            if let Some(source) = self.sources.get_mut(&index) {
                source.lose_given(outcomes);
                source.lose_waiting(|_| true, outcomes);
            }
            self.restore(ddi, index);
        }
    }

    /// How often it was reset.
    pub(crate) fn resets(&self) -> u64 {
        self.resets
    }

    /// A flip has ended.
    pub(crate) fn count(&mut self, ended: &Ended) {
        self.counts.entry(ended.source).or_default().end(ended.outcome, ended.count);
    }

    /// What became of a source's flips.
    pub(crate) fn counts(&self, source: u32) -> FlipCounts {
        self.counts.get(&source).copied().unwrap_or_default()
    }

    /// Has the hardware let go of what was taken. Returns what there is to wait for.
    pub(crate) fn let_go(
        &mut self,
        ddi: &dyn DisplayDdi,
        outcomes: &mut Outcomes,
    ) -> Option<DisplayTicket> {
        if outcomes.taken.is_empty() {
            return None;
        }
        let taken = std::mem::take(&mut outcomes.taken);
        match ddi.quiesce(self.guest) {
            Some(ticket) => {
                self.letting_go.push_back((ticket, taken));
                Some(ticket)
            }
            None => {
                outcomes.released.extend(taken);
                None
            }
        }
    }

    /// A request is answered when the hardware has passed a ticket.
    pub(crate) fn wait(&mut self, ticket: DisplayTicket, promise: Promise) {
        self.waiting.push_back((ticket, promise));
    }

    /// The hardware has passed a ticket. Returns the requests to answer.
    pub(crate) fn quiesced(
        &mut self,
        ticket: DisplayTicket,
        outcomes: &mut Outcomes,
    ) -> Vec<Promise> {
        while let Some((_, surfaces)) = self.letting_go.pop_front_if(|(drawn, _)| *drawn <= ticket)
        {
            outcomes.released.extend(surfaces);
        }
        let mut answered = Vec::new();
        while let Some((_, promise)) = self.waiting.pop_front_if(|(drawn, _)| *drawn <= ticket) {
            answered.push(promise);
        }
        answered
    }

    /// Whether the hardware may read a surface that is selected, or a flip to it waits.
    pub(crate) fn needs(&self, is_it: impl Fn(&Surface) -> bool) -> bool {
        let of_sources = self.sources.values().flat_map(Source::surfaces);
        let taken = self.letting_go.iter().flat_map(|(_, surfaces)| surfaces.iter().copied());
        of_sources.chain(taken).any(|surface| is_it(&surface))
    }

    /// Whether a flip can be given to the hardware.
    pub(crate) fn has_ready_flip(&self) -> bool {
        self.sources.values().any(Source::is_next_ready)
    }

    /// Gives the hardware the flips that are ready, and ends those that cannot happen any more.
    pub(crate) fn advance(
        &mut self,
        ddi: &dyn DisplayDdi,
        (now, slack): (Duration, Duration),
        outcomes: &mut Outcomes,
    ) {
        let Self { guest, sources, last_flip, .. } = self;
        let guest = *guest;
        for (index, source) in sources {
            let give = |flip: &mut Flip| {
                // The hardware's numbers grow, and a picture that came back meanwhile has one, too.
                *last_flip += 1;
                flip.primary.id = FlipId(*last_flip);
                let address = flip.primary.address(flip.immediate);
                ddi.set_vidpn_source_address(guest, *index, Some(address)).map(FlipId)
            };
            source.give_next((now, slack), give, outcomes);
        }
    }

    /// The hardware shows a flip of a source. `None` if the source is gone.
    pub(crate) fn show(
        &mut self,
        source: u32,
        shown: Shown,
        outcomes: &mut Outcomes,
    ) -> Option<Result<(), UnexpectedFlip>> {
        Some(self.sources.get_mut(&source)?.show(shown, outcomes))
    }

    /// When the first flip that the hardware has is too late.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.sources.values().filter_map(Source::deadline).min()
    }

    /// A GPU with a flip that is too late.
    pub(crate) fn late(&self, ddi: &dyn DisplayDdi, now: Duration) -> Option<GpuOrdinal> {
        let is_late = |source: &Source| source.deadline().is_some_and(|deadline| deadline <= now);
        let mut sources = self.sources.iter();
        let (source, _) = sources.find(|(_, source)| is_late(source))?;
        Some(ddi.gpu_of_source(*source))
    }

    /// The hardware has power again: flips get their time again.
    pub(crate) fn restart_deadlines(&mut self, now: Duration, slack: Duration) {
        for source in self.sources.values_mut() {
            source.restart_deadlines((now, slack));
        }
    }
}
