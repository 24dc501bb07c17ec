// SPDX-License-Identifier: MIT OR Apache-2.0

//! A benchmark of Debian's that draws by the clock. Its clock stands still, so each of its scenes is one picture.

use super::await_that;
use super::windows::XServer;
use bellhop_vm::{Packaged, Sources, fetch_programs};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::process::{Child, Command, Stdio};

/// Packages of the benchmark, and of a library that stops a program's clock.
pub const PACKAGES: [&str; 2] = ["vkmark", "libfaketime"];
/// The benchmark.
pub const VKMARK: &str = "vkmark";
/// When the clock stands still: at this time, which is no relative one.
pub const MOMENT: &str = "FAKETIME=2024-01-01 00:00:00";
/// The library in the packages' folder.
const CLOCK: &str = "usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
/// The package of lavapipe, and the file that names it to Vulkan's loader.
const MESA: &str = "mesa-vulkan-drivers";
const LAVAPIPE: &str = "usr/share/vulkan/icd.d/lvp_icd.json";
/// Shaders of some scenes take long to compile on a busy machine.
pub const PATIENT: &str = "[adapter]\ntimeout = \"1m\"\n";

/// A program that is ended with the test.
pub struct Draws(Child);

impl Draws {
    /// Starts it. Nobody reads what it says.
    pub fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Whether it has not ended by itself.
    pub fn runs(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Draws {
    fn drop(&mut self) {
        // A command ends its program, too.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// The packages on this machine, with lavapipe.
pub fn packages() -> Packaged {
    let packages = [&PACKAGES[..], &[MESA]].concat().into_iter().map(str::to_owned);
    fetch_programs(&packages.collect::<Vec<_>>(), &Sources::default()).unwrap()
}

/// The benchmark's command line where its packages are installed, after `env`, in a window as large as a square with this side.
/// Nothing may wait for a time.
pub fn installed(scene: &str, side: usize) -> Vec<OsString> {
    let mut words = vec![format!("LD_PRELOAD=/{CLOCK}").into(), MOMENT.into(), VKMARK.into()];
    words.extend(arguments(scene, side));
    words
}

fn arguments(scene: &str, side: usize) -> impl Iterator<Item = OsString> {
    let size = format!("{side}x{side}");
    let words = ["--winsys", "xcb", "--present-mode", "immediate", "--size", &size];
    let words: Vec<_> = [&words[..], &["--benchmark", scene]].concat();
    words.into_iter().map(OsString::from).collect::<Vec<_>>().into_iter()
}

/// The words that start the benchmark on this machine, from its packages' folder.
pub fn unpacked(packages: &Packaged) -> Vec<OsString> {
    let root = packages.root();
    let command = packages.command(OsStr::new(VKMARK)).unwrap();
    let mut words = vec![command.get_program().to_owned()];
    words.extend(command.get_args().map(OsStr::to_owned));
    words.extend(["--winsys-dir".into(), root.join("usr/lib/x86_64-linux-gnu/vkmark").into()]);
    words.extend(["--data-dir".into(), root.join("usr/share/vkmark").into()]);
    words
}

/// The same with a clock that stands still, for a scene.
pub fn standing(packages: &Packaged, scene: &str, side: usize) -> Vec<OsString> {
    let mut preload = OsString::from("LD_PRELOAD=");
    preload.push(packages.root().join(CLOCK));
    let mut words = vec!["env".into(), preload, MOMENT.into()];
    words.extend(unpacked(packages));
    words.extend(arguments(scene, side));
    words
}

/// A program of these words on lavapipe itself.
pub fn native(packages: &Packaged, words: &[OsString]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env("VK_DRIVER_FILES", packages.root().join(LAVAPIPE));
    command
}

/// Has a program draw on lavapipe itself in a window, until that has the picture that another window has, of so many colours at least.
pub fn assert_drawn_natively(
    what: &str,
    mut native: Command,
    colours: usize,
    side: usize,
    mut seen: impl FnMut() -> Vec<u32>,
) {
    let server = XServer::start().unwrap();
    let _native = Draws::start(native.env("DISPLAY", &server.display));
    await_that(what, || {
        let expected = server.picture([0, 0], [side; 2]);
        let is_drawn = expected.iter().collect::<BTreeSet<_>>().len() >= colours;
        is_drawn && expected == seen()
    });
}
