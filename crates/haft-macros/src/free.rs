//! `#[tool(..)]` on a function: the function as it was, and a type of the same name beside it.

use proc_macro2::TokenStream;
use quote::quote;

use crate::emit::{self, Callee};
use crate::function::{Function, Parameters, Source, plain, refuse_receiver};

pub(crate) fn expand(options: TokenStream, item: &TokenStream) -> TokenStream {
    let mut source: Source = match syn::parse2(item.clone()) {
        Ok(source) => source,
        Err(error) => {
            let error = error.to_compile_error();
            return quote!(#error #item);
        }
    };
    let tool = declare(options, &source);
    plain(&mut source.sig);
    let function = source.tokens();
    let tool = tool.unwrap_or_else(|error| error.to_compile_error());
    quote!(#function #tool)
}

fn declare(options: TokenStream, source: &Source) -> syn::Result<TokenStream> {
    refuse_receiver(&source.sig)?;
    let function = Function::read(syn::parse2(options)?, &source.attrs, &source.sig)?;
    let generics = Parameters::new(&source.sig.generics, &function);
    let (declared, names, conditions) = source.sig.generics.split_for_impl();
    let (ident, vis, haft, name) =
        (&function.ident, &source.vis, &function.options.haft, &function.name);
    let turbofish = names.as_turbofish();
    let tool = emit::tool(&function, &generics, &Callee::Function(quote!(#ident #turbofish)));
    let bounds = generics.bounds(haft);
    let variants = (!source.sig.generics.params.is_empty()).then(|| {
        let types = source.sig.generics.type_params().map(|parameter| &parameter.ident);
        quote! {
            #[doc(hidden)]
            __Never(::core::convert::Infallible, ::core::marker::PhantomData<fn() -> (#(#types,)*)>),
        }
    });
    let cfg = source.attrs.iter().filter(|attr| attr.path().is_ident("cfg")).collect::<Vec<_>>();
    let doc = format!("The tool `{name}`, which runs the function of this name.");
    let all = &source.sig.generics;
    let any_case = emit::permit(&quote!(non_camel_case_types));
    let unused = emit::permit(&quote!(dead_code));
    let generated = emit::permit_generated();
    Ok(quote! {
        #(#cfg)*
        #[doc = #doc]
        #any_case
        #[derive(Debug)]
        #vis enum #ident #all #conditions { #variants }

        #(#cfg)*
        #[automatically_derived]
        impl #declared #ident #names #conditions {
            /// The name under which the model calls the tool.
            #unused
            #vis const NAME: &'static str = #name;

            /// Makes the tool, to be registered.
            #generated
            #vis fn tool() -> impl #haft::__private::Tool
            where
                #bounds
            {
                #tool
            }
        }
    })
}
