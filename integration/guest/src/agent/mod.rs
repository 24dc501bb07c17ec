// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest's agent, a service: it is told what happens to the device, and does in user mode what a kernel cannot.
//!
//! Source: Windows KMD overview, "EEU".

mod bus;
pub mod config;
mod hooks;
mod screens;
mod situation;

pub use hooks::{Hooks, Occasion};
pub use screens::{Curtain, Layout, Screens, ScreensError};
pub use situation::{Change, Policies, Situation};

use crate::output::{note, put_line};
use anyhow::Context as _;
use bellhop_guest_umd::agent::{
    ALL_WISHES, Agent, AgentEvent, AgentRequest, AgentResult, Consent, DevicePresence, HotPlug,
    PowerPolicy, RecoveryKind, WantedTopology,
};
use bellhop_guest_umd::display::DisplayError;
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{Adapter, PlacementPolicy};
use bus::Listener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    /// What follows from what the guest's operating system says; `None` to not listen to it.
    pub policies: Option<Policies>,
    /// When it ends; never by default.
    pub time: Option<Duration>,
}

/// The service.
struct Service {
    agent: Arc<Agent>,
    /// `None` where the guest has no display.
    screens: Option<Screens>,
    hooks: Hooks,
    consent: Duration,
    leave: Duration,
    is_stopped: bool,
    /// A bit for each source that programs show.
    programs: u64,
    policies: Policies,
    situation: Situation,
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
    let agent = Arc::new(agent);
    // Of the agent's own process, whose sources give way to those of programs.
    let screens = match Screens::open(adapter, options.layout) {
        Ok(screens) => Some(screens),
        Err(ScreensError::Display(DisplayError::NoDisplay)) => None,
        Err(error) => return Err(error.into()),
    };
    let Options { consent, leave, policies, .. } = *options;
    let mut service = Service {
        agent: Arc::clone(&agent),
        screens,
        hooks: options.hooks.clone(),
        consent,
        leave,
        is_stopped: false,
        programs: 0,
        policies: policies.unwrap_or_default(),
        situation: Situation::default(),
    };
    put_line("registered as the guest's agent")?;
    service.apply()?;
    // The device and the system each have a thread that waits for them; who has the service acts.
    let service = Arc::new(Mutex::new(service));
    let _listener = policies.is_some().then(|| listen(&service)).transpose()?;
    let end = options.time.map(|time| Instant::now() + time);
    loop {
        let left = end.map_or(IDLE, |end| end.saturating_duration_since(Instant::now()));
        match agent.next_event(left.min(IDLE))? {
            Some(event) => lock(&service).act(event)?,
            None if end.is_some_and(|end| end <= Instant::now()) => return Ok(()),
            None => {}
        }
    }
}

/// Has the service follow what the system says.
fn listen(service: &Arc<Mutex<Service>>) -> anyhow::Result<Listener> {
    let service = Arc::clone(service);
    let hear = move |situation| {
        let followed = lock(&service).hear(situation);
        // A device that is gone ends the other thread's wait, too.
        if let Err(error) = followed {
            note(format_args!("cannot follow the system: {error}"));
        }
    };
    Listener::start(Arc::new(hear)).context("cannot listen to the system")
}

/// The service. What a thread that panicked has left of it is what it has shown and said so far.
fn lock(service: &Mutex<Service>) -> MutexGuard<'_, Service> {
    service.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The longest wait for an event: any time.
const IDLE: Duration = Duration::from_secs(3600);

/// Why nothing can be shown.
const NO_DISPLAY: &str = "the guest has no display";

fn agrees(text: &str) -> String {
    format!("the program that shows something agrees: {text}")
}

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

    /// Follows what the system says: the policies, then the hooks.
    fn hear(&mut self, now: Situation) -> anyhow::Result<()> {
        let changes = self.situation.changes(&now);
        self.situation = now;
        for change in changes {
            put_line(change.text())?;
            self.cover()?;
            let mut variables = Vec::from(now.variables());
            if let Some(policy) = self.policies.power(change) {
                let name = policy.name().unwrap_or("unknown").to_lowercase();
                match self.agent.set_power_policy(policy) {
                    Ok(()) => put_line(format_args!("the power policy is {name}"))?,
                    Err(error) => note(format_args!("the power policy stays: {error}")),
                }
                variables.push(("BELLHOP_POWER_POLICY", name));
            }
            self.run(change.hook(), change.text().to_owned(), variables);
        }
        Ok(())
    }

    /// Hides monitors or shows them again, as the policies say. A program that shows something is asked for what hides
    /// all of them.
    fn cover(&mut self) -> anyhow::Result<()> {
        let curtain = self.policies.curtain(&self.situation);
        let Some(screens) = &mut self.screens else { return Ok(()) };
        let before = screens.wanted();
        if !screens.draw_curtain(curtain) {
            return Ok(());
        }
        if self.is_stopped || self.programs == 0 {
            return self.apply();
        }
        let wanted = screens.wanted();
        if wanted == before {
            return Ok(());
        }
        match self.ask(wanted) {
            Ok(Consent { sources: 0, .. }) => self.apply(),
            Ok(Consent { text, .. }) => Ok(put_line(agrees(&text))?),
            Err(why) => Ok(put_line(format_args!("the monitors show what they did: {why}"))?),
        }
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
        let screens = self.screens.as_ref().ok_or(NO_DISPLAY)?;
        screens.check(wanted).map_err(|error| error.to_string())?;
        let Consent { result, sources, text } = self.ask(wanted)?;
        let screens = self.screens.as_mut().ok_or(NO_DISPLAY)?;
        if sources != 0 {
            // It shows this itself, and the agent does once it has left.
            screens.choose(wanted).map_err(|error| error.to_string())?;
            return Ok(agrees(&text));
        }
        let mut shown = screens.show(wanted).map_err(|error| error.to_string())?;
        if result == AgentResult::TIMED_OUT {
            shown += "; a program that did not answer in time lost its monitors";
        }
        Ok(shown)
    }

    /// Asks the programs that show something for their consent. An error says why one refuses.
    fn ask(&mut self, wanted: WantedTopology) -> Result<Consent, String> {
        let consent = self.agent.ask_for_consent(wanted, self.consent);
        let consent = consent.map_err(|error| error.to_string())?;
        self.programs = consent.sources;
        if consent.result == AgentResult::FAILED {
            return Err(format!("the program that shows something refuses: {}", consent.text));
        }
        Ok(consent)
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
            note(format_args!("cannot let go of the display: {error}"));
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
            note(format_args!("nobody waits for the answer any more: {error}"));
        }
        Ok(())
    }

    fn run(
        &self,
        name: &'static str,
        about: String,
        variables: impl IntoIterator<Item = (&'static str, String)>,
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
