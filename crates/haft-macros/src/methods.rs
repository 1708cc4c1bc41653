//! `#[tools]` on an `impl` block: the block as it was, and a method that makes its tools.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens as _, format_ident, quote};
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Ident, ImplItem, ImplItemFn, ItemImpl, Path, Token};

use crate::emit::{self, Callee};
use crate::function::{Function, Parameters, plain, require_shared_receiver};
use crate::options::{Options, assigned};
use crate::values::{error, error_at};

/// What `#[tools(..)]` says.
struct Settings {
    /// The method to write.
    method: Ident,
    haft: Path,
}

impl Parse for Settings {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut settings = Self { method: format_ident!("tools"), haft: syn::parse_quote!(::haft) };
        while !input.is_empty() {
            let word = input.call(Ident::parse_any)?;
            match word == "crate" {
                true => settings.haft = assigned(input)?,
                false => settings.method = word,
            }
            if !input.is_empty() {
                input.parse::<Token![,]>().map_err(|cause| {
                    let message = "expected nothing, or the name of the method to write";
                    error(cause.span(), format!("{message}, as in `#[tools(billing_tools)]`"))
                })?;
            }
        }
        Ok(settings)
    }
}

pub(crate) fn expand(settings: TokenStream, item: &TokenStream) -> TokenStream {
    let mut block: ItemImpl = match syn::parse2(item.clone()) {
        Ok(block) => block,
        Err(cause) => {
            let message = "expected an `impl` block: `#[tools]` makes tools of its methods";
            let error = error(cause.span(), message).to_compile_error();
            return quote!(#error #item);
        }
    };
    let tools = declare(settings, &block).unwrap_or_else(|error| error.to_compile_error());
    for item in &mut block.items {
        if let ImplItem::Fn(method) = item
            && method.attrs.iter().any(is_tool)
        {
            method.attrs.retain(|attr| !is_tool(attr));
            plain(&mut method.sig);
            let owned = emit::permit_owned();
            method.attrs.push(syn::parse_quote!(#owned));
        }
    }
    quote!(#block #tools)
}

fn declare(settings: TokenStream, block: &ItemImpl) -> syn::Result<TokenStream> {
    let Settings { method, haft } = syn::parse2(settings)?;
    if let Some((path, _)) = &block.trait_ {
        let message = "expected an `impl` block of a type itself; a trait's methods are its own";
        return Err(error_at(path, message));
    }
    let marked: Vec<(&ImplItemFn, &Attribute)> = block
        .items
        .iter()
        .filter_map(|item| match item {
            ImplItem::Fn(method) => Some((method, method.attrs.iter().find(|a| is_tool(a))?)),
            _ => None,
        })
        .collect();
    if marked.is_empty() {
        let message = "expected `#[tool(..)]` on at least one method of this block";
        return Err(error_at(&block.self_ty, message));
    }
    let mut bounds = TokenStream::new();
    let mut tools = TokenStream::new();
    for (method, attr) in marked {
        let mut function = read(method, attr)?;
        function.options.haft = haft.clone();
        let generics = Parameters::new(&block.generics, &function);
        bounds.extend(generics.bounds(&haft));
        let tool = emit::tool(&function, &generics, &Callee::Method);
        let cfg = method.attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
        tools.extend(quote!(#(#cfg)* __tools.push(::std::sync::Arc::new(#tool));));
    }
    let (declared, _, conditions) = block.generics.split_for_impl();
    let (ty, generated) = (&block.self_ty, emit::permit_generated());
    Ok(quote! {
        #[automatically_derived]
        impl #declared #ty #conditions {
            /// Makes the tools of this value, to be registered.
            #generated
            pub fn #method(
                self: ::std::sync::Arc<Self>,
            ) -> ::std::vec::Vec<::std::sync::Arc<dyn #haft::__private::Tool>>
            where
                Self: ::core::marker::Send + ::core::marker::Sync + 'static,
                #bounds
            {
                let mut __tools =
                    ::std::vec::Vec::<::std::sync::Arc<dyn #haft::__private::Tool>>::new();
                #tools
                __tools
            }
        }
    })
}

fn read(method: &ImplItemFn, attr: &Attribute) -> syn::Result<Function> {
    let options: Options = match &attr.meta {
        syn::Meta::List(list) => syn::parse2(list.tokens.clone()).map_err(|cause| {
            // An empty list has no place of its own to point at.
            if list.tokens.is_empty() { error_at(attr, cause) } else { cause }
        }),
        _ => syn::parse2(TokenStream::new()).map_err(|cause| error_at(attr, cause)),
    }?;
    require_shared_receiver(&method.sig)?;
    if let Some(parameter) = method.sig.generics.params.first() {
        let message = "a tool has no type parameters of its own here; put them on the `impl` block";
        return Err(error_at(parameter, message));
    }
    for input in method.sig.inputs.iter().skip(1) {
        if let Some(span) = self_in(input.to_token_stream()) {
            return Err(error(span, "expected the type by its name instead of `Self`"));
        }
    }
    Function::read(options, &method.attrs, &method.sig)
}

fn self_in(tokens: TokenStream) -> Option<Span> {
    tokens.into_iter().find_map(|token| match token {
        proc_macro2::TokenTree::Group(group) => self_in(group.stream()),
        proc_macro2::TokenTree::Ident(ident) if ident == "Self" => Some(ident.span()),
        _ => None,
    })
}

fn is_tool(attr: &Attribute) -> bool {
    attr.path().segments.last().is_some_and(|segment| segment.ident == "tool")
}
