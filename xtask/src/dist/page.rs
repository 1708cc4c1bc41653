//! The table of `docs/install.md`: each artifact's size, and how soon it serves.

use std::fs;

use anyhow::Context as _;

use super::commands::{self, Mode};
use super::release::{Release, Source};
use super::trial::Trial;
use super::{Artifact, Kind};

const PAGE: &str = "docs/install.md";
const BEGIN: &str = "<!-- written by `cargo xtask dist` -->\n";
const END: &str = "<!-- /written -->\n";

/// Writes the table into the page for a release, and beside the artifacts for any other binary.
pub(super) fn write(
    release: &Release,
    artifacts: &[Artifact],
    trials: &[Trial],
) -> anyhow::Result<()> {
    let table = table(release, artifacts, trials)?;
    print!("{table}");
    match release.source {
        Source::Built => {
            let page = replaced(&release.text(PAGE)?, &table)?;
            commands::put(&release.root.join(PAGE), page, Mode::Data)
        }
        Source::Given => commands::put(&release.out.join("install.md"), table, Mode::Data),
    }
}

fn table(release: &Release, artifacts: &[Artifact], trials: &[Trial]) -> anyhow::Result<String> {
    let mut table = format!(
        "Version {}, for Linux on x86-64 with glibc {} or newer.\n\n\
         | artifact | files | size | installed in | ready after |\n|---|---|---|---|---|\n",
        release.version, release.linkage.glibc
    );
    for artifact in artifacts {
        let trial = trials.iter().find(|trial| trial.kind == artifact.kind);
        let mut bytes = 0;
        let mut names = Vec::new();
        for file in &artifact.files {
            bytes += fs::metadata(file).context("looking at an artifact")?.len();
            names.push(format!("`{}`", file.file_name().unwrap_or_default().to_string_lossy()));
        }
        let seconds =
            |time: Option<f64>| time.map_or_else(|| "–".to_owned(), |time| format!("{time:.1} s"));
        table.push_str(&format!(
            "| {} | {} | {} | {} | {} |\n",
            artifact.kind.name(),
            names.join(", "),
            size(bytes),
            seconds(trial.map(|trial| trial.installed_s)),
            seconds(trial.map(|trial| trial.ready_s)),
        ));
    }
    Ok(table)
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        _ => format!("{} MB", (bytes + 500_000) / 1_000_000),
    }
}

fn replaced(page: &str, table: &str) -> anyhow::Result<String> {
    let (before, rest) =
        page.split_once(BEGIN).with_context(|| format!("{PAGE} has no {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{PAGE} has no {END}"))?;
    Ok(format!("{before}{BEGIN}{table}{END}{after}"))
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Wheel => "wheel",
            Self::Npm => "npm packages",
            Self::Deb => "Debian package",
            Self::Tarball => "tarball",
            Self::Image => "container image",
            Self::Sbom => "bill of materials",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_table_of_the_page_is_replaced() {
        let page = format!("a\n{BEGIN}old\n{END}b\n");
        assert_eq!(replaced(&page, "new\n").unwrap(), format!("a\n{BEGIN}new\n{END}b\n"));
        assert!(replaced("a\n", "new\n").is_err());
    }

    #[test]
    fn the_page_has_the_place_for_the_table() {
        let page = fs::read_to_string(crate::root().join(PAGE)).unwrap();
        assert!(replaced(&page, "").is_ok());
    }

    #[test]
    fn sizes_are_shown_in_units_that_people_read() {
        assert_eq!(size(1), "1 kB");
        assert_eq!(size(31_400_000), "31 MB");
    }
}
