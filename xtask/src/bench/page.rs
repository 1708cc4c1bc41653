//! `docs/benchmarks.md` and its plots, from what was found.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use super::findings::{Findings, Load, Machine, Measured, Named, Point};
use super::plot::Plot;
use super::servers::AT_ONCE;

const ABOUT: &str = include_str!("about.md");

pub(super) fn write(docs: &Path, findings: &Findings) -> anyhow::Result<()> {
    let plots = docs.join("benchmarks");
    fs::create_dir_all(&plots).with_context(|| format!("making `{}`", plots.display()))?;
    for (name, plot) in drawn(findings) {
        if let Some(svg) = plot.svg() {
            fs::write(plots.join(format!("{name}.svg")), svg)?;
        }
    }
    Ok(fs::write(docs.join("benchmarks.md"), page(findings))?)
}

fn page(findings: &Findings) -> String {
    let mut out =
        format!("# Benchmarks\n\n{ABOUT}\n## Figures\n\n{}\n", machine(&findings.machine));
    for section in [
        durable(&findings.durable),
        dispatch(&findings.dispatch),
        serving(findings),
        history(&findings.history),
        parked(&findings.parked),
        nodes(&findings.nodes),
        searches(&findings.searches),
        peers(&findings.peers),
    ] {
        out.push('\n');
        out.push_str(&section);
    }
    out
}

fn machine(machine: &Machine) -> String {
    let Machine { processor, cores, kernel, load, date } = machine;
    format!(
        "One run of `cargo xtask bench`: {date}, {cores} virtual cores ({processor}), Linux {kernel}. \
         The load was {load} when it began: where it is not far below the number of cores, others \
         were at work and every rate is lower than it would be alone; ours and the peers' ran one \
         after the other, not side by side. To run it again: `cargo xtask bench`; everything goes to \
         `target/bench`."
    )
}

fn durable(found: &[Named<Measured<Value>>]) -> String {
    let ours = |member: &str| {
        let figures = found.first().and_then(|ours| ours.found.as_ref().ok())?;
        figures[member].as_f64()
    };
    let mut out = "### Durable steps and waits\n\nA round trip suspends a call, decides about it and \
                   goes on. LangGraph with `durability=\"sync\"`, DBOS and Restate as they come; the \
                   peers' callers are theirs: 16 threads for the Python ones, 64 requests for \
                   Restate.\n\n| | steps a second | Haft's SQLite is | round trips a second | Haft's \
                   SQLite is |\n|---|---|---|---|---|\n"
        .to_owned();
    for Named { name, found } in found {
        let row = match found {
            Err(reason) => format!("not measured: {reason} | | |"),
            Ok(figures) => {
                let cells = ["steps_per_second", "round_trips_per_second"].map(|member| {
                    let rate = figures[member].as_f64();
                    format!("{} | {}", count(rate), times(ours(member), rate, 1))
                });
                cells.join(" | ")
            }
        };
        let row = row.trim_end_matches('|').trim_end();
        out.push_str(&format!("| {name} | {row} |\n"));
    }
    for Named { name, found } in found {
        let Ok(figures) = found else { continue };
        if let (Some(ratio), Some(raw)) =
            (figures["ratio"].as_f64(), figures["raw_commits_per_second"].as_f64())
        {
            let raw = count(Some(raw));
            let line = format!(
                "\n{name}: {ratio:.2} of the {raw} raw group commits a second of the same bytes.\n"
            );
            out.push_str(&line);
        }
    }
    out
}

fn dispatch(found: &[Named<Measured<Vec<Point>>>]) -> String {
    let mut out =
        "### A call in one process\n\nMicroseconds for one call, by the number of registered \
                   tools: arguments read and checked, an asynchronous function called, a message \
                   made. Haft's holds limits, permission, span, masking and bounds besides.\n\n\
                   ![by tools](benchmarks/tools.svg)\n\n"
            .to_owned();
    out.push_str(&table("tools", found, 2));
    out
}

fn serving(findings: &Findings) -> String {
    let mut out =
        "### Over MCP\n\n`tools/call` on a tool that adds two numbers, over streamable HTTP, so \
         many calls under way at once, each on a connection of its own: calls a second, and how \
         many times those of the bare rmcp server that is. Every server answers in JSON, without \
         Nagle's delay. Haft's checks, permits, bounds and, with SQLite, records each call and what \
         came of it before it is answered: in one write, as this tool leaves no trace. It reads \
         such a request itself, which is how it can be ahead of rmcp, on which all else of it \
         stands. Haft's have the allocator of the binary `haft`, the others the system's. The best \
         of several rounds in turns; the load comes from one thread on the same machine.\n\n"
            .to_owned();
    out.push_str(&loads(&findings.servers));
    out.push_str(
        "\nThe same tool behind a second server, which passes the calls on: an rmcp server over \
         an rmcp client and nothing else, and Haft with the first server mounted, everything \
         recorded.\n\n",
    );
    out.push_str(&loads(&findings.proxies));
    out
}

/// A row for each server; what the first does is what the others are compared with.
fn loads(found: &[Named<Measured<Vec<Load>>>]) -> String {
    let mut out = "| |".to_owned();
    for at_once in AT_ONCE {
        out.push_str(&format!(" {at_once} at once | |"));
    }
    out.push_str(" processor time for a call, 64 at once | |\n|---|");
    out.push_str(&"---|".repeat(AT_ONCE.len() * 2 + 2));
    out.push('\n');
    let first = found.first().and_then(|first| first.found.as_ref().ok());
    for Named { name, found } in found {
        let loads = match found {
            Ok(loads) => loads,
            Err(reason) => {
                out.push_str(&format!("| {name} | not measured: {reason} |\n"));
                continue;
            }
        };
        out.push_str(&format!("| {name} |"));
        for (at, load) in loads.iter().enumerate() {
            let bare = first.and_then(|first| first.get(at)).map(|bare| bare.rate);
            let ratio = times(Some(load.rate), bare, 2);
            out.push_str(&format!(" {} | {ratio} |", count(Some(load.rate))));
        }
        let cpu = |loads: &Vec<Load>| loads.last().map(|load| load.cpu_us);
        let ratio = times(cpu(loads), first.and_then(cpu), 2);
        out.push_str(&format!(" {} µs | {ratio} |\n", count(cpu(loads))));
    }
    out
}

fn history(found: &[Named<Measured<Vec<Point>>>]) -> String {
    let mut out = "### Going on after a long history\n\nMilliseconds, by the number of events: Haft loads \
                   a session as it is revived, LangGraph resumes an interrupted conversation with as \
                   many steps.\n\n![by history](benchmarks/history.svg)\n\n"
        .to_owned();
    out.push_str(&table("events", found, 2));
    out
}

fn parked(found: &[Measured<Value>]) -> String {
    let mut out = "### Calls that wait\n\nResolving one is measured in turns with a store in which few \
                   wait; a thousand are resolved in each, so fewer than 2,000 are not measured.\n\n\
                   ![by parked calls](benchmarks/parked.svg)\n\n| waiting | stored for each beyond its \
                   events | more memory | p99 of resolving one | beside few | fell due together, resumed \
                   a second |\n|---|---|---|---|---|---|\n"
        .to_owned();
    for found in found {
        let line = match found {
            Err(reason) => format!("| not measured: {reason} | | | | | |\n"),
            Ok(figures) => {
                let of = |member: &str| figures[member].as_f64();
                let beyond = of("stored_bytes_each").zip(of("event_bytes_each"));
                format!(
                    "| {} | {} B | {:.0} MB | {:.2} ms | {:.2}× | {}, {} |\n",
                    count(of("parked")),
                    count(beyond.map(|(stored, events)| stored - events)),
                    of("memory_growth_bytes").unwrap_or_default() / 1e6,
                    of("resolve_p99_us_with_all_parked").unwrap_or_default() / 1e3,
                    of("resolve_p99_ratio").unwrap_or_default(),
                    count(of("fell_due_together")),
                    count(of("expired_per_second")),
                )
            }
        };
        out.push_str(&line);
    }
    out
}

fn nodes(found: &Measured<Vec<Point>>) -> String {
    let mut out = "### Several nodes over one PostgreSQL\n\nRound trips a second of all together, the server \
                   on the same cores.\n\n![by nodes](benchmarks/nodes.svg)\n\n"
        .to_owned();
    match found {
        Err(reason) => out.push_str(&format!("Not measured: {reason}\n")),
        Ok(points) => {
            out.push_str("| nodes | round trips a second |\n|---|---|\n");
            for Point { size, cost } in points {
                out.push_str(&format!("| {size} | {} |\n", count(Some(*cost))));
            }
        }
    }
    out
}

fn searches(found: &Measured<Vec<String>>) -> String {
    let mut out = "### The sandbox and the searches\n\nBeside bubblewrap, ripgrep and fd of the system, in \
                   turns, the best of 40 rounds over 20,000 files. Ours has Landlock, seccomp and limits \
                   besides, and searches within the process; the peers' times hold the start of one.\n\n"
        .to_owned();
    match found {
        Err(reason) => out.push_str(&format!("Not measured: {reason}\n")),
        Ok(lines) => lines.iter().for_each(|line| out.push_str(&format!("- {line}\n"))),
    }
    out
}

fn peers(found: &[Named<Measured<String>>]) -> String {
    let mut out =
        "## Peers\n\nFrom their registries, into `target/bench`; none of their code is kept \
                   here.\n\n"
            .to_owned();
    for Named { name, found } in found {
        let line = match found {
            Ok(version) => format!("- {name}: {version}\n"),
            Err(reason) => format!("- {name}: not measured: {reason}\n"),
        };
        out.push_str(&line);
    }
    out
}

/// A row for each size, a column for each curve.
fn table(sizes: &str, found: &[Named<Measured<Vec<Point>>>], digits: usize) -> String {
    let mut wanted: Vec<f64> =
        curves(found).iter().flat_map(|it| it.found.iter().map(|p| p.size)).collect();
    wanted.sort_by(f64::total_cmp);
    wanted.dedup();
    let names: Vec<&str> = found.iter().map(|named| named.name.as_str()).collect();
    let mut out =
        format!("| {sizes} | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for size in wanted {
        let cells = found.iter().map(|named| {
            let points = named.found.as_ref().ok()?;
            let point = points.iter().find(|point| point.size == size)?;
            Some(format!("{:.digits$}", point.cost))
        });
        let cells: Vec<String> = cells.map(Option::unwrap_or_default).collect();
        out.push_str(&format!("| {} | {} |\n", count(Some(size)), cells.join(" | ")));
    }
    for Named { name, found } in found {
        if let Err(reason) = found {
            out.push_str(&format!("\n{name}: not measured: {reason}\n"));
        }
    }
    out
}

fn curves(found: &[Named<Measured<Vec<Point>>>]) -> Vec<Named<Vec<Point>>> {
    let curve = |named: &Named<Measured<Vec<Point>>>| {
        Some(Named::new(&named.name, named.found.clone().ok()?))
    };
    found.iter().filter_map(curve).collect()
}

fn drawn(findings: &Findings) -> [(&'static str, Plot<'static>); 4] {
    let parked = |member: &str, name: &str, scale: f64| {
        let point = |found: &Measured<Value>| {
            let figures = found.as_ref().ok()?;
            let cost = figures[member].as_f64()? / scale;
            Some(Point { size: figures["parked"].as_f64()?, cost })
        };
        Named::new(name, findings.parked.iter().filter_map(point).collect())
    };
    let resolving = parked("resolve_p99_us_with_all_parked", "p99 of resolving one", 1e3);
    let nodes = Named::new("Haft, PostgreSQL", findings.nodes.clone().unwrap_or_default());
    [
        (
            "tools",
            Plot {
                title: "One call in one process",
                sizes: "registered tools",
                costs: "µs",
                lines: curves(&findings.dispatch),
            },
        ),
        (
            "history",
            Plot {
                title: "Going on after a long history",
                sizes: "events",
                costs: "ms",
                lines: curves(&findings.history),
            },
        ),
        (
            "parked",
            Plot {
                title: "Deciding about a call while others wait",
                sizes: "waiting calls",
                costs: "ms",
                lines: vec![resolving],
            },
        ),
        (
            "nodes",
            Plot {
                title: "Round trips of all nodes together",
                sizes: "nodes",
                costs: "a second",
                lines: vec![nodes],
            },
        ),
    ]
}

/// A number as people read it.
fn count(number: Option<f64>) -> String {
    let Some(number) = number else { return "?".to_owned() };
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn times(ours: Option<f64>, theirs: Option<f64>, digits: usize) -> String {
    match ours.zip(theirs) {
        Some((ours, theirs)) if theirs > 0.0 => format!("{:.digits$}×", ours / theirs),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn findings() -> Findings {
        let machine = Machine {
            processor: "A processor".into(),
            cores: 2,
            kernel: "6.1".into(),
            load: "0.10".into(),
            date: "2026-01-01".into(),
        };
        let mut findings = Findings::new(machine);
        let rates =
            |steps: f64| json!({ "steps_per_second": steps, "round_trips_per_second": 10.0 });
        findings.durable = vec![
            Named::new("Haft, SQLite", Ok(rates(60_000.0))),
            Named::new("Other", Ok(rates(400.0))),
            Named::new("Absent", Err("it is in no registry".into())),
        ];
        findings
    }

    #[test]
    fn a_peer_stands_with_its_ratio_and_an_absent_one_with_its_reason() {
        let page = page(&findings());
        assert!(page.contains("| Other | 400 | 150.0× | 10 | 1.0× |"), "{page}");
        assert!(page.contains("| Absent | not measured: it is in no registry"), "{page}");
        assert!(page.contains("Not measured: it was not asked for"), "nothing is made up: {page}");
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(count(Some(1_234_567.0)), "1,234,567");
        assert_eq!(count(Some(999.0)), "999");
        assert_eq!(count(None), "?");
    }
}
