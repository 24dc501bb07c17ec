// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest that is a portable computer with somebody at it: Debian's system bus, logind with a session, UPower, a lid, a battery
//! and a plug.
//!
//! Sources: ACPI 6.5, 9.4 "Control Method Lid Device", 10.2 "Control Method Batteries", 10.3 "AC Adapters and Power Source
//! Objects"; pam_systemd(8); Debian's units.

use super::archive::{Entries, Entry};
use super::systemd::{Systemd, own, wanted};
use super::users::{GROUP, PASSWD};
use acpi_tables::aml::{
    Device, EISAName, Equal, Field, FieldAccessType, FieldEntry, FieldLockRule, FieldUpdateRule,
    If, Method, Name, ONE, OpRegion, OpRegionSpace, Package, Path, Return, ZERO,
};
use acpi_tables::{Aml, sdt::Sdt};

/// Debian's packages with all this.
pub const PACKAGES: &[&str] = &["upower", "libpam-systemd", "udev"];
/// Modules for its lid, its plug and its battery.
pub const MODULES: &[&str] = &["button", "evdev", "ac", "battery"];
const PROGRAMS: [&str; 7] = [
    UDEV,
    "usr/bin/dbus-daemon",
    "usr/bin/loginctl",
    "usr/bin/busctl",
    "usr/lib/systemd/systemd-logind",
    "usr/lib/systemd/systemd-user-runtime-dir",
    "usr/libexec/upowerd",
];
/// What tells others of the kernel's devices is a part of this program.
const UDEV: &str = "usr/bin/udevadm";
const UNITS: [&str; 9] = [
    "dbus.service",
    "dbus.socket",
    "systemd-udevd-control.socket",
    "systemd-udevd-kernel.socket",
    "systemd-udevd.service",
    "systemd-logind.service",
    "upower.service",
    "user.slice",
    "user-runtime-dir@.service",
];
/// Who may say what on the bus, and what starts when somebody asks for it.
const FILES: [&str; 7] = [
    "etc/UPower/UPower.conf",
    "usr/share/dbus-1/system.conf",
    "usr/share/dbus-1/system.d/org.freedesktop.UPower.conf",
    "usr/share/dbus-1/system.d/org.freedesktop.login1.conf",
    "usr/share/dbus-1/system.d/org.freedesktop.systemd1.conf",
    "usr/share/dbus-1/system-services/org.freedesktop.UPower.service",
    "usr/share/dbus-1/system-services/org.freedesktop.login1.service",
];
/// Modules of PAM, which it loads from where packages have them.
const PAM: &str = "usr/lib/x86_64-linux-gnu/security";
const PAM_MODULES: [&str; 2] = ["pam_permit.so", "pam_systemd.so"];
/// A user's session at the first terminal of the only seat. It lasts until its program has read the end of what people type.
const SESSION: &str = "[Unit]\nDescription=Somebody at this computer\nAfter=systemd-logind.service\n\
    Requires=systemd-logind.service\nBefore=bellhop-agent.service\n\
    [Service]\nUser=user\nPAMName=session\nTTYPath=/dev/tty1\nStandardInput=tty\n\
    StandardOutput=null\nEnvironment=XDG_SEAT=seat0 XDG_VTNR=1 XDG_SESSION_TYPE=tty\n\
    ExecStart=/bin/cat\n";

/// The files of such a guest, beside systemd's.
///
/// # Errors
/// When a package lacks a file, or a program's libraries cannot be found.
pub fn files(packages: &Systemd) -> anyhow::Result<Entries> {
    let modules = PAM_MODULES.map(|module| format!("{PAM}/{module}"));
    let modules: Vec<_> = modules.iter().map(String::as_str).collect();
    let mut files = packages.parts(&[&PROGRAMS[..], &modules].concat(), &UNITS)?;
    for path in FILES {
        files.insert(path.into(), Entry::File(packages.file(path)?));
    }
    let pam = ["auth", "account", "session"].map(|kind| {
        let module = if kind == "session" { PAM_MODULES[1] } else { PAM_MODULES[0] };
        format!("{kind} required /{PAM}/{module}\n")
    });
    files.extend([
        ("etc/pam.d/session".into(), Entry::Text(pam.concat().into())),
        ("etc/passwd".into(), Entry::Text(format!("{PASSWD}messagebus:x:100:100::/:\n").into())),
        ("etc/group".into(), Entry::Text(format!("{GROUP}messagebus:x:100:\n").into())),
        ("var/lib/.empty".into(), Entry::Text(Vec::new())),
        // Where programs look for the bus.
        ("var/run".into(), Entry::Link("/run".into())),
        own("sockets.target.wants/dbus.socket".into(), Entry::Link(unit("dbus.socket"))),
        ("usr/lib/systemd/systemd-udevd".into(), Entry::Link(format!("/{UDEV}"))),
        own(
            "sysinit.target.wants/systemd-udevd.service".into(),
            Entry::Link(unit("systemd-udevd.service")),
        ),
        own(
            "multi-user.target.wants/systemd-logind.service".into(),
            Entry::Link(unit("systemd-logind.service")),
        ),
    ]);
    // The session is of one program. logind goes on without a manager of its user's services if that is masked.
    files.extend([own("user@.service".into(), Entry::Link("/dev/null".into()))]);
    files.extend(wanted("session.service", SESSION.into()));
    Ok(files)
}

fn unit(name: &str) -> String {
    format!("/usr/lib/systemd/system/{name}")
}

/// The register that says whether the plug is pulled, if it is not 0: that of a serial port's chip which means nothing to the chip
/// (the scratch register of a 16550).
const PLUG: u16 = 0x3ff;

/// The table that tells a kernel of the lid, which is open, of the battery and of the plug, which is in. The kernel's device for the
/// lid takes what is written there, and so does the plug's register.
#[must_use]
pub fn table() -> Vec<u8> {
    let mut devices = Vec::new();
    lid(&mut devices);
    plug(&mut devices);
    battery(&mut devices);
    let mut table = Sdt::new(*b"SSDT", HEADER, 2, *b"BELHOP", *b"PORTABLE", 1);
    table.append_slice(&devices);
    let mut bytes = Vec::new();
    table.to_aml_bytes(&mut bytes);
    bytes
}

fn lid(to: &mut Vec<u8>) {
    let open = Return::new(&ONE);
    let state = Method::new("_LID".into(), 0, false, vec![&open]);
    let id = EISAName::new("PNP0C0D");
    let id = Name::new("_HID".into(), &id);
    Device::new("_SB_.LID0".into(), vec![&id, &state]).to_aml_bytes(to);
}

fn plug(to: &mut Vec<u8>) {
    let id = Name::new("_HID".into(), &"ACPI0003");
    let register = OpRegion::new("PLUG".into(), OpRegionSpace::SystemIO, &PLUG, &ONE);
    let pulled = Field::new(
        "PLUG".into(),
        FieldAccessType::Byte,
        FieldLockRule::NoLock,
        FieldUpdateRule::Preserve,
        vec![FieldEntry::Named(*b"PULL", 8)],
    );
    let (field, none) = (Path::new("PULL"), Return::new(&ZERO));
    let (is_in, power) = (Equal::new(&field, &ZERO), Return::new(&ONE));
    let supplies = If::new(&is_in, vec![&power]);
    let state = Method::new("_PSR".into(), 0, true, vec![&supplies, &none]);
    Device::new("_SB_.ADP0".into(), vec![&id, &register, &pulled, &state]).to_aml_bytes(to);
}

/// It says that it loses power while the plug is pulled.
fn battery(to: &mut Vec<u8>) {
    /// Milliwatt hours, milliwatts and millivolts.
    const FULL: u32 = 50_000;
    const NOW: u32 = 40_000;
    const LOAD: u32 = 10_000;
    const LOW: [u32; 4] = [5_000, 2_000, 1, 1];
    const VOLTAGE: u32 = 12_000;
    let id = EISAName::new("PNP0C0A");
    let id = Name::new("_HID".into(), &id);
    // It is there, and works.
    let status = Name::new("_STA".into(), &0x1f_u8);
    let [warning, low, grain, grain_of_low] = &LOW;
    let (model, number, kind, maker) = (&"battery", &"1", &"LION", &"Bellhop");
    let about = Package::new(vec![
        &ZERO,
        &FULL,
        &FULL,
        &ONE,
        &VOLTAGE,
        warning,
        low,
        grain,
        grain_of_low,
        model,
        number,
        kind,
        maker,
    ]);
    let about = Return::new(&about);
    let about = Method::new("_BIF".into(), 0, false, vec![&about]);
    let field = Path::new("\\_SB_.ADP0.PULL");
    let is_in = Equal::new(&field, &ZERO);
    let idle = Package::new(vec![&ZERO, &ZERO, &NOW, &VOLTAGE]);
    let idle = Return::new(&idle);
    let idle = If::new(&is_in, vec![&idle]);
    let discharging = Package::new(vec![&ONE, &LOAD, &NOW, &VOLTAGE]);
    let discharging = Return::new(&discharging);
    let state = Method::new("_BST".into(), 0, false, vec![&idle, &discharging]);
    Device::new("_SB_.BAT0".into(), vec![&id, &status, &about, &state]).to_aml_bytes(to);
}

/// The length of a table's header, in bytes.
const HEADER: u32 = 36;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_one_whose_bytes_add_up_to_nothing() {
        let table = table();
        assert_eq!(table[..4], *b"SSDT");
        assert_eq!(table[4..8], u32::try_from(table.len()).unwrap().to_le_bytes());
        assert_eq!(table.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)), 0);
    }
}
