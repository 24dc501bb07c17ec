// SPDX-License-Identifier: MIT OR Apache-2.0

//! The rows of an agent's escapes. The client's process is the agent, and has one request to answer.

use super::row::*;
use super::world::World;
use crate::bench::bytes;
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::control::agent::consent::{AnnounceStop, AnswerConsent, AskForConsent};
use bellhop_protocol::control::agent::{
    AGENT_TEXT, AGENT_VERSION, ALL_WISHES, AgentResult, AgentTopology, AgentWish,
    AnswerAgentRequest, AskAgent, DevicePresence, PowerPolicy, QueryAgent, RegisterAgent,
    SetDevicePresence, SetPowerPolicy, UnregisterAgent, answer,
};
use bellhop_protocol::status::Status;

const REGISTER: RegisterAgent = RegisterAgent { version: AGENT_VERSION, wishes: ALL_WISHES };
const MODE: AskAgent = AskAgent {
    wish: AgentWish::TOPOLOGY,
    argument: AgentTopology::MODE.0,
    connector: 0,
    width: 0,
    height: 0,
    refresh: 0,
};

const QUESTION: AskForConsent = AskForConsent {
    topology: AgentTopology::MODE,
    connector: 0,
    width: 0,
    height: 0,
    refresh: 0,
    patience_ms: 1,
};

/// Makes the client's process the agent, if the request needs that.
pub(super) fn prepare(code: RequestCode, world: &mut World) {
    let codes = [
        RequestCode::UNREGISTER_AGENT,
        RequestCode::ANSWER_AGENT_REQUEST,
        RequestCode::SET_POWER_POLICY,
        RequestCode::SET_DEVICE_PRESENCE,
        RequestCode::ASK_FOR_CONSENT,
        RequestCode::ANNOUNCE_STOP,
    ];
    if code == RequestCode::ANSWER_CONSENT {
        // Another process is the agent, and asks the client's, which shows something.
        let (bench, guest) = (&mut world.bench, world.client.guest);
        let agent = bench.process(guest);
        bench.ask(guest, agent, &REGISTER).unwrap();
        bench.send(guest, bytes(agent, &QUESTION));
        bench.events.clear();
    }
    if codes.contains(&code) {
        let (bench, client) = (&mut world.bench, world.client);
        bench.call(client, &REGISTER).unwrap();
        bench.operator_asks(client.guest, MODE);
        bench.events.clear();
    }
}

fn patience() -> Field {
    if_so("patience_ms", 4, |patience| (1..=10_000).contains(&patience))
}

/// The fields of an answer "done" to the first question, with results up to this one.
fn answer_fields(last: u64) -> Vec<Field> {
    let mut fields = vec![
        only("number", 8, 1, Status::INVALID_PARAMETER),
        if_so("result", 4, move |result| result <= last),
        only("length", 4, 4, Status::INVALID_PARAMETER),
    ];
    fields.extend((0..4).map(|_| any("text", 1)));
    // Of the edges, a byte has these; the length says that it is none of the text.
    let rest = || zero("text", 1).naming(1, 4).naming(255, 4);
    fields.extend((4..AGENT_TEXT).map(|_| rest()));
    fields
}

/// The rows of a request.
pub(super) fn agents(code: RequestCode, world: &World) -> Vec<Row> {
    let process = world.client.process;
    match code {
        RequestCode::REGISTER_AGENT => {
            let fields = vec![
                only("version.major", 2, 1, Status::REVISION_MISMATCH),
                any("version.minor", 2),
                if_so("wishes", 4, |wishes| wishes & !0b1_1110 == 0),
            ];
            vec![row(process, &REGISTER, fields)]
        }
        RequestCode::UNREGISTER_AGENT => {
            vec![row(process, &UnregisterAgent { reserved: 0 }, vec![zero("reserved", 8)])]
        }
        RequestCode::ASK_AGENT => {
            let mut fields = vec![
                if_so("wish", 4, |wish| wish == 1),
                if_so("argument", 4, |argument| (1..=6).contains(&argument)),
            ];
            fields.extend(["connector", "width", "height", "refresh"].map(|name| any(name, 4)));
            vec![row(process, &MODE, fields)]
        }
        RequestCode::ANSWER_AGENT_REQUEST => {
            let request =
                AnswerAgentRequest { number: 1, answer: answer(AgentResult::DONE, "done") };
            vec![row(process, &request, answer_fields(2))]
        }
        RequestCode::ANSWER_CONSENT => {
            let request = AnswerConsent { number: 1, answer: answer(AgentResult::DONE, "done") };
            vec![row(process, &request, answer_fields(1))]
        }
        RequestCode::ASK_FOR_CONSENT => {
            let mut fields = vec![if_so("topology", 4, |topology| (1..=6).contains(&topology))];
            fields.extend(["connector", "width", "height", "refresh"].map(|name| any(name, 4)));
            fields.push(patience());
            vec![row(process, &QUESTION, fields)]
        }
        RequestCode::ANNOUNCE_STOP => {
            let request = AnnounceStop { patience_ms: 1, reserved: 0 };
            vec![row(process, &request, vec![patience(), zero("reserved", 4)])]
        }
        RequestCode::SET_POWER_POLICY => {
            let request = SetPowerPolicy { policy: PowerPolicy::SAVING, reserved: 0 };
            let fields =
                vec![if_so("policy", 4, |policy| (1..=3).contains(&policy)), zero("reserved", 4)];
            vec![row(process, &request, fields)]
        }
        RequestCode::SET_DEVICE_PRESENCE => {
            let request = SetDevicePresence { presence: DevicePresence::STARTED, reserved: 0 };
            let fields = vec![
                if_so("presence", 4, |presence| (1..=2).contains(&presence)),
                zero("reserved", 4),
            ];
            vec![row(process, &request, fields)]
        }
        RequestCode::QUERY_AGENT => {
            vec![row(0, &QueryAgent { reserved: 0 }, vec![zero("reserved", 8)])]
        }
        code => panic!("{code} has no row"),
    }
}
