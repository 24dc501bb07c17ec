// SPDX-License-Identifier: MIT OR Apache-2.0

//! A report as text.

use super::Report;
use crate::bench::growth::is_in_a_table;
use crate::bench::headlines::{Aim, HEADLINES, Headline};
use crate::bench::names::{label, shown};
use crate::machine::Machine;
use crate::output::wrapped;
use crate::units::time;
use std::fmt;

/// Columns of a name; a longer one has a line of its own.
const NAME: usize = 38;
/// Columns of the longest bar.
const BAR: f64 = 26.0;
/// Columns of a bar's name.
const BAR_NAME: usize = 38;
/// Where the scale of round trips begins, in nanoseconds.
const SHORTEST: f64 = 10.0;

/// What the tables of many of something say.
const SCALE: &str = "
scale: one of many costs this, and grows as their number to this power. It
should not grow (n^0), or as n^1 where that is said. ! grows faster.
";

/// Whether a figure is the median of times, and stands in no table.
fn is_a_time(name: &str) -> bool {
    name.ends_with("_ns_p50") && !is_in_a_table(name)
}

impl Report {
    /// A row with a median and the spread of the repetitions.
    fn row(&self, mark: char, name: &str, aim: &str) -> String {
        let label = label(name);
        let mut row = format!("{mark} {label:<NAME$}");
        if label.chars().count() > NAME {
            row += &format!("\n  {:NAME$}", "");
        }
        let value = self.value(name).map_or_else(|| "-".to_owned(), |value| shown(name, value));
        row += &format!("{value:>10}");
        let spread = self.spread.get(name);
        let spread =
            spread.map_or([String::new(), String::new()], |ends| ends.map(|end| shown(name, end)));
        row += &format!("{:>10}{:>10}{aim:>10}", spread[0], spread[1]);
        row.trim_end().to_owned()
    }

    /// The headlines, and whether each meets its goal.
    fn headlines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measured = HEADLINES.iter().filter(|headline| self.value(headline.name).is_some());
        for (place, Headline { name, aim, .. }) in measured.enumerate() {
            if place == 0 {
                writeln!(
                    f,
                    "  {:<NAME$}{:>10}{:>10}{:>10}{:>10}",
                    "key figures", "median", "least", "most", "aim"
                )?;
            }
            let text = match aim {
                Aim::AtMost(most) => format!("≤ {}", shown(name, *most)),
                Aim::AtLeast(least) => format!("≥ {}", shown(name, *least)),
                Aim::None => String::new(),
            };
            let is_missed = self.value(name).and_then(|value| aim.is_met(value)) == Some(false);
            writeln!(f, "{}", self.row(if is_missed { '!' } else { ' ' }, name, &text))?;
        }
        Ok(())
    }

    /// The tables of what many of something cost.
    fn scale(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, table) in self.scale.iter().enumerate() {
            if place == 0 {
                f.write_str(SCALE)?;
            }
            write!(f, "\n{table}")?;
        }
        Ok(())
    }

    /// The best shape of each figure that is measured in several.
    fn shapes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, shapes)) in self.shapes.iter().enumerate() {
            if index == 0 {
                writeln!(f, "\nfastest shapes of the floors")?;
            }
            let of = format!("of {}", shapes.medians.len());
            let text = format!("{}: {} ({of})", label(name), shapes.best);
            f.write_str(&wrapped("  ", &text))?;
        }
        Ok(())
    }

    /// The medians of round trips as bars on a logarithmic scale.
    fn plot(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let medians = || {
            let of_round_trips = self.order.iter().filter(|name| is_a_time(name));
            of_round_trips.filter_map(|name| Some((name, self.value(name)?)))
        };
        let longest = medians().map(|(_, time)| time).fold(SHORTEST * 10.0, f64::max);
        for (index, (name, median)) in medians().enumerate() {
            if index == 0 {
                writeln!(f, "\nmedians of times, logarithmic")?;
            }
            let share = (median / SHORTEST).max(1.0).ln() / (longest / SHORTEST).ln();
            let bar = "█".repeat((share * BAR).ceil() as usize);
            let name = label(name.trim_end_matches("_p50"));
            writeln!(f, "  {name:<BAR_NAME$} {bar} {}", time(median))?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { version, processor, kernel, governor, .. } = &self.machine;
        let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "unknown".into());
        f.write_str(&wrapped("", &format!("bellhop {version}, {}", self.configuration.place)))?;
        let machine =
            format!("{}, kernel {}, governor {}", known(processor), known(kernel), known(governor));
        f.write_str(&wrapped("", &machine))?;
        f.write_str(&wrapped("disturbed by: ", &self.disturbances.to_string()))?;
        writeln!(f)?;
        self.headlines(f)?;
        let is_headline = |name: &str| HEADLINES.iter().any(|headline| headline.name == name);
        let is_listed = |name: &&String| !is_headline(name) && !is_in_a_table(name);
        for (place, name) in self.order.iter().filter(is_listed).enumerate() {
            if place == 0 {
                let title = "all figures";
                writeln!(f, "\n  {title:<NAME$}{:>10}{:>10}{:>10}", "median", "least", "most")?;
            }
            writeln!(f, "{}", self.row(' ', name, ""))?;
        }
        self.scale(f)?;
        let missing = self.absent.iter().filter(|(_, why)| !why.starts_with("its suite"));
        for (name, why) in missing {
            f.write_str(&wrapped("  not measured: ", &format!("{}: {why}", label(name))))?;
        }
        self.shapes(f)?;
        self.plot(f)
    }
}
