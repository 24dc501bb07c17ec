// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a screen costs that a person sees: one on which nothing happens, also when the person has gone, and a large one
//! that flips.

use super::in_guest;
use super::setting::Setting;
use super::viewer::Viewer;
use anyhow::{Context, ensure};
use bellhop_guest::bench::{LargeScreen, Measured, StillScreen, Suite, Usage};
use bellhop_guest_umd::Adapter;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// A monitor for rates, and one that is large.
pub(super) const CONFIG: &str = "[guest]\nlocal_memory = \"256MiB\"\n\
    [[adapter.displays]]\nname = \"fast\"\nmodes = [\"1280x720@60\", \"1280x720@240\"]\n\
    [[adapter.displays]]\nname = \"large\"\nmodes = [\"3840x2160@60\"]\n";

/// Flips of the large screen of each kind, in all repetitions together.
const FLIPS: u64 = 600;
/// From a small change to the next.
const CHANGE: Duration = Duration::from_millis(100);
/// Time for what was under way to end.
const SETTLE: Duration = Duration::from_secs(4);
/// How long to measure.
const LOOK: Duration = Duration::from_secs(10);
/// How long the server may take to show something, and how often to look for that.
const PATIENCE: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(50);

pub(super) fn run(
    setting: &Setting,
    suites: &[Suite],
    measured: &mut Measured,
) -> anyhow::Result<()> {
    in_guest(setting, suites, measured)?;
    let adapter = Adapter::open_with(setting.guest(0)?, setting.place.policy())?;
    let screen = StillScreen::show(&adapter)?;
    let folder = setting.control.parent().context("a control socket without a folder")?;
    let path = folder.join("screen.sock");
    let server = Server::start(&setting.control, "fast", &path)?;
    let mut viewer = server.viewer(screen.size())?;
    viewer.request(false)?;
    let (width, height) = screen.size();
    let taken = viewer.update()?;
    ensure!(taken == u64::from(width) * u64::from(height), "the viewer took {taken} pixels");
    // What every viewer does: it waits for the next change.
    viewer.request(true)?;
    let processes = [setting.daemon, server.child.id()];
    look("display_viewed", &processes, measured)?;
    drop(viewer);
    look("display_no_longer_viewed", &processes, measured)?;
    drop((server, screen));
    large(setting, &adapter, &folder.join("large.sock"), measured)
}

/// The large screen, seen and unseen.
fn large(
    setting: &Setting,
    adapter: &Adapter,
    path: &Path,
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let screen = LargeScreen::show(adapter)?;
    let server = Server::start(&setting.control, "large", path)?;
    let repetitions = setting.options(&[]).repetitions;
    for _ in 0..repetitions {
        let flips = FLIPS.div_ceil(repetitions);
        let (missed, unviewed) = screen.flip(flips)?;
        measured.figure("display_4k_flips_missed", missed as f64);
        let watched = server.viewer(screen.size())?.watch()?;
        let (missed, viewed) = screen.flip(flips)?;
        measured.figure("display_4k_viewed_flips_missed", missed as f64);
        drop(watched);
        for (name, latency) in [("", &unviewed), ("_viewed", &viewed)] {
            let name = format!("display_4k{name}_submit_to_scan_out_ns");
            measured.figure(format!("{name}_p50"), latency.p50 as f64);
            measured.figure(format!("{name}_p99"), latency.p99 as f64);
        }
        let over = "display_4k_viewed_submit_to_scan_out_over_unviewed";
        measured.ratio(over, viewed.p99 as f64, unviewed.p99.max(1) as f64);
    }
    let mut picture = screen.still()?;
    let mut viewer = server.viewer(screen.size())?;
    viewer.request(false)?;
    viewer.update()?;
    viewer.request(true)?;
    look("display_4k_still_viewed", &[setting.daemon], measured)?;
    let watched = viewer.watch()?;
    let (is_over, over) = channel::<()>();
    thread::scope(|threads| {
        let changes = threads.spawn(move || {
            while over.recv_timeout(CHANGE).is_err_and(|error| error == RecvTimeoutError::Timeout) {
                picture.change()?;
            }
            anyhow::Ok(())
        });
        let looked = look("display_4k_small_changes_viewed", &[setting.daemon], measured);
        drop(is_over);
        let changed = changes.join().ok().context("the changing thread panicked")?;
        looked.and(changed)
    })?;
    drop(watched);
    Ok(())
}

/// The processor time of processes over some seconds, for each second.
fn look(name: &str, processes: &[u32], measured: &mut Measured) -> anyhow::Result<()> {
    let usage = || processes.iter().map(|process| Usage::of(*process)).collect();
    thread::sleep(SETTLE);
    let (before, start): (anyhow::Result<Vec<_>>, _) = (usage(), Instant::now());
    thread::sleep(LOOK);
    let (after, time) = (usage()?, start.elapsed());
    let used = before?.into_iter().zip(after).map(|(before, after)| after.since(before));
    let (cpu_ns, wakeups) =
        used.fold((0, 0), |sum, used| (sum.0 + used.cpu_ns, sum.1 + used.wakeups));
    measured.figure(format!("{name}_cpu_fraction"), cpu_ns as f64 / time.as_nanos() as f64);
    measured.figure(format!("{name}_wakeups_per_second"), wakeups as f64 / time.as_secs_f64());
    Ok(())
}

/// A running `bellhop screen serve`, ended on drop.
struct Server<'p> {
    child: Child,
    path: &'p Path,
}

impl<'p> Server<'p> {
    fn start(control: &Path, connector: &str, path: &'p Path) -> anyhow::Result<Self> {
        let program = crate::hosted::this_executable()?;
        let mut serve = Command::new(program);
        serve.args(["screen", "serve", "--socket"]).arg(control);
        serve.args(["--connector", connector, "--unix"]).arg(path);
        let child = serve.stderr(Stdio::null()).spawn().context("cannot serve the screen")?;
        Ok(Self { child, path })
    }

    /// A viewer, once the server shows a screen of this size.
    fn viewer(&self, (width, height): (u32, u32)) -> anyhow::Result<Viewer> {
        let end = Instant::now() + PATIENCE;
        loop {
            match Viewer::connect(self.path) {
                Ok(viewer)
                    if (u32::from(viewer.size.0), u32::from(viewer.size.1)) == (width, height) =>
                {
                    return Ok(viewer);
                }
                Err(error) if Instant::now() > end => return Err(error),
                Ok(viewer) if Instant::now() > end => {
                    anyhow::bail!("the server shows {:?}", viewer.size);
                }
                _ => thread::sleep(STEP),
            }
        }
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
