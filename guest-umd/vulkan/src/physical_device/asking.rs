// SPDX-License-Identifier: MIT OR Apache-2.0

//! Questions to the device: what its host's Vulkan can do, and what images need. Each is a command in a queue that is for
//! questions alone, and the same question is asked once.

use bellhop_guest_umd::protocol::control::adapter::EngineType;
use bellhop_guest_umd::protocol::control::allocation::AllocationKind;
use bellhop_guest_umd::protocol::control::gpu_va::Protection;
use bellhop_guest_umd::{Adapter, Device, Error, GpuMapping, SmallPackets, UserModeQueue};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::packet::commands::ExecuteCommands;
use bellhop_protocol::vulkan::{
    CommandCaps, CommandCode, CommandHeader, Encoded, Image, ImageFormat, ImageNeeds, Layers,
    QueryCaps, QueryImage, QueryImageFormat,
};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use zerocopy::{FromBytes, transmute};

/// How long the device may take for an answer. It starts a worker for the first.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of the ring that it is asked through.
const RING: u64 = 4096;
/// Where in their memory the answer is, behind the question.
const ANSWER: u64 = 128;
/// Bytes of that memory.
const MEMORY: u64 = 2 * PAGE_SIZE;
/// Most answers that are kept: programs have few kinds of images.
const MOST: usize = 1024;

const _: () = assert!(ANSWER + size_of::<CommandCaps>() as u64 <= MEMORY);

/// A header for [`Encoded::with_header`] to fill in.
const HEADER: CommandHeader = CommandHeader { code: CommandCode(0), units: 0, argument: 0 };

/// A queue for questions.
struct Line {
    memory: GpuMapping,
    queue: UserModeQueue,
    /// The queue's device, which ends with it.
    _device: Device,
}

impl Line {
    fn open(adapter: &Adapter, gpu: u8) -> Result<Self, Error> {
        let device = adapter.create_device()?;
        let memory =
            device.create_allocation(AllocationKind::SYSTEM, MEMORY)?.map(Protection::WRITE)?;
        let node = adapter.least_used_node_of(gpu, EngineType::THREE_D)?;
        let queue = device.create_context(node)?.create_user_mode_queue(RING)?;
        Ok(Self { memory, queue, _device: device })
    }

    /// Asks. `question` is a command whose answer goes to [`ANSWER`].
    fn ask(&mut self, question: &[u8], answer: &mut [u8]) -> Result<(), Error> {
        let memory = self.memory.allocation();
        memory.write(0, question)?;
        let mut packets = SmallPackets::new();
        let packet = ExecuteCommands::new(self.memory.gpu_va(), question.len() as u32);
        let packet: [u64; 2] = transmute!(packet);
        packets.push(packet);
        let value = self.queue.submit_packets(&packets)?;
        self.queue.progress_fence().wait(value, PATIENCE)?;
        memory.read(ANSWER as usize, answer)
    }
}

/// The answers to questions, as bytes.
#[derive(Default)]
struct Answers(BTreeMap<Vec<u8>, Vec<u8>>);

impl Answers {
    /// The answer to a question, which `ask` gives if nobody has asked. Too many are forgotten, all at once.
    fn get(
        &mut self,
        question: &[u8],
        ask: impl FnOnce() -> Result<Vec<u8>, Error>,
    ) -> Result<&[u8], Error> {
        if !self.0.contains_key(question) {
            let answer = ask()?;
            if self.0.len() >= MOST {
                self.0.clear();
            }
            self.0.insert(question.to_vec(), answer);
        }
        Ok(self.0.get(question).map_or(&[], Vec::as_slice))
    }
}

/// What was asked, and through what.
#[derive(Default)]
struct State {
    /// From the first question on.
    line: Option<Line>,
    answers: Answers,
}

/// Asks a GPU of the device.
pub(super) struct Asking {
    adapter: Adapter,
    gpu: u8,
    state: Mutex<State>,
}

impl Asking {
    /// Nothing was asked yet.
    pub(super) fn new(adapter: Adapter, gpu: u8) -> Self {
        Self { adapter, gpu, state: Mutex::default() }
    }

    /// What the host's Vulkan can do.
    pub(super) fn caps(&self) -> Result<CommandCaps, Error> {
        let length = size_of::<CommandCaps>() as u64;
        self.ask(|destination| QueryCaps { header: HEADER, destination, length })
    }

    /// What an image needs, and where a part of it is.
    pub(super) fn image(&self, image: Image, layers: Layers) -> Result<ImageNeeds, Error> {
        self.ask(|destination| QueryImage { header: HEADER, destination, image, layers })
    }

    /// Which images of a kind there can be.
    pub(super) fn image_format(&self, image: Image) -> Result<ImageFormat, Error> {
        self.ask(|destination| QueryImageFormat { header: HEADER, destination, image })
    }

    /// Asks what `question` makes of the place for the answer.
    fn ask<Q: Encoded, A: FromBytes>(&self, question: impl Fn(u64) -> Q) -> Result<A, Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { line, answers } = &mut *state;
        // A question is the same wherever its answer goes.
        let answer = answers.get(question(0).with_header(0, 0).as_bytes(), || {
            let ask = |open: &mut Line| {
                let question = question(open.memory.gpu_va() + ANSWER).with_header(0, 0);
                let mut answer = vec![0; size_of::<A>()];
                open.ask(question.as_bytes(), &mut answer).map(|()| answer)
            };
            // What was open may have been lost since, and is then not open any more.
            let kept = line.take().and_then(|mut open| Some((ask(&mut open).ok()?, open)));
            let (answer, open) = match kept {
                Some(asked) => asked,
                None => {
                    let mut open = Line::open(&self.adapter, self.gpu)?;
                    (ask(&mut open)?, open)
                }
            };
            *line = Some(open);
            Ok(answer)
        })?;
        A::read_from_bytes(answer).map_err(|_| Error::NotAvailable("an answer of this length"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_asked_once_unless_there_was_no_answer() {
        let mut answers = Answers::default();
        let missing = || Err(Error::NotAvailable("an answer"));
        assert!(answers.get(&[1], missing).is_err());
        assert_eq!(answers.get(&[1], || Ok(vec![7])).unwrap(), [7]);
        assert_eq!(answers.get(&[1], missing).unwrap(), [7]);
        assert!(answers.get(&[2], missing).is_err());
    }

    #[test]
    fn there_are_never_too_many_answers() {
        let mut answers = Answers::default();
        for number in 0..2 * MOST as u32 + 1 {
            answers.get(&number.to_ne_bytes(), || Ok(Vec::new())).unwrap();
            assert!(answers.0.len() <= MOST);
        }
    }
}
