// SPDX-License-Identifier: MIT OR Apache-2.0

//! Video sessions of guests: whose pictures they are, and what a broken stream or a killed process costs.

use crate::support::stopped::{HOW, hold};
use crate::support::video::{Pictures, VIDEO, pictures_of, reference, streams_of_avif};
use crate::support::{
    Daemon, adapter_of, assert_every_behaviour_is_seen, bellhop, fault, guest, outcomes, skip, text,
};
use bellhop_guest_umd::video::{
    DecoderSettings, EncoderRate, EncoderSettings, Picture, TemporalUnit, VideoDecoder,
    VideoEncoder, VideoError,
};
use bellhop_guest_umd::{Adapter, Device};
use bellhop_protocol::control::video::VideoFormat;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use bellhop_vm::{Sources, fetch_av1_samples};
use rustix::process::{Pid, Signal, kill_process};
use std::{fs, thread};

const SIZE: [u32; 2] = [64, 48];
const FORMAT: VideoFormat = VideoFormat::I420;
/// One thread, and several for a session.
const THREADS: [u32; 2] = [1, 3];

/// An adapter that decodes and encodes on so many threads.
fn with_threads(threads: u32) -> String {
    format!("{VIDEO}video_threads = {threads}\n")
}

#[test]
fn every_behaviour_of_video_is_seen() {
    for threads in THREADS {
        let daemon = Daemon::start_with(1, &with_threads(threads));
        let before = daemon.resources();
        let seen = daemon.selftest(&["video."]);
        assert_every_behaviour_is_seen(&seen, &[]);
        assert_eq!(outcomes(&seen, "passed").count(), seen["checks"].as_array().unwrap().len());
        daemon.await_log("front end disconnected");
        daemon.await_resources(before);
    }
}

/// What is decoded does not depend on the threads that decode it, nor on another session beside.
#[test]
fn sessions_with_threads_give_the_pictures_of_those_without() {
    let [alone, together] = THREADS.map(|threads| Daemon::start_with(4, &with_threads(threads)));
    // Of one tile, and of several.
    let streams = [stream(&alone, 0), stream(&together, 0)];
    let decode = |mut guest: Decodes| {
        streams.each_ref().map(|units| {
            guest.decoder.flush().unwrap();
            let units = units.iter().map(|unit| guest.decoder.decode(&unit.data, unit.time));
            units.map(|picture| picture.unwrap().unwrap()).collect::<Vec<_>>()
        })
    };
    let expected = decode(Decodes::new(&alone, 1));
    assert_eq!(expected.each_ref().map(Vec::len), [4, 4]);
    let both = [1, 2].map(|number| Decodes::new(&together, number));
    thread::scope(|scope| {
        let both = both.map(|guest| scope.spawn(|| decode(guest)));
        for decoded in both {
            assert!(decoded.join().unwrap() == expected);
        }
    });
}

#[test]
fn pictures_equal_those_of_the_reference_decoder() {
    let Some(reference) = reference() else { return };
    for (size, bit_depth, options) in [
        ([64, 48], 10, &["--quantizer=30", "--key-frames=3"][..]),
        // Odd sizes, and larger than a superblock.
        ([175, 143], 8, &["--bit-rate=300000"]),
        ([33, 129], 10, &["--quantizer=200", "--speed=6"]),
    ] {
        let pictures = Pictures::new(size, 6, bit_depth);
        pictures.encode(&mut bellhop(), options);
        let decoded = pictures.decode(&mut bellhop(), "video.ivf");
        let sample = if bit_depth == 10 { 2 } else { 1 };
        let chroma = size[0].div_ceil(2) * size[1].div_ceil(2);
        let frame = 6 + (size[0] * size[1] + 2 * chroma) * sample;
        assert_eq!(decoded.len(), 6 * frame);
        assert!(decoded == pictures.decode_by(&reference, "video.ivf"), "{size:?} {bit_depth}");
    }
}

/// Of another encoder, with other tools: libaom's, in AVIF files among a Debian package's samples.
#[test]
fn streams_that_debian_ships_decode_as_the_reference_decodes_them() {
    let (Some(reference), Ok(samples)) = (reference(), fetch_av1_samples(&Sources::default()))
    else {
        let how = "let it fetch Debian's samples once, which needs a network";
        return skip("there are no samples", "nothing of another encoder is decoded", how);
    };
    let pictures = Pictures::new([16, 16], 1, 8);
    let mut seen = Vec::new();
    for name in ["avif.avif", "avifsequence.avif"] {
        for stream in streams_of_avif(&fs::read(samples.join(name)).unwrap(), 2048) {
            fs::write(pictures.path("video.ivf"), stream).unwrap();
            let expected = pictures.decode_by(&reference, "video.ivf");
            let first = fs::read(pictures.path("reference.y4m")).unwrap();
            let line = text(&first[..first.iter().position(|byte| *byte == b'\n').unwrap()]);
            let kind = line.split(' ').find(|word| word.starts_with('C')).unwrap().to_owned();
            match &*kind {
                "C420jpeg" => {
                    let same = pictures.decode(&mut bellhop(), "video.ivf") == expected;
                    assert!(same, "{name}: {line}");
                }
                // Without colour: a frame is luma alone there, and has grey chroma here.
                "Cmono" => {
                    let decoded = pictures.decode(&mut bellhop(), "video.ivf");
                    let number = |kind: char| {
                        let word = line.split(' ').find(|word| word.starts_with(kind)).unwrap();
                        word[1..].parse::<usize>().unwrap()
                    };
                    let [width, height] = ['W', 'H'].map(number);
                    let luma = 6 + width * height;
                    let whole = luma + 2 * width.div_ceil(2) * height.div_ceil(2);
                    let frames = decoded.chunks(whole).zip(expected.chunks(luma));
                    assert_eq!(decoded.len() / whole, expected.len() / luma);
                    let same = frames.into_iter().all(|(ours, theirs)| ours[..luma] == *theirs);
                    assert!(same, "{name}: {line}");
                }
                // Chroma that no format has.
                _ => {
                    let mut command = bellhop();
                    let output = command.args(["video", "decode"]).arg(pictures.path("video.ivf"));
                    let output = output.output().unwrap();
                    assert!(text(&output.stderr).contains("other chroma"), "{output:?}");
                }
            }
            seen.push(kind);
        }
    }
    assert_eq!(seen, ["C420jpeg", "Cmono", "C444"]);
}

#[test]
fn a_broken_file_is_told_and_the_rest_of_it_decoded() {
    let pictures = Pictures::new([64, 48], 6, 8);
    pictures.encode(&mut bellhop(), &["--key-frames=3"]);
    let mut file = fs::read(pictures.path("video.ivf")).unwrap();
    // The first unit's OBUs, behind the headers of file and frame.
    file[44..60].fill(0xFF);
    let broken = pictures.path("broken.ivf");
    fs::write(&broken, &file).unwrap();
    let folder = pictures.path("png");
    let mut command = bellhop();
    command.args(["video", "decode", "--json", "--png"]).arg(&folder).arg(&broken);
    let output = command.output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    // The pictures from the second key frame on, if not more.
    assert!(report["corrupt"].as_u64().unwrap() >= 1, "{report}");
    let frames = report["frames"].as_array().unwrap().len();
    assert!((3..6).contains(&frames), "{report}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), frames);
}

#[test]
fn of_a_file_that_is_cut_off_everything_whole_is_decoded() {
    let pictures = Pictures::new([64, 48], 6, 8);
    pictures.encode(&mut bellhop(), &[]);
    let whole = pictures.decode(&mut bellhop(), "video.ivf");
    let file = fs::read(pictures.path("video.ivf")).unwrap();
    let cut = pictures.path("cut.ivf");
    fs::write(&cut, &file[..file.len() - 1]).unwrap();
    let mut command = bellhop();
    command.args(["video", "decode", "--json", "--y4m"]).arg(pictures.path("cut.y4m")).arg(&cut);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["is_cut_off"], &report["corrupt"]), (&true.into(), &0.into()), "{report}");
    let decoded = pictures_of(&pictures.path("cut.y4m"));
    assert_eq!(decoded, whole[..whole.len() / 6 * 5], "the first five of six pictures");
    let output = bellhop().args(["video", "decode"]).arg(&cut).output().unwrap();
    assert!(text(&output.stdout).contains("the last frame is cut off"), "{output:?}");
}

/// A guest's program that decodes.
struct Decodes {
    adapter: Adapter,
    device: Device,
    decoder: VideoDecoder,
}

impl Decodes {
    fn new(daemon: &Daemon, number: usize) -> Self {
        let adapter = adapter_of(&guest(daemon, number));
        let device = adapter.create_device().unwrap();
        let decoder = Self::decoder(&adapter, &device).unwrap();
        Self { adapter, device, decoder }
    }

    fn decoder(adapter: &Adapter, device: &Device) -> Result<VideoDecoder, VideoError> {
        let settings = DecoderSettings { format: FORMAT, size: SIZE, unit: 1 << 16 };
        VideoDecoder::new(adapter, device, settings)
    }
}

/// A stream of grey pictures, each brighter than the one before.
fn stream(daemon: &Daemon, number: usize) -> Vec<TemporalUnit> {
    let adapter = adapter_of(&guest(daemon, number));
    let device = adapter.create_device().unwrap();
    let settings = EncoderSettings {
        format: FORMAT,
        size: SIZE,
        frame_rate: [25, 1],
        rate: EncoderRate::Quantizer(80),
        key_frame_interval: 0,
        speed: 10,
    };
    let mut encoder = VideoEncoder::new(&adapter, &device, settings).unwrap();
    let mut units = Vec::new();
    for time in 0..4 {
        let bytes = vec![60 + 10 * time as u8; Picture::length(FORMAT, SIZE) as usize];
        let picture = Picture { format: FORMAT, size: SIZE, bytes, time };
        units.extend(encoder.encode(&picture, false).unwrap());
    }
    units.extend(std::iter::from_fn(|| encoder.drain().unwrap()));
    units
}

/// As a codec that does not end would be. The engine is not reset: it can take the queue away at any time.
#[test]
fn a_session_whose_process_stands_still_is_ended_by_the_time_out() {
    THREADS.into_iter().for_each(stand_still);
}

fn stand_still(threads: u32) {
    // Where to encode a picture may take longer than the time-out below.
    let units = stream(&Daemon::start_with(1, VIDEO), 0);
    let daemon = Daemon::start_with(2, &format!("{}timeout = \"300ms\"\n", with_threads(threads)));
    let (mut first, mut second) = (Decodes::new(&daemon, 0), Decodes::new(&daemon, 1));
    assert!(first.decoder.decode(&units[0].data, 0).unwrap().is_some());
    let [(_, pid)] = workers(&daemon)[..] else { panic!("{:?}", workers(&daemon)) };
    assert!(second.decoder.decode(&units[0].data, 0).unwrap().is_some());
    // Traced: the engine lets a process that was stopped go on.
    if !hold(pid) {
        return skip("processes cannot be traced here", "no session stands still", HOW);
    }
    let hung = match first.decoder.decode(&units[1].data, 1) {
        Err(VideoError::Device(error)) => fault::<()>(Err(error)),
        other => panic!("{other:?}"),
    };
    assert_eq!((hung.reason, hung.opcode), (FaultReason::ENGINE_TIMEOUT, Opcode::VIDEO_DECODE));
    // The decoder falls back to another queue, where it learns that the session is lost.
    let lost = first.decoder.decode(&units[1].data, 1);
    assert!(matches!(lost, Err(VideoError::Lost | VideoError::Device(_))), "{lost:?}");
    assert!(second.decoder.decode(&units[1].data, 1).unwrap().is_some());
    let mut again = Decodes::decoder(&first.adapter, &first.device).unwrap();
    assert!(again.decode(&units[0].data, 0).unwrap().is_some());
}

/// The decoder may end its process on a wrong stream; nothing else may happen.
#[test]
fn a_stream_with_a_wrong_byte_costs_its_session_at_most() {
    let many = "[guest]\nworker_starts_per_second = 1000\nworker_start_burst = 1000\n";
    // A thread of a decoder that panics ends its process as well.
    let daemon = Daemon::start_with(3, &format!("{}{many}", with_threads(2)));
    let units = stream(&daemon, 0);
    let mut neighbour = Decodes::new(&daemon, 1);
    let right = neighbour.decoder.decode(&units[0].data, 0).unwrap().unwrap();
    let hostile = Decodes::new(&daemon, 2);
    for at in (0..units[0].data.len()).step_by(3) {
        let mut decoder = Decodes::decoder(&hostile.adapter, &hostile.device).unwrap();
        let mut wrong = units[0].data.clone();
        wrong[at] ^= 0x55;
        for unit in [&wrong, &units[1].data] {
            match decoder.decode(unit, 0) {
                Ok(_) | Err(VideoError::Corrupt | VideoError::Lost) => {}
                Err(VideoError::TooLarge { .. } | VideoError::FormatMismatch { .. }) => {}
                Err(error) => panic!("byte {at}: {error}"),
            }
        }
        neighbour.decoder.flush().unwrap();
        assert_eq!(neighbour.decoder.decode(&units[0].data, 0).unwrap().as_ref(), Some(&right));
    }
    for length in [1, 2, units[0].data.len() / 2, units[0].data.len() - 1] {
        let mut decoder = Decodes::decoder(&hostile.adapter, &hostile.device).unwrap();
        let cut = decoder.decode(&units[0].data[..length], 0);
        assert!(!matches!(cut, Ok(Some(_)) | Err(VideoError::Device(_))), "{length}: {cut:?}");
    }
}

/// The processes that decode, by guest.
fn workers(daemon: &Daemon) -> Vec<(u64, u32)> {
    let workers = daemon.snapshot().workers.into_iter().filter(|worker| worker.role == "video");
    workers.filter_map(|worker| Some((worker.guest?, worker.pid?))).collect()
}

#[test]
fn a_session_whose_process_is_killed_is_lost_alone() {
    THREADS.into_iter().for_each(kill);
}

fn kill(threads: u32) {
    let daemon = Daemon::start_with(3, &with_threads(threads));
    let units = stream(&daemon, 0);
    assert_eq!(units.len(), 4);
    let (mut first, mut second) = (Decodes::new(&daemon, 1), Decodes::new(&daemon, 2));
    assert!(first.decoder.decode(&units[0].data, 0).unwrap().is_some());
    let [(one, pid)] = workers(&daemon)[..] else { panic!("{:?}", workers(&daemon)) };
    let picture = second.decoder.decode(&units[0].data, 0).unwrap().unwrap();
    assert_eq!(workers(&daemon).len(), 2);
    assert!(workers(&daemon).iter().any(|(guest, _)| *guest != one));
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
    for _ in 0..2 {
        let lost = first.decoder.decode(&units[1].data, 1);
        assert!(matches!(lost, Err(VideoError::Lost)), "{lost:?}");
    }
    // The queue goes on, and so do the other guest's session and a new one of this guest.
    assert!(second.decoder.decode(&units[1].data, 1).unwrap().is_some());
    let mut again = Decodes::decoder(&first.adapter, &first.device).unwrap();
    assert_eq!(again.decode(&units[0].data, 0).unwrap().unwrap(), picture);
}
