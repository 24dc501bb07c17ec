// SPDX-License-Identifier: MIT OR Apache-2.0

//! What there may be many of, and which costs of it are measured.
//!
//! The name of a figure is `scale_SUBJECT_COUNT_COST`. A cost is that of one piece or of one operation, so its *work*
//! is mostly n^0: it costs the same, however many there are.

/// The beginning of all names of figures.
const PREFIX: &str = "scale_";

/// Something of which there may be many.
#[derive(Debug)]
pub(crate) struct Subject {
    /// Its name in the names of figures.
    pub(super) name: &'static str,
    /// What the counts are of.
    pub(super) title: &'static str,
    /// What is measured.
    pub(super) costs: &'static [Cost],
}

/// A cost of a subject.
#[derive(Debug)]
pub(super) struct Cost {
    /// The end of the name of its figures, with the unit. Of a rate, the inverse is the cost.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// The exponent with which the work grows that the cost is of.
    pub(super) work: f64,
}

/// A cost that does not depend on the number.
const fn same(name: &'static str, title: &'static str) -> Cost {
    Cost { name, title, work: 0.0 }
}

/// A cost of something that is to be done for each of them.
const fn for_each(name: &'static str, title: &'static str) -> Cost {
    Cost { name, title, work: 1.0 }
}

/// All subjects, in the order of the report.
pub(super) const SUBJECTS: [Subject; 5] = [
    Subject {
        name: "guests",
        title: "guests",
        costs: &[
            same("attach_ns", "attach one more"),
            same("replace_ns", "end one, attach one"),
            same("memory_bytes", "memory of each"),
            same("submission_ns_p50", "one submits: median"),
            same("submission_ns_p99", "one submits: 99 %"),
            same("submissions_per_second", "all submit"),
            same("inspect_ns", "inspect, for each"),
        ],
    },
    Subject {
        name: "queues",
        title: "queues",
        costs: &[
            same("create_ns", "create one"),
            same("destroy_ns", "destroy one"),
            same("end_ns", "end guest, for each"),
            same("memory_bytes", "memory of each"),
            same("connect_ns_p50", "connect: median"),
            same("connect_ns_p99", "connect: 99 %"),
            same("submission_ns_p50", "one submits: median"),
            same("submission_ns_p99", "one submits: 99 %"),
            same("submissions_per_second", "one submits 64"),
            same("inspect_ns", "inspect, for each"),
        ],
    },
    Subject {
        name: "doorbells",
        title: "connected doorbells",
        costs: &[
            same("connect_ns", "connect one"),
            same("memory_bytes", "memory of each"),
            same("submission_ns_p50", "one rings: median"),
            same("submission_ns_p99", "one rings: 99 %"),
            same("submissions_per_second", "one rings for 64"),
            // The engine looks at each doorbell.
            for_each("silent_ns_p50", "silent: median, n^1"),
            for_each("silent_ns_p99", "silent: 99 %, n^1"),
        ],
    },
    Subject {
        name: "workers",
        title: "kernels' workers",
        costs: &[
            same("replace_ns", "end one, start one"),
            same("memory_bytes", "memory of each"),
            same("dispatch_ns_p50", "dispatch: median"),
            same("dispatch_ns_p99", "dispatch: 99 %"),
            same("dispatches_per_second", "all dispatch"),
        ],
    },
    Subject {
        name: "requests",
        title: "requests in flight",
        costs: &[
            // One control queue serves one after the other.
            for_each("request_ns_p50", "request: med., n^1"),
            for_each("request_ns_p99", "request: 99 %, n^1"),
            same("requests_per_second", "all together"),
        ],
    },
];

/// The name of a figure.
pub(crate) fn figure(subject: &str, count: usize, cost: &str) -> String {
    format!("{PREFIX}{subject}_{count}_{cost}")
}

/// Whether a figure is one of many of something: the tables show it.
pub(crate) fn is_in_a_table(name: &str) -> bool {
    name.starts_with(PREFIX)
}

impl Subject {
    /// The count and the cost that a name is of, if it is one of this subject's.
    pub(super) fn parse<'a>(&self, name: &'a str) -> Option<(u64, &'a str)> {
        let rest = name.strip_prefix(PREFIX)?.strip_prefix(self.name)?.strip_prefix('_')?;
        let (count, cost) = rest.split_once('_')?;
        Some((count.parse().ok()?, cost))
    }
}

impl Cost {
    /// The cost that a value of the figure says.
    pub(super) fn of(&self, value: f64) -> f64 {
        if self.name.ends_with("_per_second") { value.recip() } else { value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_it_is_of() {
        let [guests, queues, ..] = &SUBJECTS;
        let name = figure("queues", 10_000, "create_ns");
        assert_eq!(queues.parse(&name), Some((10_000, "create_ns")));
        assert_eq!(guests.parse(&name), None);
        assert!(is_in_a_table(&name) && !is_in_a_table("doorbell_rtt_ns_p50"));
        assert_eq!(queues.parse("scale_queues_exponent_of_create_ns"), None);
    }

    #[test]
    fn a_rate_is_the_inverse_of_a_cost() {
        assert_eq!(same("a_per_second", "").of(4.0), 0.25);
        assert_eq!(same("a_ns", "").of(4.0), 4.0);
    }
}
