// SPDX-License-Identifier: MIT OR Apache-2.0

//! Hostile programs at a guest's broker, over a device that believes everything and remembers who may ask for what.

mod device;
#[cfg(test)]
mod seeds;

use crate::actions;
use arbitrary::Arbitrary;
use bellhop_guest::broker::{Limits, Said, SteppedBroker, SteppedProgram, UserLimits};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::broker::{
    DESCRIPTORS, MAX_EXTENTS, MessageHeader, MessageKind, NAME_SIZE, Welcome,
};
use bellhop_protocol::control::adapter::OpenAdapter;
use bellhop_protocol::control::allocation::{AllocationKind, CreateAllocation, Extent};
use bellhop_protocol::control::process::{CreateProcess, DestroyProcess};
use bellhop_protocol::control::{
    Handle, MAX_REPLY_SIZE, ReplyHeader, Request, RequestCode, RequestHeader,
};
use bellhop_protocol::event::Event;
use bellhop_protocol::features::Version;
use device::{Device, PROCESSES};
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{Errno, read};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::sync::Arc;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Most actions of one input.
const MOST: usize = 64;
/// Programs at once, and those of one user.
const PROGRAMS: usize = 3;
const OF_USER: usize = 2;
/// The users: the first is root, who may do what concerns the guest.
const USERS: [u32; 3] = [0, 1000, 1001];

/// A process that a program names.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Who {
    Nobody,
    /// Any process that lives: its own, or another's.
    Living(u8),
    /// One that lived, or will.
    Number(u8),
    Last,
}

/// Memory that it names.
#[derive(Debug, Clone, Copy, Arbitrary)]
struct Piece {
    /// A program, whose memory it is.
    of: u8,
    page: i8,
    pages: u8,
    /// What is wrong with it.
    odd: u8,
}

#[derive(Debug, Arbitrary)]
enum Message {
    /// Any request, with any body.
    Any(u8, Who, Vec<u8>),
    Open {
        features: u64,
        version: u8,
    },
    Create {
        reserved: bool,
    },
    Destroy(Who),
    Allocate {
        who: Who,
        pieces: Vec<Piece>,
        cut: u8,
    },
    /// A header that says another length.
    Lying(u8, Who, u32),
    Kick,
    Raw(Vec<u8>),
}

#[derive(Debug, Arbitrary)]
enum Action {
    Connect(u8),
    Leave(u8),
    /// A program says something. How the device answers, if it is asked.
    Say {
        program: u8,
        post: bool,
        message: Message,
        answer: u8,
    },
    /// An event that names a process.
    Event(Who),
}

struct Program {
    number: usize,
    user: u32,
    served: SteppedProgram,
    events: OwnedFd,
}

struct Play {
    broker: SteppedBroker,
    device: Arc<Device>,
    programs: Vec<Program>,
    connected: usize,
    /// The kinds of what programs heard.
    heard: Vec<&'static str>,
}

/// Messages of several users' programs. The broker lets nothing through that a program must not ask, answers every request
/// once, and tells events to whom they concern; when all programs have gone, nothing is left of them.
///
/// # Panics
/// When it does otherwise.
pub fn broker(data: &[u8]) {
    play(data);
}

/// Returns what programs heard.
fn play(data: &[u8]) -> Vec<&'static str> {
    let device = Arc::new(Device::default());
    let each = UserLimits {
        programs: OF_USER,
        processes: PROCESSES,
        requests: 2,
        memory: 4 * PAGE_SIZE,
        doorbells: 1,
        fences: 1,
        weight: 1,
    };
    let limits = Limits { programs: PROGRAMS, each, ..Limits::default() };
    let broker = SteppedBroker::new(Arc::clone(&device) as Arc<_>, &limits).unwrap();
    let mut play = Play { broker, device, programs: Vec::new(), connected: 0, heard: Vec::new() };
    for action in actions::<Action>(data, MOST) {
        play.act(action);
    }
    while !play.programs.is_empty() {
        play.leave(0);
    }
    play.device.is_empty();
    play.heard
}

/// Bytes in front of what a message says.
const HEADER: usize = size_of::<MessageHeader>();

/// What a program hears first: the channel of its events.
fn welcome(socket: &OwnedFd) -> OwnedFd {
    let mut bytes = vec![0; size_of::<Welcome>() + MAX_EXTENTS * size_of::<Extent>()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
    let files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let [_memory, _second, events, _interrupts] =
        <[_; DESCRIPTORS]>::try_from(files.flatten().collect::<Vec<_>>()).unwrap();
    fcntl_setfl(&events, OFlags::NONBLOCK).unwrap();
    events
}

impl Play {
    fn act(&mut self, action: Action) {
        match action {
            Action::Connect(user) => self.connect(USERS[usize::from(user) % USERS.len()]),
            Action::Leave(program) if !self.programs.is_empty() => {
                self.leave(usize::from(program) % self.programs.len());
            }
            Action::Say { program, post, message, answer } if !self.programs.is_empty() => {
                self.say(usize::from(program) % self.programs.len(), post, &message, answer);
            }
            Action::Event(who) => self.event(who),
            Action::Leave(_) | Action::Say { .. } => {}
        }
    }

    fn connect(&mut self, user: u32) {
        let of_user = self.programs.iter().filter(|program| program.user == user).count();
        let has_place = self.programs.len() < PROGRAMS && of_user < OF_USER;
        let number = self.connected;
        self.device.speaks(number, user);
        let served = self.broker.connect(user).unwrap();
        assert_eq!(served.is_some(), has_place, "programs of user {user}: {of_user}");
        let Some(served) = served else { return };
        let events = welcome(served.socket());
        self.programs.push(Program { number, user, served, events });
        self.connected += 1;
    }

    fn leave(&mut self, index: usize) {
        let Program { number, user, served, .. } = self.programs.swap_remove(index);
        self.device.speaks(number, user);
        drop(served);
        self.device.has_nothing_of(number);
    }

    fn process(&self, who: Who) -> u32 {
        match who {
            Who::Nobody => 0,
            Who::Living(index) => self.device.living(index.into()),
            Who::Number(number) => number.into(),
            Who::Last => u32::MAX,
        }
    }

    fn say(&mut self, index: usize, post: bool, message: &Message, answer: u8) {
        let kind = if post { MessageKind::POST } else { MessageKind::REQUEST };
        let bytes = self.message(kind, message);
        let Program { number, user, served, .. } = &self.programs[index];
        self.device.speaks(*number, *user);
        self.device.answers(answer);
        let said = served.hear(&bytes);
        let asked = self.device.asked();
        let is_gone = self.device.is_gone();
        let kind = MessageHeader::read_from_prefix(&bytes).ok().map(|(header, _)| header.kind);
        let heard = match (&said, kind) {
            (Said::Reply(reply), Some(MessageKind::REQUEST)) if !is_gone => {
                is_right(reply, asked, bytes.get(HEADER..).unwrap_or_default())
            }
            (Said::Nothing, Some(MessageKind::POST)) if !is_gone => "nothing",
            (Said::Nothing, Some(MessageKind::KICK | MessageKind::CHANNEL)) => "nothing",
            (Said::Nothing, Some(MessageKind::NAME)) if bytes.len() <= HEADER + NAME_SIZE => {
                "named"
            }
            (Said::End, Some(MessageKind::NAME)) if bytes.len() > HEADER + NAME_SIZE => "end",
            (Said::End, Some(MessageKind::REQUEST | MessageKind::POST)) if is_gone => "gone",
            (Said::End, kind) if !is_known(kind) => "end",
            _ => panic!("{said:?} after {bytes:?}"),
        };
        self.heard.push(heard);
        if said == Said::End {
            self.leave(index);
        }
    }

    fn message(&self, kind: MessageKind, message: &Message) -> Vec<u8> {
        let request = |code: RequestCode, who: Who, body: &[u8]| {
            let length = (size_of::<RequestHeader>() + body.len()) as u32;
            let header = RequestHeader { code, length, process: self.process(who), reserved: 0 };
            [header.as_bytes(), body].concat()
        };
        let code = |index: u8| {
            let codes = RequestCode::ALL;
            codes.get(usize::from(index)).copied().unwrap_or(RequestCode(index.into()))
        };
        let (kind, bytes) = match message {
            Message::Raw(bytes) => return bytes.clone(),
            Message::Kick => (MessageKind::KICK, Vec::new()),
            Message::Any(index, who, body) => (kind, request(code(*index), *who, body)),
            Message::Lying(index, who, length) => {
                let (code, process) = (code(*index), self.process(*who));
                let header = RequestHeader { code, length: *length, process, reserved: 0 };
                (kind, header.as_bytes().to_vec())
            }
            Message::Open { features, version } => {
                let current = Version::CURRENT;
                let version =
                    Version { major: current.major + u16::from(version / 200), ..current };
                let open = OpenAdapter { version, reserved: 0, features: *features };
                (kind, request(OpenAdapter::CODE, Who::Nobody, open.as_bytes()))
            }
            Message::Create { reserved } => {
                let create = CreateProcess { reserved: (*reserved).into() };
                (kind, request(CreateProcess::CODE, Who::Nobody, create.as_bytes()))
            }
            Message::Destroy(who) => {
                let destroy = DestroyProcess { flags: 0 };
                (kind, request(DestroyProcess::CODE, *who, destroy.as_bytes()))
            }
            Message::Allocate { who, pieces, cut } => {
                let list: Vec<_> = pieces.iter().take(8).map(|piece| self.extent(*piece)).collect();
                let create = CreateAllocation::fixed(
                    Handle(1),
                    AllocationKind::SYSTEM,
                    PAGE_SIZE,
                    list.len() as u32,
                );
                let mut body = [create.as_bytes(), list.as_bytes()].concat();
                if *cut > 200 {
                    body.truncate(body.len().saturating_sub(usize::from(cut - 200)));
                }
                (kind, request(CreateAllocation::CODE, *who, &body))
            }
        };
        [MessageHeader { kind, reserved: 0 }.as_bytes(), &bytes].concat()
    }

    fn extent(&self, piece: Piece) -> Extent {
        let of = self.programs[usize::from(piece.of) % self.programs.len()].number;
        let page = i64::from(piece.page) * PAGE_SIZE as i64;
        let address = self.device.memory_of(of).wrapping_add_signed(page);
        let length = u64::from(piece.pages) * PAGE_SIZE;
        match piece.odd {
            0 => Extent { address, length: u64::MAX - address },
            1 => Extent { address, length: (u64::MAX - address).wrapping_add(PAGE_SIZE + 1) },
            2 => Extent { address: address + 8, length },
            3 => Extent { address: u64::MAX - PAGE_SIZE + 1, length },
            _ => Extent { address, length },
        }
    }

    /// An event is heard once by each program that it concerns, and by nobody else.
    fn event(&mut self, who: Who) {
        let mut event = Event::new_zeroed();
        event.process = self.process(who);
        self.broker.pass_on(&event);
        for program in &self.programs {
            let mut heard = 0;
            let mut bytes = [0; size_of::<Event>()];
            loop {
                match read(&program.events, &mut bytes[..]) {
                    Ok(length) => {
                        assert_eq!(bytes.get(..length), Some(event.as_bytes()));
                        heard += 1;
                    }
                    Err(Errno::AGAIN) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            let concerns = self.device.concerns(program.number, event.process);
            assert_eq!(heard, u32::from(concerns), "process {}", event.process);
            if concerns {
                self.heard.push("event");
            }
        }
    }
}

fn is_known(kind: Option<MessageKind>) -> bool {
    matches!(
        kind,
        Some(MessageKind::REQUEST | MessageKind::POST | MessageKind::KICK | MessageKind::CHANNEL)
    )
}

/// Asserts that a reply is whole, and that what did not reach the device had no success. Returns its kind.
#[track_caller]
fn is_right(reply: &[u8], asked: usize, request: &[u8]) -> &'static str {
    let (header, body) = ReplyHeader::read_from_prefix(reply).unwrap();
    assert!(header.length as usize == reply.len() && reply.len() <= MAX_REPLY_SIZE);
    if !header.status.is_success() {
        assert!(asked == 1 || asked == 0 && body.is_empty());
        return if asked == 1 { "refused by the device" } else { "refused" };
    }
    let code = RequestHeader::read_from_prefix(request).unwrap().0.code;
    match (asked, code) {
        (0, RequestCode::OPEN_ADAPTER) => "opened",
        // The broker also tells whose the process is, and what part of the engines it has.
        (3, RequestCode::CREATE_PROCESS) | (1, _) => "done",
        _ => panic!("{code} had success, and the device was asked {asked} times"),
    }
}
