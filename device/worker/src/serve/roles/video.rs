// SPDX-License-Identifier: MIT OR Apache-2.0

//! The role of video: one session, which decodes or encodes AV1.
//!
//! Codecs work on copies: a guest may store to its memory at any time.

mod layout;
#[cfg(test)]
mod tests;

use crate::messages::video::{
    DRAIN, FLUSH, Format, KEY_FRAME, Session, VideoAnswer, VideoTask, result,
};
use crate::serve::memory::Memory;
use crate::serve::tasks::Tasks;
use anyhow::{Context, ensure};
use bellhop_codec::{
    DecodeError, Decoder, Encoded, Encoder, EncoderSettings, Layout, Picture, Rate, start_threads,
};
use layout::{from_memory, to_memory};
use std::collections::VecDeque;
use std::io::{Write, stderr};
use zerocopy::IntoBytes;

/// Most bytes of a bitstream or a picture: more than any packet may have.
const MOST: u64 = 1 << 28;
/// Most pictures or temporal units that wait until packets have taken them out. Nothing goes in while there are as many.
const WAITING: usize = 32;

/// A worker's session, once its first task has begun it.
pub struct Video {
    /// Threads to encode with.
    threads: u32,
    /// The decoder of a session that decodes, until that begins: its threads could not start in the sandbox.
    decoder: Option<Decoder>,
    begun: Option<Begun>,
}

/// A session.
struct Begun {
    what: Session,
    format: Format,
    state: State,
}

enum State {
    Decodes(Decoder, VecDeque<Result<Picture, DecodeError>>),
    Encodes(Box<Encoder>, VecDeque<Encoded>),
    /// The codec refuses it.
    Refused,
}

/// Prepares for a video session with so many threads, and starts them; 0 are one, too. It decodes pictures of at most so many
/// samples, or encodes if that is 0.
///
/// # Errors
/// When there is no memory, or Linux refuses a thread.
pub fn prepare(threads: u32, samples: u32) -> anyhow::Result<Video> {
    let decoder = if samples == 0 {
        start_threads(threads).context("cannot start threads")?;
        None
    } else {
        Some(Decoder::with_threads(samples, threads)?)
    };
    Ok(Video { threads, decoder, begun: None })
}

impl Tasks for Video {
    fn task(&mut self, task: &[u8], memory: &Memory) -> anyhow::Result<Vec<u8>> {
        let task = VideoTask::read(task)?;
        ensure!(task.picture_size <= MOST && task.bitstream_size <= MOST, "too many bytes");
        let Self { threads, decoder, begun } = self;
        let session = match begun.take() {
            Some(session) => begun.insert(session),
            None => begun.insert(Begun::new(task.session, decoder.take(), *threads)?),
        };
        ensure!(session.what == task.session, "this is another session's worker");
        let answer = session.task(&task, memory)?;
        Ok(answer.as_bytes().to_vec())
    }
}

/// An answer with this result and nothing else.
fn only(result: u32) -> VideoAnswer {
    VideoAnswer { result, ..VideoAnswer::default() }
}

impl Begun {
    fn new(what: Session, decoder: Option<Decoder>, threads: u32) -> anyhow::Result<Self> {
        let format = Format::of_number(what.format).context("an unknown format")?;
        let state = if what.encodes == 0 {
            let decoder = decoder.context("a worker that was started to encode")?;
            State::Decodes(decoder, VecDeque::new())
        } else {
            let settings = EncoderSettings {
                size: what.size,
                bit_depth: if format.is_deep { 10 } else { 8 },
                frame_rate: what.frame_rate,
                rate: if what.is_bit_rate == 1 {
                    Rate::BitsPerSecond(what.rate)
                } else {
                    Rate::Quantizer(u8::try_from(what.rate).unwrap_or(u8::MAX))
                },
                speed: u8::try_from(what.speed).unwrap_or(u8::MAX),
                key_frame_interval: what.key_frame_interval,
                tiles: threads,
            };
            match Encoder::new(&settings) {
                Ok(encoder) => State::Encodes(Box::new(encoder), VecDeque::new()),
                Err(error) => {
                    // Standard error may be closed.
                    let _ = writeln!(stderr(), "bellhop-worker: {error}");
                    State::Refused
                }
            }
        };
        Ok(Self { what, format, state })
    }

    fn task(&mut self, task: &VideoTask, memory: &Memory) -> anyhow::Result<VideoAnswer> {
        let (what, format) = (self.what, self.format);
        match &mut self.state {
            State::Refused => Ok(only(result::REFUSED)),
            State::Decodes(decoder, waiting) => {
                if task.flags & FLUSH != 0 {
                    decoder.flush();
                    waiting.clear();
                    return Ok(only(result::END));
                }
                if decode(decoder, waiting, task, memory)? {
                    give_picture(waiting, (what, format), task, memory)
                } else {
                    Ok(only(result::REFUSED))
                }
            }
            State::Encodes(encoder, waiting) => {
                if task.flags & DRAIN != 0 {
                    encoder.end();
                } else if task.picture_size > 0 {
                    if waiting.len() >= WAITING {
                        return Ok(only(result::REFUSED));
                    }
                    let size = format.bytes(what.size, task.pitch);
                    let Some(size) = size.filter(|size| *size <= task.picture_size) else {
                        return Ok(only(result::REFUSED));
                    };
                    let mut bytes = vec![0; size as usize];
                    memory.read(task.picture, &mut bytes)?;
                    let mut picture = from_memory(&bytes, what.size, task.pitch as usize, format);
                    picture.time = task.time.cast_signed();
                    if !encoder.send(&picture, task.flags & KEY_FRAME != 0) {
                        return Ok(only(result::REFUSED));
                    }
                }
                while let Some(encoded) = encoder.encoded()? {
                    waiting.push_back(encoded);
                }
                give_unit(waiting, task, memory)
            }
        }
    }
}

/// Gives the decoder the task's data, and lines up the pictures that come of it. Returns false if it takes no data, since
/// too many pictures have not been taken out.
fn decode(
    decoder: &mut Decoder,
    waiting: &mut VecDeque<Result<Picture, DecodeError>>,
    task: &VideoTask,
    memory: &Memory,
) -> anyhow::Result<bool> {
    if task.flags & DRAIN == 0 {
        if waiting.len() >= WAITING {
            return Ok(false);
        }
        let mut bytes = vec![0; task.bitstream_size as usize];
        memory.read(task.bitstream, &mut bytes)?;
        let time = task.time.cast_signed();
        let mut sent = decoder.send(&bytes, time);
        if sent == Ok(false) {
            // It has more pictures of earlier data than there was room for.
            pull(decoder, waiting);
            sent = decoder.send(&bytes, time);
        }
        match sent {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => waiting.push_back(Err(error)),
        }
    }
    pull(decoder, waiting);
    Ok(true)
}

/// Lines up the pictures that the decoder has.
fn pull(decoder: &mut Decoder, waiting: &mut VecDeque<Result<Picture, DecodeError>>) {
    while waiting.len() < WAITING {
        match decoder.picture() {
            Ok(Some(picture)) => waiting.push_back(Ok(picture)),
            Ok(None) => return,
            Err(error) => {
                waiting.push_back(Err(error));
                return;
            }
        }
    }
}

/// Answers with the first picture that waits.
fn give_picture(
    waiting: &mut VecDeque<Result<Picture, DecodeError>>,
    (what, format): (Session, Format),
    task: &VideoTask,
    memory: &Memory,
) -> anyhow::Result<VideoAnswer> {
    let nothing = if task.flags & DRAIN == 0 { result::NEEDS_MORE } else { result::END };
    let picture = match waiting.front() {
        None => return Ok(only(nothing)),
        Some(Err(error)) => {
            let result = match error {
                DecodeError::TooLarge => result::TOO_LARGE,
                _ => result::CORRUPT,
            };
            waiting.pop_front();
            return Ok(only(result));
        }
        Some(Ok(picture)) => picture,
    };
    let mut answer = VideoAnswer {
        result: result::DONE,
        is_key: 0,
        bytes: picture.bytes,
        size: picture.size,
        bit_depth: picture.bit_depth,
        reserved: 0,
        time: picture.time.cast_unsigned(),
    };
    let is_depth = picture.bit_depth == if format.is_deep { 10 } else { 8 };
    let is_layout = matches!(picture.layout, Layout::I420 | Layout::I400);
    let fits = picture.size[0] <= what.size[0] && picture.size[1] <= what.size[1];
    if !is_depth || !is_layout || !fits {
        answer.result = if fits { result::FORMAT_MISMATCH } else { result::TOO_LARGE };
        waiting.pop_front();
        return Ok(answer);
    }
    let size = format.bytes(picture.size, task.pitch);
    let Some(size) = size.filter(|size| *size <= task.picture_size) else {
        answer.result = result::NO_ROOM;
        return Ok(answer);
    };
    let mut bytes = vec![0; size as usize];
    to_memory(picture, &mut bytes, task.pitch as usize, format);
    memory.write(task.picture, &bytes)?;
    waiting.pop_front();
    Ok(answer)
}

/// Answers with the first temporal unit that waits.
fn give_unit(
    waiting: &mut VecDeque<Encoded>,
    task: &VideoTask,
    memory: &Memory,
) -> anyhow::Result<VideoAnswer> {
    let nothing = if task.flags & DRAIN == 0 { result::NEEDS_MORE } else { result::END };
    let Some(unit) = waiting.front() else { return Ok(only(nothing)) };
    let mut answer = VideoAnswer {
        result: result::DONE,
        is_key: unit.is_key.into(),
        bytes: unit.data.len() as u64,
        time: unit.time.cast_unsigned(),
        ..VideoAnswer::default()
    };
    if answer.bytes > task.bitstream_size {
        answer.result = result::NO_ROOM;
        return Ok(answer);
    }
    memory.write(task.bitstream, &unit.data)?;
    waiting.pop_front();
    Ok(answer)
}
