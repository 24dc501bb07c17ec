// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rules for values that the types of the keys cannot express.

use super::{Config, DoorbellModel, Processors, Rotation, table_of_adapter};
use bellhop_config::{Configuration, Fault, KeyPath};
use std::ops::RangeInclusive;
use std::path::Path;

/// Maximum number of adapters beside the first. Each engine of an adapter is a thread.
const MAX_ADAPTERS: usize = 7;

/// Maximum number of groups of guests that share fences.
const MAX_GROUPS: usize = 64;

/// Number of a guest's doorbells if their pages are moved: each takes an entry of the VMM's memory table, and a VMM
/// may have far fewer.
const REMAPPED_DOORBELLS: RangeInclusive<u32> = 1..=64;

impl Configuration for Config {
    fn validate(&self) -> Result<(), Fault> {
        self.check_counts()?;
        self.check_connections()?;
        self.check_adapters()?;
        self.check_attachments()?;
        self.check_links()?;
        let filter = &self.log.filter;
        crate::log::filter(filter).map(drop).map_err(|error| {
            Fault::new(KeyPath::new(["log", "filter"]), format!("{filter:?}"), error.to_string())
        })
    }
}

impl Config {
    /// Checks that every socket named in the configuration is served, and that the doorbells suffice for the guests
    /// of all served sockets.
    ///
    /// # Errors
    /// For the first socket that is not served, or if the doorbells do not suffice.
    pub fn check_sockets(&self, served: &[Option<&Path>]) -> Result<(), Fault> {
        let is_served =
            |name: &str| served.iter().any(|socket| super::names(*socket).any(|n| n == name));
        let paths: Vec<_> =
            served.iter().flatten().map(|path| path.display().to_string()).collect();
        let expected = match paths.as_slice() {
            [] => "left out, since no served socket has a path".to_owned(),
            paths => format!("for one of {}, by its path or its file name", paths.join(", ")),
        };
        let tables = [
            ("weights", self.weights.keys().collect::<Vec<_>>()),
            ("attach", self.attach.keys().collect()),
        ];
        for (table, name) in tables.iter().flat_map(|(t, names)| names.iter().map(move |n| (t, n)))
        {
            if !is_served(name) {
                let key = KeyPath::new([table, name]);
                return Err(Fault::new(key, "for a socket that is not served", expected));
            }
        }
        for (group, sockets) in &self.fence_sharing {
            if let Some(place) = sockets.iter().position(|name| !is_served(name)) {
                let key = KeyPath::new(["fence_sharing", group]).child(place);
                let value = format!("{:?}, which is not served", sockets[place]);
                return Err(Fault::new(key, value, expected));
            }
        }
        self.check_shares(served)
    }

    /// Checks that the processors of all engines are in `usable`, those that this process may use.
    ///
    /// # Errors
    /// For the first adapter with a processor that the process may not use.
    pub fn check_processors(&self, usable: &[usize]) -> Result<(), Fault> {
        for (name, adapter) in self.adapters() {
            let processors = &adapter.engine_processors;
            if !processors.numbers().iter().all(|number| usable.contains(number)) {
                let key = table_of_adapter(name).child("engine_processors");
                let expected = format!(
                    "of processors that are there and allowed: {}",
                    Processors::from(usable)
                );
                return Err(Fault::new(key, format!("\"{processors}\""), expected));
            }
        }
        Ok(())
    }

    /// The doorbells reserved for all guests must not exceed the adapter's.
    fn check_shares(&self, served: &[Option<&Path>]) -> Result<(), Fault> {
        let reserved = self.guest.physical_doorbells_reserved.get();
        for (place, chain) in self.chains().into_iter().enumerate() {
            let Some((_, _, adapter)) = chain.members.first() else { continue };
            let guests = served.iter().filter(|socket| self.adapter_of(**socket) == place).count();
            let all = adapter.physical_doorbells.get();
            let most = all.checked_div(u32::try_from(guests).unwrap_or(u32::MAX));
            if adapter.doorbell_model == DoorbellModel::Dedicated
                && let Some(most) = most.filter(|most| reserved > *most)
            {
                let key = KeyPath::new(["guest", "physical_doorbells_reserved"]);
                let expected =
                    format!("0 to {most}: {guests} sockets share {all} physical doorbells");
                return Err(Fault::new(key, reserved, expected));
            }
        }
        Ok(())
    }

    fn check_counts(&self) -> Result<(), Fault> {
        let at_most = |table: &str, count: usize, limit: usize| {
            if count <= limit {
                return Ok(());
            }
            let key = KeyPath::new([table]);
            Err(Fault::new(key, format!("{count} entries"), format!("0 to {limit}")))
        };
        at_most("adapters", self.adapters.len(), MAX_ADAPTERS)?;
        at_most("fence_sharing", self.fence_sharing.len(), MAX_GROUPS)
    }

    /// Each guest of a socket must have a part of what the socket has.
    fn check_connections(&self) -> Result<(), Fault> {
        let guest = &self.guest;
        let connections = guest.connections.get();
        let key = |name| KeyPath::new(["guest", name]);
        let fault = |name: &'static str, value: String, expected| {
            let cause = Some(key("connections"));
            Err(Fault { cause, ..Fault::new(key(name), value, expected) })
        };
        let counts = [
            ("doorbells", guest.doorbells.get()),
            ("fences", guest.fences.get()),
            ("allocations", guest.allocations.get()),
            ("hw_queues", guest.hw_queues.get()),
            ("waits", guest.waits.get()),
            ("cross_adapter_fences", guest.cross_adapter_fences.get()),
            ("kernels", guest.kernels.get()),
        ];
        // Where nothing is a value, it is divided as well.
        let is_too_small = |value: u64| (1..connections.into()).contains(&value);
        if let Some((name, count)) = counts.into_iter().find(|(_, n)| is_too_small((*n).into())) {
            let expected = format!("at least {connections}, one for each of guest.connections");
            return fault(name, count.to_string(), expected);
        }
        let sizes = [
            ("local_memory", guest.local_memory.get(), format!("{:?}", guest.local_memory)),
            ("private_memory", guest.private_memory.get(), format!("{:?}", guest.private_memory)),
            ("backing_memory", guest.backing_memory.get(), format!("{:?}", guest.backing_memory)),
            ("aperture", guest.aperture.get(), format!("{:?}", guest.aperture)),
            (
                "announced_memory",
                guest.announced_memory.get(),
                format!("{:?}", guest.announced_memory),
            ),
        ];
        if let Some((name, _, size)) = sizes.into_iter().find(|of| is_too_small(of.1 >> 20)) {
            let expected = format!("at least {connections}MiB, 1MiB for each of guest.connections");
            return fault(name, size, expected);
        }
        for (name, adapter) in self.adapters().filter(|_| connections > 1) {
            let displays = adapter.displays.len();
            if displays > 0 {
                let key = table_of_adapter(name).child("displays");
                let expected = format!(
                    "left out while guest.connections is {connections}: which guest of a socket had the \
                     monitors would depend on who connects first"
                );
                let fault = Fault::new(key, format!("{displays} displays"), expected);
                return Err(Fault { cause: Some(KeyPath::new(["guest", "connections"])), ..fault });
            }
        }
        Ok(())
    }

    fn check_adapters(&self) -> Result<(), Fault> {
        for (name, adapter) in self.adapters() {
            let table = table_of_adapter(name);
            let (nodes, all) = (adapter.kernel_mode_copy_nodes.get(), adapter.copy_nodes.get());
            if nodes > all {
                let expected = format!("0 to {all}, as many as {}", table.child("copy_nodes"));
                return Err(Fault::new(table.child("kernel_mode_copy_nodes"), nodes, expected));
            }
            adapter.displays(name, 0)?;
            let (workers, all) =
                (adapter.kernel_workers_per_guest.get(), adapter.kernel_workers.get());
            if workers > all {
                let expected = format!("1 to {all}, as many as {}", table.child("kernel_workers"));
                let cause = Some(table.child("kernel_workers"));
                let fault = Fault::new(table.child("kernel_workers_per_guest"), workers, expected);
                return Err(Fault { cause, ..fault });
            }
            if adapter.rotation != Rotation::Remap {
                continue;
            }
            let rotation = table.child("rotation");
            if adapter.doorbell_model == DoorbellModel::Global {
                let model = table.child("doorbell_model");
                let expected =
                    format!("\"watch\" while {model} is \"global\", which never rotates");
                return Err(Fault::new(rotation, "\"remap\"", expected));
            }
            let doorbells = self.guest.doorbells.get();
            if !REMAPPED_DOORBELLS.contains(&doorbells) {
                let expected =
                    format!("1 to 64 while {rotation} is \"remap\", and 4 at most for QEMU");
                let key = KeyPath::new(["guest", "doorbells"]);
                let fault = Fault::new(key, doorbells, expected);
                return Err(Fault { cause: Some(rotation), ..fault });
            }
        }
        Ok(())
    }

    fn check_attachments(&self) -> Result<(), Fault> {
        let missing = self.attach.iter().find(|(_, name)| !self.adapters.contains_key(*name));
        missing.map_or(Ok(()), |(socket, name)| {
            let tables: Vec<_> = self.adapters.keys().map(|name| format!("{name:?}")).collect();
            let expected = match tables.as_slice() {
                [] => format!("left out, as there is no [adapters.{name}]"),
                tables => format!("one of {}, as there is no [adapters.{name}]", tables.join(", ")),
            };
            Err(Fault::new(KeyPath::new(["attach", socket]), format!("{name:?}"), expected))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_config::at;

    #[test]
    fn engines_run_on_processors_that_the_process_may_use() {
        let listed = "[adapters.b]\nengine_processors = \"6,0-1\"\n";
        let config: Config = toml::from_str(listed).unwrap();
        assert_eq!(config.check_processors(&[0, 1, 2, 6]), Ok(()));
        let fault = config.check_processors(&[0, 1, 2, 3, 7]).unwrap_err().to_string();
        assert_eq!(
            fault,
            "adapters.b.engine_processors is \"6,0-1\"; it must be of processors that are there and \
             allowed: 0-3,7"
        );
    }

    #[test]
    fn each_guest_of_a_socket_has_an_equal_part_of_what_the_socket_has() {
        let config = |text: &str| toml::from_str::<Config>(text).unwrap();
        let one = Config::default();
        for connections in [1, 2, 3, 7, 8, 16_u32] {
            let several = config(&format!("[guest]\nconnections = {connections}\n"));
            several.validate().unwrap();
            let (all, each, n) = (one.limits(), several.limits(), u64::from(connections));
            let counts = |of: &bellhop_host_kmd::dxgkrnl::Limits| {
                [
                    of.processes,
                    of.handles,
                    of.allocations,
                    of.hw_queues,
                    of.waits,
                    of.mappings,
                    of.extents,
                    of.submissions,
                    of.listed_allocations,
                    of.cross_adapter_fences,
                    of.held,
                    of.kernels,
                ]
            };
            for (all, each) in counts(&all).into_iter().zip(counts(&each)) {
                assert!(each > 0 && u64::from(each) * n <= all.into(), "{each} of {all}");
            }
            assert!(each.mapped_bytes * n <= all.mapped_bytes);
            let bars = (one.bar(), several.bar());
            assert!(u64::from(bars.1.doorbell_count) * n <= bars.0.doorbell_count.into());
            assert!(u64::from(bars.1.fence_count) * n <= bars.0.fence_count.into());
            let (all, each) = (one.segments(), several.segments());
            for (all, each) in [
                (bars.0.local_memory, bars.1.local_memory),
                (all.private, each.private),
                (all.backing, each.backing),
                (all.aperture, each.aperture),
                (one.memory_limit(), several.memory_limit()),
            ] {
                assert!(each > 0 && each % (1 << 20) == 0 && each * n <= all, "{each} of {all}");
            }
            assert_eq!(several.weight(None), one.weight(None), "the guests have it together");
        }
    }

    #[test]
    fn a_socket_has_no_more_connections_than_parts_and_no_displays_for_several() {
        let fault = |text: &str| {
            let config: Config = toml::from_str(text).unwrap();
            config.validate().unwrap_err().to_string()
        };
        let few = fault("[guest]\nconnections = 8\nkernels = 7\n");
        assert!(few.contains("guest.kernels is 7") && few.contains("at least 8"), "{few}");
        let small = fault("[guest]\nconnections = 8\nlocal_memory = \"7MiB\"\n");
        assert!(small.contains("guest.local_memory is 7MiB") && small.contains("8MiB"), "{small}");
        let shown = fault("[guest]\nconnections = 2\n[[adapter.displays]]\n");
        assert!(shown.contains("adapter.displays is 1 displays"), "{shown}");
        let none = "[guest]\nconnections = 8\nkernels = 0\nprivate_memory = \"0MiB\"\n";
        toml::from_str::<Config>(none).unwrap().validate().unwrap();
        let (least, most) = ("[guest]\nconnections = 0\n", "[guest]\nconnections = 17\n");
        assert!([least, most].iter().all(|text| toml::from_str::<Config>(text).is_err()));
    }

    #[test]
    fn no_more_doorbells_are_reserved_than_each_sockets_part() {
        let mut config = Config::default();
        config.adapter.physical_doorbells = at(7);
        let sockets = ["a.sock", "b.sock"].map(|name| Some(Path::new(name)));
        config.guest.physical_doorbells_reserved = at(3);
        config.check_sockets(&sockets).unwrap();
        config.guest.physical_doorbells_reserved = at(4);
        config.check_sockets(&sockets[..1]).unwrap();
        let fault = config.check_sockets(&sockets).unwrap_err().to_string();
        assert!(
            fault.contains("physical_doorbells_reserved is 4") && fault.contains("0 to 3"),
            "{fault}"
        );
        config.adapter.doorbell_model = DoorbellModel::Global;
        config.check_sockets(&sockets).unwrap();
    }
}
