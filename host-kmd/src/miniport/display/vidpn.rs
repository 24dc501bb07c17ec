// SPDX-License-Identifier: MIT OR Apache-2.0

//! Functional VidPNs: which topologies the hardware can show, and what is left to choose.
//!
//! A path's choices are the monitor's modes that its link carries. Of a source, the size is chosen so that each of its
//! paths has a mode that the scaling and the rotation can take it to. Sources compete for one thing only, the pixels
//! that the hardware scans in a second; so a VidPN is functional if the cheapest choices of all sources together fit.

use crate::ddi::display::{Modality, VidPn, VidPnRefusal};
use crate::hardware::DisplayCaps;
use bellhop_protocol::control::display::{
    Constraint, Pinned, Pivot, Rotation, Scaling, SourceMode, TargetMode, VidPnPath,
};
use bellhop_protocol::pixel_format::PixelFormat;
use std::collections::{BTreeMap, BTreeSet};

/// Width and height.
type Size = (u32, u32);

/// The sizes of target modes, each with the least pixel rate.
type Choices = BTreeMap<Size, u64>;

/// What is pinned of a path.
#[derive(Debug, Clone, Copy)]
struct Open {
    source_mode: Option<SourceMode>,
    target_mode: Option<TargetMode>,
    scaling: Option<Scaling>,
    rotation: Option<Rotation>,
}

impl Open {
    fn of(path: &VidPnPath) -> Self {
        let has = |pinned: Pinned| path.flags & pinned.bits() != 0;
        Self {
            source_mode: has(Pinned::SOURCE_MODE).then_some(path.source_mode),
            target_mode: has(Pinned::TARGET_MODE).then_some(path.target_mode),
            scaling: has(Pinned::SCALING).then_some(path.scaling),
            rotation: has(Pinned::ROTATION).then_some(path.rotation),
        }
    }

    /// Whether some scaling and rotation that are not excluded take a source of one size to a target of another.
    fn fits(&self, source: Size, target: Size) -> bool {
        let fits = |(width, height): Size| match self.scaling {
            Some(Scaling::IDENTITY) => (width, height) == target,
            Some(Scaling::CENTERED) => width <= target.0 && height <= target.1,
            // Of several scalings, one stretches.
            _ => true,
        };
        let upright = self.rotation.is_none_or(|rotation| !rotation.swaps_sides());
        let turned = self.rotation.is_none_or(|rotation| rotation.swaps_sides());
        upright && fits(source) || turned && fits(swapped(source))
    }

    /// The least pixel rate of a target that a source of this size can be taken to.
    fn least(&self, source: Size, targets: &Choices) -> Option<u64> {
        #[cfg(test)]
        tests::count(targets.len());
        let fitting = targets.iter().filter(|(target, _)| self.fits(source, **target));
        fitting.map(|(_, rate)| *rate).min()
    }
}

/// The paths that were looked at, as far as others depend on them.
#[derive(Default)]
struct Seen {
    targets: BTreeSet<u32>,
    source_modes: BTreeMap<u32, SourceMode>,
}

impl Seen {
    fn add(&mut self, path: &VidPnPath, open: &Open) {
        self.targets.insert(path.target);
        if let Some(mode) = open.source_mode {
            self.source_modes.insert(path.source, mode);
        }
    }
}

/// What holds for a VidPN whatever becomes of one of its paths, the pivot.
struct Fixed {
    /// All other paths.
    seen: Seen,
    /// For each path: its choices. Those of the pivot are of the value that was tried last.
    choices: Vec<Choices>,
    /// The paths of the pivot's source.
    group: Vec<usize>,
    /// The pixels a second that other sources and other processes leave.
    left: u64,
    /// What a size of the source costs its other paths, if they can show it; filled as it is asked for.
    others: BTreeMap<Size, Option<u64>>,
}

fn swapped((width, height): Size) -> Size {
    (height, width)
}

/// A VidPN, and the hardware that it is for.
pub(super) struct Problem<'a> {
    caps: &'a DisplayCaps,
    vidpn: VidPn<'a>,
    /// For each path: the modes of the monitor at its target, if one is plugged in.
    monitors: Vec<Option<Vec<TargetMode>>>,
    open: Vec<Open>,
}

impl<'a> Problem<'a> {
    pub(super) fn new(
        caps: &'a DisplayCaps,
        vidpn: VidPn<'a>,
        monitors: Vec<Option<Vec<TargetMode>>>,
    ) -> Self {
        let open = vidpn.paths.iter().map(Open::of).collect();
        Self { caps, vidpn, monitors, open }
    }

    /// Whether the VidPN is functional, or can be made so.
    pub(super) fn solve(&self) -> Result<(), VidPnRefusal> {
        self.check_paths()?;
        let choices = self.choices()?;
        let left = self.left();
        let groups = self.groups();
        let costs: Result<Vec<u64>, VidPnRefusal> =
            groups.values().map(|group| self.cheapest(group, &choices)).collect();
        let mut needed = 0u64;
        for (group, cost) in groups.values().zip(costs?) {
            needed = needed.saturating_add(cost);
            if needed > left {
                let path = group.last().copied().unwrap_or(0);
                return Err(refusal(Constraint::TOTAL_PIXEL_RATE, path, left));
            }
        }
        Ok(())
    }

    /// All values of a part of a path with which the VidPN is functional: those with which [`Self::solve`] succeeds.
    ///
    /// A guest asks for it with as many paths and modes as it has monitors, so what the values have in common is found
    /// once: the other paths' choices, the other sources' costs, and what a size of the source costs its other paths.
    pub(super) fn enumerate(mut self, pivot_path: usize, pivot: Pivot) -> Vec<Modality> {
        let Some(before) = self.open.get(pivot_path).copied() else { return Vec::new() };
        let Some(mut fixed) = self.fix(pivot_path) else { return Vec::new() };
        let candidates: Vec<Open> = match pivot {
            Pivot::SOURCE_MODE => {
                let modes = self.source_modes(pivot_path).into_iter();
                modes.map(|mode| Open { source_mode: Some(mode), ..before }).collect()
            }
            Pivot::TARGET_MODE => {
                let modes = self.monitors.get(pivot_path).cloned().flatten().unwrap_or_default();
                let modes = modes.into_iter();
                modes.map(|mode| Open { target_mode: Some(mode), ..before }).collect()
            }
            Pivot::SCALING => {
                let all = Scaling::ALL.iter();
                all.map(|scaling| Open { scaling: Some(*scaling), ..before }).collect()
            }
            Pivot::ROTATION => {
                let all = Rotation::ALL.iter();
                all.map(|rotation| Open { rotation: Some(*rotation), ..before }).collect()
            }
            _ => Vec::new(),
        };
        let mut found = Vec::new();
        for candidate in candidates {
            if let Some(open) = self.open.get_mut(pivot_path) {
                *open = candidate;
            }
            if self.is_functional_with(pivot_path, &mut fixed) {
                found.extend(match pivot {
                    Pivot::SOURCE_MODE => candidate.source_mode.map(Modality::Source),
                    Pivot::TARGET_MODE => candidate.target_mode.map(Modality::Target),
                    Pivot::SCALING => candidate.scaling.map(Modality::Scaling),
                    _ => candidate.rotation.map(Modality::Rotation),
                });
            }
        }
        found
    }

    /// What holds whatever becomes of one path; nothing if the others are refused without it.
    fn fix(&self, pivot_path: usize) -> Option<Fixed> {
        let mut seen = Seen::default();
        let mut choices = Vec::with_capacity(self.open.len());
        for (index, path) in self.vidpn.paths.iter().enumerate() {
            if index == pivot_path {
                choices.push(Choices::new());
                continue;
            }
            self.check_path(index, path, &seen).ok()?;
            seen.add(path, self.open.get(index)?);
            choices.push(self.choices_of(index).ok()?);
        }
        let mut groups = self.groups();
        let group = groups.remove(&self.vidpn.paths.get(pivot_path)?.source)?;
        let left = groups.values().try_fold(self.left(), |left, group| {
            left.checked_sub(self.cheapest(group, &choices).ok()?)
        })?;
        Some(Fixed { seen, choices, group, left, others: BTreeMap::new() })
    }

    /// As [`Self::solve`], where nothing but this path differs from what is fixed.
    fn is_functional_with(&self, pivot_path: usize, fixed: &mut Fixed) -> bool {
        let Some((path, open)) = self.vidpn.paths.get(pivot_path).zip(self.open.get(pivot_path))
        else {
            return false;
        };
        if self.check_path(pivot_path, path, &fixed.seen).is_err() {
            return false;
        }
        let Ok(own) = self.choices_of(pivot_path) else { return false };
        let Fixed { choices, group, left, others, .. } = fixed;
        if let Some(choices) = choices.get_mut(pivot_path) {
            choices.clone_from(&own);
        }
        self.source_sizes(group, choices).into_iter().any(|size| {
            let others = *others.entry(size).or_insert_with(|| {
                let mut others = group.iter().filter(|index| **index != pivot_path);
                others.try_fold(0u64, |sum, index| {
                    let least = self.open.get(*index)?.least(size, choices.get(*index)?)?;
                    Some(sum.saturating_add(least))
                })
            });
            let needed = others.zip(open.least(size, &own));
            needed.is_some_and(|(others, own)| others.saturating_add(own) <= *left)
        })
    }

    /// The pixels a second that other processes leave.
    fn left(&self) -> u64 {
        let others = self.vidpn.others.iter().map(|path| path.target_mode.pixel_rate());
        self.caps.total_pixel_rate.saturating_sub(others.fold(0, u64::saturating_add))
    }

    /// Refuses a path that is wrong whatever the others are, and two on one target.
    fn check_paths(&self) -> Result<(), VidPnRefusal> {
        let mut seen = Seen::default();
        for (index, (path, open)) in self.vidpn.paths.iter().zip(&self.open).enumerate() {
            self.check_path(index, path, &seen)?;
            seen.add(path, open);
        }
        Ok(())
    }

    /// Refuses a path that is wrong by itself or beside those that were seen.
    fn check_path(&self, index: usize, path: &VidPnPath, seen: &Seen) -> Result<(), VidPnRefusal> {
        let DisplayCaps { sources, ref connectors, max_width, max_height, .. } = *self.caps;
        let refuse = |constraint, limit| Err(refusal(constraint, index, limit));
        let Some(Open { source_mode, target_mode, scaling, rotation }) = self.open.get(index)
        else {
            return Ok(());
        };
        if path.source >= sources {
            return refuse(Constraint::NO_SUCH_SOURCE, sources.into());
        }
        if path.target as usize >= connectors.len() {
            return refuse(Constraint::NO_SUCH_TARGET, connectors.len() as u64);
        }
        if seen.targets.contains(&path.target) {
            return refuse(Constraint::TARGET_TWICE, 0);
        }
        let Some(Some(modes)) = self.monitors.get(index) else {
            return refuse(Constraint::NOT_CONNECTED, 0);
        };
        if let Some(mode) = source_mode {
            if seen.source_modes.get(&path.source).is_some_and(|before| before != mode) {
                return refuse(Constraint::SOURCE_MODES_DIFFER, 0);
            }
            let SourceMode { width, height, format, .. } = *mode;
            if format.bytes().is_none() {
                return refuse(Constraint::SOURCE_FORMAT, 0);
            }
            if width == 0 || height == 0 {
                return refuse(Constraint::SOURCE_SIZE, 0);
            }
            if width > max_width {
                return refuse(Constraint::SOURCE_SIZE, u64::from(max_width) + 1);
            }
            if height > max_height {
                return refuse(Constraint::SOURCE_SIZE, u64::from(max_height) + 1);
            }
        }
        if target_mode.is_some_and(|mode| !modes.contains(&mode)) {
            return refuse(Constraint::TARGET_MODE, 0);
        }
        if scaling.is_some_and(|scaling| scaling.name().is_none()) {
            return refuse(Constraint::SCALING, 0);
        }
        if rotation.is_some_and(|rotation| rotation.name().is_none()) {
            return refuse(Constraint::ROTATION, 0);
        }
        Ok(())
    }

    /// For each path: the sizes of the target modes that it can have, each with the least pixel rate.
    fn choices(&self) -> Result<Vec<Choices>, VidPnRefusal> {
        (0..self.open.len()).map(|index| self.choices_of(index)).collect()
    }

    fn choices_of(&self, index: usize) -> Result<Choices, VidPnRefusal> {
        let target = self.vidpn.paths.get(index).map_or(0, |path| path.target as usize);
        let most = self.caps.connectors.get(target).map_or(0, |link| link.max_pixel_rate);
        let all = self.monitors.get(index).and_then(Option::as_deref).unwrap_or_default();
        let pinned = self.open.get(index).and_then(|open| open.target_mode.as_ref());
        let modes = pinned.map_or(all, std::slice::from_ref);
        let mut sizes = BTreeMap::new();
        for mode in modes.iter().filter(|mode| mode.pixel_rate() <= most) {
            let least = sizes.entry((mode.width, mode.height)).or_insert(u64::MAX);
            *least = mode.pixel_rate().min(*least);
        }
        if sizes.is_empty() {
            return Err(refusal(Constraint::CONNECTOR_PIXEL_RATE, index, most));
        }
        Ok(sizes)
    }

    /// The paths of each source, by their places.
    fn groups(&self) -> BTreeMap<u32, Vec<usize>> {
        let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (index, path) in self.vidpn.paths.iter().enumerate() {
            groups.entry(path.source).or_default().push(index);
        }
        groups
    }

    /// The sizes that a source can have: the one that is pinned, or those that a monitor of it has, upright or turned.
    fn source_sizes(&self, group: &[usize], choices: &[Choices]) -> BTreeSet<Size> {
        let mut pinned = group.iter().filter_map(|index| self.open.get(*index)?.source_mode);
        if let Some(mode) = pinned.next() {
            return BTreeSet::from([(mode.width, mode.height)]);
        }
        let sizes = group.iter().filter_map(|index| choices.get(*index)).flat_map(BTreeMap::keys);
        let sizes = sizes.flat_map(|size| [*size, swapped(*size)]);
        sizes
            .filter(|size| size.0 <= self.caps.max_width && size.1 <= self.caps.max_height)
            .collect()
    }

    /// The least pixel rate with which a source's paths can be shown.
    fn cheapest(&self, group: &[usize], choices: &[Choices]) -> Result<u64, VidPnRefusal> {
        // What each size costs for the paths so far.
        let sizes = self.source_sizes(group, choices);
        let mut costs: BTreeMap<Size, u64> = sizes.into_iter().map(|size| (size, 0)).collect();
        for index in group {
            let (Some(open), Some(sizes)) = (self.open.get(*index), choices.get(*index)) else {
                continue;
            };
            costs.retain(|source, cost| {
                let least = open.least(*source, sizes);
                *cost = cost.saturating_add(least.unwrap_or(0));
                least.is_some()
            });
            if costs.is_empty() {
                return Err(refusal(Constraint::SCALING_SIZE, *index, 0));
            }
        }
        Ok(costs.into_values().min().unwrap_or(0))
    }

    /// The source modes to try for a path: the sizes of its monitor's modes in their order, then those of the source's
    /// other monitors, then all turned; and the one that is pinned.
    fn source_modes(&self, pivot_path: usize) -> Vec<SourceMode> {
        let Some(source) = self.vidpn.paths.get(pivot_path).map(|path| path.source) else {
            return Vec::new();
        };
        let of_source =
            |index: &usize| self.vidpn.paths.get(*index).is_some_and(|p| p.source == source);
        let others = (0..self.vidpn.paths.len()).filter(|index| *index != pivot_path);
        let paths = std::iter::once(pivot_path).chain(others).filter(of_source);
        let monitors = paths.filter_map(|index| self.monitors.get(index)?.as_deref());
        let sizes: Vec<Size> = monitors.flatten().map(|mode| (mode.width, mode.height)).collect();
        let turned: Vec<Size> = sizes.iter().copied().map(swapped).collect();
        let mut seen = BTreeSet::new();
        let pinned = self.open.get(pivot_path).and_then(|open| open.source_mode);
        let mut modes: Vec<_> = sizes
            .into_iter()
            .chain(turned)
            .filter(|size| seen.insert(*size))
            .flat_map(|(width, height)| {
                let formats = PixelFormat::ALL.iter();
                formats.map(move |format| SourceMode {
                    width,
                    height,
                    format: *format,
                    reserved: 0,
                })
            })
            .collect();
        modes.extend(pinned.filter(|mode| !seen.contains(&(mode.width, mode.height))));
        modes
    }
}

fn refusal(constraint: Constraint, path: usize, limit: u64) -> VidPnRefusal {
    VidPnRefusal { constraint, path: u32::try_from(path).unwrap_or(u32::MAX), limit }
}

#[cfg(test)]
mod tests;
