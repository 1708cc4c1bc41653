//! `haft.toml`: what is configured beside flags and the environment.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use haft_core::permission::Floor;
use haft_core::{Digest, ToolName};
use haft_http::egress::EgressSettings;
use haft_mcp::{Declared, Grant, MountConfig, Networking, OAuth, SandboxRoot};
use serde::Deserialize;

use crate::place::causes;
use crate::trouble::{Code, Trouble};
use crate::trust;

/// Where the file is when nobody says.
pub(crate) const USUAL: &str = "haft.toml";

/// Which file to read.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ConfigFile {
    /// The configuration. Default: the `haft.toml` of the working directory, if it is trusted (see
    /// `haft trust`).
    #[arg(long = "config", value_name = "FILE", env = "HAFT_CONFIG")]
    named: Option<PathBuf>,
}

/// The MCP servers that a file declares, and which content of the file that was.
pub(crate) struct DeclaredServers {
    pub(crate) servers: Vec<MountConfig>,
    pub(crate) digest: Digest,
}

/// What is in it for MCP, and what the operator says about every agent; whether the rest of it makes
/// sense `settings` says.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
struct Content {
    #[serde(default)]
    mcp: Mcp,
    #[serde(default)]
    policy: PolicyTable,
    #[serde(default)]
    egress: EgressSettings,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
struct PolicyTable {
    #[serde(default)]
    floor: Floor,
    #[serde(flatten)]
    rest: toml::Table,
}

/// What whoever runs Haft says about every agent, in `[policy.floor]` and `[egress]`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Operator {
    /// What no agent's own policy may allow unasked.
    pub(crate) floor: Floor,
    /// What sandboxes reach.
    pub(crate) egress: Arc<EgressSettings>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
struct Mcp {
    #[serde(default)]
    servers: BTreeMap<ToolName, Declared>,
    #[serde(flatten)]
    rest: toml::Table,
}

/// What has become of a file while a server runs.
pub(crate) enum Change {
    Obeyed(DeclaredServers),
    /// Nobody has trusted this content.
    Untrusted(Digest),
}

impl ConfigFile {
    pub(crate) const fn at(path: PathBuf) -> Self {
        Self { named: Some(path) }
    }

    /// The file that HAFT_CONFIG names, else the usual one.
    pub(crate) fn of_environment() -> Self {
        Self { named: std::env::var_os("HAFT_CONFIG").map(PathBuf::from) }
    }

    pub(crate) const fn usual() -> Self {
        Self { named: None }
    }

    pub(crate) fn path(&self) -> &Path {
        self.named.as_deref().unwrap_or_else(|| Path::new(USUAL))
    }

    /// Returns what the operator says about every agent.
    pub(crate) fn operator(&self) -> anyhow::Result<Operator> {
        let Content { policy, egress, .. } = self.content(&self.text()?)?;
        egress.check().map_err(|why| self.bad(format!("[egress]: {why}")))?;
        Ok(Operator { floor: policy.floor, egress: Arc::new(egress) })
    }

    /// Returns the MCP servers to mount.
    pub(crate) fn servers(&self) -> anyhow::Result<Vec<MountConfig>> {
        Ok(self.configured()?.servers)
    }

    /// The same, with the digest of the file that says so.
    pub(crate) fn configured(&self) -> anyhow::Result<DeclaredServers> {
        self.parsed(&self.text()?)
    }

    /// Returns what the file has become since `obeyed`, as far as a running server may obey it:
    /// nothing if it is the same.
    pub(crate) fn change_since(&self, obeyed: Digest) -> anyhow::Result<Option<Change>> {
        let text = self.untrusted_text()?;
        let digest = Digest::of_bytes(text.as_bytes());
        if digest == obeyed {
            return Ok(None);
        }
        if !trust::allows_change(self.path(), &text) {
            return Ok(Some(Change::Untrusted(digest)));
        }
        self.parsed(&text).map(Change::Obeyed).map(Some)
    }

    fn parsed(&self, text: &str) -> anyhow::Result<DeclaredServers> {
        let servers = self.content(text)?.mcp.servers.into_iter();
        let configs = servers.map(|(name, declared)| {
            let at = format!("[mcp.servers.{name}]");
            let config = declared.config(name);
            Ok(config.map_err(|error| self.bad(format!("{at}: {}", causes(&error))))?)
        });
        let servers = configs.collect::<anyhow::Result<_>>()?;
        Ok(DeclaredServers { servers, digest: Digest::of_bytes(text.as_bytes()) })
    }

    /// Adds a server at the end; the rest of the file stays as it is. Returns what is in it now.
    pub(crate) fn add_server(
        &self,
        name: &ToolName,
        declared: &Declared,
    ) -> anyhow::Result<String> {
        let text = self.text()?;
        let mut wanted = self.content(&text)?;
        if wanted.mcp.servers.insert(name.clone(), declared.clone()).is_some() {
            let what = format!("`{name}` is in `{}` already", self.path().display());
            let next = format!("remove it first with `haft mcp remove {name}`");
            return Err(Trouble::new(Code::BadConfig, what).next(next).into());
        }
        let gap = if text.is_empty() { "" } else { "\n" };
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let added = format!("{text}{end}{gap}{}", table(name, declared));
        self.replace(&added, &wanted)?;
        Ok(added)
    }

    /// Takes a server out. Returns what is left in the file.
    pub(crate) fn remove_server(&self, name: &ToolName) -> anyhow::Result<String> {
        let text = self.text()?;
        let mut wanted = self.content(&text)?;
        if wanted.mcp.servers.remove(name).is_none() {
            let what = format!("there is no server `{name}` in `{}`", self.path().display());
            let next = "`haft mcp list` lists what a running `haft serve` has mounted";
            return Err(Trouble::new(Code::BadConfig, what).next(next).into());
        }
        let left = without(&text, name);
        self.replace(&left, &wanted)?;
        Ok(left)
    }

    /// Reads the file as far as it may be obeyed: one that was named is its namer's word, another
    /// has to be trusted.
    fn text(&self) -> anyhow::Result<String> {
        let text = self.untrusted_text()?;
        if self.is_usual() {
            trust::require(self.path(), &text)?;
        }
        Ok(text)
    }

    /// Reads the file, to show it and not to obey it.
    pub(crate) fn untrusted_text(&self) -> anyhow::Result<String> {
        match fs::read_to_string(self.path()) {
            Ok(text) => Ok(text),
            // Nobody has to have one; one that was named is expected to be there.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.is_usual() => {
                Ok(String::new())
            }
            Err(error) => Err(self.bad(error).into()),
        }
    }

    fn bad(&self, why: impl std::fmt::Display) -> Trouble {
        Trouble::new(Code::BadConfig, format!("`{}` cannot be used", self.path().display()))
            .why(why)
            .next("correct it, or name another file with --config")
    }

    const fn is_usual(&self) -> bool {
        self.named.is_none()
    }

    fn content(&self, text: &str) -> anyhow::Result<Content> {
        let content: Content = toml::from_str(text).map_err(|error| self.bad(error))?;
        // A server that is written where nobody looks would silently not be mounted.
        let table = |rest: &toml::Table| {
            rest.iter().find(|(_, value)| value.is_table()).map(|(name, _)| name.clone())
        };
        if let Some(name) = table(&content.mcp.rest) {
            return Err(self.bad(format!("expected `[mcp.servers]`, found `[mcp.{name}]`")).into());
        }
        // So would a floor that is written elsewhere silently not hold.
        if let Some(name) = table(&content.policy.rest) {
            let why = format!("expected `[policy.floor]`, found `[policy.{name}]`");
            return Err(self.bad(why).into());
        }
        Ok(content)
    }

    /// Puts another file in its place, which nobody can have prepared: a link under a name that can
    /// be guessed would lead the writing elsewhere.
    fn put(&self, text: &str) -> io::Result<()> {
        let mode = fs::metadata(self.path()).map_or(0o644, |found| found.permissions().mode());
        let parent = self.path().parent().filter(|parent| !parent.as_os_str().is_empty());
        let mut beside = tempfile::NamedTempFile::new_in(parent.unwrap_or_else(|| Path::new(".")))?;
        beside.write_all(text.as_bytes())?;
        beside.as_file().set_permissions(fs::Permissions::from_mode(mode & 0o777))?;
        beside.as_file().sync_all()?;
        beside.persist(self.path())?;
        Ok(())
    }

    /// Writes the file anew, if that says what is wanted and nothing else.
    fn replace(&self, text: &str, wanted: &Content) -> anyhow::Result<()> {
        let path = self.path().display();
        if self.content(text).ok().as_ref() != Some(wanted) {
            let what = format!("`{path}` is written in a way that cannot be changed from here");
            return Err(Trouble::new(Code::BadConfig, what).next("edit it by hand").into());
        }
        self.put(text).map_err(|error| {
            let what = format!("`{path}` cannot be written");
            let next = "edit it by hand, or name another file with --config";
            Trouble::new(Code::BadConfig, what).why(error).next(next)
        })?;
        Ok(())
    }
}

/// Writes down what a sandboxed server sees.
fn root(root: &SandboxRoot) -> String {
    let SandboxRoot { host, at, write } = root;
    format!("{{ host = {}, at = {}, write = {write} }}", quoted(host), quoted(at))
}

/// Writes down what a sandboxed server reaches.
fn reached(networking: &Networking) -> String {
    match networking {
        Networking::Unrestricted {} => "type = \"unrestricted\"".to_owned(),
        Networking::Limited { allowed_hosts } => {
            let hosts: Vec<String> =
                allowed_hosts.iter().map(|host| quoted(&host.to_string())).collect();
            format!("type = \"limited\", allowed_hosts = [{}]", hosts.join(", "))
        }
    }
}

/// Writes a server down.
fn table(name: &ToolName, declared: &Declared) -> String {
    let mut lines = vec![format!("[mcp.servers.{name}]")];
    if !declared.command.is_empty() {
        let words: Vec<String> = declared.command.iter().map(|word| quoted(word)).collect();
        lines.push(format!("command = [{}]", words.join(", ")));
    }
    lines.extend(declared.url.as_ref().map(|url| format!("url = {}", quoted(url))));
    for (member, given) in [("env", &declared.env), ("headers", &declared.headers)] {
        let pairs = given.iter().map(|(name, value)| {
            format!("{} = {}", quoted(name), quoted(&String::from(value.clone())))
        });
        let pairs: Vec<String> = pairs.collect();
        if !pairs.is_empty() {
            lines.push(format!("{member} = {{ {} }}", pairs.join(", ")));
        }
    }
    if declared.sandbox {
        lines.push("sandbox = true".to_owned());
    }
    if !declared.roots.is_empty() {
        let roots: Vec<String> = declared.roots.iter().map(root).collect();
        lines.push(format!("roots = [{}]", roots.join(", ")));
    }
    lines.extend(
        declared.networking.as_ref().map(|it| format!("networking = {{ {} }}", reached(it))),
    );
    lines.extend(declared.oauth.as_ref().map(|oauth| format!("oauth = {{ {} }}", client(oauth))));
    let numbers = [
        ("timeout", declared.timeout),
        ("start_timeout", declared.start_timeout),
        ("max_concurrent", declared.max_concurrent.map(u64::from)),
        ("max_tools", declared.max_tools.map(u64::from)),
        ("max_message_bytes", declared.max_message_bytes),
    ];
    let given = numbers.into_iter().filter_map(|(name, number)| Some((name, number?)));
    lines.extend(given.map(|(name, number)| format!("{name} = {number}")));
    let limits = declared.tool_limits.iter();
    let limits: Vec<String> = limits.map(|(tool, n)| format!("{} = {n}", quoted(tool))).collect();
    if !limits.is_empty() {
        lines.push(format!("tool_limits = {{ {} }}", limits.join(", ")));
    }
    if !declared.unchecked_output.is_empty() {
        let names: Vec<String> = declared.unchecked_output.iter().map(|it| quoted(it)).collect();
        lines.push(format!("unchecked_output = [{}]", names.join(", ")));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Writes down who this node is at a server.
fn client(oauth: &OAuth) -> String {
    let secret = oauth.client_secret.clone().map(String::from);
    let grant = match oauth.grant {
        Grant::AuthorizationCode => None,
        Grant::ClientCredentials => Some("client_credentials".to_owned()),
    };
    let said = [
        ("grant", grant),
        ("client_id", oauth.client_id.clone()),
        ("client_secret", secret),
        ("client_metadata_url", oauth.client_metadata_url.clone()),
    ];
    let said = said.into_iter().filter_map(|(name, value)| Some((name, quoted(&value?))));
    let mut pairs: Vec<String> = said.map(|(name, value)| format!("{name} = {value}")).collect();
    if !oauth.scopes.is_empty() {
        let scopes: Vec<String> = oauth.scopes.iter().map(|scope| quoted(scope)).collect();
        pairs.push(format!("scopes = [{}]", scopes.join(", ")));
    }
    pairs.join(", ")
}

/// What JSON escapes, TOML reads in the same way.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// Leaves out the tables of a server.
fn without(text: &str, name: &ToolName) -> String {
    let (own, within) = (format!("[mcp.servers.{name}]"), format!("[mcp.servers.{name}."));
    let mut is_theirs = false;
    let kept = text.lines().filter(|line| {
        let line = line.trim();
        if line.starts_with('[') {
            is_theirs = line.starts_with(&own) || line.starts_with(&within);
        }
        !is_theirs
    });
    let mut kept: Vec<&str> = kept.collect();
    while kept.last().is_some_and(|line| line.is_empty()) {
        kept.pop();
    }
    kept.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use haft_mcp::Setting;

    fn declared() -> Declared {
        let secret = Setting::try_from("vault://v/e".to_owned()).unwrap();
        Declared {
            command: ["sh", "-c", "echo \"a\\b\"\n"].map(str::to_owned).to_vec(),
            env: [("TOKEN".to_owned(), secret)].into(),
            timeout: Some(5),
            start_timeout: Some(30),
            max_concurrent: Some(4),
            tool_limits: [("search it".to_owned(), 2)].into(),
            max_message_bytes: Some(1 << 20),
            max_tools: Some(20),
            unchecked_output: ["search it".to_owned()].into(),
            ..Declared::default()
        }
    }

    #[test]
    fn a_server_is_added_and_taken_out_and_the_rest_of_the_file_stays() {
        let directory = tempfile::tempdir().unwrap();
        let file = ConfigFile::at(directory.path().join("haft.toml"));
        let before = "# ours\n[mcp.servers.docs]\nurl = \"https://docs.example/mcp\" # theirs\n";
        fs::write(file.path(), before).unwrap();
        let name = ToolName::new("files").unwrap();
        file.add_server(&name, &declared()).unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        assert!(text.starts_with(before), "{text}");
        let servers = file.servers().unwrap();
        let known = servers.iter().find(|server| server.name == name).unwrap();
        assert_eq!(*known, declared().config(name.clone()).unwrap());
        assert!(file.add_server(&name, &declared()).is_err());
        file.remove_server(&name).unwrap();
        assert_eq!(fs::read_to_string(file.path()).unwrap(), before);
        assert!(file.remove_server(&name).is_err());
    }

    #[test]
    fn who_this_node_is_at_a_server_is_written_down_as_it_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let file = ConfigFile::at(directory.path().join("haft.toml"));
        fs::write(file.path(), "").unwrap();
        let oauth = OAuth {
            grant: Grant::ClientCredentials,
            client_id: Some("haft".to_owned()),
            client_secret: Some(Setting::try_from("vault://v/e".to_owned()).unwrap()),
            client_metadata_url: Some("https://haft.example/client.json".to_owned()),
            scopes: vec!["read".to_owned(), "write".to_owned()],
        };
        let url = Some("https://docs.example/mcp".to_owned());
        let declared = Declared { url, oauth: Some(oauth), ..Declared::default() };
        let name = ToolName::new("docs").unwrap();
        file.add_server(&name, &declared).unwrap();
        assert_eq!(file.servers().unwrap(), [declared.config(name).unwrap()]);
        let refused = |oauth: &str| {
            let text = format!("[mcp.servers.a]\nurl = \"http://y/\"\noauth = {{ {oauth} }}");
            fs::write(file.path(), text).unwrap();
            format!("{:#}", file.servers().unwrap_err())
        };
        let open = refused("client_id = \"a\", client_secret = \"s3cret\"");
        assert!(open.contains("keep it in a vault") && !open.contains("s3cret"), "{open}");
        let alone = refused("grant = \"client_credentials\"");
        assert!(alone.contains("needs a `client_id`"), "{alone}");
        let insecure = refused("client_metadata_url = \"http://y/c.json\"");
        assert!(insecure.contains("begins with `https://`"), "{insecure}");
    }

    #[test]
    fn what_cannot_be_a_server_is_refused_with_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let file = ConfigFile::at(directory.path().join("haft.toml"));
        let refused = |text: &str| {
            fs::write(file.path(), text).unwrap();
            format!("{:#}", file.servers().unwrap_err())
        };
        let both = refused("[mcp.servers.a]\ncommand = [\"x\"]\nurl = \"http://y/\"");
        assert!(both.contains("[mcp.servers.a]") && both.contains("either `command`"), "{both}");
        let open = refused(
            "[mcp.servers.a]\nurl = \"http://y/\"\nheaders = { Authorization = \"Bearer x\" }",
        );
        assert!(open.contains("keep it in a vault"), "{open}");
        assert!(refused("[mcp.server.a]").contains("expected `[mcp.servers]`"));
        fs::write(file.path(), "data = \"here\"\n[mcp]\nuser = \"ann\"\n").unwrap();
        assert!(file.servers().unwrap().is_empty(), "other settings are others' business");
        let named = ConfigFile::at(directory.path().join("other.toml"));
        assert!(named.servers().is_err(), "a file that was named has to be there");
    }
}
