//! When a tool is the right one, and when another is: the routing contract of document 001.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{LitStr, Token};

use crate::values::{ToolRef, text};

/// The parts of a description beside the doc comment.
#[derive(Default)]
pub(crate) struct Routing {
    pub(crate) use_when: Option<LitStr>,
    pub(crate) not_for: Vec<NotFor>,
    pub(crate) source: Option<LitStr>,
}

/// A near miss, `"case" => other_tool`.
pub(crate) struct NotFor {
    case: LitStr,
    instead: ToolRef,
}

impl Parse for NotFor {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let case = text(input)?;
        input.parse::<Token![=>]>()?;
        Ok(Self { case, instead: input.parse()? })
    }
}

impl Routing {
    /// Declares the parts, if there are any, and lets the model read them after the doc comment.
    pub(crate) fn settings(&self, does: &str) -> Option<TokenStream> {
        let use_when = self.use_when.as_ref()?;
        let not_for = self.not_for.iter().map(|NotFor { case, instead }| {
            let instead = instead.name();
            quote!(__haft::NotFor { case: #case.into(), instead: #instead })
        });
        let source = match &self.source {
            Some(source) => quote!(::core::option::Option::Some(#source.into())),
            None => quote!(::core::option::Option::None),
        };
        Some(quote! {
            __haft::route(&mut __definition, __haft::Routing {
                does: #does.into(),
                use_when: #use_when.into(),
                not_for: ::std::vec![#(#not_for),*],
                source: #source,
            });
        })
    }
}
