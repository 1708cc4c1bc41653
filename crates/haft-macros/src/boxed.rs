//! Async functions whose bodies are compiled where they are written.
//!
//! What an `async fn` does is compiled by whoever awaits it, and again by each of them. A boxed one
//! is compiled once, for one allocation a call. It is never inlined: a small one would take its body
//! along.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{
    FnArg, GenericArgument, GenericParam, Ident, ImplItem, ImplItemFn, Item, ItemFn, ItemImpl,
    Lifetime, Pat, PathArguments, ReceiverKind, ReturnType, Signature, Type, Visibility,
    parse_quote,
};

pub(crate) fn expand(item: TokenStream) -> TokenStream {
    match syn::parse2(item) {
        Ok(Item::Impl(block)) => methods(block),
        Ok(Item::Fn(function)) => free(function),
        Ok(other) => {
            let message = "expected a function or an `impl` block";
            syn::Error::new_spanned(other, message).into_compile_error()
        }
        Err(error) => error.into_compile_error(),
    }
}

fn methods(mut block: ItemImpl) -> TokenStream {
    let mut items = Vec::new();
    for item in block.items {
        match item {
            ImplItem::Fn(method) if is_to_box(&method.vis, &method.sig) => {
                let [outer, inner] = method_pair(method);
                items.push(ImplItem::Fn(outer));
                items.push(ImplItem::Fn(inner));
            }
            other => items.push(other),
        }
    }
    block.items = items;
    quote!(#block)
}

/// What has type parameters is compiled by its users however it is written.
fn is_to_box(vis: &Visibility, sig: &Signature) -> bool {
    let types = |parameter: &GenericParam| !matches!(parameter, GenericParam::Lifetime(_));
    let anonymous = |input: &FnArg| match input {
        FnArg::Typed(typed) => matches!(*typed.ty, Type::ImplTrait(_)),
        FnArg::Receiver(_) => false,
    };
    matches!(vis, Visibility::Public(_))
        && sig.asyncness.is_some()
        && !sig.generics.params.iter().any(types)
        && !sig.inputs.iter().any(anonymous)
}

fn method_pair(method: ImplItemFn) -> [ImplItemFn; 2] {
    let name = format_ident!("{}_unboxed", method.sig.ident);
    let mut outer = method.clone();
    let arguments = arguments(&mut outer.sig);
    let call = match method.sig.receiver() {
        Some(_) => quote!(self.#name(#(#arguments),*)),
        None => quote!(Self::#name(#(#arguments),*)),
    };
    outer.sig = boxed(outer.sig);
    outer.attrs.push(parse_quote!(#[inline(never)]));
    outer.block = parse_quote!({ ::std::boxed::Box::pin(#call) });
    let mut inner = method;
    inner.attrs.retain(|attribute| attribute.path().is_ident("expect"));
    inner.vis = Visibility::Inherited;
    inner.sig.ident = name;
    [outer, inner]
}

fn free(function: ItemFn) -> TokenStream {
    let name = format_ident!("{}_unboxed", function.sig.ident);
    let mut outer = function.clone();
    let arguments = arguments(&mut outer.sig);
    outer.sig = boxed(outer.sig);
    outer.attrs.push(parse_quote!(#[inline(never)]));
    outer.block = parse_quote!({ ::std::boxed::Box::pin(#name(#(#arguments),*)) });
    let mut inner = function;
    inner.attrs.clear();
    inner.vis = Visibility::Inherited;
    inner.sig.ident = name;
    quote!(#outer #inner)
}

/// Names the arguments: what is taken apart is taken apart inside.
fn arguments(sig: &mut Signature) -> Vec<Ident> {
    let typed = sig.inputs.iter_mut().filter_map(|input| match input {
        FnArg::Typed(typed) => Some(&mut *typed.pat),
        FnArg::Receiver(_) => None,
    });
    let named = typed.enumerate().map(|(place, pattern)| {
        let name = match pattern {
            Pat::Ident(name) => name.ident.clone(),
            _ => format_ident!("argument_{place}"),
        };
        *pattern = parse_quote!(#name);
        name
    });
    named.collect()
}

/// Everything that the caller lends is lent for as long as the future lives.
fn boxed(mut sig: Signature) -> Signature {
    sig.asyncness = None;
    let lent: Lifetime = parse_quote!('lent);
    for input in &mut sig.inputs {
        match input {
            FnArg::Receiver(receiver) => {
                receiver.mutability = None;
                if let ReceiverKind::Reference(_, lifetime, _) = &mut receiver.kind {
                    lifetime.get_or_insert_with(|| lent.clone());
                }
            }
            FnArg::Typed(typed) => lend(&mut typed.ty, &lent),
        }
    }
    let output: Type = match &sig.output {
        ReturnType::Default => parse_quote!(()),
        ReturnType::Type(_, output) => (**output).clone(),
    };
    let named = sig.generics.lifetimes().map(|named| named.lifetime.clone());
    let bounds: Vec<_> = named.collect();
    sig.generics.params.insert(0, parse_quote!('lent));
    for named in bounds {
        sig.generics.make_where_clause().predicates.push(parse_quote!(#named: 'lent));
    }
    sig.output = parse_quote! {
        -> ::std::pin::Pin<::std::boxed::Box<
            dyn ::std::future::Future<Output = #output> + ::std::marker::Send + 'lent,
        >>
    };
    sig
}

fn lend(ty: &mut Type, lent: &Lifetime) {
    match ty {
        Type::Reference(reference) => {
            reference.lifetime.get_or_insert_with(|| lent.clone());
            lend(&mut reference.elem, lent);
        }
        Type::Slice(slice) => lend(&mut slice.elem, lent),
        Type::Tuple(tuple) => tuple.elems.iter_mut().for_each(|ty| lend(ty, lent)),
        Type::Path(path) => {
            for segment in &mut path.path.segments {
                if let PathArguments::AngleBracketed(given) = &mut segment.arguments {
                    given.args.iter_mut().for_each(|argument| lend_argument(argument, lent));
                }
            }
        }
        _ => {}
    }
}

fn lend_argument(argument: &mut GenericArgument, lent: &Lifetime) {
    match argument {
        GenericArgument::Lifetime(lifetime) if lifetime.ident == "_" => *lifetime = lent.clone(),
        GenericArgument::Type(ty) => lend(ty, lent),
        _ => {}
    }
}
