//! A function that is to be a tool: what it is called, what it takes, what the model reads.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens as _, quote};
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, FnArg, GenericParam, Generics, Receiver, ReturnType, Signature, Visibility};

use crate::docs;
use crate::emit::permit_owned;
use crate::options::{Options, Thread};
use crate::parameter::{Parameter, is_own};
use crate::values::{checked_name, error, error_at};

/// A function as it stands in the source. Its body is passed on unread.
pub(crate) struct Source {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    pub(crate) body: TokenStream,
}

impl Parse for Source {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let sig = input.parse().map_err(|cause| {
            error(cause.span(), "expected a function: `#[tool(..)]` makes a tool of one")
        })?;
        Ok(Self { attrs, vis, sig, body: input.parse()? })
    }
}

impl Source {
    /// Returns the function, which owns its arguments because a call does.
    pub(crate) fn tokens(&self) -> TokenStream {
        let Self { attrs, vis, sig, body } = self;
        let owned = permit_owned();
        quote! {
            #(#attrs)*
            #owned
            #vis #sig #body
        }
    }
}

/// Takes everything from a signature that only a tool can have.
pub(crate) fn plain(sig: &mut Signature) {
    for input in &mut sig.inputs {
        if let FnArg::Typed(input) = input {
            input.attrs.retain(|attr| !is_own(attr));
        }
    }
}

/// A function that can be a tool.
pub(crate) struct Function {
    pub(crate) options: Options,
    pub(crate) ident: Ident,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) output: ReturnType,
    pub(crate) is_async: bool,
}

impl Function {
    /// Reads a function.
    pub(crate) fn read(
        options: Options,
        attrs: &[Attribute],
        sig: &Signature,
    ) -> syn::Result<Self> {
        let ident = sig.ident.clone();
        let name = match &options.name {
            Some(name) => name.value(),
            None => syn::ext::IdentExt::unraw(&ident).to_string(),
        };
        let mut found = Errors::default();
        found.note(checked_name(&name, ident.span()));
        found.note(refuse_signature(sig));
        let is_async = sig.asyncness.is_some();
        if is_async && options.thread == Thread::Blocking {
            let message =
                "an `async` function gives way by itself; leave out `async` or `blocking`";
            found.note(Err(error_at(sig.asyncness, message)));
        }
        let description = docs::text(attrs);
        if description.is_empty() {
            let message =
                "expected a doc comment above: by it the model knows when to call the tool";
            found.note(Err(error_at(&ident, message)));
        }
        let mut parameters = Vec::new();
        for input in &sig.inputs {
            if let FnArg::Typed(input) = input {
                found.note(Parameter::read(input).map(|parameter| parameters.push(parameter)));
            }
        }
        if let Some(cost) = &options.cost {
            found.note(cost.check(&parameters));
        }
        let output = sig.output.clone();
        found.finish(Self { options, ident, name, description, parameters, output, is_async })
    }
}

/// Every mistake, so that they are all shown at once.
#[derive(Default)]
struct Errors(Option<syn::Error>);

impl Errors {
    fn note(&mut self, result: syn::Result<()>) {
        let Err(error) = result else { return };
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    fn finish<T>(self, value: T) -> syn::Result<T> {
        self.0.map_or(Ok(value), Err)
    }
}

fn refuse_signature(sig: &Signature) -> syn::Result<()> {
    if let Some(abi) = &sig.abi {
        return Err(error_at(abi, "expected a Rust function; a tool cannot have another ABI"));
    }
    if !matches!(sig.safety, syn::Safety::Default) {
        let message = "expected a safe function: a model cannot keep what `unsafe` demands";
        return Err(error_at(&sig.safety, message));
    }
    for parameter in &sig.generics.params {
        if let GenericParam::Lifetime(lifetime) = parameter {
            let message = "references to services need no name for their lifetime; leave it out";
            return Err(error_at(lifetime, message));
        }
    }
    Ok(())
}

/// Refuses a method that stands outside `#[tools]`.
pub(crate) fn refuse_receiver(sig: &Signature) -> syn::Result<()> {
    let Some(receiver) = sig.receiver() else { return Ok(()) };
    let message = "expected `#[haft::tools]` on the `impl` block: it makes tools of methods";
    Err(error_at(receiver, message))
}

/// Takes `&self` and nothing else.
pub(crate) fn require_shared_receiver(sig: &Signature) -> syn::Result<()> {
    let shared = |receiver: &Receiver| receiver.to_token_stream().to_string() == "& self";
    let message = "expected `&self`: the tools of a value share it and run side by side";
    match sig.receiver() {
        Some(receiver) if shared(receiver) => Ok(()),
        Some(receiver) => Err(error_at(receiver, message)),
        None => Err(error_at(&sig.ident, message)),
    }
}

/// The type parameters of a tool.
pub(crate) struct Parameters<'a> {
    pub(crate) generics: &'a Generics,
    /// Those that stand in the arguments.
    pub(crate) in_arguments: Vec<&'a GenericParam>,
}

impl<'a> Parameters<'a> {
    pub(crate) fn new(generics: &'a Generics, function: &Function) -> Self {
        let fields: TokenStream = function.parameters.iter().filter_map(Parameter::field).collect();
        let in_arguments = generics
            .params
            .iter()
            .filter(|parameter| mentions(fields.clone(), &ident_of(parameter)))
            .collect();
        Self { generics, in_arguments }
    }

    /// Returns what must hold of them for the tool to exist.
    pub(crate) fn bounds(&self, haft: &syn::Path) -> TokenStream {
        let types = self.generics.type_params().map(|parameter| {
            let ident = &parameter.ident;
            quote!(#ident: ::core::marker::Send + ::core::marker::Sync + 'static,)
        });
        let read = self.in_arguments.iter().filter_map(|parameter| match parameter {
            GenericParam::Type(parameter) => {
                let ident = &parameter.ident;
                Some(quote! {
                    #ident: #haft::__private::serde::de::DeserializeOwned
                        + #haft::__private::schemars::JsonSchema,
                })
            }
            GenericParam::Const(_) | GenericParam::Lifetime(_) => None,
        });
        quote!(#(#types)* #(#read)*)
    }

    /// Returns the names of those in the arguments, as `<A, B>`.
    pub(crate) fn argument_names(&self) -> TokenStream {
        let names = self.in_arguments.iter().map(|parameter| ident_of(parameter));
        quote!(<#(#names),*>)
    }

    /// Returns the declarations of those in the arguments, as `<A: Bound, const B: usize>`.
    pub(crate) fn argument_declarations(&self) -> TokenStream {
        let parameters = &self.in_arguments;
        quote!(<#(#parameters),*>)
    }
}

fn ident_of(parameter: &GenericParam) -> Ident {
    match parameter {
        GenericParam::Type(parameter) => parameter.ident.clone(),
        GenericParam::Const(parameter) => parameter.ident.clone(),
        GenericParam::Lifetime(parameter) => parameter.lifetime.ident.clone(),
    }
}

fn mentions(tokens: TokenStream, ident: &Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        proc_macro2::TokenTree::Group(group) => mentions(group.stream(), ident),
        proc_macro2::TokenTree::Ident(found) => found == *ident,
        proc_macro2::TokenTree::Punct(_) | proc_macro2::TokenTree::Literal(_) => false,
    })
}
