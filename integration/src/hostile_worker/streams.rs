// SPDX-License-Identifier: MIT OR Apache-2.0

//! What becomes of a worker that is asked for streams of commands, and for the pipelines that they lack. A stream's length
//! says what.

use super::owner::{Owner, crash};
use bellhop_worker::messages::commands::{
    CommandsAnswer, CommandsResult, CommandsTask, CommandsTaskKind,
};
use bellhop_worker::messages::{Answer, Done, Missing, Ready};
use zerocopy::IntoBytes;

/// What a worker does with a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Makes pipelines, and executes it.
    Honest,
    /// Lacks pipelines for ever.
    AlwaysLacks,
    /// Has yet to make another pipeline, for ever.
    MakesForEver,
    /// Makes no pipeline, and says nothing.
    NeverMakes,
    /// Crashes as it makes pipelines.
    CrashesAsItMakes,
    /// Says that it has run a batch when it has made pipelines.
    RunsAsItMakes,
    /// Wants memory to make pipelines.
    FaultsAsItMakes,
    /// Is ready, when it was.
    IsReadyAgainAsItMakes,
    /// Sends a packet that is none, as it makes pipelines.
    SendsBytesAsItMakes,
    /// Answers what nobody can.
    AnswersNonsense,
    /// Answers twice.
    AnswersTwice,
    /// Says that it has run a batch.
    Runs,
    /// Crashes.
    Crashes,
    /// Says nothing.
    IsSilent,
    /// Says that it has not begun what follows nothing.
    HasNotBegun,
    /// Says nothing until it knows what follows, and is done with both then.
    WaitsForNext,
    /// As that, but it lacks pipelines, and is done with what follows all the same.
    LacksAndGoesOn,
    /// As that, but it is done, and has not begun what follows.
    StopsBeforeNext,
    /// As that, but it answers once more than it is asked.
    AnswersBothAndOnceMore,
}

impl Stream {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Honest,
        Self::AlwaysLacks,
        Self::MakesForEver,
        Self::NeverMakes,
        Self::CrashesAsItMakes,
        Self::RunsAsItMakes,
        Self::FaultsAsItMakes,
        Self::IsReadyAgainAsItMakes,
        Self::SendsBytesAsItMakes,
        Self::AnswersNonsense,
        Self::AnswersTwice,
        Self::Runs,
        Self::Crashes,
        Self::IsSilent,
        Self::HasNotBegun,
    ];

    /// Those that another has to follow.
    pub const FOLLOWED: [Self; 4] = [
        Self::WaitsForNext,
        Self::LacksAndGoesOn,
        Self::StopsBeforeNext,
        Self::AnswersBothAndOnceMore,
    ];

    /// Its length in bytes, by which a worker knows it.
    #[must_use]
    pub fn length(self) -> u32 {
        (self as u32 + 1) * 8
    }
}

/// The streams of a worker.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// The stream that lacked pipelines last.
    lacking: Option<Stream>,
    /// Whether those of honest streams are made.
    are_made: bool,
    /// The stream that waits until it is known what follows.
    waiting: Option<Stream>,
}

impl Streams {
    /// Does a task.
    pub(super) fn obey(&mut self, owner: &Owner<'_>, task: &CommandsTask) {
        let answer = |result| {
            let answer = CommandsAnswer::new(result, 0, "");
            owner.tell(&Answer::new(answer.as_bytes()));
        };
        if task.kind == CommandsTaskKind::MAKE {
            return self.make(owner, &answer);
        }
        if task.kind == CommandsTaskKind::FOLLOW
            && let Some(first) = self.waiting.take()
        {
            return answer_both(first, &answer);
        }
        let mut all = Stream::ALL.into_iter().chain(Stream::FOLLOWED);
        let known = all.find(|stream| stream.length() == task.length);
        let Some(stream) = known else { return answer(CommandsResult::MALFORMED) };
        match stream {
            Stream::Honest if self.are_made => answer(CommandsResult::DONE),
            Stream::AnswersNonsense => answer(CommandsResult(77)),
            Stream::AnswersTwice => (0..2).for_each(|_| answer(CommandsResult::DONE)),
            Stream::Runs => owner.tell(&Done { count: 1 }),
            Stream::Crashes => crash(),
            Stream::IsSilent => {}
            Stream::HasNotBegun => answer(CommandsResult::NOT_BEGUN),
            _ if Stream::FOLLOWED.contains(&stream) => self.waiting = Some(stream),
            _ => {
                self.lacking = Some(stream);
                answer(CommandsResult::LACKS);
            }
        }
    }

    fn make(&mut self, owner: &Owner<'_>, answer: &dyn Fn(CommandsResult)) {
        match self.lacking {
            Some(Stream::NeverMakes) => {}
            Some(Stream::MakesForEver) => answer(CommandsResult::LACKS),
            Some(Stream::CrashesAsItMakes) => crash(),
            Some(Stream::RunsAsItMakes) => owner.tell(&Done { count: 1 }),
            Some(Stream::FaultsAsItMakes) => {
                owner.tell(&Missing { slot: 0, store: 0, address: 1 << 20 });
            }
            Some(Stream::IsReadyAgainAsItMakes) => owner.tell(&Ready { pointers: 1, resident: 0 }),
            Some(Stream::SendsBytesAsItMakes) => drop(owner.tell_bytes(b"no packet")),
            lacking => {
                self.are_made |= lacking == Some(Stream::Honest);
                answer(CommandsResult::DONE);
            }
        }
    }
}

/// Answers about a stream, and about the one that follows it.
fn answer_both(first: Stream, answer: &dyn Fn(CommandsResult)) {
    let answers = match first {
        Stream::LacksAndGoesOn => &[CommandsResult::LACKS, CommandsResult::DONE][..],
        Stream::StopsBeforeNext => &[CommandsResult::DONE, CommandsResult::NOT_BEGUN],
        Stream::AnswersBothAndOnceMore => &[CommandsResult::DONE; 3],
        _ => &[CommandsResult::DONE; 2],
    };
    answers.iter().for_each(|result| answer(*result));
}
