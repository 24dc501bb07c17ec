//! What a configuration may say.

use super::*;

fn file(text: &str) -> Result<ConfigFile, ConfigError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bellhopd.toml");
    std::fs::write(&path, text).unwrap();
    ConfigFile::read(&path)
}

fn load(text: &str) -> Result<Config, ConfigError> {
    file(text).map(|file| file.config)
}

/// What is wrong with a configuration.
fn fault(text: &str) -> String {
    let error = load(text).unwrap_err().to_string();
    assert!(!error.contains('\n') && error.contains("bellhopd.toml, line "), "{error}");
    error
}

#[test]
fn an_empty_file_is_the_default() {
    assert_eq!(load("").unwrap(), Config::default());
}

#[test]
fn an_unknown_key_is_refused_with_its_line() {
    let error = load("[adapter]\ncopy_nodes = 1\nfrequency = 3\n").unwrap_err().to_string();
    assert!(error.contains("line 3") && error.contains("frequency"), "{error}");
    assert!(!error.contains('\n'));
}

#[test]
fn a_value_outside_its_range_is_refused_with_the_range() {
    let error = fault("[guest]\n  local_memory_mib = 0\n");
    assert!(error.contains("guest.local_memory_mib is 0") && error.contains("1 to 65536"));
    assert!(error.contains("bellhopd.toml, line 2, column 3:"), "{error}");
}

#[test]
fn a_value_of_another_type_is_refused_with_the_key_and_its_range() {
    let error = fault("[adapter]\nspin_us = \"long\"\n");
    assert!(error.contains("line 2, column 11") && error.contains("adapter.spin_us"), "{error}");
    assert!(error.contains("0 to 1000000"), "{error}");
    let error = fault("[adapters.copy]\ntimeout_ms = -1\n");
    assert!(error.contains("adapters.copy.timeout_ms must be 10 to 3600000"), "{error}");
}

#[test]
fn no_more_copy_nodes_are_for_the_kernel_mode_than_there_are() {
    let nodes = |kernel_mode: u32| {
        format!("[adapters.b]\ncopy_nodes = 2\nkernel_mode_copy_nodes = {kernel_mode}\n")
    };
    assert_eq!(load(&nodes(2)).unwrap().adapters["b"].kernel_mode_copy_nodes, 2);
    let error = fault(&nodes(3));
    assert!(error.contains("adapters.b.kernel_mode_copy_nodes is 3"), "{error}");
    assert!(error.contains("line 3") && error.contains("0 to 2"), "{error}");
}

#[test]
fn a_log_filter_that_cannot_be_read_is_refused() {
    let error = fault("[log]\nfilter = \"bellhop=nonsense\"\n");
    assert!(error.contains("log.filter is") && error.contains("line 2"), "{error}");
}

#[test]
fn sockets_that_are_named_are_sockets_that_are_served() {
    let served = [Some(Path::new("/run/vm0.sock")), Some(Path::new("vm1.sock")), None];
    let known = "[adapters.b]\n[attach]\n\"vm0.sock\" = \"b\"\n[weights]\n\"/run/vm0.sock\" = 3\n\
                 [fence_sharing]\nboth = [\"vm0.sock\", \"vm1.sock\"]\n";
    assert_eq!(load(known).unwrap().check_sockets(&served), Ok(()));
    for (text, key, line) in [
        ("[weights]\n\"vm1.sock\" = 1\n\"nosuch.sock\" = 2\n", "weights.\"nosuch.sock\"", 3),
        ("[weights]\n\"/tmp/vm1.sock\" = 2\n", "weights.\"/tmp/vm1.sock\"", 2),
        ("[adapters.b]\n[attach]\n\"nosuch.sock\" = \"b\"\n", "attach.\"nosuch.sock\"", 3),
        ("[fence_sharing]\na = [\"vm0.sock\",\n\"nosuch.sock\"]\n", "fence_sharing.a[1]", 3),
    ] {
        let file = file(text).unwrap();
        let error = file.error(file.config.check_sockets(&served).unwrap_err()).to_string();
        assert!(error.contains(key) && error.contains(&format!("line {line},")), "{error}");
        assert!(error.contains("/run/vm0.sock, vm1.sock") && !error.contains('\n'), "{error}");
    }
    let error = load("[weights]\n\"a.sock\" = 2\n").unwrap().check_sockets(&[None]).unwrap_err();
    assert!(error.to_string().contains("no socket that is served has a path"), "{error}");
}

#[test]
fn what_is_printed_reads_back_to_the_same() {
    let text = "[adapter]\ncopy_nodes = 3\nrotation = \"remap\"\n[adapters.\"a b\"]\nspin_us = 7\n\
                [attach]\n\"a.sock\" = \"a b\"\n[guest]\ndoorbells = 4\n[weights]\n\"/r/a.sock\" = 9\n\
                [fence_sharing]\nboth = [\"a.sock\", \"b.sock\"]\n[control]\nsocket = \"/run/c.sock\"\n";
    let written = file(text).unwrap();
    assert_ne!(written.config, Config::default());
    let printed = written.to_toml().unwrap();
    assert_eq!(load(&printed).unwrap(), written.config, "{printed}");
}

#[test]
fn a_global_doorbell_is_not_rotated() {
    let both = "[adapter]\ndoorbell_model = \"global\"\nrotation = \"remap\"\n";
    let error = load(&format!("{both}[guest]\ndoorbells = 4\n")).unwrap_err().to_string();
    assert!(error.contains("adapter.rotation") && error.contains("doorbell_model"), "{error}");
    assert!(!error.contains('\n'));
}

#[test]
fn a_guest_is_known_by_its_socket() {
    let weights = "[guest]\nweight = 7\n[weights]\n\"a.sock\" = 1\n\"/run/b.sock\" = 2\n";
    let config = load(weights).unwrap();
    let weight = |path: &str| config.weight(Some(Path::new(path)));
    assert_eq!(weight("/any/where/a.sock"), 1);
    assert_eq!((weight("/run/b.sock"), weight("/tmp/b.sock")), (2, 7));
    assert_eq!(config.weight(None), 7);
    let error = load("[weights]\n\"a.sock\" = 0\n").unwrap_err().to_string();
    assert!(error.contains("weights.\"a.sock\" is 0") && error.contains("1 to 10000"), "{error}");
}

#[test]
fn a_guest_is_attached_to_the_adapter_that_its_socket_is_given() {
    let adapters = "[adapters.b]\ncopy_nodes = 1\n[adapters.a]\ncopy_nodes = 3\n";
    let config = load(&format!("{adapters}[attach]\n\"a.sock\" = \"a\"\n")).unwrap();
    let nodes = |path: &str| {
        let place = config.adapter_of(Some(Path::new(path)));
        config.adapters().nth(place).map(|(name, adapter)| (name, adapter.copy_nodes))
    };
    assert_eq!(nodes("/run/a.sock"), Some(("a", 3)));
    assert_eq!(nodes("/run/b.sock"), Some(("", 2)));
    assert_eq!(config.adapter_of(None), 0);
    let error = load("[attach]\n\"a.sock\" = \"c\"\n").unwrap_err().to_string();
    assert!(error.contains("a.sock") && error.contains("no [adapters.c]"), "{error}");
    let error = load("[adapters.a]\ncopy_nodes = 0\n").unwrap_err().to_string();
    assert!(error.contains("adapters.a.copy_nodes is 0"), "{error}");
    let many: String = (0..8).map(|number| format!("[adapters.a{number}]\n")).collect();
    let error = load(&many).unwrap_err().to_string();
    assert!(error.contains("adapters is 8 entries") && error.contains("0 to 7"), "{error}");
}

#[test]
fn guests_have_fences_together_whose_sockets_one_group_names() {
    let sharing = "[fence_sharing]\nvideo = [\"a.sock\", \"/run/b.sock\"]\n\
                   render = [\"/run/b.sock\", \"c.sock\"]\n";
    let config = load(sharing).unwrap();
    let groups = |path: &str| config.sharing(Some(Path::new(path)));
    assert!(groups("/x/a.sock").common(groups("/run/b.sock")).is_some());
    assert!(groups("/run/b.sock").common(groups("/y/c.sock")).is_some());
    assert!(groups("/x/a.sock").common(groups("/y/c.sock")).is_none());
    assert_eq!(groups("/tmp/b.sock"), SharingGroups::NONE);
    assert_eq!(config.sharing(None), SharingGroups::NONE);
    assert_eq!(config.cross_adapter_fences(), 3 * 64);
    assert_eq!(Config::default().cross_adapter_fences(), 0);
}

#[test]
fn doorbells_that_are_moved_are_few() {
    let remap = "[adapter]\nrotation = \"remap\"\n";
    let error = load(remap).unwrap_err().to_string();
    assert!(error.contains("guest.doorbells is 1024") && error.contains("remap"), "{error}");
    let config = load(&format!("{remap}[guest]\ndoorbells = 4\n")).unwrap();
    assert!(config.adapter.gpu().remaps_doorbells);
}

#[test]
fn guests_have_the_usual_limits_unless_others_are_set() {
    assert_eq!(Config::default().limits(), Limits::default());
    let limits = load("[guest]\nobjects = 1000\n").unwrap().limits();
    assert_eq!((limits.handles, limits.mappings, limits.extents), (1000, 1000, 16_000));
    let limits = load("[guest]\nallocations = 3\nhw_queues = 2\nwaits = 1\n").unwrap().limits();
    assert_eq!((limits.allocations, limits.hw_queues, limits.waits), (3, 2, 1));
}

#[test]
fn a_missing_file_says_how_to_name_one() {
    let error = ConfigFile::read(Path::new("/nonexistent/bellhopd.toml")).unwrap_err();
    assert!(error.to_string().contains("--config"));
}

const INSTALLED: &str = include_str!("../../../dist/bellhop.toml");

#[test]
fn the_installed_file_changes_nothing() {
    assert_eq!(load(INSTALLED).unwrap(), Config::default());
}

#[test]
fn the_installed_file_shows_every_key_with_its_default() {
    // A comment has a space after the `#`, a default has none.
    let shown = INSTALLED.replace("\n#", "\n").replace("\n ", "\n# ");
    let shown: toml::Table = toml::from_str(&shown).unwrap();
    assert_eq!(shown, toml::Table::try_from(Config::default()).unwrap());
}

#[test]
fn the_reference_shows_every_key_with_its_default() {
    let reference = include_str!("../../../../docs/service.md");
    for (section, keys) in toml::Table::try_from(Config::default()).unwrap() {
        for (key, default) in keys.as_table().unwrap() {
            let row = format!("| `{section}.{key}` | `{default}` |");
            assert!(reference.contains(&row), "docs/service.md lacks {row}");
        }
    }
}
