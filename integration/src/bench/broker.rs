// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program behind a guest's broker, beside a guest that is one program.

use super::setting::Setting;
use anyhow::Context;
use bellhop_guest::bench::{Measured, Suite, behind_broker};
use bellhop_guest::broker::{Limits, Options, serve};
use bellhop_guest::{output, processors};
use bellhop_guest_umd::Adapter;
use bellhop_guest_umd::transport::broker::Broker;
use bellhop_guest_umd::transport::vhost_user::{self, VhostUser};
use std::thread;
use std::time::{Duration, Instant};

/// A guest without a broker, and one with a broker.
pub(super) const GUESTS: usize = 2;
/// How long the broker may take until programs may connect.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait before the next try.
const PAUSE: Duration = Duration::from_millis(1);

pub(super) fn run(setting: &Setting, _: &[Suite], measured: &mut Measured) -> anyhow::Result<()> {
    let without = Adapter::open_with(setting.guest(0)?, setting.place.policy())?;
    let own = setting.sockets.get(1).context("there are fewer sockets than guests")?;
    let device = VhostUser::connect(own, vhost_user::Options::default())?;
    let socket = own.with_file_name("broker.sock");
    let (limits, listen) = (Limits::default(), socket.clone());
    let options = Options { socket: listen, mode: 0o600, limits, is_confined: false };
    // It ends with its device, when the daemon ends.
    thread::Builder::new().name("broker".into()).spawn(move || {
        if let Err(error) = serve(device, &options) {
            output::note(format_args!("the broker ended: {error:#}"));
        }
    })?;
    let begun = Instant::now();
    let program = loop {
        match Broker::connect(&socket) {
            Err(error) if begun.elapsed() > PATIENCE => return Err(error).context("no broker"),
            Err(_) => thread::sleep(PAUSE),
            Ok(program) => break program,
        }
    };
    let behind = Adapter::open_with(program, setting.place.policy())?;
    if let Some((processor, _)) = processors::pair() {
        processors::pin(&[processor]).context("cannot pin this thread to one processor")?;
    }
    let options = setting.options(&[]);
    let samples = options.samples.div_ceil(options.repetitions);
    for _ in 0..options.repetitions {
        behind_broker::run([&without, &behind], samples, measured)?;
    }
    Ok(())
}
