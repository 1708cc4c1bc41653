//! The hand of one session.

use haft_core::session::State;
use haft_core::{Actor, SessionId};
use haft_runtime::registry::Registry;
use haft_runtime::{Clock, ToolContext, ToolError, fresh_bits};
use haft_sandbox::environment::Variables;
use haft_sandbox::files::Files;
use haft_sandbox::policy::Policy;
use haft_sandbox::virtual_path::{PathError, VirtualPath};
use haft_store::{Expected, Place, Put, Store, Which};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::desk::Desk;
use super::live::OpenShell;
use super::masking::Secrets;
use super::mirror::{self, Contract};
use super::vault::Vaults;
use super::{HandsSettings, Workspace};

/// Where desks are stored.
const SPACE: &str = "shell-desk";

/// What one session works with.
#[derive(Debug)]
pub(crate) struct Hand {
    session: SessionId,
    workspace: Workspace,
    settings: HandsSettings,
    files: Files,
    vaults: Vaults,
    desk: Mutex<Desk>,
    shell: Mutex<Option<Arc<OpenShell>>>,
    recalled: tokio::sync::Mutex<Recalled>,
    /// What the model is told once, after the process was another.
    notice: Mutex<Option<String>>,
    /// Which contract the workspace shows.
    mirrored: Mutex<Option<Contract>>,
}

/// Why a file tool may not change something there.
#[derive(Debug)]
pub(crate) enum ChangeRefused {
    Path(PathError),
    /// It is what the runtime shows of itself.
    Mirror {
        path: VirtualPath,
    },
}

impl From<PathError> for ChangeRefused {
    fn from(error: PathError) -> Self {
        Self::Path(error)
    }
}

impl std::fmt::Display for ChangeRefused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path(error) => error.fmt(f),
            Self::Mirror { path } => {
                write!(f, "{path} is written by the runtime and read by nobody but you")
            }
        }
    }
}

/// Whether the desk of an earlier process was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recalled {
    NotYet,
    Done,
}

impl Hand {
    pub(super) fn new(session: SessionId, workspace: Workspace, settings: HandsSettings) -> Self {
        Self {
            session,
            files: Files::new(workspace.mounts.clone()),
            vaults: Vaults::open(&workspace.vaults),
            desk: Mutex::new(Desk::new(workspace.home.clone())),
            workspace,
            settings,
            shell: Mutex::new(None),
            recalled: tokio::sync::Mutex::new(Recalled::NotYet),
            notice: Mutex::new(None),
            mirrored: Mutex::new(None),
        }
    }

    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    pub(crate) fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    pub(crate) fn settings(&self) -> &HandsSettings {
        &self.settings
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    pub(crate) fn policy(&self) -> Policy {
        self.workspace.policy()
    }

    pub(crate) fn desk(&self) -> MutexGuard<'_, Desk> {
        locked(&self.desk)
    }

    /// The shell that is open, if one is.
    pub(crate) fn shell(&self) -> Option<Arc<OpenShell>> {
        locked(&self.shell).clone()
    }

    /// Puts another shell in the place of the one there was; that one ends when nobody uses it.
    pub(crate) fn put_shell(&self, shell: Option<Arc<OpenShell>>) -> Option<Arc<OpenShell>> {
        std::mem::replace(&mut *locked(&self.shell), shell)
    }

    /// What the model has not been told yet about an earlier process.
    pub(crate) fn take_notice(&self) -> Option<String> {
        locked(&self.notice).take()
    }

    /// The directory that relative paths start from.
    pub(crate) fn cwd(&self) -> VirtualPath {
        self.desk().cwd.clone()
    }

    pub(crate) fn path(&self, text: &str) -> Result<VirtualPath, PathError> {
        VirtualPath::parse(text, &self.cwd())
    }

    /// Where a file tool may make a change: not among what the runtime shows there itself.
    pub(crate) fn path_to_change(&self, text: &str) -> Result<VirtualPath, ChangeRefused> {
        let path = self.path(text)?;
        if path.starts_with(&mirror::directory(self)) {
            return Err(ChangeRefused::Mirror { path });
        }
        Ok(path)
    }

    /// The variables of the next command, with the values of those that refer to vaults.
    pub(crate) fn variables(&self) -> Result<Variables, ToolError> {
        let (mut variables, references) = {
            let desk = self.desk();
            (desk.variables.clone(), desk.references.clone())
        };
        let secret = self.vaults.resolved(&references).map_err(ToolError::new)?;
        for (name, value) in secret.iter() {
            variables.set(name, value).map_err(|error| ToolError::new(error.to_string()))?;
        }
        Ok(variables)
    }

    /// The values of variables that refer to vaults, as far as they can be had.
    pub(crate) fn vaulted(&self) -> Variables {
        let references = self.desk().references.clone();
        self.vaults.resolved(&references).unwrap_or_default()
    }

    pub(crate) fn vaults(&self) -> &Vaults {
        &self.vaults
    }

    /// What must not be recorded of this session's commands.
    pub(crate) fn secrets(&self) -> Secrets {
        let vaulted = self.vaulted();
        let vaulted = vaulted.iter().map(|(_, value)| value.as_bytes().to_vec());
        Secrets::of(&self.desk().variables).and(Secrets::these(vaulted))
    }

    /// The mount point that holds a path, for answers.
    pub(crate) fn mount_of(&self, path: &VirtualPath) -> Option<String> {
        let holding = self.workspace.mounts.roots().filter(|root| path.starts_with(&root.at));
        holding.map(|root| root.at.to_string()).max_by_key(String::len)
    }

    /// Takes up the desk that an earlier process kept, once.
    pub(super) async fn recall(&self, context: &ToolContext) -> Result<(), ToolError> {
        let mut recalled = self.recalled.lock().await;
        if *recalled == Recalled::Done {
            return Ok(());
        }
        if let Some((store, place)) = self.place(context).await? {
            let version = store.version(&place, Which::Latest).await?;
            if let Some(body) = version.and_then(|version| version.body) {
                let open = |sealed: &[u8]| context.unseal(sealed).ok();
                let (desk, lost) = Desk::read(&body, &self.workspace.home, open);
                *locked(&self.notice) = notice(&desk, &lost);
                *self.desk() = desk;
            }
        }
        *recalled = Recalled::Done;
        Ok(())
    }

    /// Shows the session's tools and their permissions in its workspace, if they changed.
    pub(super) async fn mirror_contract(
        self: &Arc<Self>,
        registry: &Registry,
        context: &ToolContext,
    ) -> Result<(), ToolError> {
        let Some(store) = context.store() else { return Ok(()) };
        let Some(loaded) = store.load(self.session).await? else { return Ok(()) };
        let State::Open(open) = loaded.state else { return Ok(()) };
        let contract = Contract::of(registry, &open.config);
        if locked(&self.mirrored).replace(contract.clone()) == Some(contract.clone()) {
            return Ok(());
        }
        let (hand, registry) = (Arc::clone(self), registry.clone());
        let now = context.now();
        let written = move || mirror::write_contract(&hand, &contract, &registry, now);
        let written = tokio::task::spawn_blocking(written).await;
        written.map_err(|error| ToolError::internal(error.to_string()))
    }

    /// Keeps the desk for the next process, and shows it in the workspace.
    pub(crate) async fn keep_desk(
        self: &Arc<Self>,
        context: &ToolContext,
    ) -> Result<(), ToolError> {
        if let Some((store, place)) = self.place(context).await? {
            let body = self.desk().stored(|values| context.seal(values).ok());
            let put = Put { place, expected: Expected::Anything, body: Some(body) };
            store.put_versions(vec![put], &Actor::system(), context.now()).await?;
        }
        let hand = Arc::clone(self);
        let written = tokio::task::spawn_blocking(move || mirror::write(&hand)).await;
        written.map_err(|error| ToolError::internal(error.to_string()))
    }

    async fn place<'a>(
        &self,
        context: &'a ToolContext,
    ) -> Result<Option<(&'a Store, Place)>, ToolError> {
        let Some(store) = context.store() else { return Ok(None) };
        let Some(loaded) = store.load(self.session).await? else { return Ok(None) };
        Ok(Some((store, Place::new(loaded.tenant, SPACE, &self.session.to_string())?)))
    }
}

/// An id of 16 hexadecimal digits that no other command has.
pub(crate) fn fresh_id() -> Result<String, ToolError> {
    let bits = fresh_bits(Clock::System.now())?;
    // The low half is random, the high half is the time.
    let low = u64::try_from(bits & u128::from(u64::MAX)).unwrap_or_default();
    Ok(format!("{low:016x}"))
}

fn notice(desk: &Desk, lost: &[String]) -> Option<String> {
    let shell =
        desk.shell.as_ref().is_some_and(|shell| shell.status == super::desk::ShellStatus::Lost);
    if !shell && lost.is_empty() {
        return None;
    }
    let mut said = String::from(
        "The server restarted, or the session was idle for long, since the last command.",
    );
    if shell {
        said.push_str(" The persistent shell ended with what ran in it; a fresh one starts in the same directory with the same exported variables, without its functions and jobs.");
    }
    if !lost.is_empty() {
        said.push_str(&format!(
            " These variables are gone and must be set again: {}.",
            lost.join(", ")
        ));
    }
    Some(said)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
