//! The one attribute of libggml-rs.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Stands before an `extern "C"` function that Rust code may leave by unwinding: its body runs inside `crate::guard::run`,
/// which turns a broken contract into the function's way of failing when the host has asked for that.
///
/// `#[guarded]` fails with `Refused::refused()` of the return type: NULL, false, 0. `#[guarded(value)]` fails with `value`.
/// The signature stays as it is written, so that cbindgen and readers see it.
#[proc_macro_attribute]
pub fn guarded(value: TokenStream, item: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    let body = match tokens.pop() {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => body,
        _ => return "compile_error!{\"the attribute stands before functions\"}".parse().unwrap_or_default(),
    };
    let refused = match value.is_empty() {
        true => "|| crate::guard::Refused::refused(),".parse().unwrap_or_default(),
        false => {
            let mut closure: TokenStream = "||".parse().unwrap_or_default();
            closure.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, value))]);
            closure.extend(",".parse::<TokenStream>());
            closure
        }
    };
    let mut arguments: TokenStream = refused;
    arguments.extend("||".parse::<TokenStream>());
    arguments.extend([TokenTree::Group(body)]);
    let mut call: TokenStream = "crate::guard::run".parse().unwrap_or_default();
    call.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, arguments))]);
    tokens.push(TokenTree::Group(Group::new(Delimiter::Brace, call)));
    tokens.into_iter().collect()
}
