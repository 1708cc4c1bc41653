//! Prometheus' text format.

use std::fmt::{Display, Write as _};

use haft_store::HistogramReading;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

type Labels<'a> = &'a [(&'a str, &'a str)];

/// What is written so far.
#[derive(Debug, Default)]
pub(super) struct Page(String);

impl Page {
    /// Begins the samples of one name.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    pub(super) fn sample(&mut self, name: &str, labels: Labels<'_>, value: u64) {
        self.line(format_args!("{name}{} {value}", braced(labels, None)));
    }

    pub(super) fn histogram(&mut self, name: &str, labels: Labels<'_>, read: &HistogramReading) {
        for (bound, n) in &read.up_to {
            let labels = braced(labels, Some(&bound.to_string()));
            self.line(format_args!("{name}_bucket{labels} {n}"));
        }
        let HistogramReading { count, sum, .. } = read;
        self.line(format_args!("{name}_bucket{} {count}", braced(labels, Some("+Inf"))));
        self.line(format_args!("{name}_sum{} {sum}", braced(labels, None)));
        self.line(format_args!("{name}_count{} {count}", braced(labels, None)));
    }

    pub(super) fn finish(self) -> String {
        self.0
    }

    fn line(&mut self, line: impl Display) {
        // Writing to a text cannot fail.
        let _written = writeln!(self.0, "{line}");
    }
}

fn braced(labels: Labels<'_>, bound: Option<&str>) -> String {
    let bound = bound.map(|bound| ("le", bound));
    let written = labels.iter().copied().chain(bound);
    let written: Vec<_> =
        written.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    match written.is_empty() {
        true => String::new(),
        false => format!("{{{}}}", written.join(",")),
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_end_its_line_or_its_quotes() {
        let mut page = Page::default();
        page.sample("a", &[("b", "x\"} 1\nc\\")], 2);
        assert_eq!(page.finish(), "a{b=\"x\\\"} 1\\nc\\\\\"} 2\n");
    }
}
