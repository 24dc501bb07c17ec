// SPDX-License-Identifier: MIT OR Apache-2.0

//! Lines that a process prints.

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::Sender;
use std::thread;

/// Sends each line as it comes, and prints it after whose it is.
pub fn send_lines(whose: &'static str, output: impl Read + Send + 'static, to: Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            eprintln!("{whose}: {line}");
            // The test may have dropped its end.
            let _ = to.send(line);
        }
    });
}
