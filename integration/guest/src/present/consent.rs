// SPDX-License-Identifier: MIT OR Apache-2.0

//! What an animation answers when the guest's agent wants monitors to show something else.
//!
//! The animation keeps its source, and shows it on other monitors, in another mode, or turned. It does not let go of it.

use bellhop_guest_umd::display::{
    Display, DisplayError, Path, Rotation, Topology, TopologyWanted, WantedTopology,
};

/// Does what is wanted and agrees, or refuses. `shown` is what is committed.
///
/// # Errors
/// Those of a device that is gone.
pub(super) fn answer(
    display: &Display,
    shown: &mut Topology,
    asked: TopologyWanted,
) -> Result<(), DisplayError> {
    let done = adapt(display, shown, asked.wanted).and_then(|topology| {
        display.commit(&topology).map_err(|error| error.to_string())?;
        *shown = topology;
        Ok(())
    });
    let answered = match done {
        Ok(()) => display.agree(asked.request, &describe(shown)),
        Err(reason) => display.refuse(asked.request, &reason),
    };
    match answered {
        // It was too late. The next flip says whether the source is gone.
        Err(DisplayError::Device(bellhop_guest_umd::Error::Refused { .. })) => Ok(()),
        answered => answered,
    }
}

/// The topology that is wanted, with the source that is shown.
fn adapt(display: &Display, shown: &Topology, wanted: WantedTopology) -> Result<Topology, String> {
    let alone = shown.paths().first().ok_or("nothing is shown")?;
    let first = alone.get();
    let (source, mode) = (first.source, first.source_mode);
    let plain =
        |target| Path::new(source, target).source_mode(mode.width, mode.height, mode.format);
    let own = |connector: u32| shown.paths().iter().position(|path| path.get().target == connector);
    let complete =
        |topology: &Topology| display.complete(topology).map_err(|error| error.to_string());
    match wanted {
        WantedTopology::Extend | WantedTopology::Single | WantedTopology::Enumerate => {
            Ok(Topology::new().path(*alone))
        }
        WantedTopology::Clone => {
            let gpu = |child: u32| display.children().get(child as usize).map(|child| child.gpu());
            let mut topology = Topology::new();
            for child in 0..display.children().len() as u32 {
                let status = display.child_status(child).map_err(|error| error.to_string())?;
                // No path leads from one GPU to another.
                if status.connected == 1 && gpu(child) == gpu(first.target) {
                    // Where it is shown already, it stays as it is.
                    let kept = own(child).and_then(|place| shown.paths().get(place).copied());
                    topology = topology.path(kept.unwrap_or_else(|| plain(child)));
                }
            }
            complete(&topology)
        }
        WantedTopology::Off => Err("an animation is shown; end it first".into()),
        WantedTopology::Mode { connector, width, height, refresh } => {
            let place = own(connector).ok_or_else(|| not_shown(connector))?;
            let modes = display.monitor_modes(connector).map_err(|error| error.to_string())?;
            let rate = |mode: &bellhop_guest_umd::display::TargetMode| {
                u64::from(mode.refresh_numerator) * 1000
                    / u64::from(mode.refresh_denominator.max(1))
            };
            let sized =
                modes.into_iter().filter(|mode| (mode.width, mode.height) == (width, height));
            let nearest = sized.min_by_key(|mode| match refresh {
                // Any, and the fastest of them.
                0 => u64::MAX - rate(mode),
                wanted => rate(mode).abs_diff(wanted.into()),
            });
            let nearest = nearest.ok_or("the monitor has no such mode")?;
            complete(&replaced(shown, place, plain(connector).target_mode(nearest)))
        }
        WantedTopology::Rotate { connector, quarters } => {
            let place = own(connector).ok_or_else(|| not_shown(connector))?;
            let rotation = Rotation::of_quarters(quarters);
            let mode = shown.paths().get(place).map(|path| path.get().target_mode);
            let path = plain(connector).rotation(rotation);
            complete(&replaced(shown, place, mode.map_or(path, |mode| path.target_mode(mode))))
        }
    }
}

fn not_shown(connector: u32) -> String {
    format!("an animation is shown, and not on connector {connector}")
}

/// The topology with another path in a place.
fn replaced(topology: &Topology, place: usize, path: Path) -> Topology {
    let paths = topology.paths().iter().enumerate();
    paths.fold(Topology::new(), |all, (at, old)| all.path(if at == place { path } else { *old }))
}

fn describe(topology: &Topology) -> String {
    let shown = topology.paths().iter().map(|path| {
        let path = path.get();
        let mode = path.target_mode;
        format!("connector {} at {}x{}", path.target, mode.width, mode.height)
    });
    let shown: Vec<_> = shown.collect();
    format!("an animation is shown on {}", shown.join(", "))
}
