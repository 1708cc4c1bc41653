//! The peers: installed from their registries, run by the scripts in `bench/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::database::Database;
use super::findings::{Measured, Named, Point, figures, number, said};
use super::servers::Recipe;
use crate::metadata;

/// Which members of the Python environment stand for which peer.
const PACKAGES: [(&str, &str); 6] = [
    ("MCP's Python SDK", "mcp"),
    ("LangGraph", "langgraph"),
    ("DBOS", "dbos"),
    ("LangChain", "langchain-core"),
    ("Pydantic AI", "pydantic-ai-slim"),
    ("OpenAI Agents", "openai-agents"),
];

/// How `bench/rust/dispatch` calls each.
const RUST_DISPATCH: [(&str, &str); 2] = [("rig", "rig"), ("rmcp, its router alone", "rmcp")];

/// How `bench/dispatch.py` calls each.
const DISPATCH: [(&str, &str); 4] = [
    ("OpenAI Agents", "openai_agents"),
    ("Pydantic AI", "pydantic_ai"),
    ("LangChain", "langchain"),
    ("no framework, in Python", "floor"),
];

/// Peers of which nothing is measured here, and why.
const LEFT_OUT: [(&str, &str); 1] = [("Temporal", "its server is in none of the registries")];

pub(super) struct Peers {
    scripts: PathBuf,
    scratch: PathBuf,
    /// The Python that has them, or why there is none.
    python: Measured<PathBuf>,
    /// Where Restate is, or why it is not.
    restate: Measured<PathBuf>,
    /// Where the TypeScript server is, or why it is not.
    typescript: Measured<PathBuf>,
    /// Where the Rust programs for MCP are, or why they are not.
    rust_mcp: Measured<PathBuf>,
    /// The same for calls in one process.
    rust_dispatch: Measured<PathBuf>,
}

impl Peers {
    pub(super) fn install(root: &Path, scratch: &Path) -> Self {
        let scripts = root.join("bench");
        let python = install_python(&scripts, &scratch.join("python"));
        let npm = |name: &str, files: &[&str]| {
            install_npm(&scripts.join(name), &scratch.join(name), files)
        };
        let restate = npm("restate", &["service.mjs", "measure.mjs"]);
        let typescript = npm("mcp", &["server.mjs"]);
        let rust =
            |package: &str| build_rust(&scripts.join("rust"), &scratch.join("rust"), package);
        let (rust_mcp, rust_dispatch) = (rust("bench-mcp"), rust("bench-dispatch"));
        let scratch = scratch.to_owned();
        Self { scripts, scratch, python, restate, typescript, rust_mcp, rust_dispatch }
    }

    /// What loads a server.
    pub(super) fn load(&self) -> Measured<PathBuf> {
        Ok(self.rust_mcp.clone()?.join("load"))
    }

    pub(super) fn bare_server(&self) -> Recipe {
        let program = self.rust_mcp.clone().map(|built| vec![built.join("rmcp_server")]);
        Recipe { name: "rmcp, bare", tool: "add", program, after: Vec::new() }
    }

    pub(super) fn bare_proxy(&self, url: String) -> Recipe {
        let program = self.rust_mcp.clone().map(|built| vec![built.join("rmcp_proxy")]);
        Recipe { name: "rmcp, bare", tool: "add", program, after: vec![url] }
    }

    pub(super) fn servers(&self) -> Vec<Recipe> {
        let typescript = self.typescript.clone().map(|installed| {
            vec![installed.join("node_modules/node/bin/node"), installed.join("server.mjs")]
        });
        let script = self.scripts.join("mcp/server.py");
        let python = self.python.clone().map(|python| vec![python, script]);
        let recipe = |name, program| Recipe { name, tool: "add", program, after: Vec::new() };
        vec![recipe("TypeScript SDK", typescript), recipe("Python SDK", python)]
    }

    fn script(&self, name: &str, arguments: &[&str]) -> Measured<Value> {
        let mut command = Command::new(self.python.as_ref().map_err(Clone::clone)?);
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        figures(command.arg(self.scripts.join(name)).args(arguments))
    }

    pub(super) fn durable(
        &self,
        database: &Database,
    ) -> anyhow::Result<Vec<Named<Measured<Value>>>> {
        let place = self.scratch.join("sqlite");
        drop(fs::remove_dir_all(&place));
        let place = place.display().to_string();
        let mut found = Vec::new();
        for (peer, script) in [("LangGraph", "langgraph_durable.py"), ("DBOS", "dbos_durable.py")] {
            let url = database.fresh(&peer.to_lowercase())?;
            let on = |database, at| self.script(script, &[database, at]);
            found.push(Named::new(&format!("{peer}, SQLite"), on("sqlite", &place)));
            found.push(Named::new(&format!("{peer}, PostgreSQL"), on("postgres", &url)));
        }
        found.push(Named::new("Restate", self.restate()));
        Ok(found)
    }

    fn restate(&self) -> Measured<Value> {
        let directory = self.restate.as_ref().map_err(Clone::clone)?;
        let mut command = Command::new(directory.join("node_modules/node/bin/node"));
        command.arg("measure.mjs").arg(self.scratch.join("restate-data"));
        figures(command.current_dir(directory))
    }

    /// What going on costs by the length of the history, from the answers about durability.
    pub(super) fn history(
        &self,
        durable: &[Named<Measured<Value>>],
    ) -> Vec<Named<Measured<Vec<Point>>>> {
        let curve = |value: &Value| {
            let by_history = value["resume_ms_by_history"].as_object()?;
            let point = |(size, cost): (&String, &Value)| {
                Some(Point { size: size.parse().ok()?, cost: cost.as_f64()? })
            };
            let mut points: Vec<Point> = by_history.iter().filter_map(point).collect();
            points.sort_by(|a, b| a.size.total_cmp(&b.size));
            Some(points)
        };
        let named = |named: &Named<Measured<Value>>| {
            let points = curve(named.found.as_ref().ok()?)?;
            Some(Named::new(&named.name, Ok(points)))
        };
        durable.iter().filter_map(named).collect()
    }

    pub(super) fn dispatch(&self, tools: &[u64]) -> Vec<Named<Measured<Vec<Point>>>> {
        let cost = |peer: &str, tools: u64| {
            let found = self.script("dispatch.py", &[peer, &tools.to_string()])?;
            Ok(Point { size: tools as f64, cost: number(&found, "us_per_call")? })
        };
        let curve = |peer: &str| tools.iter().map(|&tools| cost(peer, tools)).collect();
        let rust_curve =
            |peer: &str| tools.iter().map(|&tools| self.rust_call(peer, tools)).collect();
        let rust = RUST_DISPATCH.iter().map(|(name, peer)| Named::new(name, rust_curve(peer)));
        rust.chain(DISPATCH.iter().map(|(name, peer)| Named::new(name, curve(peer)))).collect()
    }

    fn rust_call(&self, peer: &str, tools: u64) -> Measured<Point> {
        let mut command = Command::new(self.rust_dispatch.clone()?.join("bench-dispatch"));
        let found = figures(command.arg(peer).arg(tools.to_string()))?;
        Ok(Point { size: tools as f64, cost: number(&found, "us_per_call")? })
    }

    pub(super) fn versions(&self) -> Vec<Named<Measured<String>>> {
        let python = |package: &str| {
            let program = self.python.as_ref().map_err(Clone::clone)?;
            let ask =
                format!("from importlib.metadata import version; print(version('{package}'))");
            said(Command::new(program).args(["-c", &ask]))
        };
        let mut found: Vec<_> =
            PACKAGES.iter().map(|(name, package)| Named::new(name, python(package))).collect();
        found.push(Named::new("Restate", self.restate_version()));
        found.push(Named::new("MCP's TypeScript SDK", self.typescript_version()));
        for (name, built) in [("rmcp", &self.rust_mcp), ("rig-core", &self.rust_dispatch)] {
            let version = built.as_ref().map_err(Clone::clone);
            let version = version.and_then(|_| locked(&self.scripts.join("rust/Cargo.lock"), name));
            found.push(Named::new(name, version));
        }
        let left_out = LEFT_OUT.iter().map(|(name, why)| Named::new(name, Err((*why).to_owned())));
        found.extend(left_out);
        found
    }

    fn typescript_version(&self) -> Measured<String> {
        let installed = self.typescript.as_ref().map_err(Clone::clone)?;
        let package = "node_modules/@modelcontextprotocol/server/package.json";
        let text =
            fs::read_to_string(installed.join(package)).map_err(|error| error.to_string())?;
        let package: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        package["version"].as_str().map(str::to_owned).ok_or_else(|| "no version".to_owned())
    }

    fn restate_version(&self) -> Measured<String> {
        let directory = self.restate.as_ref().map_err(Clone::clone)?;
        said(Command::new(directory.join("node_modules/.bin/restate-server")).arg("--version"))
    }
}

fn install_python(scripts: &Path, environment: &Path) -> Measured<PathBuf> {
    let python = environment.join("bin/python");
    if !python.exists() {
        said(Command::new("python3").args(["-m", "venv"]).arg(environment))?;
    }
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
    said(install.arg(scripts.join("requirements.txt")))?;
    Ok(python)
}

/// Into a copy: Node.js looks for packages beside the scripts, and they do not belong there.
fn install_npm(scripts: &Path, copy: &Path, files: &[&str]) -> Measured<PathBuf> {
    let trouble = |error: std::io::Error| format!("the scripts cannot be copied: {error}");
    fs::create_dir_all(copy).map_err(trouble)?;
    for name in ["package.json"].iter().chain(files) {
        fs::copy(scripts.join(name), copy.join(name)).map_err(trouble)?;
    }
    let mut install = Command::new("npm");
    install.args(["install", "--no-audit", "--no-fund", "--loglevel=error"]);
    said(install.current_dir(copy))?;
    Ok(copy.to_owned())
}

/// Returns where the programs of a package are.
fn build_rust(scripts: &Path, target: &Path, package: &str) -> Measured<PathBuf> {
    let mut build = metadata::cargo();
    build.args(["build", "--release", "--locked", "--quiet", "-p", package, "--target-dir"]);
    said(build.arg(target).current_dir(scripts))?;
    Ok(target.join("release"))
}

/// Returns the version of a crate that a lock file names.
fn locked(lock: &Path, name: &str) -> Measured<String> {
    let text = fs::read_to_string(lock).map_err(|error| error.to_string())?;
    let entry = format!("name = \"{name}\"\nversion = \"");
    let version = text.split_once(&entry).and_then(|(_, rest)| rest.split_once('"'));
    version.map(|(version, _)| version.to_owned()).ok_or_else(|| "it is not locked".to_owned())
}
