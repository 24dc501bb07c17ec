// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest's agent, a service: it is told what happens to the device, and does in user mode what a kernel cannot.
//!
//! Source: Windows KMD overview, "EEU".

mod hooks;
mod screens;

pub use hooks::{Hooks, Occasion};
pub use screens::{Layout, Screens, ScreensError};

use crate::output::put_line;
use anyhow::Context as _;
use bellhop_guest_umd::agent::{
    ALL_WISHES, Agent, AgentEvent, AgentRequest, AgentResult, Consent, DevicePresence, HotPlug,
    PowerPolicy, RecoveryKind, WantedTopology,
};
use bellhop_guest_umd::display::DisplayError;
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{Adapter, PlacementPolicy};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How the agent works.
#[derive(Debug, Clone)]
pub struct Options {
    /// What monitors show.
    pub layout: Layout,
    /// What runs at events.
    pub hooks: Hooks,
    /// How long programs that show something have to agree to another topology.
    pub consent: Duration,
    /// How long programs have to leave a device that stops.
    pub leave: Duration,
    /// When it ends; never by default.
    pub time: Option<Duration>,
}

/// The service.
struct Service {
    agent: Agent,
    /// `None` where the guest has no display.
    screens: Option<Screens>,
    hooks: Hooks,
    consent: Duration,
    leave: Duration,
    is_stopped: bool,
    /// A bit for each source that programs show.
    programs: u64,
}

/// Serves until the time is over, or until the device is gone.
///
/// # Errors
/// When another process of the guest is its agent, or the device is gone.
pub fn serve(
    transport: Arc<dyn Transport>,
    placement: PlacementPolicy,
    options: &Options,
) -> anyhow::Result<()> {
    let adapter = Adapter::open_with(transport, placement).context("cannot open the adapter")?;
    let agent = adapter.register_agent(ALL_WISHES);
    let agent = agent.context("cannot become the guest's agent; does another one run?")?;
    // Of the agent's own process, whose sources give way to those of programs.
    let screens = match Screens::open(adapter, options.layout) {
        Ok(screens) => Some(screens),
        Err(ScreensError::Display(DisplayError::NoDisplay)) => None,
        Err(error) => return Err(error.into()),
    };
    let Options { consent, leave, .. } = *options;
    let hooks = options.hooks.clone();
    let mut service =
        Service { agent, screens, hooks, consent, leave, is_stopped: false, programs: 0 };
    put_line("registered as the guest's agent")?;
    service.apply()?;
    let end = options.time.map(|time| Instant::now() + time);
    loop {
        let left = end.map_or(IDLE, |end| end.saturating_duration_since(Instant::now()));
        match service.agent.next_event(left.min(IDLE))? {
            Some(event) => service.act(event)?,
            None if end.is_some_and(|end| end <= Instant::now()) => return Ok(()),
            None => {}
        }
    }
}

/// The longest wait for an event: any time.
const IDLE: Duration = Duration::from_secs(3600);

/// What was done, or why not: for who asked, and for people.
type Done = Result<String, String>;

impl Service {
    fn act(&mut self, event: AgentEvent) -> anyhow::Result<()> {
        match event {
            AgentEvent::HotPlug(HotPlug { child, is_connected, .. }) => {
                self.apply()?;
                let name = if is_connected { "display-plugged" } else { "display-unplugged" };
                self.run(
                    name,
                    format!("connector {child}"),
                    [("BELLHOP_CONNECTOR", child.to_string())],
                );
            }
            AgentEvent::Topology(request, wanted) => {
                let done = self.show(wanted);
                self.answer(request, &done)?;
                if let Ok(shown) = done {
                    let (topology, mode) = words(wanted);
                    let variables = [
                        ("BELLHOP_TOPOLOGY", topology.to_owned()),
                        ("BELLHOP_MODE", mode.clone().unwrap_or_default()),
                    ];
                    self.run("topology", shown, variables);
                }
            }
            AgentEvent::PowerPolicy(request, policy) => {
                let name = policy.name().unwrap_or("unknown").to_lowercase();
                let set = self.agent.set_power_policy(policy);
                let done = set.map(|()| format!("the power policy is {name}"));
                self.answer(request, &done.map_err(|error| error.to_string()))?;
                let variable = ("BELLHOP_POWER_POLICY", name.clone());
                if PowerPolicy::ALL.contains(&policy) {
                    self.run("power-policy", name, [variable]);
                }
            }
            AgentEvent::Stop(request) => {
                // Clients end by themselves before the device is taken from those that did not.
                let ran = self.run("stop", String::new(), []);
                let done = self.stop().map(|stayed| {
                    let stayed = match stayed {
                        0 => String::new(),
                        1 => "; a program had not left it".to_owned(),
                        many => format!("; {many} programs had not left it"),
                    };
                    format!("the device is stopped; {ran} hooks ran{stayed}")
                });
                self.answer(request, &done)?;
            }
            AgentEvent::Start(request) => {
                let started = self.start();
                let ran = if started.is_ok() { self.run("start", String::new(), []) } else { 0 };
                let done =
                    started.map(|shown| format!("the device is started, {shown}; {ran} hooks ran"));
                self.answer(request, &done)?;
            }
            AgentEvent::SourcesOfPrograms(sources) => self.make_room(sources)?,
            AgentEvent::GpuLeft(ordinal) => {
                if let Some(screens) = &mut self.screens {
                    screens.forget();
                }
                put_line(format_args!("GPU {ordinal} was taken away"))?;
                self.run("gpu-left", ordinal.to_string(), []);
            }
            AgentEvent::GpuArrived(ordinal) => {
                put_line(format_args!("GPU {ordinal} is there again"))?;
                self.apply()?;
                self.run("gpu-arrived", ordinal.to_string(), []);
            }
            AgentEvent::Recovered(kind, node) => {
                let what = kind.name().unwrap_or("unknown").to_lowercase();
                put_line(format_args!("recovered from a hang: {what}"))?;
                if kind == RecoveryKind::ADAPTER {
                    self.apply()?;
                }
                let node = node.map(|node| node.to_string()).unwrap_or_default();
                self.run("recovered", what, [("BELLHOP_NODE", node)]);
            }
        }
        Ok(())
    }

    /// Shows what the layout says, and tells people.
    fn apply(&mut self) -> anyhow::Result<()> {
        if self.is_stopped || self.programs != 0 {
            return Ok(());
        }
        let Some(screens) = &mut self.screens else { return Ok(()) };
        match screens.apply() {
            Ok(shown) => put_line(shown)?,
            Err(error) => put_line(format_args!("the monitors show what they did: {error}"))?,
        }
        Ok(())
    }

    fn show(&mut self, wanted: WantedTopology) -> Done {
        if self.is_stopped {
            return Err("the device is stopped; start it first".into());
        }
        let screens = self.screens.as_mut().ok_or("the guest has no display")?;
        screens.check(wanted).map_err(|error| error.to_string())?;
        let consent = self.agent.ask_for_consent(wanted, self.consent);
        let Consent { result, sources, text } = consent.map_err(|error| error.to_string())?;
        self.programs = sources;
        if result == AgentResult::FAILED {
            return Err(format!("the program that shows something refuses: {text}"));
        }
        if sources != 0 {
            // It shows this itself, and the agent does once it has left.
            screens.choose(wanted).map_err(|error| error.to_string())?;
            return Ok(format!("the program that shows something agrees: {text}"));
        }
        let mut shown = screens.show(wanted).map_err(|error| error.to_string())?;
        if result == AgentResult::TIMED_OUT {
            shown += "; a program that did not answer in time lost its monitors";
        }
        Ok(shown)
    }

    /// Programs show these sources now. The agent shows something where none does.
    fn make_room(&mut self, sources: u64) -> anyhow::Result<()> {
        let before = std::mem::replace(&mut self.programs, sources);
        if sources == 0 {
            // It is told so too of sources that it took itself, and shows something already.
            return if before == 0 { Ok(()) } else { self.apply() };
        }
        if let Some(screens) = &mut self.screens {
            screens.forget();
        }
        Ok(put_line("a program shows something; the monitors are its own")?)
    }

    fn let_go(&mut self) {
        if let Some(screens) = &mut self.screens
            && let Err(error) = screens.let_go()
        {
            crate::output::note(format_args!("cannot let go of the display: {error}"));
        }
    }

    /// Returns how many programs had not left.
    fn stop(&mut self) -> Result<u32, String> {
        self.let_go();
        let stayed = self.agent.announce_stop(self.leave).map_err(|error| error.to_string())?;
        self.agent.set_presence(DevicePresence::STOPPED).map_err(|error| error.to_string())?;
        self.is_stopped = true;
        Ok(stayed)
    }

    fn start(&mut self) -> Done {
        self.agent.set_presence(DevicePresence::STARTED).map_err(|error| error.to_string())?;
        self.is_stopped = false;
        match &mut self.screens {
            Some(screens) => screens.apply().map_err(|error| error.to_string()),
            None => Ok("without a display".into()),
        }
    }

    fn answer(&self, request: AgentRequest, done: &Done) -> anyhow::Result<()> {
        let (result, text) = match done {
            Ok(text) => (AgentResult::DONE, text),
            Err(why) => (AgentResult::FAILED, why),
        };
        put_line(text)?;
        // Too late, if hooks took long: who asked was told so.
        if let Err(error) = self.agent.answer(request, result, text) {
            crate::output::note(format_args!("nobody waits for the answer any more: {error}"));
        }
        Ok(())
    }

    fn run<const N: usize>(
        &self,
        name: &'static str,
        about: String,
        variables: [(&'static str, String); N],
    ) -> usize {
        let variables = variables.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        self.hooks.run(&Occasion { name, about, variables })
    }
}

/// A topology in words, and its mode.
fn words(wanted: WantedTopology) -> (&'static str, Option<String>) {
    match wanted {
        WantedTopology::Extend => ("extend", None),
        WantedTopology::Clone => ("clone", None),
        WantedTopology::Single => ("single", None),
        WantedTopology::Off => ("off", None),
        WantedTopology::Enumerate => ("enumerate", None),
        mode @ WantedTopology::Mode { .. } => ("mode", Some(mode.to_string())),
        turned @ WantedTopology::Rotate { .. } => ("rotate", Some(turned.to_string())),
    }
}
