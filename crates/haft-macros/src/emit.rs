//! The code that makes a tool of a function, for functions and methods alike.

use proc_macro2::TokenStream;
use quote::{ToTokens as _, quote, quote_spanned};
use syn::{Path, ReturnType};

use crate::function::{Function, Parameters};
use crate::options::{Output, Thread};
use crate::parameter::{Kind, Parameter, Secrecy};

/// How the function is reached from the generated code.
pub(crate) enum Callee {
    /// By its path.
    Function(TokenStream),
    /// As `Self::name`, on a value that stands in `self`.
    Method,
}

/// Permits lints in generated code. It cannot expect them: whether they have something to say
/// depends on the function.
pub(crate) fn permit(lints: &TokenStream) -> TokenStream {
    let level = quote::format_ident!("allow");
    quote!(#[#level(#lints)])
}

/// The lints that could only be about generated code.
pub(crate) fn permit_generated() -> TokenStream {
    permit(&quote!(deprecated, unreachable_pub, clippy::all, clippy::pedantic))
}

/// The lint that would have a function borrow what a call gives away.
pub(crate) fn permit_owned() -> TokenStream {
    permit(&quote!(clippy::needless_pass_by_value))
}

/// Returns an expression that makes the tool.
pub(crate) fn tool(function: &Function, generics: &Parameters<'_>, callee: &Callee) -> TokenStream {
    let haft = &function.options.haft;
    let arguments = arguments(function, generics);
    let definition = definition(function, generics);
    let needs = function.parameters.iter().filter_map(Parameter::need);
    let run = closure(function, generics, callee, &run(function, callee));
    let hook = |hook: Option<&Path>, method: &str| {
        let path = hook?;
        let code = with_hook(function, callee, path, method);
        Some((quote::format_ident!("with_{method}"), closure(function, generics, callee, &code)))
    };
    let (with, hooks): (Vec<_>, Vec<_>) = [
        hook(function.options.preview.as_ref(), "preview"),
        hook(function.options.verify.as_ref(), "verify"),
    ]
    .into_iter()
    .flatten()
    .unzip();
    quote! {
        {
            use #haft::__private as __haft;
            #arguments
            #definition
            __haft::WrittenTool::new(__definition, ::std::vec![#(#needs),*], #run)
                #(.#with(#hooks))*
        }
    }
}

/// The arguments as a type: its schema is what the model sees.
fn arguments(function: &Function, generics: &Parameters<'_>) -> TokenStream {
    let haft = &function.options.haft;
    let serde = quote!(#haft::__private::serde).to_string().replace(' ', "");
    let schemars = quote!(#haft::__private::schemars).to_string().replace(' ', "");
    let declarations = generics.argument_declarations();
    let fields = function.parameters.iter().filter_map(Parameter::field);
    let defaults = function.parameters.iter().filter_map(Parameter::default);
    quote! {
        #[derive(__haft::serde::Deserialize, __haft::schemars::JsonSchema)]
        #[serde(crate = #serde, deny_unknown_fields)]
        #[schemars(crate = #schemars)]
        struct __Arguments #declarations { #(#fields),* }
        #(#defaults)*
    }
}

fn definition(function: &Function, generics: &Parameters<'_>) -> TokenStream {
    let Function { options, name, description, parameters, .. } = function;
    let names = generics.argument_names();
    let settings = options.settings(parameters);
    let routing = options.routing.settings(description);
    let injected = parameters.iter().filter_map(Parameter::injected);
    let secrets = parameters.iter().filter_map(|parameter| match &parameter.kind {
        Kind::Argument(argument) if argument.secret == Secrecy::Secret => Some(parameter.place()),
        _ => None,
    });
    let output = match &options.output {
        Output::Undeclared => None,
        Output::Type(ty) => Some(ty.to_token_stream()),
        Output::Returned => Some(match &function.output {
            ReturnType::Default => quote!(()),
            ReturnType::Type(_, ty) => ty.to_token_stream(),
        }),
    };
    let output = output.map(|ty| {
        quote! {
            __definition.output_schema = {
                use __haft::Describing as _;
                ::core::option::Option::Some(__haft::OutputOf::<#ty>::schema(#name))
            };
        }
    });
    let define = options.define.iter();
    quote! {
        let mut __definition = __haft::definition::<__Arguments #names>(#name, #description);
        #settings
        #routing
        #output
        __definition.injected = ::std::vec![#(#injected),*];
        __definition.redaction.secret = ::std::vec![#(__haft::pointer(#secrets)),*];
        #(let __definition = #define(__definition);)*
    }
}

/// A closure that takes the arguments of a call and its context.
fn closure(
    function: &Function,
    generics: &Parameters<'_>,
    callee: &Callee,
    code: &TokenStream,
) -> TokenStream {
    let names = generics.argument_names();
    let injected =
        function.parameters.iter().filter(|parameter| !matches!(parameter.kind, Kind::Argument(_)));
    let injected = injected.map(Parameter::name);
    let pin = quote_spanned!(function.ident.span()=> ::std::boxed::Box::pin);
    let future = quote! {
        #pin(async move {
            let __arguments: __Arguments #names = __haft::read(__arguments, &[#(#injected),*])?;
            #code
        })
    };
    match callee {
        Callee::Function(_) => quote!(|__arguments, __context| #future),
        Callee::Method => quote! {
            {
                let __receiver = ::std::sync::Arc::clone(&self);
                move |__arguments, __context| {
                    let __receiver = ::std::sync::Arc::clone(&__receiver);
                    #future
                }
            }
        },
    }
}

/// Calls the function and takes whatever it returns.
fn run(function: &Function, callee: &Callee) -> TokenStream {
    let call = match callee {
        Callee::Function(path) => call(function, callee, path),
        Callee::Method => {
            let ident = &function.ident;
            call(function, callee, &quote!(Self::#ident))
        }
    };
    let wait = function.is_async.then(|| quote!(.await));
    let span = match &function.output {
        ReturnType::Default => function.ident.span(),
        ReturnType::Type(_, ty) => syn::spanned::Spanned::span(ty),
    };
    let into_returned = quote_spanned!(span=> into_returned);
    let code = quote! {
        use __haft::{Printing as _, Structured as _, Succeeding as _, Telling as _};
        match __haft::Returning(#call #wait).split() {
            ::core::result::Result::Ok(__value) => __value.#into_returned(),
            ::core::result::Result::Err(__error) => {
                ::core::result::Result::Err(__error.into_tool_error())
            }
        }
    };
    match function.options.thread {
        Thread::Inline => code,
        Thread::Blocking => quote!(__haft::blocking(move || { #code }).await),
    }
}

fn with_hook(function: &Function, callee: &Callee, path: &Path, method: &str) -> TokenStream {
    let call = call(function, callee, &path.to_token_stream());
    match method {
        "preview" => quote!(::core::result::Result::Ok(#call.await?)),
        _ => quote!(::core::result::Result::Ok(#call.await)),
    }
}

fn call(function: &Function, callee: &Callee, path: &TokenStream) -> TokenStream {
    let receiver = match callee {
        Callee::Function(_) => None,
        Callee::Method => Some(quote!(&__receiver,)),
    };
    let passed = function.parameters.iter().map(Parameter::passed);
    quote!(#path(#receiver #(#passed),*))
}
