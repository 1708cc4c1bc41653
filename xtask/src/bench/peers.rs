//! The peers: installed from their registries, run by the scripts in `bench/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::database::Database;
use super::findings::{Measured, Named, Point, figures, number, said};

/// Which members of the Python environment stand for which peer.
const PACKAGES: [(&str, &str); 5] = [
    ("LangGraph", "langgraph"),
    ("DBOS", "dbos"),
    ("LangChain", "langchain-core"),
    ("Pydantic AI", "pydantic-ai-slim"),
    ("OpenAI Agents", "openai-agents"),
];

/// How `bench/dispatch.py` calls each.
const DISPATCH: [(&str, &str); 4] = [
    ("OpenAI Agents", "openai_agents"),
    ("Pydantic AI", "pydantic_ai"),
    ("LangChain", "langchain"),
    ("no framework, in Python", "floor"),
];

/// Peers of which nothing is measured here, and why.
const LEFT_OUT: [(&str, &str); 3] = [
    ("rmcp in one process", "no script for it yet; over MCP it is measured apart"),
    ("rig", "no script for it yet: its crates take longer to build than all the rest to run"),
    ("Temporal", "its server is in none of the registries"),
];

pub(super) struct Peers {
    scripts: PathBuf,
    scratch: PathBuf,
    /// The Python that has them, or why there is none.
    python: Measured<PathBuf>,
    /// Where Restate is, or why it is not.
    restate: Measured<PathBuf>,
}

impl Peers {
    pub(super) fn install(root: &Path, scratch: &Path) -> Self {
        let scripts = root.join("bench");
        let python = install_python(&scripts, &scratch.join("python"));
        let restate = install_restate(&scripts.join("restate"), &scratch.join("restate"));
        Self { scripts, scratch: scratch.to_owned(), python, restate }
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
        DISPATCH.iter().map(|(name, peer)| Named::new(name, curve(peer))).collect()
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
        let left_out = LEFT_OUT.iter().map(|(name, why)| Named::new(name, Err((*why).to_owned())));
        found.extend(left_out);
        found
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
fn install_restate(scripts: &Path, copy: &Path) -> Measured<PathBuf> {
    let trouble = |error: std::io::Error| format!("the scripts cannot be copied: {error}");
    fs::create_dir_all(copy).map_err(trouble)?;
    for name in ["package.json", "service.mjs", "measure.mjs"] {
        fs::copy(scripts.join(name), copy.join(name)).map_err(trouble)?;
    }
    let mut install = Command::new("npm");
    install.args(["install", "--no-audit", "--no-fund", "--loglevel=error"]);
    said(install.current_dir(copy))?;
    Ok(copy.to_owned())
}
