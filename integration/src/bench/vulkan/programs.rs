// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs of other people's, which measure themselves: with the driver, and with the host's Vulkan in their own process.

use super::super::setting::Setting;
use super::WITH_DRIVER;
use super::guest::{Guest, native};
use crate::vulkan::figures::measured_by;
use bellhop_guest::bench::{Measured, Suite};
use std::collections::BTreeMap;
use std::ffi::OsString;

/// Their shaders may take long to compile, and run long.
pub(in super::super) const CONFIG: &str = "[adapter]\ntimeout = \"60s\"\nkernel_compile_timeout = \"10m\"\n\
                                          [guest]\nkernel_compile_burst = \"1h\"\n";

/// Measures each program that the command line names, in turns with itself on the host.
pub(in super::super) fn run(
    setting: &Setting,
    _: &[Suite],
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let guest = Guest::new(setting, WITH_DRIVER)?;
    for program in setting.arguments.programs() {
        let words: Vec<_> = program.split_whitespace().map(OsString::from).collect();
        for _ in 0..setting.options(&[]).repetitions {
            let ours: BTreeMap<String, u64> = measured_by(guest.command(&words)?)?;
            let native: BTreeMap<String, u64> = measured_by(native(setting, &words)?)?;
            for (name, nanoseconds) in ours {
                let ours = nanoseconds as f64;
                measured.figure(format!("vulkan_{name}_ns"), ours);
                if let Some(native) = native.get(&name) {
                    measured.figure(format!("native_vulkan_{name}_ns"), *native as f64);
                    measured.ratio(format!("vulkan_{name}_over_native"), ours, *native as f64);
                }
            }
        }
    }
    Ok(())
}
