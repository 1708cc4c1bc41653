//! Vaults: secrets that commands may use by reference and nobody reads.
//!
//! A vault is never mounted where commands or file tools look. A variable can refer to one of its
//! entries; then commands find the value in their environment, and it is masked in what they say.

use haft_sandbox::environment::Variables;
use haft_sandbox::files::Files;
use haft_sandbox::mounts::{Access, Mounts, Root};
use haft_sandbox::virtual_path::VirtualPath;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// The most that one entry holds.
const ENTRY_BYTES: u64 = 32 << 10;
/// The most entries that are named.
const ENTRIES_MAX: usize = 1000;

/// A directory of secrets, one file each.
#[derive(Debug, Clone)]
pub struct Vault {
    /// What references call it: letters, digits, `-` and `_`.
    pub name: String,
    /// The directory on the host.
    pub directory: PathBuf,
    /// What it is for, in words for the model.
    pub prompt: Option<String>,
}

/// An entry of a vault: `vault://name/entry`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    vault: String,
    entry: String,
}

impl Reference {
    /// Reads a reference; `None` for any other text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (vault, entry) = text.strip_prefix("vault://")?.split_once('/')?;
        let plain = |name: &str| {
            let letters = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            !name.is_empty() && !name.starts_with('.') && name.bytes().all(letters)
        };
        (plain(vault) && plain(entry))
            .then(|| Self { vault: vault.to_owned(), entry: entry.to_owned() })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vault://{}/{}", self.vault, self.entry)
    }
}

/// The vaults of a session.
#[derive(Debug)]
pub(crate) struct Vaults {
    known: Vec<(Vault, Files)>,
}

impl Vaults {
    /// Opens every vault that can be opened; a reference to another is refused when it is used.
    pub(super) fn open(vaults: &[Vault]) -> Self {
        let opened = vaults.iter().filter_map(|vault| {
            let at = place(&vault.name)?;
            let root = Root { at, host: vault.directory.clone(), access: Access::ReadOnly };
            Some((vault.clone(), Files::new(Mounts::open([root]).ok()?)))
        });
        Self { known: opened.collect() }
    }

    /// The value that a reference stands for.
    pub(crate) fn value(&self, reference: &Reference) -> Result<String, String> {
        let missing = || format!("{reference} is not there: ask the operator for it");
        let found = self.known.iter().find(|(vault, _)| vault.name == reference.vault);
        let (vault, files) = found.ok_or_else(missing)?;
        let at = place(&vault.name).ok_or_else(missing)?;
        let bytes = files.read_all(&at.join(reference.entry.as_ref()), ENTRY_BYTES);
        let text = String::from_utf8(bytes.map_err(|_| missing())?).map_err(|_| missing())?;
        Ok(text.trim_end_matches(['\n', '\r']).to_owned())
    }

    /// The values of variables that refer to entries.
    pub(crate) fn resolved(
        &self,
        references: &BTreeMap<String, Reference>,
    ) -> Result<Variables, String> {
        let mut variables = Variables::new();
        for (name, reference) in references {
            let value = self.value(reference).map_err(|why| format!("variable {name}: {why}"))?;
            variables.set(name, &value).map_err(|error| error.to_string())?;
        }
        Ok(variables)
    }

    /// What may be told of the vaults: never content.
    pub(crate) fn shown(&self) -> Vec<Value> {
        self.known.iter().map(|(vault, files)| shown(vault, files)).collect()
    }
}

fn place(name: &str) -> Option<VirtualPath> {
    VirtualPath::parse(&format!("/vaults/{name}"), &VirtualPath::top()).ok()
}

fn shown(vault: &Vault, files: &Files) -> Value {
    let at = place(&vault.name);
    let listed = at.as_ref().and_then(|at| files.list(at, ENTRIES_MAX).ok());
    let entries = listed.into_iter().flat_map(|listing| listing.entries);
    let entry = |path: VirtualPath| {
        let path = path.to_string();
        path.rsplit('/').next().map(|entry| format!("vault://{}/{entry}", vault.name))
    };
    json!({
        "kind": "vault",
        "mountPath": at.map(|at| at.to_string()),
        "access": "read_only",
        "vaultName": vault.name,
        "scope": "environment",
        "prompt": vault.prompt,
        "references": entries.filter_map(|listed| entry(listed.path)).collect::<Vec<_>>(),
        "use": "give a reference as the `value` of `shell_set_env`; the content is shown to nobody",
    })
}
