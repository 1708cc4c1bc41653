//! What an operator gives an agent beside its workspace: skills to read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft_core::Digest;
use haft_runtime::ToolContext;
use serde_json::{Value, json};

/// How deep, and how many, files are looked for.
const DEPTH_MAX: usize = 6;
const SKILLS_MAX: usize = 500;
const BYTES_MAX: u64 = 1 << 20;
const PREVIEW_CHARS: usize = 220;

/// What one agent may read.
#[derive(Debug, Clone, Default)]
pub struct Library {
    /// Directories of the host in which `SKILL.md` files are found.
    pub skills: Vec<PathBuf>,
}

type Find = dyn Fn(&str) -> Library + Send + Sync;

/// The libraries of a node's agents, as a service for its tools.
#[derive(Clone)]
pub struct Libraries(Arc<Find>);

impl Libraries {
    /// Libraries that ask `find` for that of an agent.
    pub fn new(find: impl Fn(&str) -> Library + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }
}

impl std::fmt::Debug for Libraries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Libraries").finish_non_exhaustive()
    }
}

/// A skill, as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skill {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) preview: String,
    pub(crate) file: PathBuf,
    pub(crate) content: String,
}

impl Library {
    /// The library of an agent; empty when the operator gave none.
    pub(crate) fn of(context: &ToolContext, agent: &str) -> Self {
        let libraries = context.services().get::<Libraries>();
        libraries.map(|Libraries(find)| find(agent)).unwrap_or_default()
    }

    /// Every skill, by name; of two with one name the first counts.
    pub(crate) fn skills(&self) -> Vec<Skill> {
        let mut found: Vec<Skill> = Vec::new();
        for directory in &self.skills {
            walk(directory, DEPTH_MAX, &mut found);
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found.dedup_by(|later, first| later.name == first.name);
        found
    }

    pub(crate) fn skills_listing(&self) -> Vec<Value> {
        let skills = self.skills().into_iter();
        skills
            .map(|skill| {
                let print = Digest::of_bytes(skill.content.as_bytes()).to_string();
                json!({ "name": skill.name, "fingerprint": print })
            })
            .collect()
    }
}

/// Links are not followed: a skill is a file where the operator put it.
fn walk(directory: &Path, depth: usize, found: &mut Vec<Skill>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth > 0 {
            walk(&entry.path(), depth - 1, found);
        } else if kind.is_file() && entry.file_name() == "SKILL.md" && found.len() < SKILLS_MAX {
            found.extend(read(&entry.path()));
        }
    }
}

fn read(file: &Path) -> Option<Skill> {
    if std::fs::metadata(file).ok()?.len() > BYTES_MAX {
        return None;
    }
    let content = std::fs::read_to_string(file).ok()?;
    let SkillHead { name, description, preview } = SkillHead::of(&content);
    let directory = file.parent()?.file_name()?.to_string_lossy().into_owned();
    let name = name.unwrap_or(directory);
    Some(Skill { name, description, preview, file: file.to_owned(), content })
}

/// What a `SKILL.md` says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillHead {
    /// Its name; without one it is called as its directory.
    pub name: Option<String>,
    /// When to use it.
    pub description: String,
    /// Its first lines.
    pub preview: String,
}

impl SkillHead {
    /// Reads the front matter and the first lines of a `SKILL.md`.
    pub fn of(content: &str) -> Self {
        let (front, body) = front_matter(content);
        let field = |name: &str| {
            let line = front.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map(|value| value.trim().trim_matches('"').to_owned())
        };
        let lines = body.lines().map(str::trim).filter(|line| !line.is_empty()).take(3);
        let preview = lines.collect::<Vec<_>>().join(" ").chars().take(PREVIEW_CHARS).collect();
        Self {
            name: field("name").filter(|name| !name.is_empty()),
            description: field("description").unwrap_or_default(),
            preview,
        }
    }
}

/// What stands between the first two `---` lines, and what follows.
fn front_matter(content: &str) -> (&str, &str) {
    let parted = content.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---"));
    parted.unwrap_or(("", content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s2_65_a_skill_is_read_from_its_front_matter_and_first_lines() {
        let temp = tempfile::tempdir().unwrap();
        let put = |path: &str, content: &str| {
            let path = temp.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        };
        put(
            "a/SKILL.md",
            "---\nname: ship\ndescription: \"How to ship\"\n---\n# Ship\n\none\ntwo\nthree\n",
        );
        put("b/deep/SKILL.md", "no front matter");
        put("b/README.md", "not one");
        let library = Library { skills: vec![temp.path().to_owned()] };
        let skills = library.skills();
        let names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
        assert_eq!(names, ["deep", "ship"]);
        assert_eq!(skills[1].description, "How to ship");
        assert_eq!(skills[1].preview, "# Ship one two");
    }
}
