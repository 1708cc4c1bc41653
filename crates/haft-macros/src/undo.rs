//! `undo(..)`: which call takes this one back, with which arguments, and for how long.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream};
use syn::{Ident, Lit, Token, parenthesized};

use crate::options::{assigned, assigned_text, millis};
use crate::values::{ToolRef, error, list, pointer, text, word};

/// A compensating call.
pub(crate) struct Undo {
    tool: ToolRef,
    window: TokenStream,
    arguments: Vec<TokenStream>,
}

#[derive(Clone, Copy)]
enum Part {
    Tool,
    Window,
    Arguments,
}

const PARTS: [(&str, Part); 3] =
    [("tool", Part::Tool), ("window", Part::Window), ("args", Part::Arguments)];

const YEAR_MS: u64 = 366 * 86_400_000;

impl Parse for Undo {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let content;
        let parens = parenthesized!(content in input);
        let (mut tool, mut window, mut arguments) = (None, None, Vec::new());
        while !content.is_empty() {
            match word(&content, &PARTS)? {
                Part::Tool => tool = Some(assigned(&content)?),
                Part::Window => window = Some(millis(&assigned_text(&content)?, YEAR_MS)?),
                Part::Arguments => arguments = list(&content, argument)?,
            }
            if !content.is_empty() {
                content.parse::<Token![,]>()?;
            }
        }
        let missing = |what| error(parens.span.join(), format!("`undo` needs {what}"));
        let tool = tool.ok_or_else(|| missing("`tool = other_tool`: what takes the call back"))?;
        let window =
            window.ok_or_else(|| missing("`window = \"10m\"`: how long it may be used"))?;
        Ok(Self { tool, window, arguments })
    }
}

impl Undo {
    /// Returns it as an expression.
    pub(crate) fn value(&self) -> TokenStream {
        let (tool, window, arguments) = (self.tool.name(), &self.window, &self.arguments);
        quote! {
            __haft::Undo {
                tool: #tool,
                arguments: [#(#arguments),*].into(),
                window: #window,
            }
        }
    }
}

/// One argument of the compensating call, `name = source`.
fn argument(input: ParseStream<'_>) -> syn::Result<TokenStream> {
    let name = input.call(Ident::parse_any)?.unraw().to_string();
    input.parse::<Token![=]>()?;
    let source = if input.peek(Ident) && !input.peek(syn::LitBool) {
        let source = word(input, &[("result", "Result"), ("argument", "Argument")])?;
        let source = quote::format_ident!("{source}");
        let content;
        parenthesized!(content in input);
        let place = pointer(&text(&content)?)?;
        quote!(#source(#place))
    } else {
        let literal: Lit = input.parse().map_err(|cause| {
            let wanted = "`result(\"/place\")`, `argument(\"/place\")` or a literal";
            error(cause.span(), format!("expected where the argument comes from: {wanted}"))
        })?;
        quote!(Literal(#literal.into()))
    };
    Ok(quote!((#name.into(), __haft::UndoSource::#source)))
}
