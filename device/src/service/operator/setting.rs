// SPDX-License-Identifier: MIT OR Apache-2.0

//! The keys of `[guest]` that may change while guests are attached.

use crate::service::config::{Config, GuestConfig};
use bellhop_config::{Kind, Setting as _, read};
use bellhop_host_kmd::port::GuestLimit;

/// What a key changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setting {
    /// `weight`
    Weight(u32),
    /// `physical_doorbells_reserved`
    DoorbellShare(u32),
    /// A limit that the kernel keeps.
    Limit(GuestLimit, u32),
    /// `log_lines_per_second`
    LogLines(u32),
    /// `log_burst`
    LogBurst(u32),
    /// `worker_starts_per_second`
    WorkerStarts(u32),
    /// `worker_start_burst`
    WorkerStartBurst(u32),
}

/// The keys that may change.
const CHANGEABLE: [&str; 11] = [
    "weight",
    "objects",
    "allocations",
    "hw_queues",
    "waits",
    "kernels",
    "physical_doorbells_reserved",
    "worker_starts_per_second",
    "worker_start_burst",
    "log_lines_per_second",
    "log_burst",
];

const RESTART: &str = "change it in the daemon's configuration and restart the daemon when its guests have gone: \
                       `bellhop ctl drain --stop`";

impl Setting {
    /// Parses a key, with or without its section, and its value.
    ///
    /// # Errors
    /// Why the key or the value cannot be, and what to do instead.
    pub(super) fn parse(key: &str, value: &str) -> Result<Self, String> {
        let name = key.strip_prefix("guest.").unwrap_or(key);
        if !CHANGEABLE.contains(&name) {
            return Err(fixed(key, name));
        }
        // A value of another kind is named as text, so that nothing of it is read as TOML.
        let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        let quoted = value.escape_default();
        let value = if is_number { value.to_owned() } else { format!("\"{quoted}\"") };
        let text = format!("[guest]\n{name} = {value}\n");
        let Config { guest, .. } = read(&text).map_err(|flaw| flaw.why.to_string())?;
        let limit = |limit| move |most| Self::Limit(limit, most);
        Ok(match name {
            "weight" => Self::Weight(guest.weight.get()),
            "objects" => limit(GuestLimit::Objects)(guest.objects.get()),
            "allocations" => limit(GuestLimit::Allocations)(guest.allocations.get()),
            "hw_queues" => limit(GuestLimit::HwQueues)(guest.hw_queues.get()),
            "waits" => limit(GuestLimit::Waits)(guest.waits.get()),
            "kernels" => limit(GuestLimit::Kernels)(guest.kernels.get()),
            "physical_doorbells_reserved" => {
                Self::DoorbellShare(guest.physical_doorbells_reserved.get())
            }
            "worker_starts_per_second" => Self::WorkerStarts(guest.worker_starts_per_second.get()),
            "worker_start_burst" => Self::WorkerStartBurst(guest.worker_start_burst.get()),
            "log_lines_per_second" => Self::LogLines(guest.log_lines_per_second.get()),
            _ => Self::LogBurst(guest.log_burst.get()),
        })
    }
}

/// Why a key cannot change.
fn fixed(key: &str, name: &str) -> String {
    let Kind::Section(of_guest) = GuestConfig::KIND else { return String::new() };
    if of_guest.iter().any(|of| of.name == name) {
        return format!("guest.{name} makes up what a guest gets when it attaches; {RESTART}");
    }
    let section = key.split('.').next().unwrap_or_default();
    let Kind::Section(sections) = Config::KIND else { return String::new() };
    if key.contains('.') && sections.iter().any(|of| of.name == section) {
        return format!("{key} is read when the daemon starts; {RESTART}");
    }
    format!("there is no key {key:?}; these may change: {}", CHANGEABLE.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_changeable_key_is_one_of_the_configuration() {
        for key in CHANGEABLE {
            assert!(Setting::parse(key, "1000").is_ok(), "{key}");
        }
        assert_eq!(Setting::parse("guest.weight", "400"), Ok(Setting::Weight(400)));
        let kernels = Setting::Limit(GuestLimit::Kernels, 8);
        assert_eq!(Setting::parse("kernels", "8"), Ok(kernels));
    }

    #[test]
    fn a_refusal_says_what_to_do_instead() {
        let refusal = |key, value| Setting::parse(key, value).unwrap_err();
        for (key, value, expected) in [
            ("weight", "0", "guest.weight is 0; it must be 1 to 10000"),
            ("weight", "many", "it must be 1 to 10000"),
            ("weight", "", "it must be 1 to 10000"),
            ("weight", "99999999999999999999", "10000"),
            ("local_memory", "1GiB", "bellhop ctl drain --stop"),
            ("doorbells", "1", "when it attaches"),
            ("adapter.spin", "1us", "is read when the daemon starts"),
            ("wait", "1", "these may change: weight, objects"),
        ] {
            let why = refusal(key, value);
            assert!(why.contains(expected) && !why.contains('\n'), "{key} = {value}: {why}");
        }
    }

    #[test]
    fn nothing_of_a_value_is_read_as_another_key() {
        for value in ["1\n[debug]\ntest_kernels = true", "\"", "\\", "1 # x", "{a=1}"] {
            assert!(Setting::parse("weight", value).is_err(), "{value:?}");
        }
    }
}
