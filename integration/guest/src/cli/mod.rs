// SPDX-License-Identifier: MIT OR Apache-2.0

//! The command line of `bellhop-guest`.

mod actions;
mod agent;
mod arguments;
mod attack;
mod broker;
mod carried;
mod compositor;
mod configuration;
mod delivery;
mod ending;
mod kernels;
mod link;
mod place;
mod present;
mod programs;
mod secrets;
mod settings;
mod video;

pub use arguments::{BenchArguments, ProbeArguments, RunArguments, SelftestArguments};
pub use carried::{Carried, CarriedFile, FOLDER};
pub use delivery::{Delivery, Output};
pub use kernels::{KernelArguments, PictureArguments};
pub use link::{HostsPart, LinkArguments};
pub use place::PlaceArguments;
pub use present::PresentArguments;
pub use secrets::{AttestArguments, OpenArguments, SealArguments};
pub use video::VideoArguments;

use crate::bench;
use crate::broker::Server;
use crate::conformance::perform;
use crate::inspect;
use crate::machine;
use crate::onlooker::{FindOnlooker, Onlooker};
use crate::output;
use actions::work_on;
use agent::AgentArguments;
use anyhow::Context;
use arguments::{ChurnArguments, HotplugArguments};
use attack::AttackArguments;
use bellhop_guest_umd::KernelError;
use broker::BrokerArguments;
use clap::{CommandFactory, Parser, Subcommand};
use compositor::CompositorArguments;
use ending::Ending;
use place::DeviceArguments;
use programs::OwnBroker;
use settings::SettingsArguments;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

/// What a guest does with its Bellhop GPU.
#[derive(Debug, Parser)]
#[command(
    name = "bellhop-guest",
    version = machine::version(),
    after_help = "\
Examples:
  bellhop-guest run                                       the main job, in a VM
  bellhop-guest --socket-path /run/bellhop/gpu.sock run   the main job, in a container
  bellhop-guest --socket-path gpu.sock selftest doorbell  the behaviours named like \"doorbell\""
)]
struct Cli {
    #[command(flatten)]
    device: DeviceArguments,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Work(Work),
    /// Share the guest's device among programs, which need no privileges
    ///
    /// Each program that connects has memory, doorbells and fences of its own; it submits without the broker. Runs until
    /// the device is gone.
    Broker(BrokerArguments),
    /// Attack the guest's broker, and through it the guest's other programs, as a hostile program would
    ///
    /// Tries one attack after another until the time is over. Exits with 1 if one got further than a program may.
    Attack(AttackArguments),
    /// Do what the suite of programs asks, as one of them
    #[command(hide = true)]
    Program,
}

#[derive(Debug, Subcommand)]
enum Work {
    /// Show what the device offers, what accesses to it cost, and where shared memory is placed and why
    Probe(ProbeArguments),
    /// Do real work through doorbells: stream a file through the GPU, verify the result, report
    Run(RunArguments),
    /// Show this guest's objects on the device: queues, doorbells, memory, and the engines' power
    Inspect(inspect::ViewArguments),
    /// Measure what a submission costs, beside the least that it could cost
    Bench(BenchArguments),
    /// Run your own kernel, in SPIR-V or WGSL, on files
    Kernel(KernelArguments),
    /// Draw a picture with a kernel, compare it with the processor's, and write it as PNG
    Picture(PictureArguments),
    /// Decode an AV1 video on the GPU, or encode one
    Video(VideoArguments),
    /// Encrypt a file for this guest on this adapter
    Seal(SealArguments),
    /// Decrypt a file that was sealed
    Open(OpenArguments),
    /// Ask for a signed statement about the device, or verify one
    Attest(AttestArguments),
    /// Show an animation on the guest's display, and report what became of its frames
    Present(PresentArguments),
    /// Show windows of other programs on the guest's monitors
    ///
    /// Programs of any user connect to its socket. Runs until the device or the monitors are gone.
    Compositor(CompositorArguments),
    /// Work on several GPUs that the host linked into one adapter
    Link(LinkArguments),
    /// Serve as the guest's agent: show pictures on monitors that are plugged in, do what the host's operator asks
    ///
    /// Does what a kernel cannot: changes the topology and modes, stops and starts the device, sets the power policy,
    /// and runs hooks. Runs until the device is gone. One process of a guest can be its agent.
    Agent(AgentArguments),
    /// Change what monitors show and how the guest uses power, and list programs
    Settings(SettingsArguments),
    /// Keep everything in use that a guest can have in use, until the program is ended
    ///
    /// Prints "working" once everything is in use. With --resets, it instead resets the device that
    /// often, each time in the middle of work with everything in use, and ends.
    Churn(ChurnArguments),
    /// Have the GPU work in memory that was plugged into the running VM
    ///
    /// Works in pages of it that the guest's kernel gives to the driver. With --until-unplugged, works
    /// in all of it, which the kernel must not use: prints "working", and ends when the memory is
    /// unplugged and nothing else was lost.
    Hotplug(HotplugArguments),
    /// Check what every guest may rely on
    ///
    /// Tries one named behaviour after another over this guest's transport. Exits with 1 if one
    /// fails.
    Selftest(SelftestArguments),
}

impl Cli {
    /// Who looks at the guest's monitors, if somebody is asked to.
    fn onlooker(&self, find: Option<FindOnlooker>) -> anyhow::Result<Option<Arc<dyn Onlooker>>> {
        let Command::Work(Work::Selftest(SelftestArguments {
            control_socket: Some(control), ..
        })) = &self.command
        else {
            return Ok(None);
        };
        let guest = self.device.socket_path().context("--control-socket needs --socket-path")?;
        let find = find.context("this program sees no monitors: use `bellhop selftest`")?;
        Ok(Some(find(control, guest)))
    }
}

/// The command, for man pages and completions.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs `bellhop-guest`. Writes each error to standard error, in a line. A program that knows how to look at a guest's
/// monitors says how. `words` make the executable of this process `bellhop-guest`, where it is more than that.
#[must_use]
pub fn main(
    arguments: impl IntoIterator<Item = OsString>,
    find_onlooker: Option<FindOnlooker>,
    words: &[OsString],
) -> ExitCode {
    match work(Cli::parse_from(arguments), find_onlooker, words) {
        Ok(Ending::Succeeded) => ExitCode::SUCCESS,
        Ok(Ending::Regressed) => bench::REGRESSED.into(),
        Ok(Ending::Failed) => ExitCode::FAILURE,
        Err(error) => output::failure("bellhop-guest", &error),
    }
}

/// How the work ended, at the worst of several devices.
fn work(
    cli: Cli,
    find_onlooker: Option<FindOnlooker>,
    words: &[OsString],
) -> anyhow::Result<Ending> {
    let work = match &cli.command {
        Command::Work(work) => work,
        Command::Broker(arguments) => {
            if let Some(options) = arguments.options()? {
                Server::listen(cli.device.transport()?, &options)?.serve()?;
            }
            return Ok(Ending::Succeeded);
        }
        Command::Attack(arguments) => {
            let broker = cli.device.broker();
            return arguments.attack(broker.context("--broker says which broker to attack")?);
        }
        Command::Program => {
            perform(
                cli.device.broker().context("--broker says which broker the program is behind")?,
            )?;
            return Ok(Ending::Succeeded);
        }
    };
    match work {
        Work::Selftest(suite @ SelftestArguments { list: true, .. }) => {
            return suite.print_list().map(|()| Ending::Succeeded);
        }
        Work::Selftest(suite @ SelftestArguments { programs: true, .. }) => {
            return programs::selftest(&cli.device, suite, words);
        }
        Work::Bench(arguments) => {
            if let Some(regressed) = arguments.deliver_earlier()? {
                return Ok(Ending::of_bench(regressed));
            }
        }
        Work::Attest(arguments) if arguments.verified()? => return Ok(Ending::Succeeded),
        Work::Agent(arguments) if arguments.options()?.is_none() => return Ok(Ending::Succeeded),
        _ => {}
    }
    let (placement, advice) = (cli.device.place.policy(), cli.device.advice.as_deref());
    let onlooker = cli.onlooker(find_onlooker)?;
    let own_broker = match work {
        Work::Selftest(SelftestArguments { behind_broker: true, .. }) => {
            Some(OwnBroker::start(&cli.device, words, &programs::MANY_OBJECTS)?)
        }
        _ => None,
    };
    // Starts all devices before it uses the first.
    let guests = match &own_broker {
        Some(broker) => vec![broker.connect()?],
        None => cli.device.guests()?,
    };
    let mut ending = Ending::Succeeded;
    for guest in guests {
        let done = work_on(guest, placement, advice, onlooker.as_ref(), work);
        ending = ending.max(done.map_err(|error| advised(error, advice))?);
    }
    Ok(ending)
}

/// Adds what people may do to the error of a device that runs no kernels.
fn advised(error: anyhow::Error, advice: Option<&str>) -> anyhow::Error {
    match (error.downcast_ref(), advice) {
        (Some(KernelError::NotOffered { .. }), Some(advice)) => {
            anyhow::anyhow!("{error}; {advice}")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Suite;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn only_a_device_without_kernels_is_a_reason_to_fetch_some() {
        let missing = || KernelError::NotOffered { missing: "why".into() }.into();
        let said = |error| advised(error, Some("fetch it")).to_string();
        assert_eq!(said(missing()), "the device runs no kernels: why; fetch it");
        assert_eq!(said(anyhow::anyhow!("another")), "another");
        assert_eq!(advised(missing(), None).to_string(), "the device runs no kernels: why");
    }

    #[test]
    fn arguments_come_back_from_their_command_line() {
        let parse = |line: Vec<OsString>| {
            let start = ["bellhop-guest", "--socket-path", "s"].map(OsString::from);
            match Cli::parse_from(start.into_iter().chain(line)).command {
                Command::Work(work) => work,
                Command::Broker(_) | Command::Attack(_) | Command::Program => panic!("no work"),
            }
        };
        let run = RunArguments {
            input: Some("-f".into()),
            chunk: 4,
            samples: 7,
            repetitions: 3,
            json: true,
            pinning: Some("guest on 0".into()),
            processors: Some(2),
        };
        let kernels = serde_json::json!({ "device": "a device" });
        let cgroups = serde_json::json!({ "controllers": ["memory"] });
        let probe = ProbeArguments { json: true, kernels: None, cgroups: None, codecs: None };
        let codecs = serde_json::json!({ "assembly": true });
        let probe = probe.beside(kernels.clone(), cgroups.clone(), codecs.clone());
        let Work::Probe(back) = parse(probe.to_command_line()) else { panic!("another command") };
        assert!(back.is_json());
        let expected = [kernels, cgroups, codecs].map(Some);
        assert_eq!([back.kernels, back.cgroups, back.codecs], expected);
        let Work::Run(back) = parse(run.to_command_line()) else { panic!("another command") };
        assert_eq!(format!("{run:?}"), format!("{back:?}"));
        let bench = BenchArguments {
            suites: vec![Suite::RoundTrip],
            samples: 7,
            repetitions: 3,
            most: Some(4),
            program: vec!["a b".into(), "c".into()],
            json: true,
            csv: Some("-c.csv".into()),
            svg: Some("-s.svg".into()),
            compare: Some("-b.json".into()),
            report: None,
        };
        let Work::Bench(back) = parse(bench.to_command_line()) else { panic!("another command") };
        assert_eq!(format!("{bench:?}"), format!("{back:?}"));
        let filter = Some("-x".into());
        let (skip, junit) = (vec!["-y".into(), "z".into()], Some("-j.xml".into()));
        let control_socket = Some("-c.sock".into());
        let selftest = SelftestArguments {
            filter,
            skip,
            junit,
            json: true,
            list: false,
            programs: false,
            behind_broker: false,
            control_socket,
        };
        for line in [
            &["kernel", "--in=-a", "--in", "b", "--zeroes", "9", "--out", "-", "k.wgsl"][..],
            &["kernel", "--groups", "7,8", "--entry=e", "--pointers", "--push", "@0", "--", "-k"],
            &["kernel", "k", "--invocations=5", "--push", "i32:-1", "--push=0a", "--constant=7=1"],
        ] {
            let Work::Kernel(first) = parse(line.iter().map(OsString::from).collect()) else {
                panic!("another command")
            };
            let Work::Kernel(back) = parse(first.to_command_line()) else {
                panic!("another command")
            };
            assert_eq!(format!("{first:?}"), format!("{back:?}"));
        }
        for line in [&["picture"][..], &["picture", "--out=-p", "--width=1", "--height", "7"]] {
            let Work::Picture(first) = parse(line.iter().map(OsString::from).collect()) else {
                panic!("another command")
            };
            let Work::Picture(back) = parse(first.to_command_line()) else {
                panic!("another command")
            };
            assert_eq!(format!("{first:?}"), format!("{back:?}"));
        }
        for line in
            [&["present"][..], &["present", "--mode=640x480@60", "--sync=mailbox", "--json"]]
        {
            let Work::Present(first) = parse(line.iter().map(OsString::from).collect()) else {
                panic!("another command")
            };
            let Work::Present(back) = parse(first.to_command_line()) else {
                panic!("another command")
            };
            assert_eq!(format!("{first:?}"), format!("{back:?}"));
        }
        for line in [
            &["video", "decode", "--png=-p", "--y4m", "-", "--json", "--", "-f"][..],
            &["video", "encode", "a.y4m", "b.ivf", "--bit-rate=7", "--speed=3"],
            &["video", "encode", "--quantizer=9", "--key-frames", "4", "--", "-a", "-"],
        ] {
            let Work::Video(first) = parse(line.iter().map(OsString::from).collect()) else {
                panic!("another command")
            };
            let Work::Video(back) = parse(first.to_command_line()) else {
                panic!("another command")
            };
            assert_eq!(format!("{first:?}"), format!("{back:?}"));
        }
        for line in [
            &["link", "frames"][..],
            &["link", "frames", "--frames=7", "--size=64x48", "--repetitions=1", "--png=-p"],
            &["link", "frames", "--apng", "-", "--json"],
            &["link", "surface", "--bezel=7", "--frames=3", "--png=-", "--json", "--cues"],
            &["link", "power", "--bursts=7", "--frames=3", "--png=-", "--json"],
            &["link", "detach", "--gpu=2", "--frames=3", "--patience=9", "--json", "--cues"],
        ] {
            let Work::Link(first) = parse(line.iter().map(OsString::from).collect()) else {
                panic!("another command")
            };
            let Work::Link(back) = parse(first.to_command_line()) else {
                panic!("another command")
            };
            assert_eq!(format!("{first:?}"), format!("{back:?}"));
        }
        for line in [
            &["seal", "--protect", "--", "-a", "b"][..],
            &["open", "a"],
            &["open", "--", "-a", "-"],
            &["attest", "--key"],
        ] {
            let line: Vec<_> = line.iter().map(OsString::from).collect();
            let back = match parse(line.clone()) {
                Work::Seal(arguments) => parse(arguments.to_command_line()),
                Work::Open(arguments) => parse(arguments.to_command_line()),
                Work::Attest(arguments) => parse(arguments.to_command_line()),
                _ => panic!("another command"),
            };
            assert_eq!(format!("{:?}", parse(line)), format!("{back:?}"));
        }
        let (nonce, key) = ("0a".repeat(32), "0b".repeat(32));
        let line = ["attest", "--nonce", &nonce, "--verify=-s", "--public-key", &key, "--guest=g"];
        let line: Vec<_> = line.iter().map(OsString::from).collect();
        let Work::Attest(attest) = parse(line.clone()) else { panic!("another command") };
        let back = parse(attest.to_command_line());
        assert_eq!(format!("{:?}", parse(line)), format!("{back:?}"));
        let Work::Selftest(back) = parse(selftest.to_command_line()) else {
            panic!("another command")
        };
        assert_eq!(format!("{selftest:?}"), format!("{back:?}"));
    }
}
