//! What a binary needs of the system that runs it, read from the binary itself.

use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use super::commands;

/// The versions and libraries that the dynamic linker must find.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Linkage {
    pub(super) glibc: Glibc,
    /// Shared libraries, such as `libc.so.6`.
    pub(super) libraries: Vec<String>,
}

/// A version of the GNU C library, such as 2.17.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Glibc {
    pub(super) major: u32,
    pub(super) minor: u32,
}

/// Libraries that are part of the package `libc6`.
const PARTS_OF_LIBC: [&str; 7] = [
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
];

impl Linkage {
    pub(super) fn of(binary: &Path) -> anyhow::Result<Linkage> {
        let mut read = Command::new("readelf");
        read.args(["--wide", "--dynamic", "--version-info"]).arg(binary).env("LC_ALL", "C");
        Linkage::parse(&commands::output(&mut read)?)
            .with_context(|| format!("reading what `{}` needs", binary.display()))
    }

    fn parse(readelf: &str) -> anyhow::Result<Linkage> {
        let versions = readelf
            .split("Name: GLIBC_")
            .skip(1)
            .filter_map(|rest| Glibc::parse(rest.split(|c: char| c.is_ascii_whitespace()).next()?));
        let glibc = versions.max().context("the binary needs no version of glibc")?;
        let needed = readelf.lines().filter(|line| line.contains("(NEEDED)"));
        let library = |line: &str| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned());
        let mut libraries: Vec<String> = needed.filter_map(library).collect();
        libraries.sort();
        Ok(Linkage { glibc, libraries })
    }

    /// The Debian packages that have these libraries.
    pub(super) fn debian_packages(&self) -> anyhow::Result<Vec<String>> {
        let mut packages = vec![format!("libc6 (>= {})", self.glibc)];
        for library in &self.libraries {
            match library.as_str() {
                "libgcc_s.so.1" => packages.push("libgcc-s1".to_owned()),
                known if PARTS_OF_LIBC.contains(&known) => {}
                other => bail!(
                    "the binary needs `{other}`, of which no Debian package is known here; \
                     link it statically, or add its package to linkage.rs"
                ),
            }
        }
        Ok(packages)
    }
}

impl Glibc {
    fn parse(version: &str) -> Option<Glibc> {
        let mut parts = version.split('.');
        let (major, minor) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Glibc { major, minor })
    }
}

impl fmt::Display for Glibc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl fmt::Display for Linkage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "glibc {} and {}", self.glibc, self.libraries.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READELF: &str = "\
 0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
  0x0010:   Name: GLIBC_2.9  Flags: none  Version: 11
  0x0020:   Name: GLIBC_2.17  Flags: none  Version: 12
  0x0030:   Name: GLIBC_2.2.5  Flags: none  Version: 2
  0x0040:   Name: GCC_3.0  Flags: none  Version: 5
";

    #[test]
    fn the_newest_version_counts_by_number_and_not_by_letter() {
        let linkage = Linkage::parse(READELF).unwrap();
        assert_eq!(linkage.glibc, Glibc { major: 2, minor: 17 });
        assert_eq!(linkage.libraries, ["libc.so.6", "libgcc_s.so.1"]);
        assert_eq!(linkage.debian_packages().unwrap(), ["libc6 (>= 2.17)", "libgcc-s1"]);
    }

    #[test]
    fn a_library_without_a_known_package_is_an_error() {
        let linkage = Linkage::parse(&READELF.replace("libgcc_s.so.1", "libssl.so.3")).unwrap();
        assert!(linkage.debian_packages().unwrap_err().to_string().contains("libssl.so.3"));
        assert!(Linkage::parse("").is_err());
    }
}
