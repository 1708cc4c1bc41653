//! Finding whoever answers.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haft_http::{Client, Endpoint, Reach as AddressReach, Scheme, Timeouts, Trust};
use haft_store::Store;

use super::local::Local;
use super::note::ServerNote;
use super::{Api, Transport};
use crate::place::{Place, is_in_use};
use crate::serve::ModelArgs;
use crate::trouble::{Code, Trouble};

/// How long a server may take from having its store to saying where it is.
const STARTING_MAX: Duration = Duration::from_secs(3);

/// How a command reaches Haft: a running server, else the store itself.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Reach {
    /// A running server. Without it, the one that serves the data directory, else the store.
    #[arg(long, value_name = "URL", env = "HAFT_SERVER", help_heading = "Where")]
    server: Option<String>,
    /// A PEM file of certificate authorities to trust beside the system's, for an `https://`
    /// server.
    #[arg(long, value_name = "FILE", env = "HAFT_CA_FILE", help_heading = "Where")]
    ca_file: Option<PathBuf>,
    #[arg(long, env = "HAFT_API_KEY", hide = true, hide_env_values = true)]
    api_key: Option<String>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    models: ModelArgs,
    /// Prints JSON, for programs.
    #[arg(long)]
    json: bool,
}

/// What a command needs of a store when no server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreUse {
    /// What it asks about is in a store.
    Existing,
    /// It begins something, so a store is made.
    Made,
    /// It asks about what every node knows; without a store, one is made that is gone afterwards.
    Any,
}

/// Where keys and journals are kept.
pub(crate) enum ServerOrStore {
    Server(Api),
    Store(Store),
}

impl Reach {
    pub(crate) fn wants_json(&self) -> bool {
        self.json
    }

    /// The server that was named.
    pub(crate) fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    pub(crate) fn models(&self) -> &ModelArgs {
        &self.models
    }

    pub(crate) fn data(&self) -> &Path {
        &self.place.data
    }

    pub(crate) async fn connect(&self, need: StoreUse) -> anyhow::Result<Api> {
        let deadline = Instant::now() + STARTING_MAX;
        loop {
            if let Some(api) = self.running().await? {
                return Ok(api);
            }
            match self.local(need).await {
                Err(error) if is_in_use(&error) => self.wait_for_server(deadline, error).await?,
                found => return Ok(Api { transport: Transport::InProcess(found?) }),
            }
        }
    }

    /// The running server, or the store without a node: for what needs no session to be looked at.
    pub(crate) async fn server_or_store(&self, need: StoreUse) -> anyhow::Result<ServerOrStore> {
        let deadline = Instant::now() + STARTING_MAX;
        loop {
            if let Some(api) = self.running().await? {
                return Ok(ServerOrStore::Server(api));
            }
            if need == StoreUse::Existing && !self.is_there() {
                return Err(self.nothing_there().into());
            }
            match self.place.open().await {
                Err(error) if is_in_use(&error) => self.wait_for_server(deadline, error).await?,
                opened => return Ok(ServerOrStore::Store(opened?)),
            }
        }
    }

    /// Whoever has the store may be a server that is about to say where it is.
    async fn wait_for_server(&self, deadline: Instant, error: anyhow::Error) -> anyhow::Result<()> {
        if Instant::now() >= deadline {
            return Err(error);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok(())
    }

    /// The server that was named, else the one that serves the data directory, if one answers.
    pub(crate) async fn running(&self) -> anyhow::Result<Option<Api>> {
        let Some(server) = &self.server else { return self.noted().await };
        let noted = ServerNote::find(&self.place.data).filter(|note| note.address == *server);
        // A note may lie in a directory that came from elsewhere: one's own key goes to the server
        // that it describes on this machine only, and an authority that was named comes first.
        let is_believed = |note: &&ServerNote| {
            self.ca_file.is_none() && (self.api_key.is_none() || note.is_on_this_machine())
        };
        let client = match noted.as_ref().filter(is_believed) {
            Some(note) => client_of(note)?,
            None => client(server, || self.trust())?,
        };
        let key = self.api_key.clone().or_else(|| noted.map(|note| note.key)).ok_or_else(no_key)?;
        Ok(Some(over_http(client, server, key)))
    }

    /// The server that serves the data directory, if one answers.
    async fn noted(&self) -> anyhow::Result<Option<Api>> {
        if let Some(note) = ServerNote::find(&self.place.data) {
            // A note may lie in a directory that came from elsewhere: one's own key goes to this
            // machine only.
            let own = self.api_key.clone().filter(|_| note.is_on_this_machine());
            let api = over_http(client_of(&note)?, &note.address, own.unwrap_or(note.key));
            match api.get("/haft/v1/me").await {
                Err(error) if error.code() == Code::Unreachable.word() => {}
                answered => return answered.map(|_| Some(api)).map_err(Into::into),
            }
        }
        Ok(None)
    }

    /// Whom a server that was named must be vouched for by.
    fn trust(&self) -> Result<Trust, Trouble> {
        let roots = match &self.ca_file {
            Some(path) => read_roots(path)?,
            None => Vec::new(),
        };
        Trust::with_roots(&roots).map_err(|error| {
            Trouble::new(Code::BadConfig, "no certificate authority is trusted here")
                .why(error)
                .next("name a PEM file of authorities with --ca-file")
        })
    }

    async fn local(&self, need: StoreUse) -> anyhow::Result<Local> {
        match (self.is_there(), need) {
            (true, _) | (false, StoreUse::Made) => Local::start(&self.place, &self.models).await,
            (false, StoreUse::Any) => Local::in_scratch(&self.models).await,
            (false, StoreUse::Existing) => Err(self.nothing_there().into()),
        }
    }

    /// Whether there is a store.
    pub(crate) fn is_there(&self) -> bool {
        self.place.database_url.is_some() || self.place.data.join("haft.db").exists()
    }

    pub(crate) fn nothing_there(&self) -> Trouble {
        let data = self.place.data.display();
        Trouble::new(Code::NoStore, format!("there is no Haft in `{data}`"))
            .why("no server was named, and the directory holds no store")
            .next(
                "name the directory with --data, a server with --server, or start with `haft chat`",
            )
    }
}

fn over_http(client: Client, base: &str, key: String) -> Api {
    Api { transport: Transport::Http { client, key, base: base.to_owned() } }
}

/// A client for the server that left a note, which trusts the certificate in it and no other.
fn client_of(note: &ServerNote) -> Result<Client, Trouble> {
    client(&note.address, || match &note.certificate {
        Some(pem) => {
            let certificate =
                haft_http::certificates(pem.as_bytes()).map_err(|error| bad_note(&error))?;
            let certificate = certificate.into_iter().next().unwrap_or_default();
            Trust::in_certificate(certificate).map_err(|error| bad_note(&error))
        }
        None => Trust::of_the_system().map_err(|error| bad_address(&error)),
    })
}

fn client(base: &str, trust: impl FnOnce() -> Result<Trust, Trouble>) -> Result<Client, Trouble> {
    let endpoint = Endpoint::new(base, "").map_err(|error| bad_address(&error))?;
    let made = match endpoint.scheme() {
        Scheme::Http => Client::new(endpoint, Timeouts::default(), &[]),
        Scheme::Https => {
            Client::reaching(AddressReach::Anywhere, endpoint, Timeouts::default(), &Ok(trust()?))
        }
    };
    made.map_err(|error| bad_address(&error))
}

fn bad_address(why: &dyn std::error::Error) -> Trouble {
    Trouble::new(Code::BadConfig, "what --server names is no server's address")
        .why(why)
        .next("write it as `http://HOST:PORT` or `https://HOST:PORT`, as `haft serve` prints it")
}

fn bad_note(why: &dyn std::error::Error) -> Trouble {
    Trouble::new(Code::Unreadable, "the certificate in `server.json` cannot be used")
        .why(why)
        .next("restart `haft serve`, which writes the file anew")
}

fn read_roots(path: &Path) -> Result<Vec<Vec<u8>>, Trouble> {
    let bad = |why: String| {
        Trouble::new(Code::BadConfig, format!("`{}` of --ca-file cannot be used", path.display()))
            .why(why)
            .next("name a PEM file of the authorities that vouch for the server")
    };
    let text = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
    haft_http::certificates(&text).map_err(|error| bad(error.to_string()))
}

fn no_key() -> Trouble {
    Trouble::new(Code::NoKey, "there is no key for this server")
        .why("a server is only opened by an API key")
        .next("set HAFT_API_KEY; `haft keys create` makes a key where the store is")
}
