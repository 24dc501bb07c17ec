// SPDX-License-Identifier: MIT OR Apache-2.0

//! The Vulkan devices of a machine, and whether they can run kernels.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Advice for a machine without Vulkan, or with one that computes wrongly.
pub const INSTALL: &str = "install Mesa 25 or newer (Debian 13: mesa-vulkan-drivers, libvulkan1)";

/// A machine's Vulkan devices, and the one that runs kernels.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// The name of the device that runs kernels: the first usable one.
    pub device: Option<String>,
    /// Why no device runs kernels.
    pub missing: Option<String>,
    /// All devices that were tested.
    pub devices: Vec<Device>,
}

/// A Vulkan device and its verdict.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Device {
    /// Its index in the loader's list, by which workers find it.
    pub index: u32,
    /// The device's description of itself.
    #[serde(flatten)]
    pub description: Description,
    /// The result of the self-test.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// A Vulkan device, as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The device's name.
    pub name: String,
    /// What kind of device it is.
    pub kind: Kind,
    /// The Vulkan version that it supports.
    pub api: String,
    /// The driver's name and version.
    pub driver: String,
    /// Limits for kernels.
    pub limits: Limits,
}

/// The kind of a Vulkan device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A driver that runs kernels on the processor, such as lavapipe.
    Cpu,
    /// A GPU that shares the processor's memory.
    IntegratedGpu,
    /// A GPU with memory of its own.
    DiscreteGpu,
    /// A VM's GPU.
    VirtualGpu,
    /// Something else.
    Other,
}

/// Limits for kernels on a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Most invocations in a work group, by dimension.
    pub work_group_size: [u32; 3],
    /// Most invocations in a work group, in all.
    pub work_group_invocations: u32,
    /// Most work groups in a dispatch, by dimension.
    pub work_groups: [u32; 3],
    /// Most bytes of shared memory in a work group.
    pub shared_memory: u32,
    /// Most bytes of push constants.
    pub push_constants: u32,
    /// Alignment of a descriptor's address, in bytes.
    pub descriptor_alignment: u64,
    /// Most bytes that a descriptor covers.
    pub descriptor_range: u32,
    /// Alignment of imported memory's address, in bytes. `None` if memory cannot be imported.
    pub import_alignment: Option<u64>,
}

/// Whether kernels can run on a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It passed the self-test.
    Usable {
        /// Whether pointers reach memory that no buffer covers: the capability `KERNEL_POINTERS`.
        pointers: bool,
    },
    /// It lacks something or computes wrongly: the reason and the remedy.
    Refused(String),
}

impl Report {
    /// The report of a machine without Vulkan.
    #[must_use]
    pub fn none(why: &str) -> Self {
        Self { device: None, missing: Some(format!("{why}; {INSTALL}")), devices: Vec::new() }
    }

    /// Chooses the first usable device of any kind. Users set the order of devices, or name one.
    #[must_use]
    pub fn choose(devices: Vec<Device>) -> Self {
        let mut report = Self { device: None, missing: None, devices };
        match report.chosen() {
            Some((device, _)) => report.device = Some(device.description.name.clone()),
            None => report.missing = Some("no Vulkan device passed the self-test".to_owned()),
        }
        report
    }

    /// Returns the device that runs kernels, and whether their pointers reach memory that no buffer covers.
    #[must_use]
    pub fn chosen(&self) -> Option<(&Device, bool)> {
        self.devices.iter().find_map(|device| match device.verdict {
            Verdict::Usable { pointers } => Some((device, pointers)),
            Verdict::Refused(_) => None,
        })
    }

    /// Describes in one line why no device runs kernels, with each device's refusal; empty if one does.
    #[must_use]
    pub fn why_missing(&self) -> String {
        let refusals = self.devices.iter().filter_map(|device| match &device.verdict {
            Verdict::Refused(why) => Some(why.as_str()),
            Verdict::Usable { .. } => None,
        });
        let parts: Vec<_> = self.missing.as_deref().into_iter().chain(refusals).collect();
        if self.missing.is_some() { parts.join(": ") } else { String::new() }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.device, &self.missing) {
            (Some(name), _) => writeln!(f, "Kernels, with {name}")?,
            (None, Some(why)) => writeln!(f, "No kernels: {why}")?,
            (None, None) => writeln!(f, "No kernels")?,
        }
        self.devices.iter().try_for_each(|device| write!(f, "{device}"))
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Description { name, kind, api, driver, limits } = &self.description;
        writeln!(f, "  {name}")?;
        writeln!(f, "    is            {kind}, Vulkan {api}, driver {driver}")?;
        let pointers = match &self.verdict {
            Verdict::Refused(why) => return writeln!(f, "    refused       {why}"),
            Verdict::Usable { pointers } => *pointers,
        };
        let reached = if pointers { "any GPU virtual address" } else { "descriptors only" };
        writeln!(f, "    kernels reach {reached}")?;
        let [x, y, z] = limits.work_group_size;
        let invocations = limits.work_group_invocations;
        writeln!(f, "    work group    at most {x} x {y} x {z}, {invocations} invocations in all")?;
        writeln!(f, "    shared memory {} bytes", limits.shared_memory)?;
        writeln!(f, "    arguments     {} bytes of push constants", limits.push_constants)?;
        writeln!(f, "    descriptors   aligned to {} bytes", limits.descriptor_alignment)?;
        if let Some(alignment) = limits.import_alignment {
            writeln!(f, "    imports       aligned to {alignment} bytes")?;
        }
        Ok(())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "a program for the processor",
            Self::IntegratedGpu => "an integrated GPU",
            Self::DiscreteGpu => "a GPU",
            Self::VirtualGpu => "a virtual GPU",
            Self::Other => "of no known kind",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, verdict: Verdict) -> Device {
        let limits = Limits {
            work_group_size: [1024, 1024, 64],
            work_group_invocations: 1024,
            work_groups: [65535; 3],
            shared_memory: 32768,
            push_constants: 256,
            descriptor_alignment: 16,
            descriptor_range: 1 << 27,
            import_alignment: Some(4096),
        };
        let (api, driver) = ("1.4.305".to_owned(), "a driver".to_owned());
        let description =
            Description { name: name.to_owned(), kind: Kind::Cpu, api, driver, limits };
        Device { index: 0, description, verdict }
    }

    #[test]
    fn the_first_usable_device_is_chosen() {
        let refused = || device("wrong", Verdict::Refused("it computes wrongly".to_owned()));
        let usable = |name| device(name, Verdict::Usable { pointers: false });
        let report = Report::choose(vec![refused(), usable("right"), usable("other")]);
        assert_eq!((report.device.as_deref(), &report.missing), (Some("right"), &None));
        assert_eq!(report.chosen().unwrap().0.description.name, "right");
        assert_eq!(report.why_missing(), "");
        let report = Report::choose(vec![refused()]);
        assert!(report.device.is_none() && report.chosen().is_none());
        let why = "no Vulkan device passed the self-test: it computes wrongly";
        assert_eq!(report.why_missing(), why);
    }

    #[test]
    fn a_machine_without_vulkan_is_told_what_to_install() {
        let report = Report::none("libvulkan.so.1 is not here");
        let said = report.to_string();
        assert!(said.starts_with("No kernels: libvulkan.so.1 is not here; install "), "{said}");
        assert!(said.contains("mesa-vulkan-drivers"), "{said}");
    }

    #[test]
    fn a_report_is_read_back_from_what_other_programs_are_given() {
        let report = Report::choose(vec![
            device("a", Verdict::Refused("why".to_owned())),
            device("b", Verdict::Usable { pointers: true }),
        ]);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["device"], "b");
        assert_eq!(json["devices"][0]["refused"], "why");
        assert_eq!(json["devices"][1]["usable"]["pointers"], true);
        let back: Report = serde_json::from_value(json).unwrap();
        assert_eq!(back.to_string(), report.to_string());
    }
}
