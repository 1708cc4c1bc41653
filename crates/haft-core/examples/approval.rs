//! A call pauses for approval, the process dies, another takes over, and the call runs once.
//!
//! `cargo run -q -p haft-core --example approval`
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::error::Error;
use std::sync::Arc;

use haft_core::journal::{Entry, Head, replay};
use haft_core::session::{
    AttemptEnded, AttemptReport, CallsProposed, Check, Config, Driver, Effect, Input, Opened,
    PolicyFacts, Proposal, Resolution, Resolved, Returned, SoundCall, State, decide,
};
use haft_core::tool::{Definition, Facets, Gate, Mutates, Schema, ToolSpec};
use haft_core::{
    Actor, ActorId, Arguments, CallId, CallResult, Output, ProviderCallId, ResolutionId, SessionId,
    Timestamp,
};

// [readme]
/// Declares a tool: what it takes, what it does to the world, and who must say yes.
fn refund() -> Result<ToolSpec, Box<dyn Error>> {
    let schema = Schema::new(
        r#"{
            "type": "object",
            "properties": {
                "charge": {"type": "string", "description": "Charge id"},
                "cents": {"type": "integer", "minimum": 1}
            },
            "required": ["charge", "cents"]
        }"#,
    )?;
    let description = "Refunds a charge. Use when a customer asks for money back.";
    let mut definition = Definition::new("refund".parse()?, description, schema);
    definition.facets = Facets { mutates: Some(Mutates::Irreversible), ..Facets::default() };
    definition.gate = Gate::Ask;
    Ok(ToolSpec::new(definition)?)
}
// [/readme]

/// A driver in miniature: it appends what the machine decides, and does what it says.
struct Node {
    log: Vec<Entry>,
    head: Head,
    state: State,
}

const SESSION: SessionId = SessionId::from_bits(1);
const CALL: CallId = CallId::from_bits(7);

impl Node {
    fn input(&mut self, input: Input) -> Result<Vec<Effect>, Box<dyn Error>> {
        let now = Timestamp::from_ms(1_762_000_000_000);
        let decision = decide(&self.state, now, input)?;
        for event in &decision.events {
            println!("  {}", event.name());
            self.log.push(self.head.append(SESSION, now, event)?);
        }
        self.state = decision.state;
        Ok(decision.effects)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let tool = refund()?;
    let mut node = Node { log: Vec::new(), head: Head::EMPTY, state: State::Unopened };

    println!("a program asks for a refund");
    let config = Config { driver: Driver::Caller, ..Config::default() };
    node.input(Input::Opened(Opened { session: SESSION, config, by: Actor::system() }))?;
    let effects =
        node.input(Input::CallsProposed(CallsProposed { calls: vec![proposal(&tool)?] }))?;
    println!("told to run: {}", effects.len());

    println!("kill -9, and another process takes over from the log");
    let state = replay(State::Unopened, &node.log)?;
    let mut node = Node { log: node.log, head: node.head, state };
    let effects = node.input(Input::Revived)?;
    println!("told to run: {}", effects.len());

    println!("ann approves");
    let effects = node.input(Input::Resolved(approval("ann", 1)?))?;
    println!("told to run: {}", effects.len());

    println!("bob clicks too");
    let refusal =
        node.input(Input::Resolved(approval("bob", 2)?)).map_err(|error| error.to_string());
    println!("  {}", refusal.err().unwrap_or_default());

    println!("the tool returns");
    let returned = Returned::from(CallResult::Ok(Output::of_text("refunded")));
    let report = AttemptReport::Returned(returned);
    node.input(Input::AttemptEnded(AttemptEnded { call: CALL, attempt: 1, report }))?;
    Ok(())
}

fn proposal(tool: &ToolSpec) -> Result<Proposal, Box<dyn Error>> {
    let arguments = serde_json::from_str(r#"{"charge": "ch_1", "cents": 500}"#)?;
    let check = Check::Sound(SoundCall {
        contract: Arc::clone(tool.contract()),
        arguments: Arguments::plain(arguments),
        policy: PolicyFacts::default(),
        grants: Vec::new(),
    });
    let provider_id = ProviderCallId::new("toolu_1")?;
    Ok(Proposal { id: CALL, provider_id, name: tool.name.to_string(), check })
}

fn approval(who: &str, id: u128) -> Result<Resolved, Box<dyn Error>> {
    Ok(Resolved {
        id: ResolutionId::from_bits(id),
        call: CALL,
        round: None,
        by: Actor::user(ActorId::new(who)?),
        resolution: Resolution::Approve { edit: None, note: None, grant: None },
        policy: PolicyFacts::default(),
    })
}
