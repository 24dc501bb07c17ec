// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the agent shows: a topology of the monitors that are plugged in, with a plain picture on each source.
//!
//! Source: Windows KMD overview, "EEU" ("Change the topology or desktop resolution", "Trigger display/mode
//! re-enumeration").

use bellhop_guest_umd::agent::WantedTopology;
use bellhop_guest_umd::display::{
    Display, DisplayError, Flip, Path, PixelFormat, Primary, Rotation, Surface, TargetMode,
    Topology,
};
use bellhop_guest_umd::{Adapter, CommandBuffer, Device, Error};
use bellhop_protocol::control::adapter::EngineType;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// How monitors are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// A picture of its own on each monitor
    #[default]
    Extend,
    /// One picture on all monitors
    Clone,
    /// A picture on the first monitor
    Single,
    /// Nothing is shown
    Off,
}

/// What hides monitors, whatever the layout is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Curtain {
    /// Nothing does.
    #[default]
    None,
    /// The monitor of this connector is under a closed lid.
    One(u32),
    /// All are dark, since this is so.
    All(&'static str),
}

/// Why the monitors do not show what they should.
#[derive(Debug, thiserror::Error)]
pub enum ScreensError {
    /// The device refuses.
    #[error(transparent)]
    Display(#[from] DisplayError),
    /// The device refuses.
    #[error(transparent)]
    Device(#[from] Error),
    /// No monitor is plugged into this connector.
    #[error("no monitor is plugged into connector {0}")]
    NoMonitor(u32),
    /// The monitor cannot be shown in the mode that was asked for.
    #[error("connector {0} cannot have that mode: {1}")]
    NotTogether(u32, DisplayError),
    /// The monitor has no such mode.
    #[error(
        "the monitor of connector {0} has no such mode; bellhop-guest probe lists those that it has"
    )]
    NoMode(u32),
}

/// The guest's monitors.
pub struct Screens {
    adapter: Adapter,
    display: Display,
    /// What the agent does by itself.
    policy: Layout,
    layout: Layout,
    curtain: Curtain,
    /// Modes that were asked for, by connector.
    modes: BTreeMap<u32, TargetMode>,
    /// How pictures are turned that are, by connector.
    rotations: BTreeMap<u32, Rotation>,
    /// What is committed.
    committed: Topology,
    /// What is shown. Dropped before the device.
    shown: Vec<Primary>,
    device: Option<Device>,
}

impl Screens {
    /// The monitors of a guest, which show nothing of this process yet.
    ///
    /// # Errors
    /// [`DisplayError::NoDisplay`] where the guest has none.
    pub fn open(adapter: Adapter, policy: Layout) -> Result<Self, ScreensError> {
        let display = adapter.display()?;
        Ok(Self {
            adapter,
            display,
            policy,
            layout: policy,
            curtain: Curtain::None,
            modes: BTreeMap::new(),
            rotations: BTreeMap::new(),
            committed: Topology::new(),
            shown: Vec::new(),
            device: None,
        })
    }

    /// Changes what the monitors show. Returns what they show now, in words. What cannot be changes nothing.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn show(&mut self, wanted: WantedTopology) -> Result<String, ScreensError> {
        let before = (self.layout, self.modes.clone(), self.rotations.clone());
        let asked = self.choose(wanted)?;
        self.apply_with(asked).inspect_err(|_| (self.layout, self.modes, self.rotations) = before)
    }

    /// Hides monitors, or shows them again, from the next time on that this process shows something. Returns whether that is
    /// another curtain than before.
    pub fn draw_curtain(&mut self, curtain: Curtain) -> bool {
        std::mem::replace(&mut self.curtain, curtain) != curtain
    }

    /// The topology that shows what this process would.
    #[must_use]
    pub fn wanted(&self) -> WantedTopology {
        match (self.curtain, self.layout) {
            (Curtain::All(_), _) | (_, Layout::Off) => WantedTopology::Off,
            (_, Layout::Extend) => WantedTopology::Extend,
            (_, Layout::Clone) => WantedTopology::Clone,
            (_, Layout::Single) => WantedTopology::Single,
        }
    }

    /// Keeps what monitors shall show, for when this process shows something. Returns the connector that it is about, if it
    /// is about one.
    ///
    /// # Errors
    /// If a monitor has no such mode.
    pub fn choose(&mut self, wanted: WantedTopology) -> Result<Option<u32>, ScreensError> {
        let mut asked = None;
        match wanted {
            WantedTopology::Extend => self.layout = Layout::Extend,
            WantedTopology::Clone => self.layout = Layout::Clone,
            WantedTopology::Single => self.layout = Layout::Single,
            WantedTopology::Off => self.layout = Layout::Off,
            WantedTopology::Enumerate => {
                (self.layout, self.modes) = (self.policy, BTreeMap::new());
                self.rotations.clear();
            }
            WantedTopology::Mode { connector, width, height, refresh } => {
                let mode = self.find_mode(connector, (width, height), refresh)?;
                self.modes.insert(connector, mode);
                asked = Some(connector);
            }
            WantedTopology::Rotate { connector, quarters } => {
                self.rotations.insert(connector, self.rotation(connector, quarters)?);
                asked = Some(connector);
            }
        }
        Ok(asked)
    }

    /// Refuses a topology that names a monitor or a mode that there is not.
    ///
    /// # Errors
    /// Which.
    pub fn check(&self, wanted: WantedTopology) -> Result<(), ScreensError> {
        match wanted {
            WantedTopology::Mode { connector, width, height, refresh } => {
                self.find_mode(connector, (width, height), refresh).map(drop)
            }
            WantedTopology::Rotate { connector, quarters } => {
                self.rotation(connector, quarters).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// A rotation of a connector with a monitor.
    fn rotation(&self, connector: u32, quarters: u32) -> Result<Rotation, ScreensError> {
        if !self.connected()?.contains(&connector) {
            return Err(ScreensError::NoMonitor(connector));
        }
        Ok(Rotation::of_quarters(quarters))
    }

    /// Looks at all connectors, and shows what the layout says on those with a monitor. Returns what they show now, and
    /// what is dark.
    ///
    /// # Errors
    /// Why they cannot.
    pub fn apply(&mut self) -> Result<String, ScreensError> {
        self.apply_with(None)
    }

    /// The same; not without this connector.
    fn apply_with(&mut self, asked: Option<u32>) -> Result<String, ScreensError> {
        let (topology, dark) = self.topology(asked)?;
        // Pictures come before the commit: what cannot be drawn changes nothing.
        let drawn = self.draw_with_room(&sources(&topology))?;
        if let Err(error) = self.display.commit(&topology) {
            self.restore();
            return Err(error.into());
        }
        let mut shown = describe(&topology);
        for connector in dark {
            // Writing to a string does not fail.
            let _ =
                write!(shown, "; connector {connector} is dark, since they cannot all be shown");
        }
        match self.curtain {
            Curtain::None => {}
            Curtain::One(connector) => {
                let _ = write!(shown, "; connector {connector} is dark, since the lid is closed");
            }
            Curtain::All(why) => {
                let _ = write!(shown, ", since {why}");
            }
        }
        shown += &self.flip(drawn);
        self.committed = topology;
        Ok(shown)
    }

    /// Shows these pictures. What was shown before goes when they are there. Returns which sources are black, in words.
    fn flip(&mut self, drawn: Vec<(u32, Primary)>) -> String {
        let mut black = String::new();
        for (source, primary) in &drawn {
            if let Err(error) = self.display.flip(*source, Flip::to(primary).immediate()) {
                // Writing to a string does not fail.
                let _ = write!(black, "; source {source} is black: {error}");
            }
        }
        self.shown = drawn.into_iter().map(|(_, primary)| primary).collect();
        black
    }

    /// Draws, if need be in the memory of what is shown. Where that is too little, too, what was shown is there again.
    fn draw_with_room(
        &mut self,
        sources: &[(u32, Surface)],
    ) -> Result<Vec<(u32, Primary)>, ScreensError> {
        if let Ok(drawn) = self.draw(sources) {
            return Ok(drawn);
        }
        // Perhaps the device was lost: another one can be made.
        (self.shown, self.device) = (Vec::new(), None);
        self.draw(sources).inspect_err(|_| self.restore())
    }

    /// Draws what is committed, if it is not there.
    fn restore(&mut self) {
        if self.shown.is_empty()
            && let Ok(drawn) = self.draw(&sources(&self.committed.clone()))
        {
            self.flip(drawn);
        }
    }

    /// Shows nothing, and gives up the device.
    ///
    /// # Errors
    /// If the device refuses.
    pub fn let_go(&mut self) -> Result<(), ScreensError> {
        let committed = self.display.commit(&Topology::new());
        self.forget();
        Ok(committed?)
    }

    /// Forgets what was shown, of a GPU that is gone.
    pub fn forget(&mut self) {
        self.committed = Topology::new();
        (self.shown, self.device) = (Vec::new(), None);
    }

    /// The connectors with a monitor.
    fn connected(&self) -> Result<Vec<u32>, ScreensError> {
        let mut connected = Vec::new();
        for child in 0..self.display.children().len() as u32 {
            if self.display.child_status(child)?.connected == 1 {
                connected.push(child);
            }
        }
        Ok(connected)
    }

    /// What to show: the layout on as many monitors as can be together, the first ones and those with a mode that was
    /// asked for before others, and not without the one that is asked for now. Returns the connectors that are left out,
    /// too.
    fn topology(&mut self, asked: Option<u32>) -> Result<(Topology, Vec<u32>), ScreensError> {
        let mut connected = self.connected()?;
        self.modes.retain(|connector, _| connected.contains(connector));
        self.rotations.retain(|connector, _| connected.contains(connector));
        match self.curtain {
            Curtain::None => {}
            Curtain::One(hidden) => connected.retain(|connector| *connector != hidden),
            Curtain::All(_) => connected.clear(),
        }
        match self.layout {
            Layout::Off => connected.clear(),
            Layout::Single => connected.truncate(1),
            Layout::Extend | Layout::Clone => {}
        }
        let mut dark = Vec::new();
        loop {
            let mut wanted = Topology::new();
            for connector in &connected {
                let path = Path::new(self.source_of(*connector, &connected), *connector);
                let mode = self.modes.get(connector);
                let path = mode.map_or(path, |mode| path.target_mode(*mode));
                let rotation = self.rotations.get(connector);
                wanted = wanted.path(rotation.map_or(path, |rotation| path.rotation(*rotation)));
            }
            let refused = match self.display.complete(&wanted) {
                Ok(topology) => return Ok((topology, dark)),
                Err(error @ (DisplayError::Topology(_) | DisplayError::NoMode { .. })) => error,
                Err(error) => return Err(error.into()),
            };
            let last = |is_it: &dyn Fn(&u32) -> bool| connected.iter().rposition(is_it);
            let others = |connector: &u32| Some(*connector) != asked;
            let plain = |connector: &u32| others(connector) && !self.modes.contains_key(connector);
            match last(&plain).or_else(|| last(&others)) {
                Some(at) if connected.len() > 1 => dark.insert(0, connected.remove(at)),
                _ => {
                    return Err(match asked {
                        Some(connector) => ScreensError::NotTogether(connector, refused),
                        None => refused.into(),
                    });
                }
            }
        }
    }

    /// The source that a connector shows. Each connector has one on its GPU: the one of its number. A clone has one
    /// source on each GPU, since no path leads from one to another, and the same picture on all.
    fn source_of(&self, connector: u32, connected: &[u32]) -> u32 {
        if self.layout != Layout::Clone {
            return connector;
        }
        let gpu = |connector: u32| {
            self.display.children().get(connector as usize).map(|child| child.gpu())
        };
        let first = connected.iter().find(|first| gpu(**first) == gpu(connector));
        first.copied().unwrap_or(connector)
    }

    /// A monitor's mode of this size, with the nearest rate.
    fn find_mode(
        &self,
        connector: u32,
        size: (u32, u32),
        refresh: u32,
    ) -> Result<TargetMode, ScreensError> {
        if !self.connected()?.contains(&connector) {
            return Err(ScreensError::NoMonitor(connector));
        }
        let rate = |mode: &TargetMode| {
            let denominator = u64::from(mode.refresh_denominator.max(1));
            u64::from(mode.refresh_numerator) * 1000 / denominator
        };
        let modes = self.display.monitor_modes(connector)?.into_iter();
        let sized = modes.filter(|mode| (mode.width, mode.height) == size);
        let found = if refresh == 0 {
            sized.max_by_key(rate)
        } else {
            let distance = |mode: &TargetMode| rate(mode).abs_diff(refresh.into());
            sized.filter(|mode| distance(mode) <= 500).min_by_key(distance)
        };
        found.ok_or(ScreensError::NoMode(connector))
    }

    /// A plain picture for each source.
    fn draw(&mut self, sources: &[(u32, Surface)]) -> Result<Vec<(u32, Primary)>, ScreensError> {
        if sources.is_empty() {
            return Ok(Vec::new());
        }
        let device = match self.device.take() {
            Some(device) => device,
            None => self.adapter.create_device()?,
        };
        let drawn = draw_on(&self.adapter, &device, sources);
        self.device = Some(device);
        drawn
    }
}

fn draw_on(
    adapter: &Adapter,
    device: &Device,
    sources: &[(u32, Surface)],
) -> Result<Vec<(u32, Primary)>, ScreensError> {
    let mut drawn = Vec::new();
    for (source, surface) in sources {
        let primary = device.create_primary(*surface)?;
        if adapter.local_memory() > 0 {
            let pixel = BACKGROUND.to_le_bytes();
            primary.set_pixels(&pixel.repeat((surface.width * surface.height) as usize))?;
        } else {
            fill(adapter, device, &primary)?;
        }
        drawn.push((*source, primary));
    }
    Ok(drawn)
}

/// The GPU draws, where no processor reaches local memory, as behind a broker.
fn fill(adapter: &Adapter, device: &Device, primary: &Primary) -> Result<(), ScreensError> {
    let context = device.create_context(adapter.least_used_node(EngineType::COPY)?)?;
    let mut queue = context.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(device, 4096)?;
    let surface = primary.surface();
    let length = u64::from(surface.pitch()?) * u64::from(surface.height);
    commands.fill(primary.gpu_va(), length, BACKGROUND)?;
    let value = queue.submit(&mut commands)?;
    Ok(queue.progress_fence().wait(value, DRAWING)?)
}

/// The longest that the GPU may take for a picture.
const DRAWING: Duration = Duration::from_secs(2);

/// The colour of a source on which nothing else is shown: `0x00RRGGBB`.
const BACKGROUND: u32 = 0x0020_3040;

/// The sources of a topology, each once.
fn sources(topology: &Topology) -> Vec<(u32, Surface)> {
    let mut sources = BTreeMap::new();
    for path in topology.paths() {
        let path = path.get();
        let (width, height) = (path.source_mode.width, path.source_mode.height);
        sources.entry(path.source).or_insert(Surface {
            width,
            height,
            format: PixelFormat::X8R8G8B8,
        });
    }
    sources.into_iter().collect()
}

/// A topology in words.
fn describe(topology: &Topology) -> String {
    if topology.paths().is_empty() {
        return "nothing is shown".to_owned();
    }
    let mut text = String::new();
    for path in topology.paths() {
        let path = path.get();
        let mode = path.target_mode;
        let rate = f64::from(mode.refresh_numerator) / f64::from(mode.refresh_denominator.max(1));
        let comma = if text.is_empty() { "" } else { ", " };
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{comma}source {} on connector {} at {}x{}@{rate:.2}",
            path.source, path.target, mode.width, mode.height
        );
        if path.rotation != Rotation::IDENTITY {
            let _ = write!(text, " turned by {} degrees", (path.rotation.0.saturating_sub(1)) * 90);
        }
    }
    text
}
