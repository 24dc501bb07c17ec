// SPDX-License-Identifier: MIT OR Apache-2.0

//! Linked adapters: chains that a guest sees as one adapter.

use super::{AdapterConfig, Config, LinkPower, Rotation, table_of_adapter};
use crate::gpu::display::config::DisplayConfig;
use bellhop_config::{Fault, KeyPath};
use bellhop_host_kmd::dxgkrnl::GpuPowerPolicy;
use bellhop_host_kmd::hardware::MAX_GPUS;
use bellhop_protocol::control::display::MAX_PATHS;
use std::collections::BTreeSet;

/// An adapter that guests can have: the master of a chain, with its slaves. Most have none.
#[derive(Debug, Clone)]
pub struct AdapterChain<'c> {
    /// The place in [`Config::adapters`], name and keys of each, the master first.
    pub members: Vec<(usize, &'c str, &'c AdapterConfig)>,
    power: LinkPower,
}

impl<'c> AdapterChain<'c> {
    /// When the slaves have power.
    #[must_use]
    pub fn power(&self) -> GpuPowerPolicy {
        match self.power {
            LinkPower::Always => GpuPowerPolicy::Always,
            LinkPower::WhenNeeded => GpuPowerPolicy::WhenNeeded,
        }
    }

    /// The master's name.
    #[must_use]
    pub fn name(&self) -> &'c str {
        self.members.first().map_or("", |(_, name, _)| name)
    }

    /// The displays of each member: connectors are numbered through the chain. Reads the files of EDIDs.
    ///
    /// # Errors
    /// For the first display that cannot be, or not beside the others of the chain.
    pub fn displays(&self) -> Result<Vec<DisplayConfig>, Fault> {
        let mut all: Vec<DisplayConfig> = Vec::new();
        let mut names = BTreeSet::new();
        for (_, name, adapter) in &self.members {
            let own = adapter.displays(name, names.len())?;
            let key = table_of_adapter(name).child("displays");
            for (connector, place) in own.connectors.iter().zip(0..) {
                if !names.insert(connector.name.clone()) {
                    let expected = "another than that of another display of its chain";
                    let key = key.child(place).child("name");
                    return Err(Fault::new(key, format!("{:?}", connector.name), expected));
                }
            }
            if names.len() > MAX_PATHS as usize {
                let expected = format!("at most {MAX_PATHS} with those of the rest of its chain");
                return Err(Fault::new(key, own.connectors.len(), expected));
            }
            all.push(own);
        }
        Ok(all)
    }
}

impl Config {
    /// All adapters that guests can have, in the order of [`Self::adapters`]; slaves are with their masters.
    #[must_use]
    pub fn chains(&self) -> Vec<AdapterChain<'_>> {
        let places: Vec<_> =
            (0..).zip(self.adapters()).map(|(at, (name, adapter))| (at, name, adapter)).collect();
        let link_of = |master: &str| {
            let mut links = self.link.values();
            links.find(|link| link.adapters.first().is_some_and(|name| name == master))
        };
        let slaves = self.link.values().flat_map(|link| link.adapters.iter().skip(1));
        let slaves: Vec<_> = slaves.map(String::as_str).collect();
        let mut chains = Vec::new();
        for master in places.iter().filter(|(_, name, _)| !slaves.contains(name)) {
            let named = |slave: &String| places.iter().find(|(_, name, _)| name == slave);
            let link = link_of(master.1);
            let slaves = link.and_then(|link| link.adapters.get(1..)).unwrap_or_default();
            let slaves = slaves.iter().filter_map(named);
            let members = std::iter::once(master).chain(slaves).copied().collect();
            let power = link.map(|link| link.power).unwrap_or_default();
            chains.push(AdapterChain { members, power });
        }
        chains
    }

    /// Chains must be of adapters that exist, each in one chain, and that are alike where a guest would notice.
    pub(super) fn check_links(&self) -> Result<(), Fault> {
        let known: Vec<_> = self.adapters().map(|(name, _)| name).collect();
        let mut linked: Vec<&str> = Vec::new();
        for (link, config) in &self.link {
            let key = KeyPath::new(["link", link, "adapters"]);
            let count = config.adapters.len();
            if !(1..=MAX_GPUS).contains(&count) {
                let expected = format!("a list of 1 to {MAX_GPUS} adapters");
                return Err(Fault::new(key, format!("a list of {count}"), expected));
            }
            for (place, name) in config.adapters.iter().enumerate() {
                let key = KeyPath::new(["link", link, "adapters"]).child(place);
                let fault = |expected: String| Err(Fault::new(key, format!("{name:?}"), expected));
                if !known.contains(&name.as_str()) {
                    return fault(format!("one of {known:?}, the names of adapters"));
                }
                if linked.contains(&name.as_str()) {
                    return fault("an adapter that is in no other place of a chain".to_owned());
                }
                if place > 0 && name.is_empty() {
                    return fault(
                        "the first of its chain: guests without another adapter have it".to_owned(),
                    );
                }
                linked.push(name);
                if place > 0 && self.attach.values().any(|attached| attached == name) {
                    let expected = "left out of [attach]: a slave's guests are its master's";
                    return fault(expected.to_owned());
                }
            }
            self.check_members(&config.adapters)?;
        }
        self.chains().iter().try_for_each(|chain| chain.displays().map(drop))
    }

    /// The members of a chain do for a guest what the master does.
    fn check_members(&self, names: &[String]) -> Result<(), Fault> {
        let of = |wanted: &String| self.adapters().find(|(name, _)| name == wanted);
        let Some((master_name, master)) = names.first().and_then(of) else { return Ok(()) };
        for (name, adapter) in names.iter().filter_map(of) {
            let table = table_of_adapter(name);
            if names.len() > 1 && adapter.rotation == Rotation::Remap {
                let expected = "\"watch\" in a chain, whose queues share a guest's doorbell pages";
                return Err(Fault::new(table.child("rotation"), "\"remap\"", expected));
            }
            let alike = [
                ("doorbell_model", adapter.doorbell_model == master.doorbell_model),
                ("native_fences", adapter.native_fences == master.native_fences),
                (
                    "optimized_fence_interrupt",
                    adapter.optimized_fence_interrupt == master.optimized_fence_interrupt,
                ),
            ];
            if let Some((key, _)) = alike.into_iter().find(|(_, alike)| !alike) {
                let expected = format!("that of {}", table_of_adapter(master_name).child(key));
                return Err(Fault::new(table.child(key), "another", expected));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|error| error.to_string())?;
        config.check_links().map(|()| config).map_err(|fault| fault.to_string())
    }

    fn chains(text: &str) -> Vec<Vec<String>> {
        let config = read(text).unwrap();
        let names = |chain: &AdapterChain<'_>| {
            chain.members.iter().map(|(_, name, _)| (*name).to_owned()).collect()
        };
        config.chains().iter().map(names).collect()
    }

    #[test]
    fn slaves_are_with_their_masters_and_every_other_adapter_is_a_chain_of_one() {
        let adapters = "[adapters.a]\n[adapters.b]\n[adapters.c]\n";
        assert_eq!(chains(adapters), [[""], ["a"], ["b"], ["c"]]);
        let pair = format!("{adapters}[link.pair]\nadapters = [\"c\", \"a\"]\n");
        assert_eq!(chains(&pair), [vec![""], vec!["b"], vec!["c", "a"]]);
        let first = format!("{adapters}[link.pair]\nadapters = [\"\", \"b\"]\n");
        assert_eq!(chains(&first), [vec!["", "b"], vec!["a"], vec!["c"]]);
        let config = read(&first).unwrap();
        assert_eq!(config.adapter_of(None), 0);
    }

    #[test]
    fn connectors_are_numbered_through_a_chain() {
        let text = "[[adapters.a.displays]]\n[[adapters.a.displays]]\nconnector = \"hdmi\"\n\
                    [[adapters.b.displays]]\n[link.l]\nadapters = [\"a\", \"b\"]\n";
        let config = read(text).unwrap();
        let chains = config.chains();
        let displays = chains.last().unwrap().displays().unwrap();
        let names = |display: &DisplayConfig| {
            display.connectors.iter().map(|connector| connector.name.clone()).collect::<Vec<_>>()
        };
        let names: Vec<_> = displays.iter().map(names).collect();
        assert_eq!(names, [vec!["VIRTUAL-1", "HDMI-2"], vec!["VIRTUAL-3"]]);
        // Alone, it begins with 1.
        let (_, alone) = config.adapters().find(|(name, _)| *name == "b").unwrap();
        assert_eq!(alone.displays("b", 0).unwrap().connectors[0].name, "VIRTUAL-1");
    }

    #[test]
    fn a_chain_has_no_more_connectors_than_a_guest_can_number_and_no_name_twice() {
        let link = "[link.l]\nadapters = [\"a\", \"b\"]\n";
        let many =
            |adapter: &str, count| format!("[[adapters.{adapter}.displays]]\n").repeat(count);
        read(&format!("{}{}{link}", many("a", 9), many("b", 7))).unwrap();
        let error = read(&format!("{}{}{link}", many("a", 9), many("b", 8))).unwrap_err();
        assert_eq!(
            error,
            "adapters.b.displays is 8; it must be at most 16 with those of the rest of its chain"
        );
        let named = |adapter: &str| format!("[[adapters.{adapter}.displays]]\nname = \"wall\"\n");
        let error = read(&format!("{}{}{link}", named("a"), named("b"))).unwrap_err();
        assert!(error.starts_with("adapters.b.displays[0].name is \"wall\""), "{error}");
        read(&format!("{}{}[adapters.c]\n", named("a"), named("b"))).unwrap();
    }

    #[test]
    fn a_chain_that_cannot_be_is_refused_with_the_key_at_fault() {
        let adapters = "[adapters.a]\n[adapters.b]\n";
        for (link, fault) in [
            (
                "adapters = []",
                "link.l.adapters is a list of 0; it must be a list of 1 to 4 adapters",
            ),
            ("adapters = [\"a\", \"x\"]", "link.l.adapters[1] is \"x\""),
            ("adapters = [\"a\", \"a\"]", "link.l.adapters[1] is \"a\""),
            ("adapters = [\"a\", \"\"]", "link.l.adapters[1] is \"\""),
        ] {
            let error = read(&format!("{adapters}[link.l]\n{link}\n")).unwrap_err();
            assert!(error.starts_with(fault), "{error}");
        }
        for (keys, fault) in [
            ("[adapters.a]\n[adapters.b]\nrotation = \"remap\"\n", "adapters.b.rotation is"),
            ("[adapters.a]\nnative_fences = false\n[adapters.b]\n", "adapters.b.native_fences is"),
            (
                "[adapters.a]\n[adapters.b]\ndoorbell_model = \"global\"\n",
                "adapters.b.doorbell_model",
            ),
            (
                "[attach]\n\"vm.sock\" = \"b\"\n[adapters.a]\n[adapters.b]\n",
                "link.l.adapters[1] is",
            ),
        ] {
            let error = read(&format!("{keys}[link.l]\nadapters = [\"a\", \"b\"]\n")).unwrap_err();
            assert!(error.starts_with(fault), "{error}");
        }
    }
}
