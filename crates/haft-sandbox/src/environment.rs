//! The environment of commands: built from nothing, plus variables whose names are harmless.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// The longest name.
const MAX_NAME: usize = 64;
/// The longest value, in bytes.
pub const MAX_VALUE: usize = 32 * 1024;
/// The most that all names and values take together, in bytes.
pub const MAX_TOTAL: usize = 128 * 1024;

/// What every command finds.
const BASE: &[(&str, &str)] = &[
    ("HOME", "/tmp"),
    ("LANG", "C.UTF-8"),
    ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"),
    ("TERM", "dumb"),
    ("TMPDIR", "/tmp"),
];

/// Names that change what programs run, read or write; a closing `*` stands for any ending, a leading for any beginning.
const REFUSED: &[&str] = &[
    "BASHOPTS",
    "BASH_*",
    "CDPATH",
    "CURL_HOME",
    "DYLD_*",
    "ENV",
    "GCONV_PATH",
    "GIT_*",
    "GLIBC_TUNABLES",
    "GLOBIGNORE",
    "HISTFILE",
    "HOME",
    "HOSTALIASES",
    "IFS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "LD_*",
    "LESS*",
    "LOCALDOMAIN",
    "LOCPATH",
    "LUA_INIT*",
    "MALLOC_*",
    "MANPAGER",
    "NIS_PATH",
    "NLSPATH",
    "NODE_OPTIONS",
    "NODE_PATH",
    "OPENSSL_*",
    "PATH",
    "PERL*",
    "POSIXLY_CORRECT",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "PYTHON*",
    "RESOLV_HOST_CONF",
    "RES_OPTIONS",
    "RIPGREP_CONFIG_PATH",
    "RUBY*",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "SHELL",
    "SHELLOPTS",
    "SSLKEYLOGFILE",
    "SSL_CERT_*",
    "TAR_OPTIONS",
    "TERMINFO*",
    "TMP",
    "TMPDIR",
    "TZDIR",
    "VISUAL",
    "XDG_*",
    "_",
    "*EDITOR",
    "*PAGER",
    "*_PROXY",
    "*_ASKPASS",
];

/// Variables of a session: names that are harmless, values that fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    values: BTreeMap<String, String>,
}

/// Why a variable is not taken. Does not repeat its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VariableError {
    /// Not a name.
    #[error(
        "{name:?} is no name of a variable: letters, digits and `_`, at most {MAX_NAME}, no digit first"
    )]
    Name {
        /// What was given.
        name: String,
    },
    /// A name that changes what programs run.
    #[error("{name} may not be set: it changes what programs run, read or write")]
    Refused {
        /// The name.
        name: String,
    },
    /// A value with NUL in it.
    #[error("the value of {name} has a NUL byte in it")]
    Nul {
        /// The name.
        name: String,
    },
    /// Too much.
    #[error(
        "the value of {name} makes the environment too large: {MAX_VALUE} bytes for one value, {MAX_TOTAL} in all"
    )]
    TooLarge {
        /// The name.
        name: String,
    },
}

impl Variables {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a variable.
    ///
    /// # Errors
    /// When its name is refused or its value does not fit; then nothing is changed.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), VariableError> {
        check_name(name)?;
        if value.contains('\0') {
            return Err(VariableError::Nul { name: name.to_owned() });
        }
        let others = self.values.iter().filter(|(other, _)| *other != name);
        let total: usize = others.map(|(name, value)| name.len() + value.len() + 2).sum();
        if value.len() > MAX_VALUE || total + name.len() + value.len() + 2 > MAX_TOTAL {
            return Err(VariableError::TooLarge { name: name.to_owned() });
        }
        self.values.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    /// Forgets a variable; whether there was one.
    pub fn unset(&mut self, name: &str) -> bool {
        self.values.remove(name).is_some()
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The variables, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The whole environment of a command.
    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        let base = BASE.iter().copied();
        base.chain(self.iter()).map(|(name, value)| (name.into(), value.into())).collect()
    }
}

/// Whether a variable may have this name.
///
/// # Errors
/// When it may not.
pub fn check_name(name: &str) -> Result<(), VariableError> {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let rest = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !first || !rest || name.len() > MAX_NAME {
        return Err(VariableError::Name { name: name.chars().take(MAX_NAME).collect() });
    }
    let upper = name.to_ascii_uppercase();
    let refused = |pattern: &&str| match (pattern.strip_suffix('*'), pattern.strip_prefix('*')) {
        (Some(beginning), _) => upper.starts_with(beginning),
        (_, Some(ending)) => upper.ends_with(ending),
        _ => upper == *pattern,
    };
    if REFUSED.iter().any(refused) {
        return Err(VariableError::Refused { name: name.to_owned() });
    }
    Ok(())
}
