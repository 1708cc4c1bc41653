//! X8: what an agent's commands reach, and what the operator's floor asks about, through the binary.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::commands::haft;
use crate::mcp::until;
use crate::outlived::BashModel;
use crate::serving::Serving;

/// A server of this machine that counts who comes, and says `reached`.
struct Local {
    port: u16,
    n_visits: Arc<AtomicU32>,
}

impl Local {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let n_visits = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&n_visits);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                counted.fetch_add(1, Ordering::Relaxed);
                // Whoever hangs up early was here all the same.
                drop(stream.read(&mut [0; 4096]));
                drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nreached"));
            }
        });
        Self { port, n_visits }
    }

    fn n_visits(&self) -> u32 {
        self.n_visits.load(Ordering::Relaxed)
    }
}

/// A server with an agent that runs whatever it is told, unasked by its own policy.
struct Place {
    server: Serving,
    agent: String,
    data: TempDir,
    _model: BashModel,
}

fn place(config: &str) -> Place {
    let (model, data) = (BashModel::start(), tempfile::tempdir().unwrap());
    let file = data.path().join("operator.toml");
    std::fs::write(&file, config).unwrap();
    let server = model.serve_with(data.path(), &["--config", file.to_str().unwrap()]);
    Place::over(server, data, model)
}

impl Place {
    fn over(server: Serving, data: TempDir, model: BashModel) -> Self {
        let policy = json!({ "permission_policy": { "type": "always_allow" } });
        let tools = json!([{ "type": "agent_toolset_20260401", "default_config": policy }]);
        let agent = json!({ "name": "runner", "model": "anthropic/claude-fake", "tools": tools });
        let agent = server.post("/v1/agents", &agent)["id"].as_str().unwrap().to_owned();
        Self { server, agent, data, _model: model }
    }

    fn environment(&self, networking: &Value) -> String {
        let config = json!({ "type": "cloud", "networking": networking });
        let wanted = json!({ "name": "an environment", "config": config });
        self.server.post("/v1/environments", &wanted)["id"].as_str().unwrap().to_owned()
    }

    /// Opens a session there and has it run a command.
    fn begin(&self, environment: &str, command: &str) -> String {
        let wanted = json!({ "agent": self.agent, "environment_id": environment });
        let session = self.server.post("/v1/sessions", &wanted)["id"].as_str().unwrap().to_owned();
        let text = json!({ "command": command }).to_string();
        let content = json!([{ "type": "text", "text": text }]);
        let events = json!({ "events": [{ "type": "user.message", "content": content }] });
        self.server.post(&format!("/v1/sessions/{session}/events"), &events);
        session
    }

    /// The same, to the end; what the command said.
    fn run(&self, networking: &Value, command: &str) -> String {
        let session = self.begin(&self.environment(networking), command);
        said(&self.server.until_idle(&session, "end_turn"))
    }
}

fn said(events: &[Value]) -> String {
    let results = events.iter().filter(|event| event["type"] == "agent.tool_result");
    results.map(|event| event["content"].to_string()).collect()
}

/// Tells the status of each address, as a program in the sandbox sees it.
fn visits(urls: &[String]) -> String {
    let each = urls.iter().map(|url| {
        format!(
            "curl -s -m 20 -o /tmp/body -w '%{{http_code}} ' {url}; cat /tmp/body 2>/dev/null; "
        )
    });
    each.collect::<String>() + "true"
}

#[test]
fn x8_unrestricted_networking_reaches_nothing_of_this_machine_or_its_network() {
    let place = place("");
    let local = Local::start();
    let port = local.port;
    let urls: Vec<String> = [
        format!("http://{}/healthz", place.server.address),
        format!("http://127.0.0.1:{port}/ --noproxy ''"),
        format!("http://localhost:{port}/ --noproxy ''"),
        format!("http://[::ffff:127.0.0.1]:{port}/ --noproxy ''"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://10.0.0.1/".to_owned(),
        "http://192.168.0.1/".to_owned(),
        "http://100.64.0.1/".to_owned(),
    ]
    .map(|url| format!("{url} --noproxy ''"))
    .to_vec();
    let unrestricted = json!({ "type": "unrestricted" });
    let told = place.run(&unrestricted, &visits(&urls));
    assert_eq!(told.matches("403").count(), urls.len(), "{told}");
    assert!(told.contains("not an address of the public internet"), "{told}");
    // Around the proxy there is nothing at all.
    let around = format!(
        "for host in 127.0.0.1 169.254.169.254 1.1.1.1; do \
         (echo x > /dev/tcp/$host/{port}) 2>/dev/null && echo REACHED; done; echo over"
    );
    let told = place.run(&unrestricted, &around);
    assert!(told.contains("over") && !told.contains("REACHED"), "{told}");
    assert_eq!(local.n_visits(), 0);
}

#[test]
fn a_host_is_reached_where_the_environment_and_the_operator_allow_it() {
    let (near, far) = (Local::start(), Local::start());
    let config = format!(
        "[egress]\npackage_hosts = [\"packages.example:{far}\"]\ndeny = [\"bad.example\"]\n\
         [egress.resolve]\n\"api.example:{near}\" = \"127.0.0.1\"\n\
         \"bad.example:{near}\" = \"127.0.0.1\"\n\"packages.example:{far}\" = \"127.0.0.1\"\n",
        near = near.port,
        far = far.port,
    );
    let place = place(&config);
    let [api, bad] = ["api", "bad"].map(|name| format!("http://{name}.example:{}/", near.port));
    let packages = format!("http://packages.example:{}/", far.port);
    let urls = [api.clone(), bad, packages.clone()];
    let allowed = format!("api.example:{}", near.port);
    let limited = json!({ "type": "limited", "allowed_hosts": [allowed] });
    let told = place.run(&limited, &visits(&urls));
    assert!(told.contains("200 reached"), "{told}");
    assert_eq!((told.matches("200").count(), told.matches("403").count()), (1, 2), "{told}");
    assert_eq!((near.n_visits(), far.n_visits()), (1, 0));
    let limited = json!({ "type": "limited", "allow_package_managers": true });
    let told = place.run(&limited, &visits(&urls));
    assert_eq!((near.n_visits(), far.n_visits()), (1, 1), "{told}");
    let told = place.run(&json!({ "type": "limited" }), &visits(&[api]));
    assert!(told.contains("000"), "no network at all: {told}");
    let python =
        format!("python3 -c 'import urllib.request as u; print(u.urlopen(\"{packages}\").read())'");
    let told = place.run(&json!({ "type": "unrestricted" }), &python);
    assert!(told.contains("reached"), "{told}");
}

#[test]
fn networking_that_is_not_given_is_refused_by_name() {
    let place = place("");
    let refused = |networking: Value| {
        let config = json!({ "type": "cloud", "networking": networking });
        let wanted = json!({ "name": "an environment", "config": config });
        let (status, answer) = place.server.ask("POST", "/v1/environments", &wanted);
        assert_eq!(status, 400, "{answer}");
        answer["error"]["message"].as_str().unwrap().to_owned()
    };
    assert!(refused(json!({ "type": "host" })).contains("`host_network = true`"));
    let managers = json!({ "type": "limited", "allow_package_managers": true });
    assert!(refused(managers).contains("package_hosts"));
    let hosts = json!({ "type": "limited", "allowed_hosts": ["https://x.example/"] });
    assert!(refused(hosts).contains("https://x.example/"));
    let both = json!({ "type": "unrestricted", "allowed_hosts": ["x.example"] });
    assert!(refused(both).contains("allowed_hosts"));
}

/// The agent's own policy allows everything, and still somebody is asked.
#[test]
fn x8_nothing_runs_unasked_on_the_hosts_own_network() {
    let local = Local::start();
    let place = place("[egress]\nhost_network = true\n");
    let environment = place.environment(&json!({ "type": "host" }));
    let url = format!("http://127.0.0.1:{}/", local.port);
    let session = place.begin(&environment, &format!("curl -s {url}"));
    place.server.until_idle(&session, "requires_action");
    assert_eq!(local.n_visits(), 0, "nobody was asked yet");
    let waits = place.server.get("/haft/v1/pending");
    let call = waits["data"][0]["call"].as_str().unwrap().to_owned();
    let explained = haft(place.data.path(), &["policy", "explain", &call]);
    let reason = "the operator's floor asks about processes on the host's own network";
    assert!(explained.stdout.contains(reason), "{} {}", explained.stdout, explained.stderr);
    let approved = haft(place.data.path(), &["approve", &call]);
    assert_eq!(approved.code, 0, "{}", approved.stderr);
    until(|| (local.n_visits() == 1).then_some(()));
}

#[test]
fn the_operators_floor_asks_by_what_a_tool_does() {
    let place = place("[policy.floor]\nprocess = \"ask\"\n");
    let environment = place.environment(&json!({ "type": "limited" }));
    let session = place.begin(&environment, "echo hi");
    place.server.until_idle(&session, "requires_action");
    let denied = self::place("[policy.floor]\nprocess = \"deny\"\n");
    let environment = denied.environment(&json!({ "type": "limited" }));
    let session = denied.begin(&environment, "echo hi");
    let told = said(&denied.server.until_idle(&session, "end_turn"));
    assert!(told.contains("the operator's floor denies what starts processes"), "{told}");
}

fn written(directory: &Path, config: &str) -> PathBuf {
    let file = directory.join("haft.toml");
    std::fs::write(&file, config).unwrap();
    file
}

/// Writes a configuration and has its user trust it.
fn trusted(directory: &Path, config: &str) {
    written(directory, config);
    assert_eq!(haft(directory, &["trust", "--yes"]).code, 0, "{config}");
}

#[test]
fn what_cannot_be_a_floor_or_an_egress_is_refused_by_name() {
    let place = tempfile::tempdir().unwrap();
    let refused = |config: &str| {
        trusted(place.path(), config);
        let run = haft(place.path(), &["tools", "list"]);
        assert_ne!(run.code, 0, "{config}");
        assert!(run.stderr.contains("`haft.toml` cannot be used"), "{}", run.stderr);
        run.stderr
    };
    assert!(refused("[policy.floor]\nproces = \"ask\"\n").contains("`proces`"));
    assert!(refused("[policy.floor]\nprocess = \"perhaps\"\n").contains("`perhaps`"));
    assert!(refused("[policy.flor]\nprocess = \"ask\"\n").contains("[policy.flor]"));
    assert!(refused("[egress]\nhosts = []\n").contains("`hosts`"));
    assert!(refused("[egress]\ndeny = [\"a b\"]\n").contains("a b"));
    trusted(place.path(), "[policy.floor]\nprocess = \"ask\"\n[egress]\ndeny = [\"x.example\"]\n");
    assert_eq!(haft(place.path(), &["tools", "list"]).code, 0);
}

/// A TLS server at a port that only root may have; nothing for an ordinary user. It says what it was
/// sent.
fn tls_echo(address: &str, key: &rcgen::CertifiedKey<rcgen::KeyPair>) -> bool {
    let Ok(listener) = TcpListener::bind((address, 443)) else { return false };
    let certificate = key.cert.der().clone();
    let private = PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], private)
        .unwrap();
    let config = Arc::new(config);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream);
            let mut buffer = [0; 4096];
            let count = stream.read(&mut buffer).unwrap_or(0);
            // Told in another form, so that nobody takes the secret's own words for a leak.
            let head = String::from_utf8_lossy(&buffer[..count]).to_ascii_uppercase();
            let is_let_in = head.contains("AUTHORIZATION: BEARER S3CRET-OF-THE-VAULT");
            let said = if is_let_in { "let in" } else { "not let in" };
            let length = said.len();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{said}");
            drop(stream.write_all(answer.as_bytes()));
            drop(stream.flush());
        }
    });
    true
}

#[test]
fn a_credential_is_added_outside_and_never_enters_the_sandbox() {
    let id = std::process::id();
    let address = format!("127.{}.{}.7", 1 + (id >> 8) % 250, id % 250);
    let key = rcgen::generate_simple_self_signed(["api.example".to_owned()]).unwrap();
    if !tls_echo(&address, &key) {
        return;
    }
    let (model, data) = (BashModel::start(), tempfile::tempdir().unwrap());
    let server = Serving::start(data.path(), None);
    let vault = server.post("/v1/vaults", &json!({ "display_name": "keys" }));
    let vault = vault["id"].as_str().unwrap().to_owned();
    let auth = json!({
        "type": "environment_variable", "secret_name": "KEY",
        "secret_value": "s3cret-of-the-vault", "networking": { "type": "unrestricted" },
    });
    let path = format!("/v1/vaults/{vault}/credentials");
    let entry = server.post(&path, &json!({ "auth": auth }))["id"].as_str().unwrap().to_owned();
    let admin = server.key.clone();
    drop(server);
    let (file, roots) = (data.path().join("operator.toml"), data.path().join("roots.pem"));
    std::fs::write(&roots, key.cert.pem()).unwrap();
    let config = format!(
        "[egress.resolve]\n\"api.example:443\" = \"{address}\"\n\
         [egress.credentials.\"api.example\"]\nheader = \"Authorization\"\n\
         value = \"Bearer vault://{vault}/{entry}\"\n"
    );
    std::fs::write(&file, config).unwrap();
    let mut command = Serving::command(data.path(), &["--config", file.to_str().unwrap()]);
    command.env("SSL_CERT_FILE", &roots);
    let server = model.serve_by(command, Some(&admin));
    let place = Place::over(server, data, model);
    let unrestricted = json!({ "type": "unrestricted" });
    let told = place.run(&unrestricted, "curl -s -m 20 http://api.example/x; env; set");
    assert!(told.contains("let in") && !told.contains("not let in"), "{told}");
    assert!(!told.contains("s3cret"), "{told}");
    let forged = "curl -s -m 20 -H 'Authorization: Bearer other' http://api.example/x";
    let told = place.run(&unrestricted, forged);
    assert!(told.contains("let in") && !told.contains("not let in"), "{told}");
    let limited = json!({ "type": "limited", "allowed_hosts": ["other.example"] });
    let told = place.run(&limited, "curl -s -m 20 http://api.example/x");
    assert!(told.contains("not among the hosts"), "{told}");
}
