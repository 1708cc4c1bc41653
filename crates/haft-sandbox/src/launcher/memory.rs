//! How much memory the processes of a sandbox have together, as its init sees it.

use std::fs;

/// Returns the memory of every process of this namespace, in bytes. What several have mapped counts once
/// where that can be told: a process may hide how much it shares, and then all of it counts.
pub(super) fn of_everyone() -> u64 {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| proportional(pid).or_else(|| resident(pid))).sum()
}

/// What a process has mapped, with what it shares divided among those who share it.
fn proportional(pid: u32) -> Option<u64> {
    told(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

/// What a process has mapped.
fn resident(pid: u32) -> Option<u64> {
    told(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// Reads a line of kilobytes, as bytes.
fn told(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes << 10)
}
