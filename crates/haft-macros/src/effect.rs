//! The effect class: the first word of `#[tool(..)]`, and what it says about the world.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Ident;
use syn::parse::{Parse, ParseStream};

use crate::values::error;

/// What a call does to the world.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Only looks.
    Read,
    /// Changes data, in a bounded way that can be revised.
    Write,
    /// Removes data for good.
    Delete,
    /// Acts outside, where nothing can be taken back: mail, orders, payments.
    External,
}

const CHOICES: &str = "`read` (only looks), `write` (changes data), `delete` (removes data for \
                       good) or `external` (acts outside: mail, orders, payments)";

impl Parse for Effect {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let Ok(word) = input.call(<Ident as syn::ext::IdentExt>::parse_any) else {
            let message = "expected what the tool does, found nothing; choose";
            return Err(error(input.span(), format!("{message} {CHOICES}")));
        };
        Ok(match word.to_string().as_str() {
            "read" => Self::Read,
            "write" => Self::Write,
            "delete" => Self::Delete,
            "external" => Self::External,
            found => {
                let message = format!("expected what the tool does, found `{found}`");
                return Err(error(word.span(), format!("{message}; choose {CHOICES}")));
            }
        })
    }
}

impl Effect {
    /// Declares it.
    pub(crate) fn settings(self) -> TokenStream {
        let (mutates, category) = match self {
            Self::Read => (quote!(None), quote!(Read)),
            Self::Write => (quote!(Bounded), quote!(Write)),
            Self::Delete => (quote!(Irreversible), quote!(Delete)),
            Self::External => (quote!(Irreversible), quote!(SideEffect)),
        };
        quote! {
            __definition.facets.mutates = ::core::option::Option::Some(__haft::Mutates::#mutates);
            __definition.category = ::core::option::Option::Some(__haft::Category::#category);
        }
    }

    /// Returns where such a tool reaches when nothing else is declared.
    pub(crate) fn reach(self) -> &'static [&'static str] {
        match self {
            Self::Read | Self::Write | Self::Delete => &[],
            Self::External => &["Network", "ExternalService"],
        }
    }
}
