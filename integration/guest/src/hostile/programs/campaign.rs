// SPDX-License-Identifier: MIT OR Apache-2.0

//! All attacks, one after another, for a while: what an administrator sees of a broker that is attacked.

use super::scene::{Group, Scene};
use crate::hostile::Noise;
use crate::output::wrapped;
use anyhow::ensure;
use bellhop_guest_umd::Adapter;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Every attack.
const GROUPS: [Group; 9] = [
    super::SCRIBBLES,
    super::FILE,
    super::PROCESSES,
    super::EXTENTS,
    super::REQUESTS,
    super::MESSAGES,
    super::DESCRIPTORS,
    super::CONNECTIONS,
    super::WORK,
];

/// What is attacked, and for how long.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// Where the broker listens.
    pub socket: PathBuf,
    /// How many programs of the attacker's user the broker serves at once.
    pub places: usize,
    /// How many processes a program may have.
    pub processes: usize,
    /// Part of the names of the attacks to try: all without one.
    pub filter: Option<String>,
    /// Where the random choices begin.
    pub seed: u64,
    /// How long it attacks: an attack that has begun is ended.
    pub time: Duration,
}

/// What became of the attacks.
#[derive(Debug, Clone, Serialize)]
pub struct CampaignReport {
    /// Where the random choices began.
    pub seed: u64,
    /// Seconds.
    pub seconds: f64,
    /// Each attack, in order.
    pub attacks: Vec<Tried>,
}

/// An attack.
#[derive(Debug, Clone, Serialize)]
pub struct Tried {
    /// What it does.
    pub name: &'static str,
    /// How often it was tried.
    pub times: u64,
    /// What the broker let it do and must not, the first time.
    pub got: Option<String>,
}

impl Campaign {
    /// Attacks until the time is over.
    ///
    /// # Errors
    /// When no attack is called so, or the broker does not serve this program at all.
    pub fn run(&self) -> anyhow::Result<CampaignReport> {
        let Self { socket, places, processes, filter, seed, time } = self;
        let (places, processes) = (*places, *processes);
        let scene = Scene {
            socket: socket.clone(),
            places,
            processes,
            victim: 0,
            noise: Noise::new(*seed),
        };
        // Processes are numbered in turn, so the one before is likely another program's.
        let victim = Adapter::open(scene.library()?)?.process().saturating_sub(1);
        let start = Instant::now();
        let is_wanted = |name: &str| filter.as_ref().is_none_or(|filter| name.contains(filter));
        let attacks = GROUPS.into_iter().flatten().filter(|(name, _)| is_wanted(name));
        ensure!(attacks.clone().next().is_some(), "no attack has this in its name");
        let mut tried: Vec<_> =
            attacks.clone().map(|(name, _)| Tried { name, times: 0, got: None }).collect();
        'time: for stream in 1.. {
            for ((_, attack), tried) in attacks.clone().zip(&mut tried) {
                if start.elapsed() >= *time {
                    break 'time;
                }
                let noise = Noise::new(seed.wrapping_add(stream << 32));
                let mut scene = Scene { socket: socket.clone(), places, processes, victim, noise };
                let got = attack(&mut scene).err();
                tried.times += 1;
                tried.got = tried.got.take().or_else(|| got.map(|got| format!("{got:#}")));
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        Ok(CampaignReport { seed: *seed, seconds, attacks: tried })
    }
}

impl CampaignReport {
    /// Whether no attack got further than a program may.
    #[must_use]
    pub fn got_nowhere(&self) -> bool {
        self.attacks.iter().all(|attack| attack.got.is_none())
    }
}

impl fmt::Display for CampaignReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "times  attack")?;
        for Tried { name, times, got } in &self.attacks {
            writeln!(f, "{times:5}  {name}")?;
            if let Some(got) = got {
                writeln!(f, "{}", wrapped("       it got: ", got).trim_end())?;
            }
        }
        let Self { seed, seconds, attacks } = self;
        let times: u64 = attacks.iter().map(|attack| attack.times).sum();
        let got = attacks.iter().filter(|attack| attack.got.is_some()).count();
        writeln!(
            f,
            "{times} attacks in {seconds:.0} s (seed {seed}); {got} of {} got through",
            attacks.len()
        )
    }
}
