// SPDX-License-Identifier: MIT OR Apache-2.0

//! Topologies: which source is shown on which target, how, and which of that a program leaves open.
//!
//! Source: Windows KMD overview, "Display".

use super::error::{DisplayError, Refusal};
use super::object::Display;
use crate::error::Error;
use bellhop_protocol::control::Request;
use bellhop_protocol::control::display::{
    COFUNC_MODALITY_DATA, CofuncModality, CommitVidPn, EnumVidPnCofuncModality, IsSupportedVidPn,
    MAX_PATHS, Pinned, Pivot, Rotation, Scaling, SourceMode, TARGET_MODE_PREFERRED, TargetMode,
    VidPnPath, VidPnSupport,
};
use bellhop_protocol::pixel_format::PixelFormat;
use bellhop_protocol::status::Status;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// Most values of an enumeration that are read, however many a device claims.
const MOST_VALUES: u32 = 1 << 14;

/// A path: a source on a target. Each part that is not given is open: [`Display::complete`] finds values for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path(VidPnPath);

impl Path {
    /// A path with everything open.
    #[must_use]
    pub fn new(source: u32, target: u32) -> Self {
        let open = VidPnPath::new_zeroed();
        Self(VidPnPath { source, target, ..open })
    }

    fn pinned(mut self, part: Pinned) -> Self {
        self.0.flags |= part.bits();
        self
    }

    /// Pins what the source composes: its size and its pixels.
    #[must_use]
    pub fn source_mode(mut self, width: u32, height: u32, format: PixelFormat) -> Self {
        self.0.source_mode = SourceMode { width, height, format, reserved: 0 };
        self.pinned(Pinned::SOURCE_MODE)
    }

    /// Pins what the monitor scans: one of [`Display::monitor_modes`].
    #[must_use]
    pub fn target_mode(mut self, mode: TargetMode) -> Self {
        self.0.target_mode = mode;
        self.pinned(Pinned::TARGET_MODE)
    }

    /// Pins how the source fills the target.
    #[must_use]
    pub fn scaling(mut self, scaling: Scaling) -> Self {
        self.0.scaling = scaling;
        self.pinned(Pinned::SCALING)
    }

    /// Pins how the source is turned, counter-clockwise.
    #[must_use]
    pub fn rotation(mut self, rotation: Rotation) -> Self {
        self.0.rotation = rotation;
        self.pinned(Pinned::ROTATION)
    }

    /// The path as a request has it.
    #[must_use]
    pub fn get(&self) -> &VidPnPath {
        &self.0
    }

    fn is_open(&self, part: Pinned) -> bool {
        self.0.flags & part.bits() == 0
    }
}

/// Paths that are shown together (a VidPN). Several paths of one source are a clone, paths of several sources extend the
/// picture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    paths: Vec<Path>,
}

impl Topology {
    /// A topology that shows nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with one path more.
    #[must_use]
    pub fn path(mut self, path: Path) -> Self {
        self.paths.push(path);
        self
    }

    /// Its paths.
    #[must_use]
    pub fn paths(&self) -> &[Path] {
        &self.paths
    }

    /// The number of its paths, and these as a request's list.
    fn list(&self) -> Result<(u32, Vec<u8>), DisplayError> {
        let count = self.paths.len();
        if count > MAX_PATHS as usize {
            return Err(DisplayError::TooManyPaths(count));
        }
        let bytes = self.paths.iter().flat_map(|path| path.0.as_bytes()).copied().collect();
        Ok((count as u32, bytes))
    }

    fn with(&self, index: usize, path: Path) -> Self {
        let mut paths = self.paths.clone();
        if let Some(place) = paths.get_mut(index) {
            *place = path;
        }
        Self { paths }
    }
}

impl Display {
    /// Says whether a topology is functional, or can be made so by pinning what it leaves open (`IsSupportedVidPn`).
    ///
    /// # Errors
    /// [`DisplayError::Topology`] names the constraint that stands against it.
    pub fn check(&self, topology: &Topology) -> Result<(), DisplayError> {
        match self.support(topology)? {
            None => Ok(()),
            Some(refusal) => Err(DisplayError::Topology(refusal)),
        }
    }

    fn support(&self, topology: &Topology) -> Result<Option<Refusal>, DisplayError> {
        let (paths, list) = topology.list()?;
        let request = IsSupportedVidPn { paths, reserved: 0 };
        let reply = self.session().call_with_list(&request, &list);
        let VidPnSupport { supported, constraint, path, limit, .. } =
            reply.map_err(DisplayError::of_display)?;
        Ok((supported == 0).then_some(Refusal { constraint, path, limit }))
    }

    /// All source modes with which a path of the topology is functional, beside what else is pinned
    /// (`EnumVidPnCofuncModality`). Whether the path's own source mode is pinned does not matter.
    ///
    /// # Errors
    /// Those of a display.
    pub fn source_modes(
        &self,
        topology: &Topology,
        path: usize,
    ) -> Result<Vec<SourceMode>, DisplayError> {
        self.enumerate(topology, path, Pivot::SOURCE_MODE)
    }

    /// All target modes: as [`Self::source_modes`].
    ///
    /// # Errors
    /// Those of a display.
    pub fn target_modes(
        &self,
        topology: &Topology,
        path: usize,
    ) -> Result<Vec<TargetMode>, DisplayError> {
        self.enumerate(topology, path, Pivot::TARGET_MODE)
    }

    /// All scalings: as [`Self::source_modes`].
    ///
    /// # Errors
    /// Those of a display.
    pub fn scalings(&self, topology: &Topology, path: usize) -> Result<Vec<Scaling>, DisplayError> {
        self.enumerate(topology, path, Pivot::SCALING)
    }

    /// All rotations: as [`Self::source_modes`].
    ///
    /// # Errors
    /// Those of a display.
    pub fn rotations(
        &self,
        topology: &Topology,
        path: usize,
    ) -> Result<Vec<Rotation>, DisplayError> {
        self.enumerate(topology, path, Pivot::ROTATION)
    }

    fn enumerate<T: FromBytes + Immutable>(
        &self,
        topology: &Topology,
        path: usize,
        pivot: Pivot,
    ) -> Result<Vec<T>, DisplayError> {
        let (paths, list) = topology.list()?;
        let bad = || Error::BadReply(EnumVidPnCofuncModality::CODE);
        let mut values = Vec::new();
        loop {
            let first = values.len() as u32;
            let request = EnumVidPnCofuncModality { paths, pivot_path: path as u32, pivot, first };
            let reply = self.session().call_with_list(&request, &list);
            let CofuncModality { count, entry_size, data } =
                reply.map_err(DisplayError::of_display)?;
            let entry_is_right = entry_size as usize == size_of::<T>();
            if count > MOST_VALUES || count < first || (count > 0 && !entry_is_right) {
                return Err(bad().into());
            }
            let room = COFUNC_MODALITY_DATA / size_of::<T>();
            let here = ((count - first) as usize).min(room);
            for entry in data.chunks_exact(size_of::<T>()).take(here) {
                values.push(T::read_from_bytes(entry).map_err(|_| bad())?);
            }
            if values.len() == count as usize {
                return Ok(values);
            }
        }
    }

    /// Pins everything that a topology leaves open: each monitor's preferred mode where that goes with the rest, a
    /// source of the same size, and neither scaling nor rotation where that is possible.
    ///
    /// # Errors
    /// [`DisplayError::Topology`] if it is not functional, [`DisplayError::NoMode`] if nothing goes with what is pinned.
    pub fn complete(&self, topology: &Topology) -> Result<Topology, DisplayError> {
        self.check(topology)?;
        let mut complete = topology.clone();
        for index in 0..topology.paths.len() {
            let no = |part| DisplayError::NoMode { path: index, part };
            let Some(mut path) = complete.paths.get(index).copied() else { break };
            if path.is_open(Pinned::ROTATION) {
                let rotations = self.rotations(&complete, index)?;
                path = path.rotation(*rotations.iter().min().ok_or(no("rotation"))?);
                complete = complete.with(index, path);
            }
            if path.is_open(Pinned::TARGET_MODE) {
                let modes = self.target_modes(&complete, index)?;
                let preferred = |mode: &&TargetMode| mode.flags & TARGET_MODE_PREFERRED != 0;
                let mode = modes.iter().find(preferred).or(modes.first());
                path = path.target_mode(*mode.ok_or(no("target mode"))?);
                complete = complete.with(index, path);
            }
            if path.is_open(Pinned::SOURCE_MODE) {
                let modes = self.source_modes(&complete, index)?;
                let mode = best_source(&modes, &path).ok_or(no("source mode"))?;
                path = path.source_mode(mode.width, mode.height, mode.format);
                complete = complete.with(index, path);
            }
            if path.is_open(Pinned::SCALING) {
                let scalings = self.scalings(&complete, index)?;
                path = path.scaling(*scalings.iter().min().ok_or(no("scaling"))?);
                complete = complete.with(index, path);
            }
        }
        Ok(complete)
    }

    /// Shows exactly these paths (`CommitVidPn`), all or nothing. Each must be pinned: see [`Self::complete`]. A path that
    /// stays as it was is shown on without a break.
    ///
    /// # Errors
    /// [`DisplayError::Topology`] names the constraint that stands against it; everything is then as it was.
    pub fn commit(&self, topology: &Topology) -> Result<(), DisplayError> {
        let (paths, list) = topology.list()?;
        let committed = self.session().call_with_list(&CommitVidPn { paths, reserved: 0 }, &list);
        match committed {
            Err(Error::Refused {
                status: Status::GRAPHICS_VIDPN_TOPOLOGY_NOT_SUPPORTED,
                detail,
                ..
            }) => {
                let refusal = Refusal::of_commit(detail);
                // The refusal of a commit has no room for the limit.
                let limit = match self.support(topology)? {
                    Some(Refusal { constraint, path, limit })
                        if (constraint, path) == (refusal.constraint, refusal.path) =>
                    {
                        limit
                    }
                    _ => 0,
                };
                Err(DisplayError::Topology(Refusal { limit, ..refusal }))
            }
            other => other.map_err(DisplayError::of_display),
        }
    }
}

/// The source mode that needs least scaling: as large as the target, or else the largest; of 32 bits if there is one.
fn best_source(modes: &[SourceMode], path: &Path) -> Option<SourceMode> {
    let TargetMode { width, height, .. } = path.0.target_mode;
    let fits = if path.0.rotation.swaps_sides() { (height, width) } else { (width, height) };
    let order = |mode: &&SourceMode| {
        let area = u64::from(mode.width) * u64::from(mode.height);
        ((mode.width, mode.height) == fits, area, mode.format == PixelFormat::X8R8G8B8)
    };
    modes.iter().max_by_key(order).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_source_is_as_large_as_the_target_also_when_it_is_turned() {
        let mode = |width, height, format| SourceMode { width, height, format, reserved: 0 };
        let modes = [
            mode(1080, 1920, PixelFormat::R5G6B5),
            mode(1080, 1920, PixelFormat::X8R8G8B8),
            mode(1920, 1080, PixelFormat::X8R8G8B8),
            mode(3840, 2160, PixelFormat::X8R8G8B8),
        ];
        let target = TargetMode { width: 1920, height: 1080, ..TargetMode::new_zeroed() };
        let path = Path::new(0, 0).target_mode(target).rotation(Rotation::IDENTITY);
        assert_eq!(best_source(&modes, &path), Some(modes[2]));
        assert_eq!(best_source(&modes, &path.rotation(Rotation::ROTATE_90)), Some(modes[1]));
        let other = Path::new(0, 0).target_mode(TargetMode { width: 640, ..target });
        assert_eq!(best_source(&modes, &other), Some(modes[3]));
        assert_eq!(best_source(&[], &path), None);
    }

    #[test]
    fn only_what_is_given_is_pinned() {
        let path =
            Path::new(1, 2).scaling(Scaling::CENTERED).source_mode(640, 480, PixelFormat::R5G6B5);
        // docs/protocol.md, "Displays": bit 0 the source mode, bit 2 the scaling.
        assert_eq!(path.get().flags, 0b0101);
        assert_eq!((path.get().source, path.get().target), (1, 2));
    }
}
