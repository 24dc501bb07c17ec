// SPDX-License-Identifier: MIT OR Apache-2.0

//! The displays of an adapter: `[[adapter.displays]]`.

use crate::gpu::display::config::{ConnectorConfig, DisplayConfig};
use crate::monitor::{self, Description, Mode};
use bellhop_config::{Count, KeyPath, Kind, Setting, at, choices};
use bellhop_protocol::control::display::{ConnectorKind, MAX_PATHS};
use clap::ValueEnum;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};
use std::fmt;
use std::path::PathBuf;

section! {
    /// A connector, with the monitor that is plugged into it.
    pub struct DisplaySettings {
        /// The connector's name among those of the adapter and of its chain, which tools take; and the monitor's. Empty:
        /// its kind and number, such as `VIRTUAL-1`.
        name: String;
        /// What the connector is.
        connector: Connector;
        /// A file with the monitor's EDID. Without one the EDID is made from the following keys.
        edid: PathBuf;
        /// The monitor's modes, such as `"2560x1440@143.856"`, at most 16, the preferred one first. `59.94`, `23.976`
        /// and their like are the exact rates of television. 640 by 480 is always added.
        modes: Vec<ModeSetting> = vec![ModeSetting(FULL_HD)];
        /// Width and height of what is visible, in millimetres, such as `"598x336"`; empty if unknown.
        size_mm: Size;
        /// The lowest rate in Hz that the monitor can wait for a frame with, in modes that are faster. 0 is a constant
        /// rate.
        variable_refresh: Count<0, 240> = at(0);
        /// Whether the monitor is plugged in when a guest is attached. `bellhop screen plug` and `unplug` change it.
        plugged: bool = true;
        /// Most megapixels in a second, blanks included, that the connector transmits. 0 is what its kind does: 600
        /// for HDMI, 1080 for DisplayPort, and any number for a virtual one.
        max_megapixels: Count<0, 100_000> = at(0);
    }
}

/// The mode of a monitor of which nothing is said.
const FULL_HD: Mode = Mode { width: 1920, height: 1080, numerator: 60, denominator: 1 };

/// Megapixels in a second: HDMI 2.0 transmits 600 million, and DisplayPort 1.3 25.92 Gbit/s of 24 bits each.
const HDMI_RATE: u64 = 600;
const DISPLAYPORT_RATE: u64 = 1080;
const MEGA: u64 = 1_000_000;

/// What a connector is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, serde::Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Connector {
    /// Neither of the others, and no cable limits it.
    #[default]
    Virtual,
    /// HDMI.
    Hdmi,
    /// DisplayPort.
    #[value(name = "displayport")]
    DisplayPort,
}

impl Setting for Connector {
    const KIND: Kind = Kind::value(choices::<Self>);
}

impl Connector {
    fn kind(self) -> ConnectorKind {
        match self {
            Self::Virtual => ConnectorKind::VIRTUAL,
            Self::Hdmi => ConnectorKind::HDMI,
            Self::DisplayPort => ConnectorKind::DISPLAYPORT,
        }
    }

    /// Pixels in a second.
    fn rate(self) -> u64 {
        match self {
            Self::Virtual => u64::MAX,
            Self::Hdmi => HDMI_RATE * MEGA,
            Self::DisplayPort => DISPLAYPORT_RATE * MEGA,
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Virtual => "VIRTUAL",
            Self::Hdmi => "HDMI",
            Self::DisplayPort => "DP",
        }
    }
}

/// A mode, written as `"1920x1080@60"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModeSetting(pub Mode);

/// Width and height, written as `"598x336"`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// In millimetres; 0 if unknown.
    pub width: u32,
    /// In millimetres; 0 if unknown.
    pub height: u32,
}

/// Largest side of a monitor that an EDID can tell, in millimetres.
const LARGEST: u32 = 2550;

/// A setting that is one word of text.
trait Text: Sized {
    const EXPECTED: &'static str;
    fn parse(text: &str) -> Option<Self>;
}

impl Text for ModeSetting {
    const EXPECTED: &'static str = "WIDTHxHEIGHT@RATE, such as \"1920x1080@59.94\": sides of 16 to 16384, a rate of 23 to 1000 Hz";

    fn parse(text: &str) -> Option<Self> {
        Mode::parse(text).map(Self)
    }
}

impl Text for Size {
    const EXPECTED: &'static str =
        "WIDTHxHEIGHT in millimetres, such as \"598x336\", each 1 to 2550; or empty";

    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::default());
        }
        let (width, height) = text.split_once('x')?;
        let side = |text: &str| {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            let side = is_number.then(|| text.parse().ok()).flatten();
            side.filter(|side| (1..=LARGEST).contains(side))
        };
        Some(Self { width: side(width)?, height: side(height)? })
    }
}

impl fmt::Display for ModeSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return Ok(());
        }
        write!(f, "{}x{}", self.width, self.height)
    }
}

/// Reads a [`Text`]; on failure the error says what it is.
struct Reader<T>(std::marker::PhantomData<T>);

impl<T: Text> Visitor<'_> for Reader<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        T::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

macro_rules! text_setting {
    ($($setting:ident)*) => {$(
        impl Setting for $setting {
            const KIND: Kind = Kind::value(|| <Self as Text>::EXPECTED.to_owned());
        }

        impl Serialize for $setting {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $setting {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Reader(std::marker::PhantomData))
            }
        }
    )*};
}

text_setting!(ModeSetting Size);

/// Why a display cannot be: its key, the value, and what would be allowed.
pub(super) struct Refused {
    pub key: KeyPath,
    pub value: String,
    pub expected: String,
}

impl Refused {
    fn new(key: KeyPath, value: impl ToString, expected: impl Into<String>) -> Self {
        Self { key, value: value.to_string(), expected: expected.into() }
    }
}

/// The displays of an adapter whose key of displays this is, and how many others of its chain come before them. 0
/// megapixels are any number. Reads the files of EDIDs.
pub(super) fn displays(
    all: &KeyPath,
    (displays, before): (&[DisplaySettings], usize),
    megapixels: u32,
) -> Result<DisplayConfig, Refused> {
    if displays.len() > MAX_PATHS as usize {
        let count = format!("{} displays", displays.len());
        return Err(Refused::new(all.clone(), count, format!("0 to {MAX_PATHS}")));
    }
    let mut connectors: Vec<ConnectorConfig> = Vec::new();
    for (settings, place) in displays.iter().zip(0..) {
        let key = all.child(place);
        let connector = settings.connector(before + place, &key)?;
        if connectors.iter().any(|other| other.name == connector.name) {
            let name = format!("{:?}", connector.name);
            return Err(Refused::new(
                key.child("name"),
                name,
                "another than that of another display",
            ));
        }
        connectors.push(connector);
    }
    let total_pixel_rate = match u64::from(megapixels) {
        0 => u64::MAX,
        megapixels => megapixels * MEGA,
    };
    Ok(DisplayConfig { connectors, total_pixel_rate })
}

impl DisplaySettings {
    fn connector(&self, place: usize, key: &KeyPath) -> Result<ConnectorConfig, Refused> {
        let name = match self.name.as_str() {
            "" => format!("{}-{}", self.connector.prefix(), place + 1),
            name => name.to_owned(),
        };
        if name.chars().any(char::is_control) {
            return Err(Refused::new(
                key.child("name"),
                format!("{name:?}"),
                "without control characters",
            ));
        }
        let variable_refresh = self.variable_refresh.get();
        let monitor = if self.edid.as_os_str().is_empty() {
            let wrong = |why: monitor::MonitorError| {
                let modes: Vec<_> = self.modes.iter().map(ToString::to_string).collect();
                Refused::new(key.child("modes"), format!("{modes:?}"), format!("possible: {why}"))
            };
            if self.modes.is_empty() {
                return Err(Refused::new(key.child("modes"), "[]", "1 to 16 modes"));
            }
            let description = Description {
                name: name.clone(),
                connector: self.connector.kind(),
                modes: self.modes.iter().map(|mode| mode.0).collect(),
                size_mm: (self.size_mm.width, self.size_mm.height),
                variable_refresh,
            };
            description.make().map_err(wrong)?
        } else {
            let wrong = |why: String| {
                let file = format!("\"{}\"", self.edid.display());
                Refused::new(key.child("edid"), file, format!("a file with an EDID: {why}"))
            };
            let bytes = std::fs::read(&self.edid).map_err(|error| wrong(error.to_string()))?;
            monitor::of_edid(&bytes, variable_refresh).map_err(|error| wrong(error.to_string()))?
        };
        let max_pixel_rate = match u64::from(self.max_megapixels.get()) {
            0 => self.connector.rate(),
            megapixels => megapixels * MEGA,
        };
        let kind = self.connector.kind();
        let connector =
            ConnectorConfig { name, kind, max_pixel_rate, monitor, plugged: self.plugged };
        let preferred = connector.monitor.modes.first();
        let needed = preferred.map_or(0, |mode| mode.pixel_rate());
        if needed > max_pixel_rate {
            let expected = format!(
                "at least {}: the preferred mode needs that many megapixels in a second",
                needed.div_ceil(MEGA)
            );
            let has = max_pixel_rate / MEGA;
            return Err(Refused::new(key.child("max_megapixels"), has, expected));
        }
        Ok(connector)
    }
}
