// SPDX-License-Identifier: MIT OR Apache-2.0

//! QEMU's arguments for the device, and libvirt's elements.

use crate::qemu::{FIRST, PROGRAM};
use crate::variant::Variant;
use anyhow::Context;
use bellhop_device::service::config::Config;
use bellhop_guest::units::bytes;
use bellhop_protocol::config::{ConfigSpace, QUEUE_COUNT, VIRTIO_DEVICE_ID};
use std::fmt::Write;
use std::path::Path;

/// QEMU's device.
const DEVICE: &str = "vhost-user-test-device-pci";
/// The most descriptors that the guest's driver puts into a queue.
const QUEUE_SIZE: u16 = 64;

/// QEMU's arguments for a VM's shape and its GPUs, one on each socket, in the order that QEMU
/// wants.
///
/// # Errors
/// When a path is not UTF-8, as QEMU's options must be.
pub fn arguments<P: AsRef<Path>>(variant: &Variant, sockets: &[P]) -> anyhow::Result<Vec<String>> {
    // MSI-X through a virtual IOMMU needs QEMU's own interrupt controller.
    let split = if variant.iommu { ",kernel-irqchip=split" } else { "" };
    let memory = variant.memory_mib;
    let mut arguments = Arguments::default();
    arguments.add("-machine", format!("q35,memory-backend=memory{split}"));
    arguments.add("-smp", variant.processors.to_string());
    let slots = match variant.memory_slots {
        0 => String::new(),
        slots => format!(",slots={slots},maxmem={}M", memory + slots * 1024),
    };
    arguments.add("-m", format!("{memory}M{slots}"));
    // The device reads and writes guest memory itself.
    arguments.add("-object", format!("memory-backend-memfd,id=memory,size={memory}M,share=on"));
    if variant.iommu {
        // QEMU needs the IOMMU before the devices behind it.
        arguments.add("-device", "intel-iommu,intremap=on".into());
    }
    for (number, socket) in sockets.iter().enumerate() {
        arguments.gpu(variant, number, socket.as_ref())?;
    }
    Ok(arguments.0)
}

/// The words of a command line: options, each with its value.
#[derive(Debug, Default)]
struct Arguments(Vec<String>);

impl Arguments {
    fn add(&mut self, option: &str, value: String) {
        self.0.extend([option.to_owned(), value]);
    }

    fn gpu(&mut self, variant: &Variant, number: usize, socket: &Path) -> anyhow::Result<()> {
        let mut bus = String::new();
        if variant.root_ports {
            self.add("-device", format!("pcie-root-port,id=port{number},chassis={}", number + 1));
            bus = format!(",bus=port{number}");
        }
        let path = escape(socket)?;
        self.add("-chardev", format!("socket,id=gpu{number},path={path}"));
        let config_size = size_of::<ConfigSpace>();
        self.add(
            "-device",
            format!(
                "{DEVICE},chardev=gpu{number},virtio-id={VIRTIO_DEVICE_ID},\
                 num_vqs={QUEUE_COUNT},vq_size={QUEUE_SIZE},config_size={config_size}{bus}"
            ),
        );
        Ok(())
    }
}

/// A path as the value of one of QEMU's options, in which a comma begins the next one.
///
/// # Errors
/// When the path is not UTF-8.
pub fn escape(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str();
    let text = text.with_context(|| format!("QEMU accepts only UTF-8 paths, not {path:?}"))?;
    Ok(text.replace(',', ",,"))
}

/// Lines of shell that start a daemon, and a QEMU with its device.
///
/// # Errors
/// When a path is not UTF-8.
pub fn command<P: AsRef<Path>>(variant: &Variant, sockets: &[P]) -> anyhow::Result<String> {
    let mut text = String::from("bellhopd");
    for socket in sockets {
        let socket = socket.as_ref().to_str().context("a path is not UTF-8")?;
        let _ = write!(text, " --socket-path {}", shlex::try_quote(socket)?);
    }
    let _ = write!(text, " &\n{PROGRAM}");
    for option in arguments(variant, sockets)?.chunks(2) {
        let _ = write!(text, " \\\n  {}", shlex::try_join(option.iter().map(String::as_str))?);
    }
    // The user's own disk follows.
    text.push_str(" \\\n  \"$@\"\n");
    Ok(text)
}

/// The description of the program that QEMU's `vhost-user.json` specifies. Its list of types has none for this
/// device, so the type here is an unlisted one: management software that knows only the listed types must not find
/// it.
///
/// # Errors
/// When serialization fails, which the description does not cause.
pub fn description() -> anyhow::Result<String> {
    let description = serde_json::json!({
        "description": "Bellhop virtual GPU",
        "type": "bellhop",
        "binary": "/usr/bin/bellhopd",
        "tags": [format!("virtio-id={VIRTIO_DEVICE_ID}"), format!("queues={QUEUE_COUNT}")],
    });
    Ok(serde_json::to_string_pretty(&description)?)
}

/// The XML to add to a libvirt domain.
///
/// # Errors
/// When a path is not UTF-8.
pub fn libvirt<P: AsRef<Path>>(variant: &Variant, sockets: &[P]) -> anyhow::Result<String> {
    let bar = bytes(Config::default().bar().bar_size());
    let mut xml = format!(
        "\
<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <!-- <emulator> must be QEMU {FIRST} or newer: older ones lack {DEVICE}, and map nothing
       into its BAR. libvirt has no element for the device, so it is passed as arguments. -->
  <!-- bellhopd fills each GPU's BAR, {bar} of 64-bit prefetchable memory unless its
       configuration says otherwise, with doorbells, fences and local memory; the firmware
       needs room for it. -->
  <memoryBacking>
    <source type='memfd'/>
    <access mode='shared'/>
  </memoryBacking>
",
    );
    if variant.iommu {
        xml += "  <features>
    <ioapic driver='qemu'/>
  </features>
  <devices>
    <iommu model='intel'>
      <driver intremap='on'/>
    </iommu>
  </devices>
";
    }
    let mut gpus = Arguments::default();
    for (number, socket) in sockets.iter().enumerate() {
        gpus.gpu(variant, number, socket.as_ref())?;
    }
    xml += "  <qemu:commandline>\n";
    for argument in gpus.0 {
        let _ = writeln!(xml, "    <qemu:arg value='{}'/>", attribute(&argument));
    }
    xml += "  </qemu:commandline>\n</domain>\n";
    Ok(xml)
}

/// Text between an XML attribute's quotes.
fn attribute(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('\'', "&apos;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variant::{VARIANTS, find};

    fn values(arguments: &[String], option: &str) -> Vec<String> {
        let pairs = arguments.chunks(2).filter(|pair| pair[0] == option);
        pairs.map(|pair| pair[1].clone()).collect()
    }

    #[test]
    fn the_device_can_reach_all_of_the_guest_s_memory() {
        for variant in &VARIANTS {
            let arguments = arguments(variant, &["a.sock"]).unwrap();
            let size = format!("{}M", variant.memory_mib);
            let backend = format!("memory-backend-memfd,id=memory,size={size},share=on");
            let memory = &values(&arguments, "-m")[0];
            assert_eq!(memory.split(',').next(), Some(size.as_str()));
            assert_eq!(memory.contains("slots="), variant.memory_slots > 0);
            assert_eq!(values(&arguments, "-object"), [backend]);
        }
    }

    #[test]
    fn the_iommu_is_there_before_the_device() {
        let arguments = arguments(find("iommu").unwrap(), &["a.sock"]).unwrap();
        let devices = values(&arguments, "-device");
        assert!(devices[0].starts_with("intel-iommu"), "{devices:?}");
        assert!(values(&arguments, "-machine")[0].contains("kernel-irqchip=split"));
    }

    #[test]
    fn each_device_has_a_socket_and_a_port_of_its_own() {
        let arguments = arguments(find("two-devices").unwrap(), &["a.sock", "b.sock"]).unwrap();
        let sockets = values(&arguments, "-chardev");
        assert_eq!(sockets, ["socket,id=gpu0,path=a.sock", "socket,id=gpu1,path=b.sock"]);
        let devices = values(&arguments, "-device");
        assert_eq!(devices.len(), 4);
        for number in 0..2 {
            assert!(devices[2 * number].contains(&format!("id=port{number},")));
            let gpu = &devices[2 * number + 1];
            assert!(gpu.contains(&format!("chardev=gpu{number},")), "{gpu}");
            assert!(gpu.ends_with(&format!("bus=port{number}")), "{gpu}");
        }
    }

    #[test]
    fn the_libvirt_domain_names_its_qemu_and_the_size_of_the_bar() {
        let xml = libvirt(find("plain").unwrap(), &["a.sock"]).unwrap();
        assert!(xml.contains("<emulator> must be QEMU 11 or newer"), "{xml}");
        let size = Config::default().bar().bar_size();
        assert!(size.is_power_of_two() && size > 64 << 20, "{size}");
        assert!(xml.contains(&format!("BAR, {} of 64-bit", bytes(size))), "{xml}");
        // A comment must not contain two dashes.
        let comments: Vec<_> =
            xml.split("<!--").skip(1).map(|rest| rest.split_once("-->")).collect();
        assert!(comments.iter().all(|c| !c.unwrap().0.contains("--")), "{xml}");
    }

    #[test]
    fn a_path_is_one_value_whatever_is_in_it() {
        let sockets = ["/a b,c&d's.sock"];
        let variant = find("plain").unwrap();
        let values = values(&arguments(variant, &sockets).unwrap(), "-chardev");
        assert_eq!(values, ["socket,id=gpu0,path=/a b,,c&d's.sock"]);
        let words = shlex::split(&command(variant, &sockets).unwrap()).unwrap();
        assert!(words.contains(&sockets[0].to_owned()) && words.contains(&values[0]));
        let xml = libvirt(variant, &sockets).unwrap();
        assert!(xml.contains("path=/a b,,c&amp;d&apos;s.sock'/>"), "{xml}");
    }
}
