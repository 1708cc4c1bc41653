//! The three tests that document 001 wants of every tool: it succeeds, it fails in words, and it
//! does nothing once it is stopped.

use haft_core::session::Returned;
use haft_core::{CallResult, ErrorClass, Outcome, ToolName};
use serde_json::Value;

use super::{TestNode, object, user};
use crate::haft::{Answer, Response};

/// What became of a call that nobody knows the end of.
const IN_DOUBT: &str = "it is in doubt";

/// A tool's conformance: what to give it, and what to expect.
#[derive(Debug)]
pub struct Conformance<'a> {
    node: &'a TestNode,
    tool: ToolName,
}

/// What a tool does not do as it must.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Nonconforming {
    /// It is not registered, or has no code here.
    #[error("`{0}` is not registered with code on this node")]
    NoCode(String),
    /// A call that should succeed does not.
    #[error("expected success, found {found}")]
    NoSuccess {
        /// What came.
        found: String,
    },
    /// A call that should fail does not, or does so without a word.
    #[error("expected a failure with a message, found {found}")]
    NoFailure {
        /// What came.
        found: String,
    },
    /// It goes on although it is stopped.
    #[error("expected `Request was cancelled` of a call that is stopped, found {found}")]
    NotStopped {
        /// What came.
        found: String,
    },
}

impl<'a> Conformance<'a> {
    /// Tests a tool of a node.
    ///
    /// # Errors
    ///
    /// When it is not there.
    pub fn of(node: &'a TestNode, tool: &str) -> Result<Self, Nonconforming> {
        let registered = node.haft().registry().get(tool);
        let with_code = registered.filter(|registered| registered.code().is_some());
        let registered = with_code.ok_or_else(|| Nonconforming::NoCode(tool.to_owned()))?;
        Ok(Self { node, tool: registered.name().clone() })
    }

    /// A call that must succeed; whoever is asked approves it.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub async fn succeeds(&self, arguments: Value) -> Result<Outcome, Nonconforming> {
        let found = self.run(arguments).await;
        match found {
            Ok(outcome) if matches!(outcome.result, CallResult::Ok(_)) => Ok(outcome),
            other => Err(Nonconforming::NoSuccess { found: format!("{other:?}") }),
        }
    }

    /// A call that must fail, in words that the model can read.
    ///
    /// # Errors
    ///
    /// When it does not, says nothing, or leaves open whether it took effect.
    pub async fn fails(&self, arguments: Value) -> Result<(), Nonconforming> {
        match self.run(arguments).await {
            Err(message) if !message.is_empty() && message != IN_DOUBT => Ok(()),
            Ok(Outcome { result: CallResult::Err(failure), .. })
                if !failure.message.is_empty() && failure.class != ErrorClass::Internal =>
            {
                Ok(())
            }
            other => Err(Nonconforming::NoFailure { found: format!("{other:?}") }),
        }
    }

    /// A call that is stopped before it starts, given straight to the tool's code: it must say so
    /// in the document's words. That it does nothing is for the test to look at.
    ///
    /// # Errors
    ///
    /// When it answers anything else.
    pub async fn stops(&self, arguments: Value) -> Result<(), Nonconforming> {
        let registered = self.node.haft().registry().get(self.tool.as_str());
        let code = registered.as_ref().and_then(|registered| registered.code());
        let Some(code) = code else { return Err(Nonconforming::NoCode(self.tool.to_string())) };
        let context = self.node.haft().toolbox().context_apart();
        let context =
            context.map_err(|error| Nonconforming::NotStopped { found: error.to_string() })?;
        context.stop().cancel();
        match code.call(object(arguments), context).await {
            Err(error) if error.to_string() == "Request was cancelled" => Ok(()),
            Err(error) => Err(Nonconforming::NotStopped { found: error.to_string() }),
            Ok(Returned { result, .. }) => {
                Err(Nonconforming::NotStopped { found: format!("{result:?}") })
            }
        }
    }

    async fn run(&self, arguments: Value) -> Result<Outcome, String> {
        let (node, haft) = (self.node, self.node.haft());
        let session = node.session().await;
        let call = haft.propose(session, self.tool.as_str(), object(arguments)).await;
        let call = call.map_err(|error| error.to_string())?;
        loop {
            match haft.wait(session, call).await.map_err(|error| error.to_string())? {
                Answer::Done(outcome) => return Ok(*outcome),
                Answer::Waiting(_) => {
                    let yes = Response::Approve { arguments: None, note: None, grant: None };
                    let said = haft.resolve(session, call, user("approver"), yes).await;
                    said.map_err(|error| error.to_string())?;
                }
                Answer::InDoubt(_) => return Err(IN_DOUBT.to_owned()),
            }
        }
    }
}
