//! Growth curves as SVG: both axes logarithmic, a line for each, readable on light and dark pages.

use std::fmt::Write as _;

use super::findings::{Named, Point};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 36.0;
const BOTTOM: f64 = 48.0;
const COLOURS: [&str; 7] =
    ["#2563eb", "#9ca3af", "#d97706", "#059669", "#db2777", "#7c3aed", "#b91c1c"];

/// What is drawn.
pub(super) struct Plot<'a> {
    pub(super) title: &'a str,
    pub(super) sizes: &'a str,
    pub(super) costs: &'a str,
    pub(super) lines: Vec<Named<Vec<Point>>>,
}

/// A logarithmic axis over whole powers of ten.
#[derive(Clone, Copy)]
struct Axis {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64> + Clone, start: f64, end: f64) -> Self {
        let logs = values.filter(|value| *value > 0.0).map(f64::log10);
        let from = logs.clone().fold(f64::INFINITY, f64::min).floor();
        let to = logs.fold(f64::NEG_INFINITY, f64::max).ceil().max(from + 1.0);
        Self { from, to, start, end }
    }

    fn at(self, value: f64) -> f64 {
        let share = (value.log10() - self.from) / (self.to - self.from);
        self.start + share * (self.end - self.start)
    }

    fn ticks(self) -> impl Iterator<Item = f64> {
        (self.from as i32..=self.to as i32).map(|power| 10f64.powi(power))
    }
}

impl Plot<'_> {
    /// Returns nothing where there is nothing to draw.
    pub(super) fn svg(&self) -> Option<String> {
        let points = || self.lines.iter().flat_map(|line| line.found.iter());
        points().next()?;
        let x = Axis::over(points().map(|point| point.size), LEFT, WIDTH - RIGHT);
        let y = Axis::over(points().map(|point| point.cost), HEIGHT - BOTTOM, TOP);
        let mut out = String::new();
        self.frame(&mut out, x, y).ok()?;
        for (number, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            draw(&mut out, line, colour, number, (x, y)).ok()?;
        }
        out.push_str("</svg>\n");
        Some(out)
    }

    fn frame(&self, out: &mut String, x: Axis, y: Axis) -> std::fmt::Result {
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"11\" fill=\"#6b7280\">\n\
             <title>{0}</title>\n<text x=\"{LEFT}\" y=\"18\" font-size=\"13\">{0}</text>",
            self.title
        )?;
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for tick in x.ticks() {
            let (at, label) = (x.at(tick), short(tick));
            writeln!(
                out,
                "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\" stroke=\"#6b728033\"/>\
                 <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
                bottom + 16.0
            )?;
        }
        for tick in y.ticks() {
            let (at, label) = (y.at(tick), short(tick));
            writeln!(
                out,
                "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"#6b728033\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                LEFT - 6.0,
                at + 4.0
            )?;
        }
        let middle = f64::midpoint(LEFT, right);
        writeln!(
            out,
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text x=\"{LEFT}\" y=\"{}\">{}</text>",
            HEIGHT - 12.0,
            self.sizes,
            TOP - 4.0,
            self.costs
        )
    }
}

fn draw(
    out: &mut String,
    line: &Named<Vec<Point>>,
    colour: &str,
    number: usize,
    (x, y): (Axis, Axis),
) -> std::fmt::Result {
    let place = |point: &Point| (x.at(point.size), y.at(point.cost));
    let path: Vec<String> =
        line.found.iter().map(place).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
        path.join(" ")
    )?;
    for (x, y) in line.found.iter().map(place) {
        writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>")?;
    }
    let at = TOP + 14.0 + 15.0 * number as f64;
    writeln!(
        out,
        "<rect x=\"{}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>\
         <text x=\"{}\" y=\"{at:.1}\">{}</text>",
        LEFT + 10.0,
        at - 9.0,
        LEFT + 26.0,
        line.name
    )
}

/// A power of ten as people write it.
fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 1e3 => format!("{}k", value / 1e3),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_a_line_and_a_name_for_each_and_none_without_points() {
        let point = |size, cost| Point { size, cost };
        let lines = vec![
            Named::new("one", vec![point(1.0, 2.0), point(1_000.0, 3.0)]),
            Named::new("two", vec![point(10.0, 900.0)]),
        ];
        let plot = Plot { title: "Growth", sizes: "events", costs: "ms", lines };
        let svg = plot.svg().unwrap_or_default();
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.contains(">one</text>") && svg.contains(">1k</text>"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let empty = Plot { title: "", sizes: "", costs: "", lines: Vec::new() };
        assert_eq!(empty.svg(), None);
    }
}
