// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of reading and checking configurations.

use super::*;
use bellhop_config::ConfigError;
use bellhop_protocol::control::display::ConnectorKind;

fn file(text: &str) -> Result<ConfigFile, ConfigError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bellhopd.toml");
    std::fs::write(&path, text).unwrap();
    ConfigFile::read(&path)
}

fn load(text: &str) -> Result<Config, ConfigError> {
    file(text).map(|file| file.config)
}

/// The error for a faulty configuration.
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
fn a_cause_is_told_once() {
    for text in ["[adapter]\nspin = \"3h\"\n", "[adapter]\nengine_idel = 5\n"] {
        let error = format!("{:#}", anyhow::Error::new(load(text).unwrap_err()));
        assert_eq!(error.matches("line 2").count(), 1, "{error}");
    }
}

#[test]
fn a_value_outside_its_range_is_refused_with_the_range() {
    let error = fault("[guest]\n  local_memory = \"0MiB\"\n");
    assert!(error.contains("guest.local_memory is \"0MiB\"; it must be 1MiB to 64GiB"), "{error}");
    assert!(error.contains("bellhopd.toml, line 2, column 18:"), "{error}");
}

#[test]
fn a_value_of_another_type_is_refused_with_the_key_and_its_range() {
    let error = fault("[adapter]\nspin = \"long\"\n");
    assert!(error.contains("line 2, column 8: adapter.spin is \"long\""), "{error}");
    assert!(error.contains("it must be 0s to 1s in whole microseconds"), "{error}");
    let error = fault("[adapters.copy]\ntimeout = -1\n");
    assert!(error.contains("adapters.copy.timeout is -1; it must be 10ms to 1h"), "{error}");
    let error = fault("[adapter]\nrotation = \"moved\"\n");
    assert!(error.contains("adapter.rotation is \"moved\"; it must be watch or remap"), "{error}");
}

#[test]
fn a_number_is_no_time_and_no_size() {
    let error = fault("[adapter]\nquantum = 50\n");
    assert!(error.contains("adapter.quantum is 50; it must be 0s to 100ms"), "{error}");
    let error = fault("[guest]\naperture = 64\n");
    assert!(error.contains("guest.aperture is 64; it must be 1MiB to 64GiB"), "{error}");
    let error = fault("[adapter]\ncopy_nodes = \"2\"\n");
    assert!(error.contains("adapter.copy_nodes is \"2\"; it must be 1 to 8"), "{error}");
}

#[test]
fn no_more_copy_nodes_are_for_the_kernel_mode_than_there_are() {
    let nodes = |kernel_mode: u32| {
        format!("[adapters.b]\ncopy_nodes = 2\nkernel_mode_copy_nodes = {kernel_mode}\n")
    };
    assert_eq!(load(&nodes(2)).unwrap().adapters["b"].kernel_mode_copy_nodes.get(), 2);
    let error = fault(&nodes(3));
    assert!(error.contains("adapters.b.kernel_mode_copy_nodes is 3"), "{error}");
    assert!(error.contains("line 3") && error.contains("0 to 2"), "{error}");
}

#[test]
fn a_guest_has_no_more_workers_than_there_are() {
    let workers = |of_a_guest: u32| {
        format!("[adapter]\nkernel_workers = 3\nkernel_workers_per_guest = {of_a_guest}\n")
    };
    assert_eq!(load(&workers(3)).unwrap().adapter.kernel_workers_per_guest.get(), 3);
    let error = fault(&workers(4));
    assert!(error.contains("adapter.kernel_workers_per_guest is 4"), "{error}");
    assert!(error.contains("line 3") && error.contains("1 to 3"), "{error}");
    let error = fault("[adapter]\nkernel_workers = 2\n");
    assert!(error.contains("kernel_workers_per_guest is 4") && error.contains("line 2"), "{error}");
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
    assert!(error.to_string().contains("no served socket has a path"), "{error}");
}

#[test]
fn what_is_printed_reads_back_to_the_same() {
    let text = "[adapter]\ncopy_nodes = 3\nrotation = \"remap\"\n[adapters.\"a b\"]\nspin = \"7us\"\n\
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
        config.adapters().nth(place).map(|(name, adapter)| (name, adapter.copy_nodes.get()))
    };
    assert_eq!(nodes("/run/a.sock"), Some(("a", 3)));
    assert_eq!(nodes("/run/b.sock"), Some(("", 2)));
    assert_eq!(config.adapter_of(None), 0);
    let error = load("[attach]\n\"a.sock\" = \"c\"\n").unwrap_err().to_string();
    assert!(error.contains("a.sock") && error.contains("no [adapters.c]"), "{error}");
    let error = load("[adapters.a]\ncopy_nodes = 0\n").unwrap_err().to_string();
    assert!(error.contains("adapters.a.copy_nodes is 0"), "{error}");
    let error = load("[adapter]\nengine_processors = \"3-1\"\n").unwrap_err().to_string();
    assert!(
        error.contains("adapter.engine_processors is \"3-1\"; it must be processors"),
        "{error}"
    );
    let error = load("[adapters.a]\ncompute_nodes = 9\n").unwrap_err().to_string();
    assert!(error.contains("adapters.a.compute_nodes is 9; it must be 0 to 8"), "{error}");
    let many: String = (0..8).map(|number| format!("[adapters.a{number}]\n")).collect();
    let error = load(&many).unwrap_err().to_string();
    assert!(error.contains("adapters is 8 entries") && error.contains("0 to 7"), "{error}");
}

#[test]
fn guests_share_fences_if_one_group_names_their_sockets() {
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
    assert!(
        config
            .gpu(
                &config.adapter,
                KernelsConfig::none(""),
                Err(String::new()),
                DisplayConfig::default()
            )
            .remaps_doorbells
    );
}

#[test]
fn guests_have_the_usual_limits_unless_others_are_set() {
    assert_eq!(Config::default().limits(), Limits::default());
    let limits = load("[guest]\nobjects = 1000\n").unwrap().limits();
    assert_eq!((limits.handles, limits.mappings, limits.extents), (1000, 1000, 16_000));
    let limits = load("[guest]\nallocations = 3\nhw_queues = 2\nwaits = 1\n").unwrap().limits();
    assert_eq!((limits.allocations, limits.hw_queues, limits.waits), (3, 2, 1));
    assert_eq!(load("[guest]\nkernels = 4\n").unwrap().limits().kernels, 4);
}

#[test]
fn a_missing_file_says_how_to_name_one() {
    let error = ConfigFile::read(Path::new("/nonexistent/bellhopd.toml")).unwrap_err();
    assert!(error.to_string().contains("--config"));
}

fn displays(text: &str) -> Result<DisplayConfig, String> {
    let config: Config = bellhop_config::read(text).map_err(|flaw| flaw.to_string())?;
    config.adapter.displays("", 0).map_err(|fault| fault.to_string())
}

#[test]
fn there_is_no_display_unless_one_is_configured() {
    assert_eq!(displays("").unwrap().connectors, []);
    let one = displays("[[adapter.displays]]\n").unwrap();
    let [connector] = &*one.connectors else { panic!("{one:?}") };
    assert_eq!((connector.name.as_str(), connector.kind), ("VIRTUAL-1", ConnectorKind::VIRTUAL));
    assert!(connector.plugged && connector.monitor.edid.len() == 128);
    let mode = connector.monitor.modes[0];
    assert_eq!((mode.width, mode.height, mode.refresh_numerator), (1920, 1080, 60));
}

#[test]
fn what_cannot_be_is_refused_with_its_key() {
    for (text, why) in [
        (
            "modes = [\"1920x1080\"]",
            "adapter.displays[0].modes[0] is \"1920x1080\"; it must be WIDTHxHEIGHT@RATE",
        ),
        ("modes = []", "adapter.displays[0].modes is []; it must be 1 to 16 modes"),
        (
            "size_mm = \"0x1\"",
            "adapter.displays[0].size_mm is \"0x1\"; it must be WIDTHxHEIGHT in millimetres",
        ),
        (
            "connector = \"vga\"",
            "adapter.displays[0].connector is \"vga\"; it must be virtual or hdmi or displayport",
        ),
        (
            "edid = \"/nonexistent\"",
            "adapter.displays[0].edid is \"/nonexistent\"; it must be a file with an EDID: No such file",
        ),
        (
            "connector = \"hdmi\"\nmodes = [\"3840x2160@120\"]",
            "adapter.displays[0].max_megapixels is 600; it must be at least 1188",
        ),
        (
            "name = \"a\"\n[[adapter.displays]]\nname = \"a\"",
            "adapter.displays[1].name is \"a\"; it must be another than",
        ),
    ] {
        let error = displays(&format!("[[adapter.displays]]\n{text}\n")).unwrap_err();
        assert!(error.contains(why), "{error}\n{why}");
    }
    let error = displays(&"[[adapter.displays]]\n".repeat(17)).unwrap_err();
    assert!(error.contains("adapter.displays is 17 displays; it must be 0 to 16"), "{error}");
}

#[test]
fn an_edid_can_be_a_file() {
    let made = displays("[[adapter.displays]]\nmodes = [\"1280x1024@75\"]\n").unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &made.connectors[0].monitor.edid).unwrap();
    let read = displays(&format!("[[adapter.displays]]\nedid = {:?}\n", file.path())).unwrap();
    let mode = read.connectors[0].monitor.modes[0];
    assert_eq!((mode.width, mode.height), (1280, 1024));
    std::fs::write(file.path(), [0; 128]).unwrap();
    let error = displays(&format!("[[adapter.displays]]\nedid = {:?}\n", file.path())).unwrap_err();
    assert!(error.contains("it is no EDID"), "{error}");
}
