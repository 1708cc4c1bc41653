//! One tool of a mounted server, as a tool of ours.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use haft_core::session::Returned;
use haft_core::tool::{Definition, Idempotency, InterruptBehavior, Pool};
use haft_core::{
    CallResult, ContentBlock, Digest, ErrorClass, Failure, Millis, Output, SessionId, ToolName,
};
use haft_runtime::{Tool, ToolArguments, ToolContext, ToolError, ToolFuture};
use haft_store::Tenant;
use haft_wire::{Dialect, Reading};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam,
    ClientRequest, InputRequests, InputResponses, RequestId, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::{Map, Value, json};

use super::MountConfig;
use super::carrier::NotCarried;
use super::desk::UnderWay;
use super::lines::TOO_LARGE;
use super::link::{Connected, Link};
use super::links::Links;
use super::oauth::Wanted;
use super::sessions::Sessions;
use crate::questions::{Kind, Question};

/// How often a server may ask for more before its call is given up.
const ROUNDS_MAX: usize = 16;
/// How long a call may wait to be approved.
const SUSPEND_TTL: Millis = Millis::from_secs(7 * 24 * 3600);
/// The largest piece of an image or a sound that is passed on.
const FOREIGN_BYTES_MAX: usize = 1 << 20;

pub(super) struct MountedTool {
    definition: Definition,
    wire_name: String,
    /// What was accepted.
    digest: Digest,
    links: Arc<Links>,
    sessions: Sessions,
}

impl MountedTool {
    pub(super) fn new(
        config: &MountConfig,
        links: Arc<Links>,
        sessions: Sessions,
        body: Value,
    ) -> Result<Self, String> {
        let wire_name = body["name"].as_str().unwrap_or_default().to_owned();
        let digest = Digest::of_json(&body);
        let lifted = Dialect::Mcp.lift_definition(body, Reading::Foreign);
        let mut definition = lifted.map_err(|error| error.to_string())?;
        let name = format!("{}_{}", config.name, definition.name);
        definition.name = ToolName::new(&name).map_err(|error| error.to_string())?;
        // Elsewhere it is called by its canonical name: two servers may give the same one.
        definition.aliases.clear();
        // A hint may make a tool ask less. It never makes an interrupted call run again.
        definition.facets.idempotency = Some(Idempotency::Unsafe);
        definition.interrupt = InterruptBehavior::Cancel;
        definition.exec_timeout = config.timeout;
        definition.suspend_ttl = SUSPEND_TTL;
        definition.max_result_bytes = config.max_result_bytes;
        definition.pools = pools(config, &wire_name);
        if config.unchecked_output.contains(&wire_name) {
            definition.output_schema = None;
        }
        Ok(Self { definition, wire_name, digest, links, sessions })
    }

    pub(super) fn described(&self) -> &Definition {
        &self.definition
    }

    /// Returns the connection that a session's calls go over.
    async fn link(&self, session: SessionId) -> Result<Arc<Link>, ToolError> {
        self.sessions.require(session).await?;
        self.links.of(session).await
    }

    async fn run(
        &self,
        link: &Link,
        arguments: ToolArguments,
        context: ToolContext,
    ) -> Result<Returned, ToolError> {
        let stop = context.stop().clone();
        let mut connected = tokio::select! {
            connected = self.connected(link) => connected?,
            () = stop.cancelled() => return Err(ToolError::cancelled().without_effect()),
        };
        let key = context.idempotency_key();
        let under_way = link.desk().begin(context);
        let mut params =
            CallToolRequestParams::new(self.wire_name.clone()).with_arguments(arguments);
        params.meta = serde_json::from_value(json!({"haft/callId": key})).ok();
        for _ in 0..ROUNDS_MAX {
            let response = tokio::select! {
                response = self.requested(link, &mut connected, params.clone(), &under_way) => response?,
                () = stop.cancelled() => return Err(stopped(&under_way)),
            };
            match response {
                ServerResult::CallToolResult(result) => return Ok(returned(result)),
                ServerResult::InputRequiredResult(needs) => {
                    let requests = needs.input_requests.unwrap_or_default();
                    params.input_responses = Some(answers(link, &under_way, &requests).await?);
                    params.request_state = needs.request_state;
                }
                _ => {
                    return Err(ToolError::unknown(
                        "the server gave a task that was not asked for, which may go on",
                    ));
                }
            }
        }
        Err(ToolError::upstream("the server asked for input again and again"))
    }

    /// Returns the connection, over which the server offers the tool as it was accepted.
    async fn connected(&self, link: &Link) -> Result<Connected, ToolError> {
        let connected = link.connected().await.map_err(ToolError::upstream)?;
        if link.offers(&self.wire_name, self.digest).await.map_err(ToolError::upstream)? {
            return Ok(connected);
        }
        link.desk().changed();
        let tool = &self.wire_name;
        let Some(entry) = link.brought() else {
            return Err(ToolError::new(format!(
                "the server no longer offers `{tool}` as it was accepted; somebody has to look at \
                 what it offers now and accept it"
            )));
        };
        // Perhaps to nobody: the node's own connection is where that is found out.
        self.links.own().desk().changed();
        Err(ToolError::new(format!(
            "the server does not offer `{tool}` as it was accepted to {entry}, which this session \
             brings"
        )))
    }

    /// Makes the request. One that was not let in did nothing, so it is made once more if this
    /// node can get another token by itself.
    async fn requested(
        &self,
        link: &Link,
        connected: &mut Connected,
        params: CallToolRequestParams,
        under_way: &UnderWay,
    ) -> Result<ServerResult, ToolError> {
        let error = match sent(&connected.peer, params.clone(), under_way).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let Some(wanted) = Wanted::of_request(&error) else { return Err(failed(error)) };
        link.let_in(wanted, connected.clone()).await.map_err(ToolError::upstream)?;
        *connected = self.connected(link).await?;
        sent(&connected.peer, params, under_way).await.map_err(failed)
    }
}

impl Tool for MountedTool {
    fn definition(&self) -> Definition {
        self.definition.clone()
    }

    /// It acts with its owner's secrets, and its name says what they work with.
    fn tenant(&self) -> Option<&Tenant> {
        Some(self.sessions.tenant())
    }

    fn call(
        &self,
        arguments: ToolArguments,
        context: ToolContext,
    ) -> ToolFuture<'_, Result<Returned, ToolError>> {
        Box::pin(async {
            let link = self.link(context.session()).await?;
            // The call may connect, and connecting may find other secrets than there were before.
            let before = link.desk().redactor();
            let ran = self.run(&link, arguments, context).await;
            let after = link.desk().redactor();
            let mut returned = ran.map_err(|error| error.masked(&before).masked(&after))?;
            before.returned(&mut returned);
            after.returned(&mut returned);
            Ok(returned)
        })
    }
}

/// What bounds how many calls of a tool are sent at once: its server's pool, and its own if the
/// mount has a limit for it.
fn pools(config: &MountConfig, wire_name: &str) -> Vec<Pool> {
    let server = format!("mcp/{}", config.name);
    let own = config.tool_limits.get(wire_name).map(|limit| {
        let name = format!("{server}/{}", wire_name.chars().take(40).collect::<String>());
        Pool { name, limit: *limit }
    });
    let server = Pool { name: server, limit: config.max_concurrent };
    [server].into_iter().chain(own).collect()
}

/// Has what the server asks for answered by whoever called.
async fn answers(
    link: &Link,
    under_way: &UnderWay,
    requests: &InputRequests,
) -> Result<InputResponses, ToolError> {
    let mut questions = BTreeMap::new();
    let mut names = BTreeMap::new();
    for (name, request) in requests {
        let mut request = serde_json::to_value(request)?;
        link.desk().redactor().value(&mut request);
        let key = under_way.call.next_key();
        let kind = match request["method"].as_str() {
            Some("sampling/createMessage") => Kind::Sampling,
            Some("roots/list") => Kind::Roots,
            _ => Kind::Elicitation,
        };
        let params = request["params"].as_object().cloned().unwrap_or_default();
        questions.insert(key.clone(), Question { kind, params });
        names.insert(key, name.clone());
    }
    let context = &under_way.call.context;
    let answers = link.desk().questions.ask_all(context, questions).await?;
    let named = answers.into_iter().filter_map(|(key, value)| Some((names.remove(&key)?, value)));
    Ok(named.collect())
}

/// Makes the request, and knows its progress as the call's own. The server is told when nobody
/// waits for the answer any more.
async fn sent(
    peer: &Peer<RoleClient>,
    params: CallToolRequestParams,
    under_way: &UnderWay,
) -> Result<ServerResult, ServiceError> {
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    under_way.call.is_sent.store(true, Ordering::SeqCst);
    let handle = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
    under_way.progresses_as(&handle.progress_token);
    let mut unanswered = Unanswered { peer: peer.clone(), request: Some(handle.id.clone()) };
    let answer = handle.await_response().await;
    unanswered.request = None;
    answer
}

/// A request whose answer is awaited; the server is told if that ends before it came.
struct Unanswered {
    peer: Peer<RoleClient>,
    request: Option<RequestId>,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else { return };
        let peer = self.peer.clone();
        tokio::spawn(async move {
            let reason = Some("its call was stopped".to_owned());
            // A server that is gone need not be told.
            peer.notify_cancelled(CancelledNotificationParam::new(Some(request), reason))
                .await
                .ok();
        });
    }
}

/// A server's own refusal is certain; a connection that broke leaves open what was done.
fn failed(error: ServiceError) -> ToolError {
    match error {
        ServiceError::McpError(error) if error.code.0 == TOO_LARGE => ToolError::new(format!(
            "it ran, but its result was not kept: {}; raise `max_message_bytes` of the mount, or \
             ask the tool for less",
            error.message
        )),
        ServiceError::McpError(error) => {
            ToolError::new(format!("the server refused the call: {}", error.message))
        }
        other if is_unreached(&other) => {
            ToolError::upstream(format!("the server could not be reached, so nothing ran: {other}"))
        }
        other => {
            ToolError::unknown(format!("the connection broke after the call was sent: {other}"))
        }
    }
}

/// Returns whether the request was never sent. rmcp's errors do not name their causes as such, so
/// they are taken apart by their types.
fn is_unreached(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    match error.error.downcast_ref::<NotCarried>() {
        Some(NotCarried::Http(StreamableHttpError::Client(error))) => error.is_unreached(),
        _ => false,
    }
}

/// What was sent may have been done, whatever the server makes of being told to stop.
fn stopped(under_way: &UnderWay) -> ToolError {
    match under_way.call.is_sent.load(Ordering::SeqCst) {
        true => ToolError::unknown(
            "it was stopped after it had been sent to the server; the server was told to stop, and \
             has not answered",
        ),
        false => ToolError::cancelled().without_effect(),
    }
}

fn returned(result: CallToolResult) -> Returned {
    let (mut content, mut foreign) = (Vec::new(), Vec::new());
    for block in result.content {
        let Ok(block) = serde_json::to_value(block) else { continue };
        match block["text"].as_str().filter(|_| block["type"] == "text") {
            Some(text) => content.push(ContentBlock::Text { text: text.to_owned() }),
            None if block.to_string().len() <= FOREIGN_BYTES_MAX => foreign.push(block),
            None => {
                let kind = block["type"].as_str().unwrap_or("content");
                let text = format!("[{kind} left out: it is larger than can be passed on]");
                content.push(ContentBlock::Text { text });
            }
        }
    }
    let result = if result.is_error == Some(true) {
        let texts: Vec<&str> = content.iter().filter_map(ContentBlock::as_text).collect();
        let failure = Failure::new(ErrorClass::ToolError, texts.join("\n"));
        CallResult::Err(Failure { partial: result.structured_content, ..failure })
    } else {
        CallResult::Ok(Output { content, value: result.structured_content, artifacts: Vec::new() })
    };
    let mut extra = Map::new();
    if !foreign.is_empty() {
        extra.insert("content".to_owned(), Value::Array(foreign));
    }
    Returned { extra, ..Returned::from(result) }
}
