//! `haft audit`: is the journal what was written?

use haft_core::SessionId;
use haft_store::{Page, SessionFilter, Store};

use crate::Verdict;
use crate::place::Place;

/// Checks the journal.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Verifies every session's hash chain.
    Verify {
        #[command(flatten)]
        place: Place,
        /// Only this session.
        #[arg(long)]
        session: Option<SessionId>,
    },
}

pub(crate) fn run(command: Command) -> anyhow::Result<Verdict> {
    let Command::Verify { place, session } = command;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = place.open().await?;
        let sessions = match session {
            Some(session) => vec![session],
            None => all_sessions(&store).await?,
        };
        let mut verdict = Verdict::Holds;
        for session in &sessions {
            match store.verify(*session).await {
                Ok(head) => println!("{session}: {} entries, whole", head.seq),
                Err(error) => {
                    println!("{session}: broken: {error}");
                    verdict = Verdict::Broken;
                }
            }
        }
        eprintln!("{} sessions verified", sessions.len());
        Ok(verdict)
    })
}

pub(crate) async fn all_sessions(store: &Store) -> anyhow::Result<Vec<SessionId>> {
    sessions(store, &SessionFilter::default()).await
}

pub(crate) async fn sessions(
    store: &Store,
    filter: &SessionFilter,
) -> anyhow::Result<Vec<SessionId>> {
    let mut sessions = Vec::new();
    loop {
        let page = Page { after: sessions.last().copied(), limit: 500 };
        let found = store.sessions(filter, &page).await?;
        if found.is_empty() {
            return Ok(sessions);
        }
        sessions.extend(found.into_iter().map(|listed| listed.session));
    }
}
