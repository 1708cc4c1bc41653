//! Skills: procedures that a client brings, which an agent reads when a task calls for one.
//!
//! A skill's versions are immutable. A session keeps which files its agent's skills have, so that
//! it finds the same ones until it ends, whatever becomes of the skills.

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, io};

use haft_core::{ArtifactId, SessionId};
use haft_store::Store;
use haft_tools::SkillHead;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Error;
use crate::session::kept_beside;

/// Where a session's tools find the files of its skills.
pub const MOUNTED_AT: &str = "/mnt/session/skills";

const MAIN_FILE: &str = "SKILL.md";
const FILES_MAX: usize = 200;
const NAME_CHARS_MAX: usize = 64;
const DESCRIPTION_CHARS_MAX: usize = 1024;
const PATH_BYTES_MAX: usize = 200;

/// A file as it was sent.
pub(crate) struct SentFile {
    /// With the directory of the skill as its first part.
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
}

/// What a client sent, checked.
pub(crate) struct Sent {
    pub(crate) name: String,
    pub(crate) description: String,
    /// By their paths below the skill's directory.
    pub(crate) files: Vec<SentFile>,
}

impl Sent {
    pub(crate) fn read(mut files: Vec<SentFile>) -> Result<Self, Error> {
        if files.is_empty() || files.len() > FILES_MAX {
            return Err(Error::invalid(format!("files: expected 1 to {FILES_MAX}")));
        }
        let mut directories = BTreeSet::new();
        for file in &mut files {
            let (directory, rest) = parted(&file.path)?;
            directories.insert(directory.to_owned());
            file.path = rest.to_owned();
        }
        let directories: Vec<String> = directories.into_iter().collect();
        let [directory] = <[String; 1]>::try_from(directories).map_err(|_| {
            Error::invalid("files: expected all files in one directory, as `NAME/SKILL.md`")
        })?;
        let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let is_below_a_file = |path: &&str| {
            let ends = path.match_indices('/').map(|(end, _)| end);
            ends.filter_map(|end| path.get(..end)).any(|above| paths.contains(above))
        };
        if paths.len() < files.len() || paths.iter().any(is_below_a_file) {
            return Err(Error::invalid("files: two files have one path"));
        }
        let main = files.iter().find(|file| file.path == MAIN_FILE);
        let main = main.ok_or_else(|| {
            Error::invalid(format!("files: expected `{directory}/{MAIN_FILE}` among them"))
        })?;
        let text = std::str::from_utf8(&main.body);
        let text = text.map_err(|_| Error::invalid(format!("{MAIN_FILE}: expected UTF-8")))?;
        let SkillHead { name, description, .. } = SkillHead::of(&text.replace("\r\n", "\n"));
        let name = checked_name(name.unwrap_or(directory))?;
        if !(1..=DESCRIPTION_CHARS_MAX).contains(&description.chars().count()) {
            return Err(Error::invalid(format!(
                "{MAIN_FILE}: expected a `description` of 1 to {DESCRIPTION_CHARS_MAX} characters \
                 in its front matter"
            )));
        }
        Ok(Self { name, description, files })
    }
}

fn checked_name(name: String) -> Result<String, Error> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    match (1..=NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(is_plain) {
        true => Ok(name),
        false => Err(Error::invalid(format!(
            "{MAIN_FILE}: expected a `name` of 1 to {NAME_CHARS_MAX} lower-case letters, digits \
             and `-`, found {name:?}"
        ))),
    }
}

/// Parts the skill's directory from where a file is in it.
fn parted(path: &str) -> Result<(&str, &str), Error> {
    let is_plain = |part: &str| {
        !["", ".", ".."].contains(&part) && !part.contains('\\') && !part.contains(char::is_control)
    };
    let is_path = path.len() <= PATH_BYTES_MAX && path.split('/').all(is_plain);
    path.split_once('/').filter(|_| is_path).ok_or_else(|| {
        let shown: String = path.chars().take(80).collect();
        Error::invalid(format!(
            "files: expected names such as `NAME/{MAIN_FILE}` of at most {PATH_BYTES_MAX} bytes, \
             found {shown:?}"
        ))
    })
}

/// A file of a skill, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptFile {
    pub(crate) path: String,
    pub(crate) artifact: ArtifactId,
}

/// A skill of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Skill {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) files: Vec<KeptFile>,
}

/// What an agent is told of its skills: what they are for, and where the rest is.
pub(crate) fn introduced(instructions: Option<String>, skills: &[Skill]) -> Option<String> {
    if skills.is_empty() {
        return instructions;
    }
    let mut said = instructions.map(|instructions| instructions + "\n\n").unwrap_or_default();
    said.push_str(
        "# Skills\n\nEach of these is a procedure for a sort of task. Before such a task, read the \
         file that is named and follow it; what it refers to is beside it.\n",
    );
    for Skill { name, description, .. } in skills {
        said.push_str(&format!("\n- `{MOUNTED_AT}/{name}/{MAIN_FILE}`: {description}"));
    }
    Some(said)
}

/// Makes a directory hold the files of a session's skills; says whether there are any.
///
/// # Errors
///
/// When the store or the directory has trouble.
pub async fn place(store: &Store, session: SessionId, directory: &Path) -> io::Result<Placed> {
    let beside = kept_beside(store, session).await.map_err(io::Error::other)?;
    let Some((tenant, mut beside)) = beside else { return Ok(Placed::Nothing) };
    let loaded = store.load(session).await.map_err(io::Error::other)?;
    let open = loaded.as_ref().and_then(|loaded| loaded.state.as_open());
    let works_for_another = open.filter(|open| open.parent.is_some());
    let agent = works_for_another.and_then(|open| open.config.agent.as_ref());
    let own = agent.and_then(|agent| beside.get_mut("roster_skills")?.get_mut(&agent.id));
    let skills = match own {
        Some(skills) => skills.take(),
        None => beside.remove("skills").unwrap_or_else(|| Value::Array(Vec::new())),
    };
    let skills: Vec<Skill> = serde_json::from_value(skills).map_err(io::Error::other)?;
    for Skill { name, files, .. } in &skills {
        for KeptFile { path, artifact } in files {
            let path = directory.join(name).join(path);
            if path.exists() {
                continue;
            }
            let found = store.artifact(&tenant, *artifact).await.map_err(io::Error::other)?;
            let found = found.ok_or_else(|| io::Error::other(format!("{artifact} is gone")))?;
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            crate::uploads::write(&path, &found.body)?;
        }
    }
    Ok(if skills.is_empty() { Placed::Nothing } else { Placed::Files })
}

/// Whether a session has skills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// Its skills' files are in the directory.
    Files,
    /// It has none, and the directory was not made.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> Result<Sent, String> {
        let sent = |(path, body): &(&str, &str)| SentFile {
            path: (*path).to_owned(),
            body: body.as_bytes().to_vec(),
        };
        Sent::read(files.iter().map(sent).collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_skill_is_a_directory_with_a_described_main_file() {
        let main = "---\nname: ship\ndescription: How to ship\n---\nRun it.";
        let sent = read(&[("dir/SKILL.md", main), ("dir/scripts/run.sh", "true")]).unwrap();
        assert_eq!((sent.name.as_str(), sent.description.as_str()), ("ship", "How to ship"));
        assert_eq!(sent.files[1].path, "scripts/run.sh");
        let nameless = "---\ndescription: How to ship\n---\n";
        assert_eq!(read(&[("dir/SKILL.md", nameless)]).unwrap().name, "dir");
        let refused: [(&[(&str, &str)], &str); 8] = [
            (&[], "expected 1 to"),
            (&[("SKILL.md", main)], "expected names such as"),
            (&[("a/SKILL.md", main), ("b/x", "")], "one directory"),
            (&[("a/SKILL.md", main), ("a/../x", "")], "expected names such as"),
            (&[("a/SKILL.md", main), ("a/SKILL.md", main)], "one path"),
            (&[("a/SKILL.md", main), ("a/b", ""), ("a/b/c", "")], "one path"),
            (&[("a/x", "")], "expected `a/SKILL.md`"),
            (&[("a/SKILL.md", "no front matter")], "`description`"),
        ];
        for (files, why) in refused {
            let error = read(files).err().unwrap();
            assert!(error.contains(why), "{error}");
        }
    }
}
