// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the guest's agent makes of its monitors.

use super::lab::Lab;
use crate::agent::{Layout, Screens, ScreensError};
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::{Scene, TIMEOUT};
use bellhop_guest_umd::Adapter;
use bellhop_guest_umd::agent::{
    ALL_WISHES, Agent, AgentEvent, AgentResult, Consent, WantedTopology,
};
use bellhop_guest_umd::display::{
    ConsentRequest, Constraint, Display, DisplayError, Path, Topology,
};
use std::thread;
use std::time::Duration;

/// The longest that an agent gives programs.
const MOST: Duration = Duration::from_secs(10);

impl From<ScreensError> for Mismatch {
    fn from(error: ScreensError) -> Self {
        match error {
            ScreensError::Display(error) => error.into(),
            ScreensError::Device(error) => error.into(),
            error => Self::Seen(error.to_string()),
        }
    }
}

pub(super) fn layouts(scene: &Scene) -> Result<(), Mismatch> {
    let lab = Lab::new(scene)?;
    let monitors = lab.monitors(2)?;
    let mut screens = Screens::open(scene.adapter().open_process()?, Layout::Extend)?;
    screens.apply()?;
    // Another process sees which monitors are in use. There is no source 15, which is checked later.
    let is_used = |child: u32| -> Result<bool, Mismatch> {
        let topology = Topology::new().path(Path::new(15, child));
        match lab.display.check(&topology) {
            Err(DisplayError::Topology(refusal)) => Ok(refusal.constraint == Constraint::IN_USE),
            Err(error) => Err(error.into()),
            Ok(()) => Ok(false),
        }
    };
    let [first, second] = [monitors[0], monitors[1]];
    require!(is_used(first)? && is_used(second)?, "extended, a monitor shows nothing");
    let cloned = screens.show(WantedTopology::Clone)?;
    require!(is_used(first)? && is_used(second)?, "cloned, a monitor shows nothing");
    require!(cloned.matches("source 0").count() >= 2, "cloned: {cloned}");
    screens.show(WantedTopology::Single)?;
    require!(is_used(first)? && !is_used(second)?, "single: not the first monitor alone");
    let mode = lab.display.monitor_modes(first)?.last().copied();
    let mode = mode.ok_or(Mismatch::Seen("the monitor has no mode".into()))?;
    let refresh = u64::from(mode.refresh_numerator) * 1000 / u64::from(mode.refresh_denominator);
    let wanted = WantedTopology::Mode {
        connector: first,
        width: mode.width,
        height: mode.height,
        refresh: refresh as u32,
    };
    let shown = screens.show(wanted)?;
    require!(
        shown.contains(&format!("{}x{}@", mode.width, mode.height)),
        "asked for {mode:?}: {shown}"
    );
    let impossible =
        WantedTopology::Mode { connector: first, width: 1, height: 1, refresh: 60_000 };
    require!(screens.show(impossible).is_err(), "a mode that there is not was set");
    require!(screens.apply()? == shown, "a refusal changed what is shown");
    screens.show(WantedTopology::Off)?;
    require!(!is_used(first)? && !is_used(second)?, "off, a monitor shows something");
    screens.show(WantedTopology::Enumerate)?;
    require!(is_used(first)? && is_used(second)?, "the policy is not what it was");
    Ok(())
}

/// A process that is the agent, its display, and the paths of a program.
struct Beside {
    lab: Lab,
    _process: Adapter,
    agent: Agent,
    display: Display,
    topology: Topology,
    /// The bit of the program's source.
    source: u64,
}

impl Beside {
    fn new(scene: &Scene) -> Result<Self, Mismatch> {
        let lab = Lab::new(scene)?;
        let monitor = lab.monitors(1)?[0];
        let process = scene.adapter().open_process()?;
        let (agent, display) = (process.register_agent(ALL_WISHES)?, process.display()?);
        // The source of this number is on the monitor's GPU.
        let topology = Topology::new().path(lab.small_path(monitor, monitor)?);
        let topology = lab.display.complete(&topology)?;
        Ok(Self { lab, _process: process, agent, display, topology, source: 1 << monitor })
    }

    /// The agent is told that programs show these sources.
    fn expect_sources(&self, expected: u64) -> Result<(), Mismatch> {
        let told = self.agent.next_event(TIMEOUT)?;
        let expected = AgentEvent::SourcesOfPrograms(expected);
        require!(told == Some(expected), "the agent was told of {told:?}, not of {expected:?}");
        Ok(())
    }

    /// The agent asks, while the program does something.
    fn ask(
        &self,
        patience: Duration,
        act: impl FnOnce() -> Result<(), Mismatch>,
    ) -> Result<Consent, Mismatch> {
        thread::scope(|threads| {
            let asks = threads.spawn(|| self.agent.ask_for_consent(WantedTopology::Off, patience));
            act()?;
            let asked = asks.join();
            Ok(asked.map_err(|_| Mismatch::Seen("the agent panicked".into()))??)
        })
    }

    /// What the program is asked.
    fn asked(&self) -> Result<ConsentRequest, Mismatch> {
        let asked = self.lab.display.next_topology_wanted(TIMEOUT)?;
        let asked = asked.ok_or(Mismatch::Seen("the program was not asked".into()))?;
        require!(asked.wanted == WantedTopology::Off, "it was asked for {:?}", asked.wanted);
        Ok(asked.request)
    }
}

pub(super) fn gives_way(scene: &Scene) -> Result<(), Mismatch> {
    let beside = Beside::new(scene)?;
    let Beside { lab, display, topology, source, .. } = &beside;
    display.commit(topology)?;
    lab.display.commit(topology)?;
    beside.expect_sources(*source)?;
    match display.commit(topology) {
        Err(DisplayError::Topology(refusal)) if refusal.constraint == Constraint::IN_USE => {}
        other => return Err(Mismatch::Seen(format!("the agent's commit ended with {other:?}"))),
    }
    lab.display.commit(&Topology::new())?;
    beside.expect_sources(0)?;
    display.commit(topology)?;
    Ok(())
}

pub(super) fn consent(scene: &Scene) -> Result<(), Mismatch> {
    let beside = Beside::new(scene)?;
    let Beside { lab, display, topology, source, .. } = &beside;
    let nobody = beside.ask(TIMEOUT.min(MOST), || Ok(()))?;
    require!((nobody.result, nobody.sources) == (AgentResult::DONE, 0), "{nobody:?}");
    lab.display.commit(topology)?;
    let long = TIMEOUT.min(MOST);
    let agreed = beside.ask(long, || {
        let request = beside.asked()?;
        lab.display.agree(request, "as it was")?;
        let again = lab.display.agree(request, "again");
        require!(again.is_err(), "a program agrees twice");
        Ok(())
    })?;
    let Consent { result, sources, text } = &agreed;
    require!((*result, *sources) == (AgentResult::DONE, *source), "{agreed:?}");
    require!(text == "as it was", "it said {text:?}");
    let refused = beside.ask(long, || Ok(lab.display.refuse(beside.asked()?, "a film runs")?))?;
    require!(refused.result == AgentResult::FAILED, "{refused:?}");
    require!(refused.text == "a film runs", "{refused:?}");
    let let_go = beside.ask(long, || {
        beside.asked()?;
        Ok(lab.display.commit(&Topology::new())?)
    })?;
    require!((let_go.result, let_go.sources) == (AgentResult::DONE, 0), "{let_go:?}");
    lab.display.commit(topology)?;
    require!(!lab.display.was_taken()?, "a program's sources were taken that agreed");
    let silent = beside.ask(Duration::from_millis(1), || Ok(()))?;
    require!((silent.result, silent.sources) == (AgentResult::TIMED_OUT, 0), "{silent:?}");
    let late = lab.display.agree(beside.asked()?, "late");
    require!(late.is_err(), "a program agrees after its time");
    require!(lab.display.was_taken()?, "a program is not told that its sources were taken");
    display.commit(topology)?;
    // It may show something again.
    lab.display.commit(topology)?;
    Ok(())
}
