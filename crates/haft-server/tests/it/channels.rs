//! One wait, four channels: whoever decides first has decided, and everyone else is told so.

use haft_core::{CallId, SessionId};
use haft_runtime::testing::user;
use haft_runtime::{Haft, Response};
use haft_server::Scope;
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::house::{House, Visitor, asking_agent};

/// Through what somebody decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Channel {
    /// The program that embeds Haft was given the wait, and resolves it.
    Interrupt,
    /// A service is told over HTTP, calls back, and polls what came of it.
    Webhook,
    /// Somebody types `y` or `n`.
    Terminal,
    /// The card of a chat, with its buttons.
    Card,
}

const CHANNELS: [Channel; 4] =
    [Channel::Interrupt, Channel::Webhook, Channel::Terminal, Channel::Card];

impl Channel {
    const fn decides_as(self) -> &'static str {
        match self {
            Self::Interrupt => "program",
            Self::Webhook => "service",
            Self::Terminal => "typist",
            Self::Card => "ann",
        }
    }
}

/// A call that waits, in the session of a chat.
struct Wait {
    chat: String,
    name: String,
    session: SessionId,
    call: CallId,
    /// As the inbox shows it.
    shown: Value,
}

/// Says something in a chat with an agent that asks for a call.
async fn asked(ann: &Visitor, agent: &str, name: &str) -> Wait {
    let said = json!({"id": "1", "role": "user", "parts": [{"type": "text", "text": "go"}]});
    let chat = format!("/chat/{agent}");
    let body = json!({"id": name, "trigger": "submit-message", "messages": [said]});
    let (status, stream) = ann.text("POST", &chat, &body.to_string()).await;
    assert_eq!(status, 200, "{stream}");
    let frames = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    let frames = frames.filter_map(|frame| serde_json::from_str::<Value>(frame).ok());
    let card = frames.filter(|frame| frame["type"] == "tool-approval-request").collect::<Vec<_>>();
    let [card] = &card[..] else { panic!("expected one card: {stream}") };
    let pending = ann.get("/haft/v1/pending").await;
    let rows = pending["data"].as_array().unwrap();
    let rows: Vec<_> = rows.iter().filter(|row| row["call"] == card["toolCallId"]).collect();
    let [row] = &rows[..] else { panic!("expected one record: {pending}") };
    let (session, call) = (row["session"].as_str().unwrap(), row["call"].as_str().unwrap());
    let (session, call) = (session.parse().unwrap(), call.parse().unwrap());
    Wait { chat, name: name.to_owned(), session, call, shown: (*row).clone() }
}

fn response(yes: bool) -> Response {
    match yes {
        true => Response::Approve { arguments: None, note: None, grant: None },
        false => Response::Deny { note: None },
    }
}

/// The program's own way. An error says who was first.
async fn resolve(haft: &Haft, wait: &Wait, by: Channel, yes: bool) -> Result<(), String> {
    let by = user(by.decides_as());
    let resolved = haft.resolve(wait.session, wait.call, by, response(yes)).await;
    resolved.map(drop).map_err(|error| error.to_string())
}

/// A terminal: shows the call, and takes a line for an answer.
async fn at_the_terminal(
    haft: &Haft,
    wait: &Wait,
    typed: impl AsyncBufRead + Unpin,
) -> Result<(), String> {
    let question = format!("{} {}? [y/n]", wait.shown["tool"], wait.shown["arguments"]);
    assert_eq!(question, r#""bash" {"euro":5}? [y/n]"#);
    let line = typed.lines().next_line().await.unwrap();
    resolve(haft, wait, Channel::Terminal, line.as_deref() == Some("y")).await
}

/// The card's button, as the client posts it.
async fn on_the_card(ann: &Visitor, wait: &Wait, yes: bool) -> Result<(), String> {
    let (call, round) = (wait.call.to_string(), &wait.shown["round"]);
    let approval = json!({"id": format!("{call}:{round}"), "approved": yes});
    let part = json!({
        "type": "dynamic-tool", "toolCallId": call, "state": "approval-responded",
        "approval": approval,
    });
    let message = json!({"id": "2", "role": "assistant", "parts": [part]});
    let body = json!({"id": wait.name, "trigger": "submit-message", "messages": [message]});
    let (status, answer) = ann.text("POST", &wait.chat, &body.to_string()).await;
    if status == 200 { Ok(()) } else { Err(answer) }
}

/// A service that is told of a wait, decides, calls back and polls until it sees the decision.
async fn by_callback(house: &House, wait: &Wait, yes: bool) -> Result<(), String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let body = wait.shown.to_string();
    let told = tokio::spawn(async move {
        let mut connection = TcpStream::connect(address).await.unwrap();
        let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
        connection.write_all((head + &body).as_bytes()).await.unwrap();
        connection.shutdown().await.unwrap();
    });
    let (mut connection, _) = listener.accept().await.unwrap();
    let mut request = String::new();
    connection.read_to_string(&mut request).await.unwrap();
    told.await.unwrap();
    let told: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    let scopes = [Scope::Read, Scope::Approve];
    let service = house.visitor("default", Channel::Webhook.decides_as(), &scopes).await;
    let of_call = format!(
        "/haft/v1/sessions/{}/calls/{}",
        told["session"].as_str().unwrap(),
        told["call"].as_str().unwrap()
    );
    let said = json!({"type": if yes { "approve" } else { "deny" }, "round": told["round"]});
    let (status, answer) = service.ask("POST", &format!("{of_call}/resolve"), &said).await;
    while service.get(&of_call).await["decided"].is_null() {
        tokio::task::yield_now().await;
    }
    if status == 200 { Ok(()) } else { Err(answer.to_string()) }
}

async fn decide(
    house: &House,
    ann: &Visitor,
    channel: Channel,
    wait: &Wait,
    yes: bool,
) -> Result<(), String> {
    match channel {
        Channel::Interrupt => resolve(&house.haft, wait, channel, yes).await,
        Channel::Webhook => by_callback(house, wait, yes).await,
        Channel::Terminal => {
            let typed: &[u8] = if yes { b"y\n" } else { b"n\n" };
            at_the_terminal(&house.haft, wait, typed).await
        }
        Channel::Card => on_the_card(ann, wait, yes).await,
    }
}

// S1-16: one pending record, one winner, and stale for the rest, whichever channel is first.
#[tokio::test]
async fn s1_16_four_channels_decide_over_one_mechanism() {
    let house = House::start().await;
    let ann = house.admin().await;
    let agent = ann.post("/v1/agents", &asking_agent()).await;
    let agent = agent["id"].as_str().unwrap();
    for winner in CHANNELS {
        let wait = asked(&ann, agent, &format!("{winner:?}")).await;
        decide(&house, &ann, winner, &wait, true).await.unwrap();
        for late in CHANNELS {
            let told = decide(&house, &ann, late, &wait, false).await.unwrap_err();
            let first = format!("`{}` decided `approve`", winner.decides_as());
            assert!(told.contains(&first), "{winner:?} before {late:?}: {told}");
        }
        let log = house.haft.store().entries(wait.session, 0, 100).await.unwrap();
        let resolved = log.iter().filter(|entry| entry.event().unwrap().name() == "call.resolved");
        assert_eq!(resolved.count(), 1, "{winner:?}");
        assert_eq!(ann.get("/haft/v1/pending").await["data"], json!([]));
    }
}
