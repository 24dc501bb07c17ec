// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program behind a guest's broker, beside two guests that are one program each.

use super::setting::Setting;
use anyhow::Context;
use bellhop_guest::bench::{Measured, Suite, behind_broker};
use bellhop_guest::broker::{Limits, Options, Server};
use bellhop_guest::processors;
use bellhop_guest_umd::Adapter;
use bellhop_guest_umd::transport::broker::Broker;
use bellhop_guest_umd::transport::vhost_user::{self, VhostUser};
use std::thread;

/// Guests without a broker, and one with a broker.
pub(super) const GUESTS: usize = behind_broker::PROGRAMS;

pub(super) fn run(setting: &Setting, _: &[Suite], measured: &mut Measured) -> anyhow::Result<()> {
    let alone = |guest| {
        let adapter = Adapter::open_with(setting.guest(guest)?, setting.place.policy())?;
        anyhow::Ok(adapter)
    };
    let (without, another) = (alone(0)?, alone(1)?);
    let own = setting.sockets.get(2).context("there are fewer sockets than guests")?;
    let device = VhostUser::connect(own, vhost_user::Options::default())?;
    let socket = own.with_file_name("broker.sock");
    let (limits, listen) = (Limits::default(), socket.clone());
    let options = Options { socket: listen, mode: 0o600, limits, is_confined: false };
    let server = Server::listen(device, &options)?;
    // It ends with its device, when the daemon ends.
    thread::Builder::new().name("broker".into()).spawn(move || server.serve())?;
    let behind = Adapter::open_with(Broker::connect(&socket)?, setting.place.policy())?;
    if let Some((processor, _)) = processors::pair() {
        processors::pin(&[processor]).context("cannot pin this thread to one processor")?;
    }
    let options = setting.options(&[]);
    let samples = options.samples.div_ceil(options.repetitions);
    for _ in 0..options.repetitions {
        behind_broker::run([&without, &another, &behind], samples, measured)?;
    }
    Ok(())
}
