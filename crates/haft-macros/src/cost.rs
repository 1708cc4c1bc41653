//! `cost(..)`: where the price of a call is found, for limits on spending.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned as _;
use syn::{Ident, LitFloat, LitInt, LitStr, Token, parenthesized};

use crate::parameter::{Kind, Parameter, Secrecy};
use crate::values::{error, pointer, text, word};

/// What a call costs.
pub(crate) struct Cost {
    amount: Told,
    unit: Told,
}

/// One half of a price.
enum Told {
    /// The same for every call.
    Always(LitStr),
    /// What an argument of the function says.
    Parameter(Ident),
    /// What stands somewhere inside an argument.
    Place(TokenStream),
}

#[derive(Clone, Copy)]
enum Part {
    Amount,
    Unit,
}

const PARTS: [(&str, Part); 2] = [("amount", Part::Amount), ("unit", Part::Unit)];

/// As `Unit` in the core has it.
const UNIT_LEN_MAX: usize = 16;

impl Parse for Cost {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let content;
        let parens = parenthesized!(content in input);
        let (mut amount, mut unit) = (None, None);
        while !content.is_empty() {
            let part = word(&content, &PARTS)?;
            content.parse::<Token![=]>()?;
            match part {
                Part::Amount => amount = Some(told(&content, an_amount)?),
                Part::Unit => unit = Some(told(&content, a_unit)?),
            }
            if !content.is_empty() {
                content.parse::<Token![,]>()?;
            }
        }
        let missing = |what| error(parens.span.join(), format!("`cost` needs {what}"));
        let amount =
            amount.ok_or_else(|| missing("`amount = parameter`: how much a call costs"))?;
        let unit =
            unit.ok_or_else(|| missing("`unit = \"EUR\"`: what the amount is counted in"))?;
        Ok(Self { amount, unit })
    }
}

impl Cost {
    /// Finds the arguments that are named among the function's.
    pub(crate) fn check(&self, parameters: &[Parameter]) -> syn::Result<()> {
        [&self.amount, &self.unit].into_iter().try_for_each(|told| match told {
            Told::Parameter(named) => tells(named, parameters),
            Told::Always(_) | Told::Place(_) => Ok(()),
        })
    }

    /// Declares it, and has rustc check that the amount is a number.
    pub(crate) fn settings(&self, parameters: &[Parameter]) -> TokenStream {
        let (amount, unit) = (self.amount.value(parameters), self.unit.value(parameters));
        let counted = match &self.amount {
            Told::Parameter(named) => {
                let ty = argument(named, parameters).map(|argument| &argument.ty);
                ty.map(|ty| quote_spanned!(ty.span()=> __haft::counted::<#ty>();))
            }
            Told::Always(_) | Told::Place(_) => None,
        };
        quote! {
            #counted
            __definition.facets.spend = ::core::option::Option::Some(__haft::Spend::Possible);
            __definition.cost = ::core::option::Option::Some(__haft::cost(#amount, #unit));
        }
    }
}

impl Told {
    fn value(&self, parameters: &[Parameter]) -> TokenStream {
        match self {
            Self::Always(value) => quote!(__haft::CostPart::Always(#value)),
            Self::Place(place) => quote!(__haft::CostPart::Field(#place)),
            Self::Parameter(named) => {
                let found = parameters.iter().find(|parameter| parameter.ident == *named);
                let place = found.map(Parameter::place).unwrap_or_default();
                quote!(__haft::CostPart::Field(__haft::pointer(#place)))
            }
        }
    }
}

/// A parameter, a place inside one, or a value that is the same for every call.
fn told(
    input: ParseStream<'_>,
    value: impl Fn(ParseStream<'_>) -> syn::Result<LitStr>,
) -> syn::Result<Told> {
    if !input.peek(Ident) {
        return value(input).map(Told::Always);
    }
    let named: Ident = input.parse()?;
    if named != "argument" || !input.peek(syn::token::Paren) {
        return Ok(Told::Parameter(named));
    }
    let content;
    parenthesized!(content in input);
    Ok(Told::Place(pointer(&text(&content)?)?))
}

fn an_amount(input: ParseStream<'_>) -> syn::Result<LitStr> {
    let wanted = "expected a parameter, `argument(\"/place\")` or a number such as `5` or `0.25`";
    let (digits, suffix, span) = if input.peek(LitInt) {
        let number: LitInt = input.parse()?;
        (number.base10_digits().to_owned(), number.suffix().to_owned(), number.span())
    } else if input.peek(LitFloat) {
        let number: LitFloat = input.parse()?;
        (number.base10_digits().to_owned(), number.suffix().to_owned(), number.span())
    } else {
        return Err(error(input.span(), wanted));
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if !suffix.is_empty() || !plain || digits.ends_with('.') {
        return Err(error(span, wanted));
    }
    Ok(LitStr::new(&digits, span))
}

fn a_unit(input: ParseStream<'_>) -> syn::Result<LitStr> {
    let wanted = "expected a parameter, `argument(\"/place\")` or a text such as \"EUR\"";
    let unit: LitStr = input.parse().map_err(|cause: syn::Error| error(cause.span(), wanted))?;
    let found = unit.value();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=UNIT_LEN_MAX).contains(&found.len()) && found.bytes().all(plain) {
        return Ok(unit);
    }
    let wanted = "a unit of 1 to 16 ASCII letters, digits, `_` or `-`";
    Err(error(unit.span(), format!("expected {wanted}, found \"{found}\"")))
}

fn argument<'a>(
    named: &Ident,
    parameters: &'a [Parameter],
) -> Option<&'a crate::parameter::Argument> {
    let found = parameters.iter().find(|parameter| parameter.ident == *named)?;
    match &found.kind {
        Kind::Argument(argument) => Some(argument),
        Kind::Context | Kind::Service(_) | Kind::OptionalService(_) => None,
    }
}

/// Refuses an argument that would leave a call without a price.
fn tells(named: &Ident, parameters: &[Parameter]) -> syn::Result<()> {
    let wrong = |message: String| Err(error(named.span(), message));
    let Some(argument) = argument(named, parameters) else {
        return wrong(format!("no argument of this function is called `{named}`"));
    };
    if argument.secret == Secrecy::Secret {
        return wrong(format!("`{named}` is secret, so that no limit could be held against it"));
    }
    if argument.may_be_left_out() {
        let message = "may be left out, and then nobody could tell the price; make it required";
        return wrong(format!("`{named}` {message}"));
    }
    Ok(())
}
