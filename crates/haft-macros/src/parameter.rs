//! The parameters of a tool's function: what the model chooses, and what the runtime supplies.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens as _, format_ident, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::parse::ParseStream;
use syn::spanned::Spanned as _;
use syn::{
    Attribute, Expr, ExprLit, GenericArgument, Ident, Lit, LitStr, Pat, PatType, PathArguments,
    Token, Type, TypeReference,
};

use crate::docs;
use crate::values::{error, error_at, text};

/// One parameter.
pub(crate) struct Parameter {
    pub(crate) ident: Ident,
    pub(crate) kind: Kind,
}

pub(crate) enum Kind {
    /// The model chooses it.
    Argument(Box<Argument>),
    /// The call's context.
    Context,
    /// What the application hands to its tools.
    Service(Box<Type>),
    /// The same, where there may be none.
    OptionalService(Box<Type>),
}

/// What the model is told about an argument.
pub(crate) struct Argument {
    pub(crate) ty: Type,
    pub(crate) secret: Secrecy,
    docs: String,
    name: Option<LitStr>,
    default: Default,
    /// Constraints for the schema.
    schemars: Vec<Attribute>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secrecy {
    Open,
    Secret,
}

enum Default {
    Required,
    OfType,
    Value(Box<Expr>),
}

impl Parameter {
    /// Reads a parameter.
    pub(crate) fn read(input: &PatType) -> syn::Result<Self> {
        let Pat::Ident(pattern) = &*input.pat else {
            return Err(error_at(&input.pat, "expected a name: arguments are passed by it"));
        };
        let ident = pattern.ident.clone();
        let mut argument = Argument::new((*input.ty).clone());
        argument.read(&input.attrs)?;
        let kind = Kind::of(argument, input.attrs.iter().find(|attr| is_own(attr)))?;
        Ok(Self { ident, kind })
    }

    /// Returns the name under which the model passes it.
    pub(crate) fn name(&self) -> String {
        let renamed = match &self.kind {
            Kind::Argument(argument) => argument.name.as_ref(),
            Kind::Context | Kind::Service(_) | Kind::OptionalService(_) => None,
        };
        renamed.map_or_else(|| self.ident.unraw().to_string(), LitStr::value)
    }

    /// Returns where in the arguments it stands.
    pub(crate) fn place(&self) -> String {
        format!("/{}", self.name().replace('~', "~0").replace('/', "~1"))
    }

    /// Returns the field that carries an argument.
    pub(crate) fn field(&self) -> Option<TokenStream> {
        let Kind::Argument(argument) = &self.kind else { return None };
        let Argument { ty, docs, schemars, .. } = &**argument;
        let (ident, name) = (&self.ident, self.name());
        let description = (!docs.is_empty()).then(|| quote!(#[schemars(description = #docs)]));
        let default = match &argument.default {
            Default::Required => None,
            // Serde takes a missing `Option` for `None` anyway, and the schema need not say so.
            Default::OfType if is_option(ty) => None,
            Default::OfType => Some(quote!(#[serde(default)])),
            Default::Value(_) => {
                let function = self.default_function().to_string();
                Some(quote!(#[serde(default = #function)]))
            }
        };
        Some(quote!(#description #(#schemars)* #default #[serde(rename = #name)] #ident: #ty))
    }

    /// Returns the function that makes the default.
    pub(crate) fn default(&self) -> Option<TokenStream> {
        let Kind::Argument(argument) = &self.kind else { return None };
        let Default::Value(value) = &argument.default else { return None };
        let (function, ty) = (self.default_function(), &argument.ty);
        let value = match &**value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
                quote_spanned!(text.span()=> ::core::convert::Into::into(#text))
            }
            value => quote!(#value),
        };
        Some(quote!(fn #function() -> #ty { #value }))
    }

    fn default_function(&self) -> Ident {
        format_ident!("__default_{}", self.ident.unraw())
    }

    /// Returns what the function is called with.
    pub(crate) fn passed(&self) -> TokenStream {
        let ident = &self.ident;
        match &self.kind {
            Kind::Argument(_) => quote!(__arguments.#ident),
            Kind::Context => quote!(&__context),
            Kind::Service(ty) => quote!(__context.service::<#ty>()?),
            Kind::OptionalService(ty) => quote!(__context.services().get::<#ty>()),
        }
    }

    /// Returns what must have been given to the runtime.
    pub(crate) fn need(&self) -> Option<TokenStream> {
        let Kind::Service(ty) = &self.kind else { return None };
        Some(quote_spanned!(ty.span()=> __haft::Need::of::<#ty>()))
    }

    /// Returns what the definition says about a parameter that the model never sees.
    pub(crate) fn injected(&self) -> Option<TokenStream> {
        let kind = match &self.kind {
            Kind::Argument(_) => return None,
            Kind::Context => quote!(RunContext),
            Kind::Service(_) | Kind::OptionalService(_) => quote!(State),
        };
        let name = self.name();
        Some(quote!(__haft::Injected { name: #name.into(), kind: __haft::InjectedKind::#kind }))
    }
}

impl Kind {
    fn of(argument: Argument, own: Option<&Attribute>) -> syn::Result<Self> {
        let kind = match &argument.ty {
            Type::Reference(reference) => supplied(reference)?,
            ty => match optional_reference(ty) {
                Some(reference) => match supplied(reference)? {
                    Self::Service(ty) => Self::OptionalService(ty),
                    _ => {
                        return Err(error_at(
                            ty,
                            "a call always has a context; write `&ToolContext`",
                        ));
                    }
                },
                None => {
                    owned(ty)?;
                    return Ok(Self::Argument(Box::new(argument)));
                }
            },
        };
        match own {
            Some(attr) => {
                let message = "a reference is supplied by the runtime and unknown to the model";
                Err(error_at(attr, format!("{message}; remove this")))
            }
            None => Ok(kind),
        }
    }
}

fn supplied(reference: &TypeReference) -> syn::Result<Kind> {
    if let Some(mutability) = &reference.mutability {
        let message = "calls run side by side, so a service is shared; write `&T` and lock inside";
        return Err(error_at(mutability, message));
    }
    match &*reference.elem {
        Type::Path(path) if path.path.is_ident("str") => {
            Err(error_at(reference, "a reference is a service; write `String` for an argument"))
        }
        Type::Slice(_) => {
            Err(error_at(reference, "a reference is a service; write `Vec<T>` for an argument"))
        }
        Type::TraitObject(_) | Type::ImplTrait(_) => {
            let message = "a service is found by its type; write `&Arc<dyn Trait>`, and give that";
            Err(error_at(reference, message))
        }
        ty if last_segment(ty).is_some_and(|segment| segment.ident == "ToolContext") => {
            Ok(Kind::Context)
        }
        ty => Ok(Kind::Service(Box::new(ty.clone()))),
    }
}

/// Refuses a type that cannot outlive the text it was read from.
fn owned(ty: &Type) -> syn::Result<()> {
    if last_segment(ty).is_some_and(|segment| segment.ident == "ToolContext") {
        return Err(error_at(ty, "the context is lent to a call; write `&ToolContext`"));
    }
    if let Type::ImplTrait(_) = ty {
        let message = "the schema needs to know the type; name it instead of `impl Trait`";
        return Err(error_at(ty, message));
    }
    match borrow_in(ty.to_token_stream()) {
        Some(span) => {
            Err(error(span, "an argument owns what it holds; write `String`, `Vec<T>` or `Box<T>`"))
        }
        None => Ok(()),
    }
}

fn borrow_in(tokens: TokenStream) -> Option<Span> {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => {
                if let Some(span) = borrow_in(group.stream()) {
                    return Some(span);
                }
            }
            TokenTree::Punct(punct) if punct.as_char() == '&' => return Some(punct.span()),
            TokenTree::Punct(punct) if punct.as_char() == '\'' => {
                let forever =
                    matches!(tokens.peek(), Some(TokenTree::Ident(name)) if name == "static");
                if !forever {
                    return Some(punct.span());
                }
            }
            TokenTree::Punct(_) | TokenTree::Ident(_) | TokenTree::Literal(_) => {}
        }
    }
    None
}

fn optional_reference(ty: &Type) -> Option<&TypeReference> {
    let segment = last_segment(ty).filter(|segment| segment.ident == "Option")?;
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(Type::Reference(reference)) => Some(reference),
        _ => None,
    }
}

fn is_option(ty: &Type) -> bool {
    last_segment(ty).is_some_and(|segment| segment.ident == "Option")
}

fn last_segment(ty: &Type) -> Option<&syn::PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
}

/// Returns whether only a tool's parameter can have the attribute.
pub(crate) fn is_own(attr: &Attribute) -> bool {
    ["doc", "tool", "schemars", "serde"].iter().any(|own| attr.path().is_ident(own))
}

impl Argument {
    fn new(ty: Type) -> Self {
        Self {
            ty,
            secret: Secrecy::Open,
            docs: String::new(),
            name: None,
            default: Default::Required,
            schemars: Vec::new(),
        }
    }

    fn read(&mut self, attrs: &[Attribute]) -> syn::Result<()> {
        self.docs = docs::text(attrs);
        for attr in attrs {
            if attr.path().is_ident("serde") {
                let message =
                    "serde's attributes belong on types; here write `#[tool(default)]` or";
                return Err(error_at(attr, format!("{message} `#[tool(name = \"..\")]`")));
            }
            if attr.path().is_ident("schemars") {
                self.schemars.push(attr.clone());
            }
            if attr.path().is_ident("tool") {
                attr.parse_args_with(|input: ParseStream<'_>| self.options(input))?;
            }
        }
        Ok(())
    }

    /// Returns whether a call need not say it.
    pub(crate) fn may_be_left_out(&self) -> bool {
        is_option(&self.ty) || !matches!(self.default, Default::Required)
    }

    fn options(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        while !input.is_empty() {
            let option = input.call(Ident::parse_any)?;
            match option.to_string().as_str() {
                "secret" => self.secret = Secrecy::Secret,
                "default" if input.peek(Token![=]) => {
                    input.parse::<Token![=]>()?;
                    self.default = Default::Value(Box::new(input.parse()?));
                }
                "default" => self.default = Default::OfType,
                "name" => {
                    input.parse::<Token![=]>()?;
                    self.name = Some(text(input)?);
                }
                found => {
                    let known = "`default`, `default = value`, `name = \"..\"` or `secret`";
                    let message = format!("expected {known} on a parameter, found `{found}`");
                    return Err(error(option.span(), message));
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(())
    }
}
