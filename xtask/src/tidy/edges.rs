//! Which crate may know which: the code map of ARCHITECTURE.md as a table.
//!
//! Only what a crate ships with is checked. Its tests may reach for more, for nobody who depends
//! on the crate gets those edges.

use super::Finding;
use super::manifests::{Dependency, Kind, Manifest, is_manifest};
use crate::tree::Tree;

/// One crate of the workspace.
struct Room {
    name: &'static str,
    /// The crates of the workspace it may know; all of them stand above it in the table.
    knows: &'static [&'static str],
    /// Foreign crates it must not know; a closing `*` stands for any ending.
    shuns: &'static [&'static str],
}

const ROOMS: &[Room] = &[
    Room {
        name: "haft-core",
        knows: &[],
        shuns: &[
            "async-*",
            "chrono",
            "futures*",
            "getrandom",
            "jiff",
            "rand",
            "reqwest",
            "rusqlite",
            "tokio*",
            "uuid",
        ],
    },
    Room { name: "haft-wire", knows: &["haft-core"], shuns: &[] },
    Room { name: "haft-macros", knows: &[], shuns: &[] },
    Room { name: "haft-http", knows: &["haft-macros"], shuns: &["reqwest"] },
    Room { name: "haft-store", knows: &["haft-core", "haft-macros"], shuns: &[] },
    Room { name: "haft-sandbox", knows: &["haft-core"], shuns: &[] },
    Room { name: "haft-runtime", knows: &["haft-core", "haft-macros", "haft-store"], shuns: &[] },
    Room {
        name: "haft-tools",
        knows: &["haft-core", "haft-runtime", "haft-sandbox", "haft-store", "haft-wire"],
        shuns: &[],
    },
    Room {
        name: "haft-agent",
        knows: &["haft-core", "haft-http", "haft-macros", "haft-runtime", "haft-wire"],
        shuns: &[],
    },
    Room {
        name: "haft-mcp",
        knows: &[
            "haft-core",
            "haft-http",
            "haft-macros",
            "haft-runtime",
            "haft-store",
            "haft-wire",
        ],
        shuns: &["reqwest"],
    },
    Room {
        name: "haft-server",
        knows: &[
            "haft-agent",
            "haft-core",
            "haft-http",
            "haft-macros",
            "haft-mcp",
            "haft-runtime",
            "haft-store",
            "haft-tools",
            "haft-wire",
        ],
        shuns: &[],
    },
    Room {
        name: "haft",
        knows: &[
            "haft-agent",
            "haft-core",
            "haft-http",
            "haft-macros",
            "haft-mcp",
            "haft-runtime",
            "haft-sandbox",
            "haft-server",
            "haft-store",
            "haft-tools",
            "haft-wire",
        ],
        shuns: &[],
    },
    Room {
        name: "haft-cli",
        knows: &[
            "haft",
            "haft-agent",
            "haft-core",
            "haft-http",
            "haft-macros",
            "haft-mcp",
            "haft-runtime",
            "haft-sandbox",
            "haft-server",
            "haft-store",
            "haft-tools",
            "haft-wire",
        ],
        shuns: &[],
    },
    Room { name: "xtask", knows: &[], shuns: &[] },
];

const _: () = assert!(ROOMS.len() <= 14, "few crates, each a room with one owner of truth");

/// Foreign crates that only these crates may know.
const RESERVED: &[(&str, &[&str])] = &[
    ("anyhow", &["haft-cli", "xtask"]),
    ("rusqlite", &["haft-store"]),
    ("similar", &["haft-core"]),
    ("tokio-postgres", &["haft-store"]),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.with_extension("toml").filter(|file| is_manifest(file)) {
        // A manifest that does not parse is a finding of `manifests`.
        let Ok(manifest) = Manifest::parse(file) else { continue };
        let Some(package) = &manifest.package else { continue };
        let Some(room) = ROOMS.iter().find(|room| room.name == package) else {
            let what = format!("the crate `{package}` has no place in the architecture");
            let fix = "fold it into another crate, or add it to ARCHITECTURE.md and edges.rs";
            findings.push(Finding::new(&file.path, file.line_of("name"), what, fix));
            continue;
        };
        let shipped = manifest.dependencies.iter().filter(|found| found.kind != Kind::Dev);
        findings.extend(shipped.filter_map(|dependency| room.objection(dependency, &file.path)));
    }
    findings
}

impl Room {
    fn objection(&self, dependency: &Dependency, path: &str) -> Option<Finding> {
        let name = &dependency.name;
        let is_ours = ROOMS.iter().any(|room| room.name == name);
        let what = format!("`{}` must not depend on `{name}`", self.name);
        let finding = |fix| Some(Finding::new(path, dependency.line, what, fix));
        if is_ours && !self.knows.contains(&name.as_str()) {
            return finding("edges point down: pass a value in, or move the code");
        }
        if self.shuns.iter().any(|pattern| matches(pattern, name)) {
            return finding("do it outside and pass the value in");
        }
        match RESERVED.iter().find(|(reserved, _)| reserved == name) {
            Some((_, owners)) if !owners.contains(&self.name) => {
                finding("go through the crate that owns it, see `RESERVED` in edges.rs")
            }
            Some(_) | None => None,
        }
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::printed;

    #[track_caller]
    fn check_crate(name: &str, dependencies: &str, expected: &[&str]) {
        let text = format!("[package]\nname = \"{name}\"\n{dependencies}\n");
        assert_eq!(printed(&check(&Tree::of(&[("Cargo.toml", &text)]))), expected);
    }

    #[test]
    fn an_edge_that_points_up_is_found() {
        let expected = "Cargo.toml:4: `haft-store` must not depend on `haft-runtime`; \
                        edges point down: pass a value in, or move the code";
        check_crate("haft-store", "[dependencies]\nhaft-runtime.workspace = true", &[expected]);
        check_crate("haft-runtime", "[dependencies]\nhaft-store.workspace = true", &[]);
    }

    #[test]
    fn the_core_shuns_what_does_things() {
        for name in ["tokio", "tokio-util", "rand", "async-trait", "uuid"] {
            let expected = format!(
                "Cargo.toml:4: `haft-core` must not depend on `{name}`; \
                 do it outside and pass the value in"
            );
            let table = format!("[dependencies]\n{name}.workspace = true");
            check_crate("haft-core", &table, &[&expected]);
            let table = format!("[dev-dependencies]\n{name}.workspace = true");
            check_crate("haft-core", &table, &[]);
        }
    }

    #[test]
    fn a_renamed_dependency_keeps_its_edge() {
        let table = "[target.'cfg(unix)'.dependencies]\nclock = { package = \"jiff\" }";
        let expected = "Cargo.toml:4: `haft-core` must not depend on `jiff`; \
                        do it outside and pass the value in";
        check_crate("haft-core", table, &[expected]);
    }

    #[test]
    fn a_database_is_opened_in_one_crate() {
        let table = "[dependencies]\nrusqlite.workspace = true";
        let expected = "Cargo.toml:4: `haft-server` must not depend on `rusqlite`; \
                        go through the crate that owns it, see `RESERVED` in edges.rs";
        check_crate("haft-server", table, &[expected]);
        check_crate("haft-store", table, &[]);
    }

    #[test]
    fn a_crate_outside_the_table_is_found() {
        let expected = "Cargo.toml:2: the crate `haft-extra` has no place in the architecture; \
                        fold it into another crate, or add it to ARCHITECTURE.md and edges.rs";
        check_crate("haft-extra", "", &[expected]);
    }

    #[test]
    fn every_crate_knows_only_crates_above_it() {
        for (at, room) in ROOMS.iter().enumerate() {
            for known in room.knows {
                let is_above = ROOMS[..at].iter().any(|above| above.name == *known);
                assert!(is_above, "{} → {known}", room.name);
            }
        }
    }
}
