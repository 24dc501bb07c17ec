// SPDX-License-Identifier: MIT OR Apache-2.0

//! Streams of commands, and the making of their pipelines, by workers that are broken or taken over.

use super::{CONFIGURATION, beside_another, client, fault, hostile, leaves_nothing, renew};
use crate::support::Daemon;
use bellhop_guest::client::Client;
use bellhop_guest_umd::Error;
use bellhop_integration::hostile_worker::{Conduct, Stream};
use bellhop_protocol::event::FaultReason;

fn execute(client: &mut Client, stream: Stream) -> Result<(), Error> {
    execute_all(client, &[stream])
}

/// Executes streams, of which each follows the one before.
fn execute_all(client: &mut Client, streams: &[Stream]) -> Result<(), Error> {
    client.commands.reset();
    for stream in streams {
        client.commands.execute_commands(client.va(0), stream.length())?;
    }
    let value = client.submit()?;
    client.finish(value)
}

#[test]
fn a_worker_that_lies_about_streams_or_their_pipelines_costs_its_own_queue_alone() {
    let daemon = Daemon::start_with_workers(2, CONFIGURATION, &hostile(&Conduct::default()));
    let rounds = beside_another(&daemon, |process| {
        // Another process of the same guest, with a queue on the same engine.
        let mut sibling = client(process.open_process().unwrap());
        let mut client = client(process);
        for stream in Stream::ALL {
            let executed = execute(&mut client, stream);
            let what = format!("{stream:?}");
            // Two answers are one too many for whoever asks next.
            if matches!(stream, Stream::Honest | Stream::AnswersTwice) {
                executed.unwrap();
            } else {
                let fault = fault(executed, &what);
                let reasons = match stream {
                    Stream::IsSilent => [FaultReason::ENGINE_TIMEOUT, FaultReason::ENGINE_TIMEOUT],
                    _ => [FaultReason::KERNEL_LOST, FaultReason::KERNEL_FAILED],
                };
                assert!(reasons.contains(&fault.reason), "{what}: {fault}");
                renew(&mut client);
            }
            execute(&mut sibling, Stream::Honest).unwrap();
        }
        renew(&mut client);
        execute(&mut client, Stream::Honest).unwrap();
    });
    println!("{rounds} rounds beside bad workers");
    leaves_nothing(&daemon);
}

#[test]
fn a_worker_that_lies_about_a_stream_that_follows_costs_its_own_queue_alone() {
    let daemon = Daemon::start_with_workers(2, CONFIGURATION, &hostile(&Conduct::default()));
    let rounds = beside_another(&daemon, |process| {
        let mut client = client(process);
        for stream in Stream::FOLLOWED {
            // It answers once it knows of the other, which is while the engine waits for its answer.
            let executed = execute_all(&mut client, &[stream, Stream::Honest]);
            let what = format!("{stream:?}");
            if matches!(stream, Stream::WaitsForNext | Stream::AnswersBothAndOnceMore) {
                executed.unwrap();
            } else {
                let fault = fault(executed, &what);
                assert_eq!(fault.reason, FaultReason::KERNEL_LOST, "{what}: {fault}");
                renew(&mut client);
            }
        }
        // What was said too much is found before the worker is asked for anything else.
        let _ = execute(&mut client, Stream::Honest);
        renew(&mut client);
        execute(&mut client, Stream::Honest).unwrap();
    });
    println!("{rounds} rounds beside bad workers");
    leaves_nothing(&daemon);
}
