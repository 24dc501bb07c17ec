// SPDX-License-Identifier: MIT OR Apache-2.0

//! A VM whose shell a test types into.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

/// `bellhop vm --interactive`, with the test at its keyboard.
pub struct Typed {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Typed {
    /// Starts this command `bellhop vm`, and returns once the shell reads its input.
    #[track_caller]
    pub fn start(vm: &mut Command) -> Self {
        vm.arg("--interactive").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = vm.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut typed = Self { child, lines };
        typed.wait_for_shell();
        typed
    }

    /// Waits until the shell reads its input.
    #[track_caller]
    pub fn wait_for_shell(&mut self) {
        self.wait_for("exit ends the VM");
    }

    /// Turns off the terminal's echo, which looks like the guest's output.
    #[track_caller]
    pub fn stop_echo(&mut self) {
        self.write("stty -echo; echo echo is $((1 - 1))\n");
        self.wait_for("echo is 0");
    }

    /// Types this.
    pub fn write(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Waits for a line that contains this; returns the lines before it.
    #[track_caller]
    pub fn wait_for(&mut self, wanted: &str) -> Vec<String> {
        let mut seen = Vec::new();
        for line in self.lines.by_ref().map_while(Result::ok) {
            if line.contains(wanted) {
                return seen;
            }
            seen.push(line);
        }
        panic!("{wanted:?} never came, but {seen:#?}");
    }

    /// Types commands whose success ends the VM, and waits for that.
    #[track_caller]
    pub fn end_with(mut self, commands: &str) {
        // The echo of what is typed does not contain the sum.
        self.write(&format!("{commands} && echo all is $((40 + 2)); exit 0\n"));
        self.wait_for("all is 42");
        assert!(self.wait().success());
    }

    /// Waits for the VM's end.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Typed {
    fn drop(&mut self) {
        // A test that failed leaves no VM behind; one that passed has waited for its end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
