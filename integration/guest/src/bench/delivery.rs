// SPDX-License-Identifier: MIT OR Apache-2.0

//! The delivery of a report: standard output and files.

use super::compare::Comparison;
use super::plot;
use super::report::Report;
use crate::files::NewFile;
use crate::output::{put, put_line};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The forms in which a report is delivered.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Print it as one JSON object.
    pub json: bool,
    /// Write it to this file as CSV.
    pub csv: Option<PathBuf>,
    /// Draw it into this file.
    pub svg: Option<PathBuf>,
    /// Compare it with this earlier report.
    pub compare: Option<PathBuf>,
}

/// The open files that a report will go to.
#[derive(Debug)]
pub struct Delivery {
    json: bool,
    csv: Option<NewFile>,
    svg: Option<NewFile>,
    earlier: Option<(String, Report)>,
}

/// A report as JSON, with what a comparison found.
#[derive(Serialize)]
struct Compared<'a> {
    #[serde(flatten)]
    report: &'a Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: &'a Option<Comparison>,
}

impl Delivery {
    /// Opens all files, so that an unusable one is reported before hours of measuring.
    ///
    /// # Errors
    /// When a file cannot be written, or the earlier report cannot be read.
    pub fn begin(wanted: &Wanted) -> anyhow::Result<Self> {
        let Wanted { json, csv, svg, compare } = wanted;
        let read = |path: &Path| anyhow::Ok((path.display().to_string(), Report::read(path)?));
        let earlier = compare.as_deref().map(read).transpose()?;
        let new = |path: &Option<PathBuf>| path.as_deref().map(NewFile::create).transpose();
        Ok(Self { json: *json, csv: new(csv)?, svg: new(svg)?, earlier })
    }

    /// Prints and writes the report. Returns whether it is worse than the earlier one.
    ///
    /// # Errors
    /// When there is no room, or nothing in the report to draw.
    pub fn deliver(self, report: &Report) -> anyhow::Result<bool> {
        let Self { json, csv, svg, earlier } = self;
        if let Some(file) = csv {
            file.finish_with(report.to_csv()?)?;
        }
        if let Some(file) = svg {
            file.finish_with(plot::svg(report)?)?;
        }
        let compare = |(file, before): (String, Report)| Comparison::of(&file, &before, report);
        let comparison = earlier.map(compare);
        if json {
            put_line(serde_json::to_string(&Compared { report, comparison: &comparison })?)?;
        } else {
            put(report)?;
            if let Some(comparison) = &comparison {
                put(format_args!("\n{comparison}"))?;
            }
        }
        Ok(comparison.is_some_and(|comparison| comparison.regressed))
    }
}
