//! The files that every session of an agent shares: read through the workspace like others,
//! changed only here.

use haft_runtime::ToolError;
use haft_sandbox::files::{Expected, FileError, Files, Parents};
use haft_sandbox::mounts::{Access, Mounts, Root};
use haft_sandbox::virtual_path::VirtualPath;

use crate::hands::Hand;

/// The largest file that is shared.
const BYTES_MAX: u64 = 1 << 20;
const NAME: &str = "agent";

/// The shared files, by paths relative to them.
#[derive(Debug, Clone)]
pub(crate) struct Substrate {
    at: VirtualPath,
    files: Files,
}

impl Substrate {
    /// The root that is mounted read-only as `agent` below a session's home.
    pub(crate) fn of(hand: &Hand) -> Result<Self, ToolError> {
        let at = hand.workspace().home.join(NAME.as_ref());
        let mut roots = hand.workspace().mounts.roots();
        let root = roots.find(|root| root.at == at && root.access == Access::ReadOnly);
        let root = root.ok_or_else(|| {
            ToolError::new(format!("this session shares no files: nothing is mounted at {at}"))
        })?;
        let root = Root { access: Access::ReadWrite, ..root.clone() };
        Ok(Self { at, files: Files::new(Mounts::open([root])?) })
    }

    /// Where a shared file is seen.
    pub(crate) fn path(&self, relative: &str) -> Result<VirtualPath, ToolError> {
        let path = VirtualPath::parse(relative, &self.at)?;
        let (text, above) = (path.to_string(), format!("{}/", self.at));
        let below = text.strip_prefix(&above).unwrap_or_default();
        if below.split('/').any(|part| matches!(part, "" | "." | "..")) {
            let at = &self.at;
            return Err(ToolError::invalid(format!("`{relative}` is no file below {at}")));
        }
        Ok(path)
    }

    /// A shared file's path relative to the rest, as its versions are kept by.
    pub(crate) fn key(&self, path: &str) -> Result<String, ToolError> {
        let path = self.path(path)?.to_string();
        let relative = path.strip_prefix(&format!("{}/", self.at)).unwrap_or(&path);
        Ok(relative.to_owned())
    }

    /// A shared file's content; `None` when there is none.
    pub(crate) fn read(&self, relative: &str) -> Result<Option<Vec<u8>>, FileError> {
        let Ok(path) = self.path(relative) else { return Ok(None) };
        match self.files.read_all(&path, BYTES_MAX) {
            Ok(content) => Ok(Some(content)),
            Err(FileError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a shared file onto the content that the writer saw.
    pub(crate) fn write(
        &self,
        relative: &str,
        content: &[u8],
        expected: Expected,
    ) -> Result<(), FileError> {
        let path = self.path(relative).unwrap_or_else(|_| self.at.clone());
        self.files.write(&path, content, expected, Parents::Create).map(drop)
    }
}
