//! A throw-away PostgreSQL on loopback, with durability as it comes.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail};

use super::findings::said;
use crate::programs;

/// A running server, stopped and removed when it is dropped.
pub(super) struct Database {
    programs: PathBuf,
    directory: PathBuf,
    port: u16,
}

impl Database {
    pub(super) fn start() -> anyhow::Result<Self> {
        let programs = programs::postgresql().context("PostgreSQL is not installed")?;
        // PostgreSQL runs as a user of its own, who may not enter everyone's directories.
        let directory = std::env::temp_dir().join(format!("haft-bench-pg-{}", std::process::id()));
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let database = Self { programs, directory, port };
        let data = database.directory.display().to_string();
        database.run("initdb", &["-A", "trust", "-U", "postgres", "-E", "UTF8", "-D", &data])?;
        let options = format!(
            "-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' \
             -c max_connections=300 -c shared_buffers=256MB"
        );
        let log = database.directory.join("log").display().to_string();
        database.run("pg_ctl", &["start", "-w", "-D", &data, "-l", &log, "-o", &options])?;
        Ok(database)
    }

    /// Makes an empty database and returns its address.
    pub(super) fn fresh(&self, name: &str) -> anyhow::Result<String> {
        let port = self.port.to_string();
        self.run("createdb", &["-h", "127.0.0.1", "-p", &port, "-U", "postgres", name])?;
        Ok(format!("postgresql://postgres@127.0.0.1:{port}/{name}"))
    }

    fn run(&self, program: &str, arguments: &[&str]) -> anyhow::Result<()> {
        let path = self.programs.join(program);
        let mut command = match is_root() {
            true => Command::new("runuser"),
            false => Command::new(&path),
        };
        if is_root() {
            command.args(["-u", "postgres", "--"]).arg(&path);
        }
        match said(command.args(arguments).current_dir("/")) {
            Ok(_) => Ok(()),
            Err(reason) => bail!("{program}: {reason}"),
        }
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

impl Drop for Database {
    fn drop(&mut self) {
        let data = self.directory.display().to_string();
        if let Err(error) = self.run("pg_ctl", &["stop", "-m", "immediate", "-D", &data]) {
            eprintln!("the database could not be stopped: {error:#}");
        }
        // Left behind in the temporary directory at worst.
        drop(fs::remove_dir_all(&self.directory));
    }
}
