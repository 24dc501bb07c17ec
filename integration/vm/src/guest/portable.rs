// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest that is a portable computer with somebody at it: Debian's system bus, logind with a session, UPower, and a lid.
//!
//! Sources: ACPI 6.5, 9.4 "Control Method Lid Device"; pam_systemd(8); Debian's units.

use super::archive::{Entries, Entry};
use super::systemd::{GROUP, PASSWD, Systemd, own, wanted};
use acpi_tables::aml::{Device, EISAName, Method, Name, ONE, Return};
use acpi_tables::{Aml, sdt::Sdt};

/// Debian's packages with all this.
pub const PACKAGES: &[&str] = &["upower", "libpam-systemd"];
/// Modules for its lid.
pub const MODULES: &[&str] = &["button", "evdev"];
const PROGRAMS: [&str; 6] = [
    "usr/bin/dbus-daemon",
    "usr/bin/loginctl",
    "usr/bin/busctl",
    "usr/lib/systemd/systemd-logind",
    "usr/lib/systemd/systemd-user-runtime-dir",
    "usr/libexec/upowerd",
];
const UNITS: [&str; 6] = [
    "dbus.service",
    "dbus.socket",
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

/// The table that tells a kernel of the lid, which is open. The kernel's device for it takes what is written there.
#[must_use]
pub fn lid() -> Vec<u8> {
    let open = Return::new(&ONE);
    let state = Method::new("_LID".into(), 0, false, vec![&open]);
    let id = EISAName::new("PNP0C0D");
    let id = Name::new("_HID".into(), &id);
    let mut device = Vec::new();
    Device::new("_SB_.LID0".into(), vec![&id, &state]).to_aml_bytes(&mut device);
    let mut table = Sdt::new(*b"SSDT", HEADER, 2, *b"BELHOP", *b"PORTABLE", 1);
    table.append_slice(&device);
    let mut bytes = Vec::new();
    table.to_aml_bytes(&mut bytes);
    bytes
}

/// The length of a table's header, in bytes.
const HEADER: u32 = 36;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lid_s_table_is_one_whose_bytes_add_up_to_nothing() {
        let table = lid();
        assert_eq!(table[..4], *b"SSDT");
        assert_eq!(table[4..8], u32::try_from(table.len()).unwrap().to_le_bytes());
        assert_eq!(table.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)), 0);
    }
}
