//! `#[derive(JsonSchema)]` for crates that depend on `haft` and not on `schemars`.
//!
//! schemars' own derive writes paths that begin with `schemars`, unless an attribute of the type
//! says where else the crate is. A derive cannot add an attribute to its type. So this one repeats
//! the type with that attribute, derives schemars' implementation from the repeated one, and has
//! [`vanish`] take it away again: what is left is the implementation, for the type that the user
//! wrote.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens as _, quote};
use syn::{Attribute, Item, Meta};

/// The attributes of a type that its schema depends on. Any other belongs to another macro, and
/// would run a second time on the repeated type.
const KEPT: &[&str] = &["deprecated", "doc", "garde", "schemars", "serde", "validate"];

pub(crate) fn expand(item: TokenStream) -> TokenStream {
    match syn::parse2(item) {
        Ok(item) => repeated(item),
        Err(error) => error.to_compile_error(),
    }
}

/// What the repeated type is taken away by.
pub(crate) fn vanish() -> TokenStream {
    TokenStream::new()
}

fn repeated(mut item: Item) -> TokenStream {
    let attributes = match &mut item {
        Item::Enum(item) => &mut item.attrs,
        Item::Struct(item) => &mut item.attrs,
        other => {
            let message = "`JsonSchema` is derived for structs and enums";
            return syn::Error::new_spanned(other, message).to_compile_error();
        }
    };
    attributes.retain(|attribute| KEPT.iter().any(|kept| attribute.path().is_ident(kept)));
    let place = match attributes.iter().any(names_the_crate) {
        true => None,
        false => Some(quote!(#[schemars(crate = "::haft::__private::schemars")])),
    };
    let item = item.to_token_stream();
    quote! {
        #[derive(::haft::__private::schemars::JsonSchema)]
        #place
        #[::haft::__private::vanish]
        #item
    }
}

/// Returns whether an attribute says where schemars is.
fn names_the_crate(attribute: &Attribute) -> bool {
    match &attribute.meta {
        Meta::List(list) if attribute.path().is_ident("schemars") => {
            let mut words = list.tokens.clone().into_iter();
            words.any(|word| matches!(word, TokenTree::Ident(word) if word == "crate"))
        }
        Meta::List(_) | Meta::NameValue(_) | Meta::Path(_) => false,
    }
}
