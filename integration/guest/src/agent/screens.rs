// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the agent shows: a topology of the monitors that are plugged in, with a plain picture on each source.
//!
//! Source: Windows KMD overview, "EEU" ("Change the topology or desktop resolution", "Trigger display/mode
//! re-enumeration").

use bellhop_guest_umd::agent::WantedTopology;
use bellhop_guest_umd::display::{
    Display, DisplayError, Flip, Path, PixelFormat, Primary, Surface, TargetMode, Topology,
};
use bellhop_guest_umd::{Adapter, Device, Error};
use std::collections::BTreeMap;
use std::fmt::Write;

/// How monitors are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
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
    /// Modes that were asked for, by connector.
    modes: BTreeMap<u32, TargetMode>,
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
            modes: BTreeMap::new(),
            shown: Vec::new(),
            device: None,
        })
    }

    /// Changes what the monitors show. Returns what they show now, in words. What cannot be changes nothing.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn show(&mut self, wanted: WantedTopology) -> Result<String, ScreensError> {
        let before = (self.layout, self.modes.clone());
        match wanted {
            WantedTopology::Extend => self.layout = Layout::Extend,
            WantedTopology::Clone => self.layout = Layout::Clone,
            WantedTopology::Single => self.layout = Layout::Single,
            WantedTopology::Off => self.layout = Layout::Off,
            WantedTopology::Enumerate => {
                (self.layout, self.modes) = (self.policy, BTreeMap::new());
            }
            WantedTopology::Mode { connector, width, height, refresh } => {
                let mode = self.find_mode(connector, (width, height), refresh)?;
                self.modes.insert(connector, mode);
            }
        }
        self.apply().inspect_err(|_| (self.layout, self.modes) = before)
    }

    /// Looks at all connectors, and shows what the layout says on those with a monitor. Returns what they show now.
    ///
    /// # Errors
    /// Why they cannot.
    pub fn apply(&mut self) -> Result<String, ScreensError> {
        let topology = self.topology()?;
        self.display.commit(&topology)?;
        let sources = sources(&topology);
        if let Err(error) = self.draw(&sources) {
            // Perhaps the device was lost: another one can be made.
            (self.shown, self.device) = (Vec::new(), None);
            if matches!(error, ScreensError::Device(Error::Refused { .. })) || !sources.is_empty() {
                self.draw(&sources)?;
            }
        }
        Ok(describe(&topology))
    }

    /// Shows nothing, and gives up the device.
    ///
    /// # Errors
    /// If the device refuses.
    pub fn let_go(&mut self) -> Result<(), ScreensError> {
        let committed = self.display.commit(&Topology::new());
        (self.shown, self.device) = (Vec::new(), None);
        Ok(committed?)
    }

    /// Forgets what was shown, of a GPU that is gone.
    pub fn forget(&mut self) {
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

    /// What to show: the layout on as many monitors as can be together, the first ones first.
    fn topology(&mut self) -> Result<Topology, ScreensError> {
        let mut connected = self.connected()?;
        self.modes.retain(|connector, _| connected.contains(connector));
        match self.layout {
            Layout::Off => connected.clear(),
            Layout::Single => connected.truncate(1),
            Layout::Extend | Layout::Clone => {}
        }
        loop {
            let mut wanted = Topology::new();
            // Each connector has a source on its GPU: the one of its number.
            let first = connected.first().copied().unwrap_or(0);
            for connector in &connected {
                let source = if self.layout == Layout::Clone { first } else { *connector };
                let path = Path::new(source, *connector);
                let mode = self.modes.get(connector);
                wanted = wanted.path(mode.map_or(path, |mode| path.target_mode(*mode)));
            }
            match self.display.complete(&wanted) {
                Ok(topology) => return Ok(topology),
                Err(DisplayError::Topology(_) | DisplayError::NoMode { .. })
                    if connected.len() > 1 && self.modes.is_empty() =>
                {
                    connected.pop();
                }
                Err(error) => return Err(error.into()),
            }
        }
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

    /// Shows a plain picture on each source.
    fn draw(&mut self, sources: &[(u32, Surface)]) -> Result<(), ScreensError> {
        let device = match self.device.take() {
            Some(device) => device,
            None if sources.is_empty() => return Ok(()),
            None => self.adapter.create_device()?,
        };
        let mut shown = Vec::new();
        for (source, surface) in sources {
            let primary = device.create_primary(*surface)?;
            let pixel = BACKGROUND.to_le_bytes();
            primary.set_pixels(&pixel.repeat((surface.width * surface.height) as usize))?;
            self.display.flip(*source, Flip::to(&primary).immediate())?;
            shown.push(primary);
        }
        // What was shown before goes when the new pictures are there.
        (self.shown, self.device) = (shown, Some(device));
        Ok(())
    }
}

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
    }
    text
}
