// SPDX-License-Identifier: MIT OR Apache-2.0

//! A report as CSV: a row for each value of each repetition, with the facts of the run.

use super::Report;
use crate::bench::names::is_ratio;
use anyhow::Context;

/// The columns.
const HEADER: [&str; 19] = [
    "kind",
    "name",
    "repetition",
    "value",
    "absent",
    "version",
    "commit",
    "time",
    "processor",
    "processors",
    "kernel",
    "governor",
    "virtual",
    "pinning",
    "placement",
    "suites",
    "samples",
    "repetitions",
    "daemon",
];

impl Report {
    /// The report as CSV (RFC 4180), with a header. A figure that could not be measured has a row without a value.
    ///
    /// # Errors
    /// No report causes one.
    pub fn to_csv(&self) -> anyhow::Result<String> {
        let Self { machine, configuration, .. } = self;
        let known = |fact: &Option<String>| fact.clone().unwrap_or_default();
        let daemon = configuration.daemon.as_ref().map(serde_json::to_string).transpose()?;
        let of_the_run = [
            machine.version.clone(),
            known(&machine.commit),
            machine.time.map_or(String::new(), |time| time.to_string()),
            known(&machine.processor),
            machine.processors.to_string(),
            known(&machine.kernel),
            known(&machine.governor),
            machine.is_virtual.map_or(String::new(), |it| it.to_string()),
            configuration.place.clone(),
            configuration.placement.clone(),
            configuration.suites.join(" "),
            configuration.samples.to_string(),
            configuration.repetitions.to_string(),
            daemon.unwrap_or_default(),
        ];
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(HEADER)?;
        let mut row = |name: &str, repetition: String, value: String, absent: &str| {
            let kind = if is_ratio(name) { "ratio" } else { "figure" };
            let own = [kind, name, &repetition, &value, absent];
            writer.write_record(own.into_iter().chain(of_the_run.iter().map(String::as_str)))
        };
        for name in &self.order {
            let values = self.values.get(name).into_iter().flatten();
            for (place, value) in values.enumerate() {
                row(name, (place + 1).to_string(), value.to_string(), "")?;
            }
        }
        for (name, why) in &self.absent {
            row(name, String::new(), String::new(), why)?;
        }
        let bytes = writer.into_inner().context("cannot write CSV to memory")?;
        Ok(String::from_utf8(bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use crate::bench::report::{Configuration, Measured};
    use crate::machine::Disturbances;

    #[test]
    fn each_value_has_a_row_with_all_of_the_run() {
        let mut measured = Measured::default();
        for value in [1.5, 2.5] {
            measured.figure("doorbell_rtt_ns_p50", value);
            measured.ratio("doorbell_rtt_over_minimal_path", value, 0.5);
        }
        measured.absent("io_uring_sqpoll_nop_ns_p50", "no, \"never\"");
        let configuration = Configuration {
            suites: vec!["round-trip".into(), "batch".into()],
            place: "guests on 0, engines on 1".into(),
            samples: 7,
            repetitions: 2,
            ..Configuration::default()
        };
        let report = measured.report(configuration, Disturbances::default());
        let text = report.to_csv().unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = reader.headers().unwrap().clone();
        let expected = "kind,name,repetition,value,absent,version,commit,time,processor,processors,kernel,\
                        governor,virtual,pinning,placement,suites,samples,repetitions,daemon";
        assert_eq!(header.iter().collect::<Vec<_>>().join(","), expected);
        let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
        let starts: Vec<_> =
            rows.iter().map(|row| row.iter().take(4).collect::<Vec<_>>()).collect();
        assert_eq!(starts[0], ["figure", "doorbell_rtt_ns_p50", "1", "1.5"]);
        assert_eq!(starts[1], ["figure", "doorbell_rtt_ns_p50", "2", "2.5"]);
        assert_eq!(starts[2], ["ratio", "doorbell_rtt_over_minimal_path", "1", "3"]);
        assert_eq!(starts[3], ["ratio", "doorbell_rtt_over_minimal_path", "2", "5"]);
        let column = |name: &str| header.iter().position(|it| it == name).unwrap();
        for row in &rows {
            assert_eq!(&row[column("version")], env!("CARGO_PKG_VERSION"));
            assert_eq!(&row[column("pinning")], "guests on 0, engines on 1");
            assert_eq!(&row[column("suites")], "round-trip batch");
            assert_eq!((&row[column("samples")], &row[column("repetitions")]), ("7", "2"));
        }
        let absent = rows.iter().find(|row| &row[1] == "io_uring_sqpoll_nop_ns_p50").unwrap();
        assert_eq!((&absent[3], &absent[4]), ("", "no, \"never\""));
    }
}
