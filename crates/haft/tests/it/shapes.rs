//! Where a tool may stand and what its function may look like.

use haft::{CallResult, JsonSchema, Output, Services, Tool, ToolContext, json, tool};
use serde::Deserialize;
use serde::de::DeserializeOwned;

mod inner {
    //! A module of its own, which imports nothing of `haft` and shadows what it can.

    #![expect(dead_code, reason = "the names are there to be in the way")]

    type Result = ();
    type Option = ();
    type String = std::string::String;
    struct Box;
    struct Vec;

    /// Is visible where the function is.
    #[::haft::tool(read)]
    pub(super) fn visible(text: String) -> usize {
        text.len()
    }
}

use inner::visible;

#[test]
fn a_tool_is_imported_with_its_function() {
    assert_eq!(visible("four".into()), 4);
    assert_eq!(visible::tool().definition().name.as_str(), "visible");
}

#[tokio::test]
async fn a_tool_may_be_declared_inside_a_function() {
    #[derive(Deserialize, JsonSchema)]
    struct Local {
        n: u8,
    }

    /// Reads a local type.
    #[tool(read)]
    async fn local(thing: Local) -> u8 {
        thing.n
    }

    let context = ToolContext::detached(Services::default()).unwrap();
    let arguments = json!({"thing": {"n": 4}}).as_object().unwrap().clone();
    let returned = local::tool().call(arguments, context).await.unwrap();
    assert_eq!(returned.result, CallResult::Ok(Output::of_value(json!(4))));
}

trait Store: Send + Sync + 'static {
    fn get(&self, n: usize) -> u8;
}

struct Fixed;

impl Store for Fixed {
    fn get(&self, n: usize) -> u8 {
        u8::try_from(n).unwrap()
    }
}

/// Looks into a store.
#[tool(read)]
async fn look<S: Store, K, const N: usize>(key: K, mut plus: usize, store: &S) -> u8
where
    K: Into<u8> + JsonSchema + DeserializeOwned,
{
    plus += N;
    key.into() + store.get(plus)
}

#[tokio::test]
async fn a_generic_function_is_a_tool_for_each_of_its_types() {
    let tool = look::<Fixed, u8, 3>::tool();
    let mut services = Services::default();
    assert!(!services.has(&tool.needs()[0]));
    services.insert(Fixed);
    assert!(services.has(&tool.needs()[0]));
    let context = ToolContext::detached(services).unwrap();
    let arguments = json!({"key": 1, "plus": 2}).as_object().unwrap().clone();
    let returned = tool.call(arguments, context).await.unwrap();
    assert_eq!(returned.result, CallResult::Ok(Output::of_value(json!(6))));
    assert_eq!(look::<Fixed, u8, 1>(1, 1, &Fixed).await, 3);
}

/// Names arguments like the generated code does.
#[tool(read)]
fn shadows(context: u8, arguments: u8, definition: u8, haft: u8) -> u8 {
    context + arguments + definition + haft
}

#[tokio::test]
async fn names_of_arguments_are_free() {
    let context = ToolContext::detached(Services::default()).unwrap();
    let arguments = json!({"context": 1, "arguments": 2, "definition": 3, "haft": 4});
    let returned = shadows::tool().call(arguments.as_object().unwrap().clone(), context).await;
    assert_eq!(returned.unwrap().result, CallResult::Ok(Output::of_value(json!(10))));
}
