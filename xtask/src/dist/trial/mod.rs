//! Each artifact installed into nothing, and used as its users would.

mod places;
mod story;

use std::fs;
use std::time::Instant;

use anyhow::Context as _;

use self::places::Installed;
use super::release::Release;
use super::{Artifact, Kind, commands};

/// How long an artifact took, for the page; nothing is concluded from it.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) kind: Kind,
    /// Seconds that the installation took.
    pub(super) installed_s: f64,
    /// Seconds from then until `/readyz` answered 200.
    pub(super) ready_s: f64,
}

pub(super) fn run(release: &Release, artifacts: &[Artifact]) -> anyhow::Result<Vec<Trial>> {
    let place = release.work.join("trial");
    commands::emptied(&place)?;
    let mut trials = Vec::new();
    for artifact in artifacts.iter().filter(|artifact| artifact.kind != Kind::Sbom) {
        let trial = tried(release, artifact)
            .with_context(|| format!("trying the {}", artifact.kind.name()))?;
        println!(
            "dist: the {}: installed in {:.1} s, ready {:.1} s later, an approval went through",
            trial.kind.name(),
            trial.installed_s,
            trial.ready_s
        );
        trials.push(trial);
    }
    fs::remove_dir_all(&place).context("deleting what was installed")?;
    Ok(trials)
}

fn tried(release: &Release, artifact: &Artifact) -> anyhow::Result<Trial> {
    let prepared = places::prepare(release, artifact)?;
    let started = Instant::now();
    let installed: Installed = prepared.install()?;
    let installed_s = started.elapsed().as_secs_f64();
    let ready_s = story::tell(&installed, &release.version)?;
    installed.remove()?;
    Ok(Trial { kind: artifact.kind, installed_s, ready_s })
}
