//! The models behind Haft's sessions.
//!
//! A [`ProviderModel`] answers a session's turns through a provider's API: it reads the log,
//! makes the [`Transcript`] that the model is shown, sends it in the provider's words, and gives
//! back what the model asked for, exactly as it came. Whether that may run is not decided here.
//! A [`ScriptedModel`] answers from a file, for demos and tests.
//!
//! Nothing here reads the environment: base URLs and keys come in as values.

mod agents;
mod directive;
mod memory;
mod model;
mod name;
pub mod provider;
mod request;
mod scripted;
mod spans;
mod sse;
mod summary;
mod text_calls;
pub mod tokens;
pub mod transcript;

pub use agents::{AgentSpec, ChoiceError, Models, Providers};
pub use model::{ModelConfig, Overflow, Proactive, ProviderModel};
pub use name::{ModelName, ModelNameError, Vendor};
pub use request::CallStyle;
pub use scripted::{Script, ScriptError, ScriptedModel};
pub use sse::{Frame, SseDecoder, SseError};
pub use transcript::{Transcript, messages};
