// SPDX-License-Identifier: MIT OR Apache-2.0

//! A client of QEMU's monitor.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A connection to QEMU's monitor.
pub struct Qmp {
    stream: BufReader<UnixStream>,
    /// Events that no call has waited for yet.
    events: VecDeque<Value>,
}

impl Qmp {
    /// Connects to a QEMU that listens at this socket.
    pub fn connect(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(2 * super::TIMEOUT)).unwrap();
        let mut qmp = Self { stream: BufReader::new(stream), events: VecDeque::new() };
        let greeting = qmp.read();
        assert!(greeting.get("QMP").is_some(), "{greeting}");
        qmp.execute("qmp_capabilities", json!({}));
        qmp
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("QEMU says nothing");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    /// Executes a command, which QEMU must not refuse.
    #[track_caller]
    pub fn execute(&mut self, command: &str, arguments: Value) -> Value {
        let message = json!({ "execute": command, "arguments": arguments });
        writeln!(self.stream.get_mut(), "{message}").unwrap();
        loop {
            let said = self.read();
            if let Some(result) = said.get("return") {
                return result.clone();
            }
            assert!(said.get("event").is_some(), "{message}: {said}");
            self.events.push_back(said);
        }
    }

    /// Waits for a new event, and forgets earlier ones.
    pub fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) {
        loop {
            let event = self.events.pop_front().unwrap_or_else(|| self.read());
            if wanted(&event) {
                return;
            }
        }
    }

    /// Plugs a memory module in. Returns its guest-physical addresses once the guest's kernel has seen
    /// it.
    pub fn plug_memory(&mut self, module: &str, mebibytes: u64) -> Range<u64> {
        let memory = format!("memory-{module}");
        let object = json!({
            "qom-type": "memory-backend-memfd",
            "id": memory,
            "size": mebibytes << 20,
            "share": true,
        });
        self.execute("object-add", object);
        self.execute("device_add", json!({ "driver": "pc-dimm", "id": module, "memdev": memory }));
        self.wait_for(|event| {
            let info = &event["data"]["info"];
            event["event"] == "ACPI_DEVICE_OST" && info["device"] == module && info["status"] == 0
        });
        let modules = self.execute("query-memory-devices", json!({}));
        let data = modules.as_array().unwrap().iter().map(|module| &module["data"]);
        let data = data.clone().find(|data| data["id"] == module).expect("the module is there");
        let start = data["addr"].as_u64().unwrap();
        start..start + data["size"].as_u64().unwrap()
    }

    /// Pulls a memory module out. Returns when it is gone.
    pub fn unplug_memory(&mut self, module: &str) {
        self.execute("device_del", json!({ "id": module }));
        self.wait_for(|event| {
            event["event"] == "DEVICE_DELETED" && event["data"]["device"] == module
        });
        self.execute("object-del", json!({ "id": format!("memory-{module}") }));
    }
}
