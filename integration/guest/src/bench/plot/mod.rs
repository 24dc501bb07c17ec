// SPDX-License-Identifier: MIT OR Apache-2.0

//! A report as a picture: how long submissions take, how many there are in a second, and what many of something cost.
//!
//! The picture has its own background, so that a viewer's dark one does not hide it. Colour-blind people can
//! tell the colours of its lines apart.

mod chart;

use super::growth::Table;
use super::report::Report;
use crate::units::{rate, time};
use anyhow::bail;
use chart::{Chart, Colour, Line};
use plotters::prelude::{IntoDrawingArea, SVGBackend, WHITE};

/// Columns and rows of a chart, in pixels.
const SIZE: (u32, u32) = (960, 520);

/// The report as SVG.
///
/// # Errors
/// When it has nothing to draw.
pub(super) fn svg(report: &Report) -> anyhow::Result<String> {
    let known = [latencies(report), batches(report)].into_iter().flatten();
    let charts: Vec<_> = known.chain(report.scale.iter().map(growth)).collect();
    if charts.is_empty() {
        bail!("there is nothing to draw: measure round-trip or batch, or scale");
    }
    let (width, height) = SIZE;
    let mut picture = String::new();
    {
        let size = (width, height * charts.len() as u32);
        let area = SVGBackend::with_string(&mut picture, size).into_drawing_area();
        area.fill(&WHITE)?;
        for (part, chart) in area.split_evenly((charts.len(), 1)).iter().zip(&charts) {
            chart.draw(part)?;
        }
        area.present()?;
    }
    Ok(picture)
}

/// The names of distributions, and their labels.
const DISTRIBUTIONS: [(&str, &str, Colour); 7] = [
    ("cacheline_rtt", "cache line there and back", Colour::Grey),
    ("minimal_path_rtt", "minimal path", Colour::Green),
    ("doorbell_rtt", "doorbell", Colour::Ours),
    ("io_uring_sqpoll_nop", "io_uring, polled", Colour::Blue),
    ("eventfd_rtt", "eventfds", Colour::Purple),
    ("virtqueue_rtt", "virtqueue request", Colour::Orange),
    ("kernel_mode_rtt", "kernel-mode submission", Colour::Black),
];

fn latencies(report: &Report) -> Option<Chart> {
    let line = |(name, called, colour): (&str, &str, Colour)| {
        let points = report.distributions.get(name)?;
        let points = points.iter().map(|(share, time)| (time.max(1.0), *share)).collect();
        Some(Line { name: called.to_owned(), colour, points })
    };
    let lines: Vec<_> = DISTRIBUTIONS.into_iter().filter_map(line).collect();
    (!lines.is_empty()).then(|| Chart {
        title: "One submission: how many take longer than a time".to_owned(),
        x: "time".to_owned(),
        y: "share that takes longer".to_owned(),
        lines,
        x_label: |value| time(*value),
        y_label: |share| match *share {
            share if share >= 0.01 => format!("{:.0} %", 100.0 * share),
            share => format!("1 in {:.0}", 1.0 / share),
        },
        x_ticks: None,
    })
}

/// The names of rates up to the depth, the rest of the names, and their labels.
const BATCHES: [(&str, &str, &str, Colour); 7] = [
    ("minimal_path_kept_fed_depth_", "_per_second", "minimal path, kept fed", Colour::Grey),
    ("minimal_path_depth_", "_per_second", "minimal path", Colour::Green),
    ("ring_once_kept_fed_depth_", SUBMISSIONS, "ring once, kept fed", Colour::Ours),
    ("ring_each_kept_fed_depth_", SUBMISSIONS, "ring each, kept fed", Colour::Orange),
    ("ring_once_wait_last_depth_", SUBMISSIONS, "ring once, wait for last", Colour::Black),
    ("ring_each_wait_last_depth_", SUBMISSIONS, "ring each, wait for last", Colour::Blue),
    ("ring_and_wait_each_depth_", SUBMISSIONS, "ring and wait for each", Colour::Purple),
];
const SUBMISSIONS: &str = "_submissions_per_second";

fn batches(report: &Report) -> Option<Chart> {
    let line = |(start, end, called, colour): (&str, &str, &str, Colour)| {
        let point = |(name, value): (&String, &Option<f64>)| {
            let depth = name.strip_prefix(start)?.strip_suffix(end)?.parse().ok()?;
            Some((depth, (*value)?))
        };
        // Depths have two digits, so they are in order.
        let points: Vec<_> = report.figures.iter().filter_map(point).collect();
        (!points.is_empty()).then(|| Line { name: called.to_owned(), colour, points })
    };
    let lines: Vec<Line> = BATCHES.into_iter().filter_map(line).collect();
    let longest = lines.iter().max_by_key(|line| line.points.len())?;
    let depths = longest.points.iter().map(|(depth, _)| *depth).collect();
    Some(Chart {
        title: "Submissions a second, by how many are in a batch".to_owned(),
        x: "submissions in a batch".to_owned(),
        y: "submissions a second".to_owned(),
        lines,
        x_label: |depth| format!("{depth:.0}"),
        y_label: |value| rate(*value),
        x_ticks: Some(depths),
    })
}

/// The colours of costs, in their order; those after the last have that.
const COSTS: [Colour; 7] = [
    Colour::Ours,
    Colour::Blue,
    Colour::Green,
    Colour::Purple,
    Colour::Orange,
    Colour::Black,
    Colour::Grey,
];

/// Costs by how many there are, each over its first: a level line does not grow.
fn growth(table: &Table) -> Chart {
    let colours = COSTS.into_iter().chain(std::iter::repeat(Colour::Grey));
    let lines = table.costs.iter().zip(colours).map(|(row, colour)| {
        let points = row.over_first(&table.counts).collect();
        Line { name: row.title().to_owned(), colour, points }
    });
    Chart {
        title: format!("Costs of {} over that of the first", table.title()),
        x: table.title().to_owned(),
        y: "times the first".to_owned(),
        lines: lines.filter(|line| !line.points.is_empty()).collect(),
        x_label: |count| format!("{count:.0}"),
        y_label: |ratio| format!("{ratio}"),
        x_ticks: Some(table.counts.iter().map(|count| *count as f64).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::{Configuration, Measured};
    use crate::machine::Disturbances;
    use quick_xml::Reader;
    use quick_xml::events::Event;

    fn report() -> Report {
        let mut measured = Measured::default();
        for (depth, base) in [(1, 3e6), (4, 6e6), (16, 12e6), (64, 18e6)] {
            for (start, end, ..) in BATCHES {
                measured.figure(format!("{start}{depth:02}{end}"), base);
            }
        }
        let mut report = measured.report(Configuration::default(), Disturbances::default());
        for (at, (name, ..)) in DISTRIBUTIONS.into_iter().enumerate() {
            let curve = [1.0, 0.5, 0.1, 0.001].map(|share| (share, 90.0 * (at + 1) as f64 / share));
            report.distributions.insert(name.to_owned(), curve.to_vec());
        }
        report
    }

    /// The texts of a picture that is well-formed, and the number of its lines.
    fn read(svg: &str) -> (Vec<String>, usize) {
        let (mut reader, mut texts, mut lines, mut depth) =
            (Reader::from_str(svg), Vec::new(), 0, 0);
        loop {
            match reader.read_event().unwrap() {
                Event::Start(start) => {
                    depth += 1;
                    assert!(depth > 1 || start.name().as_ref() == b"svg");
                }
                Event::End(_) => depth -= 1,
                Event::Empty(element) => {
                    lines += usize::from(element.name().as_ref() == b"polyline");
                }
                Event::Text(text) => texts.push(text.decode().unwrap().trim().to_owned()),
                Event::Eof => break,
                _ => {}
            }
        }
        assert_eq!(depth, 0);
        (texts, lines)
    }

    #[test]
    fn a_picture_is_well_formed_and_names_each_of_its_lines() {
        let (texts, lines) = read(&svg(&report()).unwrap());
        let names = DISTRIBUTIONS.iter().map(|(_, name, _)| name);
        for name in names.chain(BATCHES.iter().map(|(_, _, name, _)| name)) {
            assert!(texts.iter().any(|text| text == name), "{name} is not in {texts:?}");
        }
        assert!(lines >= DISTRIBUTIONS.len() + BATCHES.len(), "{lines}");
    }

    #[test]
    fn what_many_cost_has_a_picture_for_each_of_what_there_are_many() {
        let mut measured = Measured::default();
        for count in [1, 4, 16] {
            measured.at_scale("guests", count, "attach_ns", 1e6);
            measured.at_scale("guests", count, "submissions_per_second", 1e6 / count as f64);
            measured.at_scale("requests", count, "requests_per_second", 1e4);
        }
        let report = measured.report(Configuration::default(), Disturbances::default());
        let (texts, lines) = read(&svg(&report).unwrap());
        for name in ["Costs of guests over that of the first", "attach one more", "all together"] {
            assert!(texts.iter().any(|text| text == name), "{name} is not in {texts:?}");
        }
        assert!(lines >= 3, "{lines}");
        let rate = &report.scale[0].costs[1];
        let drawn: Vec<_> = rate.over_first(&report.scale[0].counts).collect();
        assert_eq!(drawn, [(1.0, 1.0), (4.0, 4.0), (16.0, 16.0)]);
    }

    #[test]
    fn what_was_not_measured_is_not_drawn() {
        let mut report = report();
        report.distributions.clear();
        let (texts, _) = read(&svg(&report).unwrap());
        assert!(!texts.iter().any(|text| text == "doorbell"), "{texts:?}");
        report.figures.clear();
        assert!(svg(&report).unwrap_err().to_string().contains("measure round-trip or batch"));
    }
}
