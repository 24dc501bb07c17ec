// SPDX-License-Identifier: MIT OR Apache-2.0

//! What each kind of work does with one device.

use super::Work;
use super::arguments::{ChurnArguments, HotplugArguments, ProbeArguments};
use super::ending::Ending;
use super::video::{DecodeArguments, VideoArguments, VideoJob};
use crate::agent;
use crate::bench::{self, Configuration, Delivery, Measured};
use crate::churn::Churn;
use crate::compositor;
use crate::conformance;
use crate::files::NewFile;
use crate::guest::Guest;
use crate::hotplug;
use crate::inspect;
use crate::jobs;
use crate::machine::Watch;
use crate::onlooker::Onlooker;
use crate::output::{note, put, put_line};
use crate::own_kernels;
use crate::present;
use crate::probe;
use crate::processors;
use crate::video;
use bellhop_guest_umd::{Adapter, PlacementPolicy};
use std::sync::Arc;

/// Does the work on one device.
pub(super) fn work_on(
    guest: Arc<dyn Guest>,
    placement: PlacementPolicy,
    advice: Option<&str>,
    onlooker: Option<&Arc<dyn Onlooker>>,
    work: &Work,
) -> anyhow::Result<Ending> {
    match work {
        Work::Probe(ProbeArguments { json, kernels, cgroups, codecs }) => {
            let mut description = probe::probe(guest, placement)?;
            description.kernels.clone_from(kernels);
            description.cgroups.clone_from(cgroups);
            description.codecs.clone_from(codecs);
            if *json {
                put_line(serde_json::to_string(&description)?)?
            } else {
                put(description)?
            }
            Ok(Ending::Succeeded)
        }
        Work::Run(arguments) => {
            let report = jobs::run(guest, &arguments.options(placement, advice)?)?;
            if arguments.json {
                put_line(serde_json::to_string(&report)?)?
            } else {
                put(&report)?
            }
            Ok(Ending::of(report.verified))
        }
        Work::Selftest(arguments) => {
            let (selection, onlooker) = (arguments.selection(), onlooker.cloned());
            arguments
                .deliver(|verbose| conformance::run(guest, placement, onlooker, selection, verbose))
        }
        Work::Inspect(view) => {
            let adapter = Adapter::open_with(guest, placement)?;
            inspect::show(&mut &adapter, inspect::Selection::default(), view)?;
            Ok(Ending::Succeeded)
        }
        Work::Bench(arguments) => {
            let delivery = Delivery::begin(&arguments.wanted())?;
            let (mut measured, watch) = (Measured::default(), Watch::begin());
            let daemon = std::env::var(bench::DAEMON_VARIABLE).ok();
            let daemon = daemon.and_then(|process| process.parse().ok());
            let options = bench::Options { daemon, ..arguments.options(placement) };
            let configuration = Configuration {
                suites: options.suites.iter().map(|suite| suite.name()).collect(),
                placement: format!("{placement:?}"),
                place: bench_place(&guest.reached()),
                ..arguments.configuration()
            };
            bench::run(guest, &options, &mut measured)?;
            let report = measured.report(configuration, watch.end());
            delivery.deliver(&report).map(Ending::of_bench)
        }
        Work::Kernel(arguments) => {
            let ran = own_kernels::run(guest, placement, &arguments.job())?;
            if arguments.takes_standard_output() {
                note(ran.to_string().trim_end());
            } else {
                put(ran)?;
            }
            Ok(Ending::Succeeded)
        }
        Work::Picture(arguments) => {
            let file = arguments.file().map(NewFile::create).transpose()?;
            let rendered = own_kernels::draw(guest, placement, arguments.picture())?;
            match file {
                Some(mut file) => {
                    rendered.write_png(&mut file)?;
                    file.finish()?;
                    put(&rendered)?;
                }
                None => {
                    rendered.write_png(std::io::stdout().lock())?;
                    note(rendered.to_string().trim_end());
                }
            }
            Ok(Ending::of(rendered.is_right()))
        }
        Work::Video(arguments) => work_on_video(guest, placement, arguments),
        Work::Present(arguments) => {
            let report = present::show(guest, placement, &arguments.animation())?;
            if arguments.is_json() {
                put_line(serde_json::to_string(&report)?)?;
            } else {
                put(&report)?;
            }
            Ok(Ending::of(report.is_whole()))
        }
        Work::Compositor(arguments) => {
            compositor::serve(guest, placement, &arguments.options())?;
            Ok(Ending::Succeeded)
        }
        Work::Link(arguments) => arguments.work(guest, placement),
        Work::Agent(arguments) => {
            if let Some(options) = arguments.options()? {
                agent::serve(guest, placement, &options)?;
            }
            Ok(Ending::Succeeded)
        }
        Work::Settings(arguments) => arguments.work(guest, placement),
        Work::Seal(arguments) => arguments.run(guest).map(|()| Ending::Succeeded),
        Work::Open(arguments) => arguments.run(guest).map(|()| Ending::Succeeded),
        Work::Attest(arguments) => arguments.run(guest).map(|()| Ending::Succeeded),
        Work::Hotplug(HotplugArguments { address, size, until_unplugged }) => {
            let memory = *address..address.saturating_add(*size);
            if *until_unplugged {
                let begun = || put_line("working");
                hotplug::work_until_unplugged(guest, placement, memory, begun)?;
                put_line("lost what was unplugged and nothing else")?;
            } else {
                let bytes = hotplug::work_in_pages(guest, placement, memory)?;
                put_line(format_args!("reached {} KiB of it", bytes >> 10))?;
            }
            Ok(Ending::Succeeded)
        }
        Work::Churn(ChurnArguments { resets }) => {
            churn(&guest, placement, *resets).map(|()| Ending::Succeeded)
        }
    }
}

/// How the guest reaches the device, and on which processor it measures.
fn bench_place(reached: &str) -> String {
    match processors::pair() {
        Some((first, _)) => format!("guest on processor {first}, {reached}"),
        None => format!("guest on its only processor, {reached}"),
    }
}

/// Rounds of work before everything counts as in use.
const ROUNDS: usize = 3;

fn churn(
    guest: &Arc<dyn Guest>,
    placement: PlacementPolicy,
    resets: Option<u32>,
) -> anyhow::Result<()> {
    let begin = || -> anyhow::Result<Churn> {
        let mut churn = Churn::new(guest, placement)?;
        (0..ROUNDS).try_for_each(|_| churn.round())?;
        Ok(churn)
    };
    let mut churn = begin()?;
    for _ in 0..resets.unwrap_or(0) {
        guest.reset()?;
        // The reset has destroyed its objects already; the errors that say so do not matter.
        drop(churn);
        churn = begin()?;
    }
    put_line("working")?;
    while resets.is_none() {
        churn.round()?;
    }
    Ok(())
}

/// Decodes or encodes.
fn work_on_video(
    guest: Arc<dyn Guest>,
    placement: PlacementPolicy,
    arguments: &VideoArguments,
) -> anyhow::Result<Ending> {
    let is_told_aside = arguments.takes_standard_output();
    let (report, json) = match &arguments.job {
        VideoJob::Decode(decode @ DecodeArguments { y4m, json, .. }) => {
            let job = decode.job();
            let report = match y4m.as_deref().filter(|_| !is_told_aside) {
                Some(path) => {
                    let mut file = NewFile::create(path)?;
                    let report = video::decode(guest, placement, &job, Some(&mut file))?;
                    file.finish()?;
                    report
                }
                None => {
                    let mut out = is_told_aside.then(|| std::io::stdout().lock());
                    let out = out.as_mut().map(|out| out as &mut dyn std::io::Write);
                    video::decode(guest, placement, &job, out)?
                }
            };
            (report, *json)
        }
        VideoJob::Encode(encode) => {
            // An unwritable file fails before there is work.
            let file = (!is_told_aside).then(|| NewFile::create(&encode.output)).transpose()?;
            let (report, bytes) = video::encode(guest, placement, &encode.job())?;
            match file {
                Some(file) => file.finish_with(&bytes)?,
                None => {
                    use std::io::Write as _;
                    let mut out = std::io::stdout().lock();
                    out.write_all(&bytes).and_then(|()| out.flush())?;
                }
            }
            (report, encode.json)
        }
    };
    let text = if json { serde_json::to_string(&report)? + "\n" } else { report.to_string() };
    if is_told_aside {
        note(text.trim_end());
    } else {
        put(text)?;
    }
    Ok(Ending::of(report.is_whole()))
}
