// SPDX-License-Identifier: MIT OR Apache-2.0

//! First inputs with guests' own kernels, with video sessions, with displays and with chains of GPUs.

use super::play;
use crate::any_guest::Scene;
use crate::seeds::is_in_corpus;
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::event::FlipOutcome;
use bellhop_protocol::status::Status;

/// A step of `any_guest` with its four choices.
type Step = [u8; 5];

/// The scene after each of both guests took these steps, each in its turn. The input is a file of the corpus.
fn scene(name: &str, steps: &[Step]) -> Scene {
    scene_of(ONE, name, steps)
}

/// The first byte of an input: whether the adapter is a chain.
const ONE: u8 = 0;
const CHAIN: u8 = 1;

fn scene_of(gpus: u8, name: &str, steps: &[Step]) -> Scene {
    let steps = steps.iter().flat_map(|step| [0, 1].map(|who| (who, step)));
    let steps = steps.flat_map(|(who, step)| [&[who], &step[..]].concat());
    let mut bytes: Vec<_> = std::iter::once(gpus).chain(steps).collect();
    // Left over: input that is used up ends the sequence.
    bytes.push(0);
    is_in_corpus("control_queue", name, &bytes);
    play(&bytes)
}

const DESTROY_PROCESS: Step = [1, 1, 65, 0, 0];

mod kernels {
    use super::*;

    const QUERY: Step = [62, 1, 0, 0, 0];
    /// A page of memory, mapped; then a kernel that is there.
    const ALLOCATE: Step = [11, 1, 0, 0, 0];
    const MAP: Step = [15, 1, 0, 0, 7];
    const CREATE: Step = [60, 1, 1, 2, 7];
    const COMPILED: Step = [63, 0, 1, 1, 0];
    const REFUSED: Step = [63, 0, 4, 1, 0];
    const DESTROY: Step = [62, 1, 0, 0, 1];
    const DESTROY_DEVICE: Step = [4, 1, 0, 0, 0];

    #[test]
    fn seeds_are_in_the_corpus_and_have_kernels_created() {
        for (name, steps, lives) in [
            ("kernel-and-its-end", &[QUERY, CREATE, COMPILED, DESTROY, DESTROY][..], true),
            ("kernel-refused", &[CREATE, REFUSED, DESTROY], false),
            (
                "kernels-compiled-together",
                &[CREATE, CREATE, CREATE, COMPILED, COMPILED, REFUSED, DESTROY],
                true,
            ),
            ("kernel-whose-device-ends", &[CREATE, DESTROY_DEVICE, COMPILED], false),
            ("kernel-whose-process-ends", &[CREATE, DESTROY_PROCESS, COMPILED], false),
            ("kernel-that-outlives-nothing", &[CREATE, COMPILED, DESTROY_PROCESS, DESTROY], true),
        ] {
            let scene = scene(name, &[&[ALLOCATE, MAP], steps].concat());
            for guest in [0, 1] {
                assert_eq!(scene.has_seen(guest, RequestCode::CREATE_KERNEL), lives, "{name}");
            }
            scene.end();
        }
    }
}

mod videos {
    use super::*;

    const CAPS: Step = [76, 1, 0, 0, 0];
    const POWER: Step = [76, 1, 1, 0, 0];
    const POWER_OF_NO_GPU: Step = [76, 1, 1, 3, 0];
    /// 64 x 48, on the node that decodes, or on one that does not.
    const CREATE: Step = [76, 1, 28, 8, 8];
    const CREATE_ELSEWHERE: Step = [76, 1, 28, 8, 32];
    /// 8193 x 8192
    const CREATE_TOO_LARGE: Step = [76, 1, 28, 30, 8];
    const DESTROY: Step = [76, 1, 2, 0, 0];
    const DESTROY_DEVICE: Step = [4, 1, 0, 0, 0];

    #[test]
    fn seeds_are_in_the_corpus_and_have_sessions_created() {
        for (name, steps, is_created) in [
            ("video-session-and-its-end", &[CAPS, CREATE, DESTROY, DESTROY][..], true),
            ("video-sessions-beyond-the-limit", &[CREATE; 4], true),
            ("video-session-whose-device-ends", &[CREATE, DESTROY_DEVICE, DESTROY], true),
            ("video-session-whose-process-ends", &[CREATE, DESTROY_PROCESS, DESTROY], true),
            ("video-session-on-another-node", &[CREATE_ELSEWHERE, CREATE_TOO_LARGE], false),
            ("power-of-gpus", &[POWER, POWER_OF_NO_GPU], false),
        ] {
            let scene = scene(name, steps);
            for guest in [0, 1] {
                let has = scene.has_seen(guest, RequestCode::CREATE_VIDEO_SESSION);
                assert_eq!(has, is_created, "{name}");
            }
            scene.end();
        }
    }
}

/// Guests begin with two monitors, and show a black source 0 of 64 x 32 pixels on target 0.
mod displays {
    use super::*;

    /// Two paths: both sources, one each, or one source on both targets.
    const EXTENDED: u8 = 0b1100;
    const CLONE: u8 = 0b1000;
    const OTHER_TARGET: u8 = 0b0010;

    const fn is_supported(paths: u8, ends: u8, modes: u8) -> Step {
        [64, 1, paths << 2, ends, modes]
    }

    /// Everything open, and asks for one part.
    const fn modality(pivot: u8, paths: u8, ends: u8) -> Step {
        [64, 1, 1 | paths << 2 | pivot << 4 | 128, ends, 0]
    }

    const fn commit(paths: u8, ends: u8, modes: u8) -> Step {
        [65, 1, 2 | paths << 2, ends, modes]
    }

    /// A mode of 32 x 32 pixels; one of no monitor; the pictures turned by 90 degrees.
    const SMALL: u8 = 64;
    const NO_MODE: u8 = 192;
    const TURNED: u8 = 4 << 3;

    const PRIMARY: Step = [71, 1, 0, 0, 0];
    const SHARED_PRIMARY: Step = [71, 1, 7, 0, 0];
    const FENCE: Step = [18, 1, 0, 0, 0];
    const SIGNAL: Step = [56, 1, 0, 0, 3];
    /// The newest primary, or the one before it.
    const FLIP: Step = [67, 1, 0, 0, 1];
    const FLIP_OLDER: Step = [67, 17, 0, 0, 2];
    const FLIP_NOW: Step = [67, 1, 1, 0, 3];
    const FLIP_REPLACING: Step = [67, 1, 2, 0, 4];
    const FLIP_AFTER_FENCE: Step = [67, 1, 0, 1, 3];
    const FLIP_NOW_AFTER_FENCE: Step = [67, 1, 1, 1, 3];
    const FLIP_BEHIND_ITS_END: Step = [67, 1, 12, 0, 5];
    const VSYNC: Step = [73, 0, 0, 0, 0];
    /// Only the interrupt of what came before.
    const INTERRUPT: Step = [73, 7, 0, 0, 0];
    const UNPLUG: Step = [73, 4, 0, 1, 0];
    const LET_GO_LATE: Step = [73, 5, 0, 0, 0];
    const LATER: Step = [73, 6, 0, 0, 255];
    const BLANK: Step = [66, 1, 0, 0, 0];
    const SHOW: Step = [66, 1, 0, 1, 0];
    const VSYNC_WANTED: Step = [66, 1, 1, 1, 0];
    const SCAN_LINE: Step = [66, 1, 2, 0, 0];
    const DESTROY_ALLOCATION: Step = [14, 1, 0, 0, 0];
    const D3: Step = [36, 0, 0, 0, 64];
    const D0: Step = [36, 0, 0, 0, 0];

    fn end(name: &str, steps: &[Step], check: impl Fn(&Scene, usize)) {
        let scene = scene(name, steps);
        for guest in [0, 1] {
            check(&scene, guest);
        }
        scene.end();
    }

    #[track_caller]
    fn succeeds(name: &str, steps: &[Step], codes: &[RequestCode]) {
        end(name, steps, |scene, guest| {
            for code in codes {
                let answers = scene.answers(guest, *code);
                assert!(
                    !answers.is_empty() && answers.iter().all(|status| status.is_success()),
                    "{name}: {code}: {answers:?}"
                );
            }
        });
    }

    #[test]
    fn seeds_are_in_the_corpus_and_ask_for_topologies() {
        let pivots = (0..4).flat_map(|pivot| {
            [(1, OTHER_TARGET), (2, EXTENDED), (2, CLONE)]
                .map(|(paths, ends)| modality(pivot, paths, ends))
        });
        let asked: Vec<_> = pivots
            .chain([
                is_supported(0, 0, 0),
                is_supported(2, EXTENDED, 0),
                is_supported(3, 0, NO_MODE),
            ])
            .collect();
        let codes = [RequestCode::ENUM_VIDPN_COFUNC_MODALITY, RequestCode::IS_SUPPORTED_VIDPN];
        succeeds("topologies-asked", &asked, &codes);
        let committed = [
            commit(2, EXTENDED, 0),
            commit(2, CLONE, SMALL),
            commit(1, OTHER_TARGET, 0),
            commit(0, 0, 0),
            commit(1, 0, TURNED | SMALL),
        ];
        succeeds("topologies-committed", &committed, &[RequestCode::COMMIT_VIDPN]);
        let children = [[72, 0, 0, 0, 0], [72, 0, 1, 1, 0], [72, 0, 2, 0, 1], [72, 0, 3, 1, 0]];
        let codes = [
            RequestCode::QUERY_CHILD_RELATIONS,
            RequestCode::QUERY_CHILD_STATUS,
            RequestCode::QUERY_DEVICE_DESCRIPTOR,
            RequestCode::RECOMMEND_MONITOR_MODES,
        ];
        succeeds("children-and-monitors", &children, &codes);
        let refused =
            [commit(3, 0, 0), commit(1, 0, NO_MODE), commit(1, 0, TURNED), UNPLUG, commit(1, 0, 0)];
        end("topologies-refused", &refused, |scene, guest| {
            // The first is the one that the guest begins with.
            let answers = scene.answers(guest, RequestCode::COMMIT_VIDPN);
            assert_eq!(answers, [Status::GRAPHICS_VIDPN_TOPOLOGY_NOT_SUPPORTED; 4]);
        });
    }

    #[test]
    fn seeds_are_in_the_corpus_and_flip() {
        use FlipOutcome as F;
        let cases: &[(&str, &[Step], &[F])] = &[
            ("flip-at-vsync", &[PRIMARY, FLIP, VSYNC], &[F::SHOWN]),
            ("flip-at-once", &[PRIMARY, FLIP_NOW, INTERRUPT], &[F::SHOWN]),
            (
                "flips-in-order",
                &[PRIMARY, PRIMARY, FLIP, FLIP_OLDER, FLIP, VSYNC, VSYNC],
                &[F::SHOWN; 2],
            ),
            (
                "flip-replaced",
                &[PRIMARY, PRIMARY, FLIP_OLDER, FLIP_REPLACING, VSYNC],
                &[F::DROPPED, F::SHOWN],
            ),
            (
                "flip-after-its-fence",
                &[FENCE, PRIMARY, FLIP_AFTER_FENCE, VSYNC, SIGNAL, VSYNC],
                &[F::SHOWN],
            ),
            (
                "flip-at-once-after-its-fence",
                &[FENCE, PRIMARY, FLIP_NOW_AFTER_FENCE, SIGNAL, INTERRUPT],
                &[F::SHOWN],
            ),
            ("flip-whose-fence-is-not-signaled", &[FENCE, PRIMARY, FLIP_NOW_AFTER_FENCE], &[]),
            (
                "flip-whose-fence-is-closed",
                &[FENCE, PRIMARY, FLIP_AFTER_FENCE, [19, 1, 0, 0, 0]],
                &[F::LOST],
            ),
            ("flip-whose-vsync-is-late", &[PRIMARY, FLIP, LATER, LATER], &[F::LOST]),
            (
                "flip-whose-source-goes",
                &[PRIMARY, FLIP, VSYNC, FLIP, LET_GO_LATE, commit(0, 0, 0)],
                &[F::SHOWN, F::LOST],
            ),
            ("flip-whose-mode-goes", &[PRIMARY, FLIP, commit(1, 0, SMALL)], &[F::LOST]),
            ("flip-whose-mode-stays", &[PRIMARY, FLIP, commit(2, CLONE, 0), VSYNC], &[F::SHOWN]),
            ("flip-whose-primary-goes", &[PRIMARY, FLIP, DESTROY_ALLOCATION], &[F::LOST]),
            (
                "flip-whose-process-goes",
                &[PRIMARY, FLIP, VSYNC, LET_GO_LATE, DESTROY_PROCESS],
                &[F::SHOWN],
            ),
            (
                "flip-of-a-blank-source",
                &[PRIMARY, FLIP, BLANK, INTERRUPT, FLIP, INTERRUPT, SHOW],
                &[F::SHOWN; 2],
            ),
            ("flip-across-d3", &[PRIMARY, FLIP, D3, VSYNC, D0, VSYNC], &[F::SHOWN]),
            ("flip-without-its-monitor", &[PRIMARY, FLIP, UNPLUG, VSYNC], &[F::SHOWN]),
            ("flip-of-no-memory", &[PRIMARY, FLIP_BEHIND_ITS_END], &[]),
        ];
        for (name, steps, outcomes) in cases {
            end(name, steps, |scene, guest| assert_eq!(scene.flips(guest), *outcomes, "{name}"));
        }
    }

    #[test]
    fn seeds_are_in_the_corpus_and_point_and_follow_the_monitor() {
        const ALLOCATE: Step = [11, 1, 0, 0, 0];
        let shape = [69, 1, 1, 0, 2];
        let pointer = [ALLOCATE, shape, [69, 1, 0, 70, 9], [69, 1, 1, 1, 0], [69, 1, 0, 71, 9]];
        let codes = [RequestCode::SET_POINTER_SHAPE, RequestCode::SET_POINTER_POSITION];
        succeeds("pointer", &pointer, &codes);
        let follows = [VSYNC_WANTED, VSYNC, SCAN_LINE, [66, 1, 1, 0, 0], BLANK, VSYNC, SHOW];
        let codes = [
            RequestCode::CONTROL_INTERRUPT,
            RequestCode::GET_SCAN_LINE,
            RequestCode::SET_VIDPN_SOURCE_VISIBILITY,
        ];
        succeeds("vsync-wanted", &follows, &codes);
    }

    #[test]
    fn seeds_are_in_the_corpus_and_let_another_process_flip() {
        // The newest process is the second; choices from 16 on take the one before.
        let process = [0, 0, 0, 0, 0];
        let device = [2, 1, 0, 0, 0];
        let lend = [66, 17, 3, 1, 0];
        let take_back = [66, 17, 3, 0, 0];
        let flips = [process, device, lend, SHARED_PRIMARY, FLIP, VSYNC, FLIP, take_back, VSYNC];
        end("flips-of-two-processes", &flips, |scene, guest| {
            let owner = scene.answers(guest, RequestCode::SET_VIDPN_SOURCE_OWNER);
            assert_eq!(owner, [Status::SUCCESS; 2]);
            assert_eq!(scene.flips(guest).first(), Some(&FlipOutcome::SHOWN));
        });
    }

    #[test]
    fn seeds_are_in_the_corpus_and_present() {
        /// Of two pages.
        const ALLOCATE: Step = [11, 8, 0, 0, 0];
        let context = [40, 1, 0, 1, 0];
        let present = |kind: u8| [70, 1, 0, kind, 0b0100_0101];
        let presents =
            [ALLOCATE, ALLOCATE, context, present(1), present(2 | 16), present(3), present(3 | 16)];
        succeeds("presents", &presents, &[RequestCode::CREATE_NODE_CONTEXT, RequestCode::PRESENT]);
        let refused = [ALLOCATE, ALLOCATE, context, present(0), present(1 | 48), [70, 1, 0, 1, 12]];
        end("presents-refused", &refused, |scene, guest| {
            let answers = scene.answers(guest, RequestCode::PRESENT);
            assert_eq!(answers, [Status::INVALID_PARAMETER; 3]);
        });
    }
}

/// Agents that answer, never answer, answer twice, register twice and end; and what the operator does meanwhile.
mod agents {
    use super::*;

    const REGISTER: Step = [74, 1, 0, 0, 0];
    const UNREGISTER: Step = [74, 1, 1, 0, 0];
    const ASK_STOP: Step = [74, 1, 2, 3, 0];
    const ASK_TOPOLOGY: Step = [74, 1, 2, 9 + 7, 0];
    const ANSWER_FIRST: Step = [74, 1, 4, 1, 0];
    const SAVING: Step = [74, 1, 5, 3, 0];
    const STOP: Step = [74, 1, 6, 2, 0];
    const START: Step = [74, 1, 6, 1, 0];
    const SECOND_PROCESS: Step = [0, 0, 0, 0, 0];
    const ASK_FOR_CONSENT: Step = [74, 1, 8, 11, 1];
    const ANSWER_CONSENT: Step = [74, 0, 9, 1, 0];
    const ANNOUNCE_STOP: Step = [74, 1, 10, 1, 0];
    const OPERATOR_ASKS: Step = [75, 0, 3, 0, 0];
    const TAKE_GPU: Step = [75, 2, 0, 0, 0];
    const GIVE_GPU: Step = [75, 3, 0, 0, 0];
    const NO_MORE_QUEUES: Step = [75, 5, 2, 0, 0];
    const LATER: Step = [75, 7, 0, 0, 0];
    const CONTEXT: Step = [5, 1, 0, 0, 0];

    #[test]
    fn seeds_are_in_the_corpus_and_every_request_is_answered() {
        let asked = |scene: &Scene, guest| scene.answers(guest, RequestCode::ASK_AGENT);
        for (name, steps) in [
            ("agent-asked", &[REGISTER, ASK_STOP, ANSWER_FIRST][..]),
            ("agent-that-answers-twice", &[REGISTER, ASK_STOP, ANSWER_FIRST, ANSWER_FIRST]),
            ("agent-that-ends", &[REGISTER, ASK_STOP, OPERATOR_ASKS, DESTROY_PROCESS]),
            ("agent-that-leaves", &[REGISTER, ASK_STOP, UNREGISTER, ANSWER_FIRST]),
            (
                "agent-that-never-answers",
                &[REGISTER, ASK_STOP, OPERATOR_ASKS, LATER, LATER, LATER, LATER, LATER],
            ),
            (
                "agent-with-too-much-to-do",
                &[
                    REGISTER, ASK_STOP, ASK_STOP, ASK_STOP, ASK_STOP, ASK_STOP, ASK_STOP, ASK_STOP,
                    ASK_STOP, ASK_STOP,
                ],
            ),
            ("agents-that-register-twice", &[REGISTER, REGISTER, SAVING, ASK_TOPOLOGY]),
            ("agent-that-stops-the-device", &[REGISTER, STOP, CONTEXT, ASK_STOP, START, CONTEXT]),
            (
                "agent-that-asks-programs",
                &[
                    SECOND_PROCESS,
                    REGISTER,
                    ASK_FOR_CONSENT,
                    ANSWER_CONSENT,
                    ANNOUNCE_STOP,
                    ASK_FOR_CONSENT,
                    LATER,
                    STOP,
                    START,
                ],
            ),
            ("gpu-taken-away", &[REGISTER, TAKE_GPU, CONTEXT, ASK_STOP, GIVE_GPU, CONTEXT]),
            ("limits-lowered", &[NO_MORE_QUEUES, CONTEXT, ASK_STOP]),
        ] {
            let scene = scene(name, steps);
            for guest in [0, 1] {
                let known = steps.iter().filter(|step| [ASK_STOP, ASK_TOPOLOGY].contains(step));
                assert!(asked(&scene, guest).len() <= known.count(), "{name}");
            }
            scene.end();
        }
    }
}

/// Two linked GPUs: nodes 3 to 5, and sources and targets 2 and 3, are those of the second.
mod chains {
    use super::*;

    /// A queue of the second GPU for user-mode submission, and memory for its ring.
    const CONTEXT: Step = [5, 1, 0, 0, 3];
    const QUEUE: Step = [8, 1, 0, 0, 2];
    const RING: Step = [11, 8, 0, 0, 0];
    const RING_CONTROL: Step = [11, 1, 0, 0, 0];
    const DOORBELL: Step = [22, 1, 1, 0, 0];
    const CONNECT: Step = [24, 1, 0, 0, 0];
    const QUEUES: [Step; 6] = [CONTEXT, QUEUE, RING, RING_CONTROL, DOORBELL, CONNECT];

    #[track_caller]
    fn succeeds(name: &str, steps: &[Step], codes: &[RequestCode]) {
        let scene = scene_of(CHAIN, name, steps);
        for (guest, code) in
            [0, 1].iter().flat_map(|guest| codes.iter().map(move |code| (*guest, *code)))
        {
            let answers = scene.answers(guest, code);
            let is_success = answers.iter().all(|status| status.is_success());
            assert!(!answers.is_empty() && is_success, "{name}: {code}: {answers:?}");
        }
        scene.end();
    }

    #[test]
    fn seeds_are_in_the_corpus_and_have_queues_on_the_second_gpu() {
        let made = [
            RequestCode::CREATE_CONTEXT,
            RequestCode::CREATE_HW_QUEUE,
            RequestCode::CREATE_DOORBELL,
            RequestCode::CONNECT_DOORBELL,
        ];
        let notify = [26, 1, 0, 0, 0];
        let suspend = [32, 1, 0, 0, 0];
        let resume = [33, 1, 0, 0, 0];
        let destroy_queue = [10, 1, 0, 0, 0];
        let fault = [31, 40 + 4, 4, 0, 0];
        for (name, rest) in [
            ("chain-queue-and-its-doorbell", &[notify, [25, 1, 0, 0, 0]][..]),
            ("chain-queue-suspended", &[suspend, resume, destroy_queue]),
            ("chain-queue-that-faults", &[fault, notify, [31, 40, 1, 0, 0], [31, 40, 3, 1, 0]]),
            ("chain-queue-whose-process-ends", &[DESTROY_PROCESS]),
        ] {
            succeeds(name, &[&QUEUES, rest].concat(), &made);
        }
    }

    #[test]
    fn seeds_are_in_the_corpus_and_ask_about_nodes_of_the_second_gpu() {
        let metadata = |node| [28, 0, 0, 0, node];
        let power = |node| [38, 0, 0, 0, node];
        let nodes = [metadata(3), metadata(4), metadata(5), power(3), power(5)];
        let codes = [RequestCode::GET_NODE_METADATA, RequestCode::QUERY_POWER];
        succeeds("chain-nodes", &nodes, &codes);
        let render = [41, 1, 1, 1, 0];
        let contexts = [RING_CONTROL, [40, 1, 0, 1, 3], render, [40, 1, 0, 2, 4], [42, 1, 1, 1, 0]];
        succeeds("chain-node-contexts", &contexts, &[RequestCode::CREATE_NODE_CONTEXT]);
        let session = [76, 1, 28, 8, 43];
        let sessions = [session, [76, 1, 2, 0, 0], session];
        succeeds("chain-video-sessions", &sessions, &[RequestCode::CREATE_VIDEO_SESSION]);
    }

    #[test]
    fn a_kernel_is_created_when_both_gpus_have_compiled_it() {
        let create = [[11, 1, 0, 0, 0], [15, 1, 0, 0, 7], [60, 1, 1, 2, 7]];
        let compiled = [63, 0, 1, 1, 0];
        let steps = |rest: &[Step]| [&create, rest].concat();
        for (name, rest, lives) in [
            ("chain-kernel", &[compiled, compiled][..], true),
            ("chain-kernel-that-one-gpu-refuses", &[compiled, [63, 0, 4, 1, 0]], false),
        ] {
            let scene = scene_of(CHAIN, name, &steps(rest));
            for guest in [0, 1] {
                assert_eq!(scene.has_seen(guest, RequestCode::CREATE_KERNEL), lives, "{name}");
            }
            scene.end();
        }
    }

    #[test]
    fn seeds_are_in_the_corpus_and_show_something_on_the_second_gpu() {
        /// Source 3 on target 3, after which a primary is shown.
        const COMMIT: Step = [65, 1, 2 | 1 << 2, 0b111, 0];
        const PRIMARY: Step = [71, 1, 0, 0, 0];
        const FLIP: Step = [67, 1, 192, 0, 1];
        const VSYNC: Step = [73, 0, 3, 0, 0];
        const UNPLUG: Step = [73, 4, 3, 1, 0];
        for (name, rest) in [
            ("chain-flip", &[FLIP, VSYNC][..]),
            ("chain-flip-of-an-unplugged-monitor", &[UNPLUG, FLIP, VSYNC]),
        ] {
            let scene = scene_of(CHAIN, name, &[&[COMMIT, PRIMARY], rest].concat());
            for guest in [0, 1] {
                assert_eq!(scene.flips(guest), [FlipOutcome::SHOWN], "{name}");
            }
            scene.end();
        }
        let children = [[72, 0, 1, 2, 0], [72, 0, 2, 3, 1], [72, 0, 3, 3, 0]];
        let codes = [
            RequestCode::QUERY_CHILD_STATUS,
            RequestCode::QUERY_DEVICE_DESCRIPTOR,
            RequestCode::RECOMMEND_MONITOR_MODES,
        ];
        succeeds("chain-monitors", &children, &codes);
    }

    #[test]
    fn seeds_are_in_the_corpus_and_lose_the_second_gpu() {
        let (take, give) = ([75, 2, 1, 0, 0], [75, 3, 1, 0, 0]);
        let scene = scene_of(
            CHAIN,
            "chain-gpu-taken-away",
            &[&QUEUES, &[take, CONTEXT, give][..]].concat(),
        );
        for guest in [0, 1] {
            let answers = scene.answers(guest, RequestCode::CREATE_CONTEXT);
            assert!(answers[0].is_success() && !answers[1].is_success(), "{answers:?}");
        }
        scene.end();
    }
}
