// SPDX-License-Identifier: MIT OR Apache-2.0

//! A comparison as text.

use super::{Change, Comparison, Row, Verdict};
use crate::bench::names::{label, shown};
use crate::output::wrapped;
use std::fmt;

/// Columns of a name; a longer one has a line of its own.
const NAME: usize = 28;
/// Columns of a value.
const VALUE: usize = 10;

fn times(ratio: f64) -> String {
    match ratio {
        small if small < 10.0 => format!("{small:.3}"),
        some if some < 1000.0 => format!("{some:.1}"),
        // The interval of two values that differ much.
        many => format!("{many:.0e}"),
    }
}

fn change(change: Option<&Change>) -> String {
    let Some(Change { ratio, interval }) = change else { return String::new() };
    let interval = match interval {
        Some([low, high]) => format!("{} to {}", times(*low), times(*high)),
        None => "measured once".to_owned(),
    };
    format!("{:>6} ({interval})", times(*ratio))
}

impl Row {
    fn line(&self) -> String {
        let label = label(&self.name);
        let mark = if self.is_regression() { '!' } else { ' ' };
        let mut line = format!("{mark} {label:<NAME$}");
        if label.chars().count() > NAME {
            line += &format!("\n  {:NAME$}", "");
        }
        let [before, now] = [self.before, self.now].map(|value| shown(&self.name, value));
        line += &format!("{before:>VALUE$}{now:>VALUE$} {}", change(self.change.as_ref()));
        line.trim_end().to_owned()
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = &self.before.machine;
        let commit = machine.commit.as_deref().unwrap_or("an unknown commit");
        let before = format!("bellhop {} ({commit}) in {}", machine.version, self.before.file);
        f.write_str(&wrapped("compared with ", &before))?;
        for difference in &self.differences {
            f.write_str(&wrapped("  differs: ", difference))?;
        }
        if !self.differences.is_empty() {
            let why = "figures may have moved for these reasons, and not because of the program";
            f.write_str(&wrapped("  ", why))?;
        }
        let titles = [
            (Verdict::Worse, "worse"),
            (Verdict::Better, "better"),
            (Verdict::Moved, "moved"),
            (Verdict::Unknown, "not known: once, or 0"),
        ];
        for (verdict, title) in titles {
            for (place, row) in self.rows.iter().filter(|row| row.verdict == verdict).enumerate() {
                if place == 0 {
                    let [before, now] = ["before", "now"];
                    writeln!(f, "\n  {title:<NAME$}{before:>VALUE$}{now:>VALUE$}  ratio")?;
                }
                writeln!(f, "{}", row.line())?;
            }
        }
        writeln!(f)?;
        let (confidence, margin) = (100.0 * self.confidence, 100.0 * self.margin);
        let same = self.rows.iter().filter(|row| row.verdict == Verdict::Same).count();
        let rule = format!(
            "{same} of {} did not move by more than {margin:.0} % beyond noise ({confidence:.0} % \
             confidence)",
            self.rows.len()
        );
        f.write_str(&wrapped("  ", &rule))?;
        for (what, names) in [("before", &self.only_before), ("now", &self.only_now)] {
            if !names.is_empty() {
                writeln!(f, "  {} measured only {what}", names.len())?;
            }
        }
        let regressions = self.rows.iter().filter(|row| row.is_regression()).count();
        let verdict = match regressions {
            0 => "no regression: no ratio and no key figure is worse".to_owned(),
            count => format!("REGRESSION: worse and marked with '!': {count}"),
        };
        writeln!(f, "{verdict}")
    }
}
