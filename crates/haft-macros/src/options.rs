//! The options of `#[tool(..)]`: read one by one, then checked together.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream};
use syn::{Ident, LitInt, LitStr, Path, Token, Type};

use crate::cost::Cost;
use crate::effect::Effect;
use crate::parameter::Parameter;
use crate::routing::Routing;
use crate::undo::Undo;
use crate::values::{ToolRef, checked_name, duration, error, list, text, version, word};

/// What the attribute says.
pub(crate) struct Options {
    pub(crate) effect: Effect,
    /// Where the generated code finds Haft.
    pub(crate) haft: Path,
    pub(crate) name: Option<LitStr>,
    pub(crate) preview: Option<Path>,
    pub(crate) verify: Option<Path>,
    pub(crate) define: Option<Path>,
    pub(crate) output: Output,
    pub(crate) thread: Thread,
    pub(crate) routing: Routing,
    pub(crate) cost: Option<Cost>,
    reach: Option<Vec<&'static str>>,
    repeat: Option<Repeat>,
    undo: Option<Undo>,
    /// Statements for the options that need no second look.
    settings: Vec<TokenStream>,
    /// The options that were given, with their places.
    given: Vec<(String, Span)>,
}

/// Whether the shape of the result is declared.
pub(crate) enum Output {
    Undeclared,
    /// As the function returns it.
    Returned,
    Type(Box<Type>),
}

/// Where the function runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thread {
    Inline,
    /// Where waiting hurts nobody.
    Blocking,
}

#[derive(Clone, Copy)]
enum Repeat {
    Idempotent,
    Keyed,
}

const MS_PER_DAY: u64 = 86_400_000;

/// What stands after an option's name.
#[derive(Clone, Copy)]
enum Shape {
    Flag,
    Assigned,
    Listed,
    /// Nothing, or a value.
    Either,
}

impl Shape {
    fn fits(self, rest: ParseStream<'_>) -> bool {
        let ends = rest.is_empty() || rest.peek(Token![,]);
        match self {
            Self::Flag => ends,
            Self::Assigned => rest.peek(Token![=]),
            Self::Listed => rest.peek(syn::token::Paren),
            Self::Either => ends || rest.peek(Token![=]),
        }
    }
}

/// Every option with the form in which it is written.
const FORMS: &[(&str, Shape, &str)] = &[
    ("approve", Shape::Either, "`approve`, `approve = always` or `approve = never`"),
    ("blocking", Shape::Flag, "`blocking`"),
    ("consequence", Shape::Assigned, "`consequence = low`, `medium` or `high`"),
    ("cost", Shape::Listed, "`cost(amount = parameter, unit = \"EUR\")`"),
    ("crate", Shape::Assigned, "`crate = path::to::haft`"),
    ("define", Shape::Assigned, "`define = path::to::function`"),
    ("depends_on", Shape::Listed, "`depends_on(other_tool, \"another\")`"),
    ("exclusive", Shape::Flag, "`exclusive`"),
    ("files", Shape::Listed, "`files(read(\"/data\"))` or `files(write(\"/data\"))`"),
    ("idempotent", Shape::Flag, "`idempotent`"),
    ("interrupt", Shape::Assigned, "`interrupt = cancel` or `interrupt = block`"),
    ("key", Shape::Flag, "`key`"),
    ("name", Shape::Assigned, "`name = \"other_name\"`"),
    ("not_for", Shape::Listed, "`not_for(\"case\" => other_tool)`"),
    ("output", Shape::Either, "`output` or `output = Type`"),
    ("preview", Shape::Assigned, "`preview = path::to::function`"),
    ("process", Shape::Flag, "`process`"),
    ("progress", Shape::Flag, "`progress`"),
    ("reach", Shape::Listed, "`reach(network)`"),
    ("retry", Shape::Listed, "`retry(3)` or `retry(3, backoff = \"1s\", on(upstream, timeout))`"),
    ("shared", Shape::Flag, "`shared`"),
    ("source", Shape::Assigned, "`source = \"where the data comes from\"`"),
    ("spend", Shape::Flag, "`spend`"),
    ("suspend", Shape::Assigned, "`suspend = \"7d\"`"),
    ("tags", Shape::Listed, "`tags(\"one\", \"two\")`"),
    ("timeout", Shape::Assigned, "`timeout = \"30s\"`"),
    ("title", Shape::Assigned, "`title = \"Shown to people\"`"),
    (
        "undo",
        Shape::Listed,
        "`undo(tool = other_tool, window = \"10m\", args(id = result(\"/id\")))`",
    ),
    ("use_when", Shape::Assigned, "`use_when = \"the user asks for ...\"`"),
    ("verify", Shape::Assigned, "`verify = path::to::function`"),
    ("version", Shape::Assigned, "`version = \"1.2.0\"`"),
];

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options = Self::of(input.parse()?);
        while !input.is_empty() {
            let comma: syn::Result<Token![,]> = input.parse();
            comma.map_err(|cause| error(cause.span(), "expected a comma between options"))?;
            if !input.is_empty() {
                options.take(input)?;
            }
        }
        options.check()?;
        Ok(options)
    }
}

impl Options {
    fn of(effect: Effect) -> Self {
        Self {
            effect,
            haft: syn::parse_quote!(::haft),
            name: None,
            preview: None,
            verify: None,
            define: None,
            output: Output::Undeclared,
            thread: Thread::Inline,
            routing: Routing::default(),
            cost: None,
            reach: None,
            repeat: None,
            undo: None,
            settings: Vec::new(),
            given: Vec::new(),
        }
    }

    fn take(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        let option = input.call(Ident::parse_any)?;
        let name = option.to_string();
        let Some((_, shape, form)) = FORMS.iter().find(|(known, ..)| *known == name) else {
            let known: Vec<&str> = FORMS.iter().map(|(known, ..)| *known).collect();
            let message = format!("no option is called `{name}`; there are {}", known.join(", "));
            return Err(error(option.span(), message));
        };
        if self.given(&name).is_some() {
            return Err(error(option.span(), format!("`{name}` is given twice; leave one out")));
        }
        self.given.push((name, option.span()));
        if !shape.fits(input) {
            return Err(error(option.span(), format!("expected {form}")));
        }
        self.take_value(&option, input)?;
        if input.is_empty() || input.peek(Token![,]) {
            return Ok(());
        }
        Err(error(input.span(), format!("expected {form}, and then a comma")))
    }

    fn take_value(&mut self, option: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
        match option.to_string().as_str() {
            "crate" => self.haft = assigned(input)?,
            "define" => self.define = Some(assigned(input)?),
            "preview" => self.preview = Some(assigned(input)?),
            "verify" => self.verify = Some(assigned(input)?),
            "blocking" => self.thread = Thread::Blocking,
            "idempotent" => self.repeat = Some(Repeat::Idempotent),
            "key" => self.repeat = Some(Repeat::Keyed),
            "cost" => self.cost = Some(input.parse()?),
            "undo" => self.undo = Some(input.parse()?),
            "use_when" => self.routing.use_when = Some(assigned_text(input)?),
            "source" => self.routing.source = Some(assigned_text(input)?),
            "not_for" => self.routing.not_for = list(input, |item| item.parse())?,
            "name" => {
                let name = assigned_text(input)?;
                checked_name(&name.value(), name.span())?;
                self.name = Some(name);
            }
            "output" => {
                self.output = match input.peek(Token![=]) {
                    true => Output::Type(Box::new(assigned(input)?)),
                    false => Output::Returned,
                }
            }
            "reach" => {
                let places = [
                    ("machine", "LocalMachine"),
                    ("network", "Network"),
                    ("service", "ExternalService"),
                ];
                self.reach = Some(list(input, |item| word(item, &places))?);
            }
            _ => {
                let setting = setting(option, input)?;
                self.settings.push(setting);
            }
        }
        Ok(())
    }

    fn given(&self, name: &str) -> Option<Span> {
        self.given.iter().find(|(given, _)| given == name).map(|(_, span)| *span)
    }

    /// Finds what rustc would accept and the registry would refuse.
    fn check(&self) -> syn::Result<()> {
        let reads = self.effect == Effect::Read;
        let refuse = |name: &str, wrong: bool, message: &str| match self.given(name) {
            Some(span) if wrong => Err(error(span, message)),
            _ => Ok(()),
        };
        let again = "a tool that only reads is run again as it is; leave this out";
        refuse("key", reads, again)?;
        refuse("idempotent", reads, again)?;
        refuse("verify", reads, again)?;
        refuse("undo", reads, "a tool that only reads has nothing to undo; leave this out")?;
        let priced = self.given("cost").is_some();
        refuse("spend", priced, "a tool that has a `cost` spends anyway; leave this out")?;
        let both = self.given("idempotent").is_some();
        refuse("key", both, "a tool is `idempotent` or takes a `key`, not both; leave one out")?;
        let unsafe_again = !reads && self.repeat.is_none();
        refuse(
            "retry",
            unsafe_again,
            "a second attempt would repeat the effect; add `idempotent` if it does no harm, `key` \
             if the other side recognises our key, or leave out `retry`",
        )?;
        let no_trigger = self.routing.use_when.is_none();
        let trigger = "expected `use_when = \"..\"` beside it: say first when the tool is right";
        refuse("not_for", no_trigger, trigger)?;
        refuse("source", no_trigger, trigger)
    }

    /// Declares everything that the attribute says.
    pub(crate) fn settings(&self, parameters: &[Parameter]) -> TokenStream {
        let effect = self.effect.settings();
        let reach = self.reach.as_deref().unwrap_or_else(|| self.effect.reach());
        let reach = (self.reach.is_some() || !reach.is_empty()).then(|| {
            let reach = reach.iter().map(|place| format_ident!("{place}"));
            set("facets.reach", some(quote!([#(__haft::Reach::#reach),*].into())))
        });
        let repeat = self.repeat.map(|repeat| {
            let repeat = match repeat {
                Repeat::Idempotent => quote!(__haft::Idempotency::Idempotent),
                Repeat::Keyed => quote!(__haft::Idempotency::Keyed),
            };
            set("facets.idempotency", some(repeat))
        });
        let undo = self.undo.as_ref().map(|undo| set("undo", some(undo.value())));
        let cost = self.cost.as_ref().map(|cost| cost.settings(parameters));
        let settings = &self.settings;
        quote!(#effect #reach #repeat #undo #cost #(#settings)*)
    }
}

/// An option that sets one field, whatever else is declared.
fn setting(option: &Ident, input: ParseStream<'_>) -> syn::Result<TokenStream> {
    Ok(match option.to_string().as_str() {
        "approve" => set("gate", gate(input)?),
        "consequence" => {
            let levels = [("low", "Low"), ("medium", "Medium"), ("high", "High")];
            set("consequence", some(chosen("Consequence", input, &levels)?))
        }
        "depends_on" => {
            let tools = list(input, ToolRef::parse)?;
            let names = tools.iter().map(ToolRef::name);
            set("depends_on", quote!(::std::vec![#(#names),*]))
        }
        "exclusive" => set("concurrency", quote!(__haft::Concurrency::Exclusive)),
        "files" => set("facets.fs", some(files(input)?)),
        "interrupt" => {
            let ways = [("cancel", "Cancel"), ("block", "Block")];
            set("interrupt", chosen("InterruptBehavior", input, &ways)?)
        }
        "process" => set("facets.process", some(quote!(__haft::ProcessUse::Starts))),
        "progress" => set("streaming", quote!(__haft::Streaming::Progress)),
        "retry" => set("retry", retry(input)?),
        "shared" => set("facets.scope", some(quote!(__haft::Scope::Shared))),
        "spend" => set("facets.spend", some(quote!(__haft::Spend::Possible))),
        "suspend" => set("suspend_ttl", millis(&assigned_text(input)?, 366 * MS_PER_DAY)?),
        "tags" => {
            let tags = list(input, text)?;
            set("tags", quote!(::std::vec![#(#tags.into()),*]))
        }
        "timeout" => set("exec_timeout", millis(&assigned_text(input)?, MS_PER_DAY)?),
        "title" => {
            let title = assigned_text(input)?;
            set("display.label", some(quote!(#title.into())))
        }
        "version" => set("version", version(&assigned_text(input)?)?),
        other => return Err(error(option.span(), format!("`{other}` is listed but not read"))),
    })
}

fn gate(input: ParseStream<'_>) -> syn::Result<TokenStream> {
    if !input.peek(Token![=]) {
        return Ok(quote!(__haft::Gate::Ask));
    }
    chosen("Gate", input, &[("always", "AskAlways"), ("two", "AskTwo"), ("never", "Auto")])
}

fn files(input: ParseStream<'_>) -> syn::Result<TokenStream> {
    let accesses = [("read", "ReadOnly"), ("write", "ReadWrite")];
    let mut given = list(input, |item| {
        let access = format_ident!("{}", word(item, &accesses)?);
        let roots = list(item, text)?;
        match roots.iter().find(|root| !root.value().starts_with('/')) {
            Some(root) => {
                Err(error(root.span(), "expected an absolute directory such as \"/data\""))
            }
            None => Ok(quote! {
                __haft::FsAccess::#access { roots: ::std::vec![#(#roots.into()),*] }
            }),
        }
    })?;
    match (given.pop(), given.is_empty()) {
        (Some(access), true) => Ok(access),
        _ => Err(error(input.span(), "expected one of `read(..)` and `write(..)`")),
    }
}

fn retry(input: ParseStream<'_>) -> syn::Result<TokenStream> {
    let content;
    syn::parenthesized!(content in input);
    let attempts: LitInt = content.parse().map_err(|cause| {
        error(cause.span(), "expected the number of attempts in all first, as in `retry(3)`")
    })?;
    if attempts.base10_parse::<u32>().is_ok_and(|attempts| attempts < 2) {
        return Err(error(
            attempts.span(),
            "expected 2 attempts or more; 1 is what a tool has without `retry`",
        ));
    }
    let mut fields = Vec::new();
    while !content.is_empty() {
        content.parse::<Token![,]>()?;
        if content.is_empty() {
            break;
        }
        let parts = [("backoff", "backoff"), ("backoff_max", "backoff_max"), ("on", "on")];
        fields.push(match word(&content, &parts)? {
            "on" => {
                let classes = list(&content, |class| word(class, &RETRIED))?;
                let classes = classes.iter().map(|class| format_ident!("{class}"));
                quote!(on: [#(__haft::ErrorClass::#classes),*].into())
            }
            backoff => {
                let backoff = format_ident!("{backoff}");
                let wait = millis(&assigned_text(&content)?, MS_PER_DAY)?;
                quote!(#backoff: #wait)
            }
        });
    }
    let default = quote!(..::core::default::Default::default());
    Ok(quote!(__haft::Retry { max_attempts: #attempts, #(#fields,)* #default }))
}

/// The failures that another attempt may help.
const RETRIED: [(&str, &str); 4] = [
    ("timeout", "Timeout"),
    ("upstream", "Upstream"),
    ("rate_limited", "RateLimited"),
    ("tool_error", "ToolError"),
];

fn chosen(
    kind: &str,
    input: ParseStream<'_>,
    choices: &[(&str, &'static str)],
) -> syn::Result<TokenStream> {
    input.parse::<Token![=]>()?;
    let (kind, choice) = (format_ident!("{kind}"), format_ident!("{}", word(input, choices)?));
    Ok(quote!(__haft::#kind::#choice))
}

pub(crate) fn millis(text: &LitStr, most: u64) -> syn::Result<TokenStream> {
    let ms = duration(text, 1..=most)?;
    Ok(quote!(__haft::Millis(#ms)))
}

pub(crate) fn assigned<T: Parse>(input: ParseStream<'_>) -> syn::Result<T> {
    input.parse::<Token![=]>()?;
    input.parse()
}

pub(crate) fn assigned_text(input: ParseStream<'_>) -> syn::Result<LitStr> {
    input.parse::<Token![=]>()?;
    text(input)
}

fn set(field: &str, value: impl ToTokens) -> TokenStream {
    let path = field.split('.').map(|part| format_ident!("{part}"));
    quote!(__definition #(.#path)* = #value;)
}

fn some(value: impl ToTokens) -> TokenStream {
    quote!(::core::option::Option::Some(#value))
}
