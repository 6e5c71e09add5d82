//! `#[exact_arguments]`: refuses arguments that a call from Python does not have.
//!
//! `PyO3` refuses them before a method is entered. Its `TypeError` names neither the arguments of
//! the call nor the one that was probably meant. The attribute gives every method two catch-all
//! parameters and checks first that both are empty.

use proc_macro::TokenStream;
use proc_macro2::{Group, TokenStream as Tokens, TokenTree};
use quote::{ToTokens, quote};
use syn::{Attribute, Block, FnArg, ImplItem, Item, Meta, Pat, Signature, Stmt, parse_quote};

/// Checks a call's arguments by `crate::argument::refuse_unexpected`.
///
/// Goes above `#[pymethods]` or `#[pyfunction]`. It extends every `#[pyo3(signature = (...))]`
/// without catch-all parameters of its own; a method without arguments writes `signature = ()`.
#[proc_macro_attribute]
pub fn exact_arguments(_options: TokenStream, item: TokenStream) -> TokenStream {
    expand(item).unwrap_or_else(syn::Error::into_compile_error).into()
}

fn expand(item: TokenStream) -> syn::Result<Tokens> {
    let mut item: Item = syn::parse(item)?;
    match &mut item {
        Item::Impl(methods) => {
            for method in &mut methods.items {
                let ImplItem::Fn(method) = method else { continue };
                let name = method.sig.ident.to_string();
                let constructor = method.attrs.iter().any(|attr| attr.path().is_ident("new"));
                let callable = if constructor {
                    quote!(crate::argument::class::<Self>)
                } else {
                    quote!(crate::argument::method::<Self>(#name))
                };
                check(&mut method.attrs, &mut method.sig, &mut method.block, &callable);
            }
        }
        Item::Fn(function) => {
            let name = python_name(&function.attrs).unwrap_or(function.sig.ident.to_string());
            let callable = quote!(crate::argument::function(#name));
            check(&mut function.attrs, &mut function.sig, &mut function.block, &callable);
        }
        other => {
            return Err(syn::Error::new_spanned(other, "goes above an impl block or a function"));
        }
    }
    Ok(item.into_token_stream())
}

/// Adds the parameters and the check, if the attributes hold a signature that can take them.
fn check(attrs: &mut [Attribute], sig: &mut Signature, block: &mut Block, callable: &Tokens) {
    let Some(next) = attrs.iter_mut().find_map(extend_signature) else { return };
    // PyO3 requires Rust's parameters in the order of Python's.
    let is_next = |input: &FnArg| {
        let FnArg::Typed(input) = input else { return false };
        let Pat::Ident(input) = &*input.pat else { return false };
        input.ident == next
    };
    let at = sig.inputs.iter().position(is_next).unwrap_or(sig.inputs.len());
    sig.inputs.insert(at, parse_quote!(__extra: &::pyo3::Bound<'_, ::pyo3::types::PyTuple>));
    sig.inputs.push(parse_quote! {
        __unknown: ::core::option::Option<&::pyo3::Bound<'_, ::pyo3::types::PyDict>>
    });
    let items = block.stmts.iter().take_while(|stmt| matches!(stmt, Stmt::Item(_))).count();
    block.stmts.insert(
        items,
        parse_quote!(crate::argument::refuse_unexpected(__extra, __unknown, #callable)?;),
    );
}

/// Puts `*__extra` and `**__unknown` into the signature of a `#[pyo3(...)]` attribute.
///
/// Returns the name of the parameter behind `*__extra`, or an empty one. Returns `None` if the
/// attribute has no signature, or one with catch-all parameters.
fn extend_signature(attr: &mut Attribute) -> Option<String> {
    let mut tokens = pyo3_tokens(attr)?;
    let at = value_of(&tokens, "signature")?;
    let TokenTree::Group(signature) = &tokens[at] else { return None };
    let signature_tokens: Vec<TokenTree> = signature.stream().into_iter().collect();
    let mut entries: Vec<&[TokenTree]> =
        signature_tokens.split(|token| is(token, ',')).filter(|entry| !entry.is_empty()).collect();
    if entries.iter().any(|entry| entry.len() > 1 && is(&entry[0], '*')) {
        return None;
    }
    let keyword_only = entries.iter().position(|entry| is(&entry[0], '*'));
    let behind = keyword_only.map_or(Vec::new(), |at| entries.split_off(at).split_off(1));
    let next = behind.first().and_then(|entry| entry.first()).map(ToString::to_string);
    let [before, behind] = [entries, behind].map(|entries| {
        let entries = entries.into_iter().map(|entry| entry.iter().cloned().collect::<Tokens>());
        entries.collect::<Vec<_>>()
    });
    let extended = quote!(#(#before,)* *__extra, #(#behind,)* **__unknown);
    tokens[at] = TokenTree::Group(Group::new(signature.delimiter(), extended));
    let Meta::List(list) = &mut attr.meta else { return None };
    list.tokens = tokens.into_iter().collect();
    Some(next.unwrap_or_default())
}

/// Returns the name that `#[pyo3(name = "...")]` gives a function in Python.
fn python_name(attrs: &[Attribute]) -> Option<String> {
    attrs.iter().find_map(|attr| {
        let tokens = pyo3_tokens(attr)?;
        let name = tokens.get(value_of(&tokens, "name")?)?.to_string();
        Some(name.trim_matches('"').to_owned())
    })
}

/// Returns the contents of `#[pyo3(...)]`.
fn pyo3_tokens(attr: &Attribute) -> Option<Vec<TokenTree>> {
    match &attr.meta {
        Meta::List(list) if list.path.is_ident("pyo3") => {
            Some(list.tokens.clone().into_iter().collect())
        }
        _ => None,
    }
}

/// Returns the position of the value in `key = value`.
fn value_of(tokens: &[TokenTree], key: &str) -> Option<usize> {
    let is_key = |token: &TokenTree| matches!(token, TokenTree::Ident(ident) if ident == key);
    let pairs = tokens.windows(2).position(|pair| is_key(&pair[0]) && is(&pair[1], '='));
    pairs.map(|at| at + 2).filter(|at| *at < tokens.len())
}

fn is(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}
