//! The macros of libggml-rs: the attribute of exported functions, and the numbers of enums.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// For an `extern "C"` function that Rust code may leave by unwinding: its body runs inside `crate::guard::run`, which
/// turns a broken contract into the function's way of failing if the host has chosen that policy.
///
/// `#[guarded]` fails with `Refused::refused()` of the return type: NULL, false, 0. `#[guarded(value)]` fails with
/// `value`. The signature stays as it is written, for cbindgen and readers, but a function that is `no_mangle` becomes
/// `extern "C-unwind"`: an exception that has left a function of the host leaves it at its end
/// (`crate::sys::foreign`).
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
    let is_exported = is_exported(&tokens);
    if is_exported {
        tokens.iter_mut().for_each(may_unwind);
    }
    let mut call: TokenStream = "crate::guard::run".parse().unwrap_or_default();
    call.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, arguments))]);
    if is_exported {
        let mut value: TokenStream = "let value =".parse().unwrap_or_default();
        value.extend(call);
        // SAFETY, for the code that this makes: the function returns the value at once, and may be left by unwinding.
        value.extend("; unsafe { crate::sys::foreign::resume() }; value".parse::<TokenStream>());
        call = value;
    }
    tokens.push(TokenTree::Group(Group::new(Delimiter::Brace, call)));
    tokens.into_iter().collect()
}

/// Whether the attributes of a function say `#[unsafe(no_mangle)]`.
fn is_exported(tokens: &[TokenTree]) -> bool {
    tokens.iter().any(|t| matches!(t, TokenTree::Group(g) if g.delimiter() == Delimiter::Bracket && g.to_string().contains("no_mangle")))
}

/// `extern "C-unwind"` in place of `extern "C"`.
fn may_unwind(token: &mut TokenTree) {
    if let TokenTree::Literal(text) = token
        && text.to_string() == "\"C\""
    {
        *token = TokenTree::Literal(proc_macro::Literal::string("C-unwind"));
    }
}

/// For enums that C code names by numbers, each a plain name, with or without a number: `ALL`, every value in its
/// order, `from_raw`, the value with a number, and `DIGEST`, which changes with any name or number. If the name of the
/// last one ends with `_COUNT`, it counts the others and is no value.
#[proc_macro_derive(Numbered)]
pub fn numbered(item: TokenStream) -> TokenStream {
    let made = named_numbers(item).map(|(name, values)| {
        let n = values.len();
        let all: String = values.iter().map(|(value, _)| format!("Self::{value},")).collect();
        let digest = values
            .iter()
            .fold(FNV_START, |digest, (value, number)| fnv(digest, format!("{value}={number};").as_bytes()));
        let arms: String = values.iter().map(|(value, number)| format!("{number} => Self::{value},")).collect();
        format!(
            "impl {name} {{
                /// Every value that stands for something, as they are written down (the `_COUNT` mark is not among
                /// them).
                pub const ALL: [Self; {n}] = [{all}];
                /// Of the names and numbers.
                pub const DIGEST: u64 = {digest};
                /// The value with this number, or `None` when the number names nothing.
                #[inline]
                pub fn from_raw(v: ::core::ffi::c_int) -> Option<Self> {{
                    Some(match v {{ {arms} _ => return None }})
                }}
            }}"
        )
    });
    let text =
        made.unwrap_or_else(|| "compile_error!{\"Numbered is for enums of names, with or without numbers\"}".into());
    text.parse().unwrap_or_default()
}

/// The first state of an FNV-1a digest of 64 bits.
const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// The digest after more bytes.
fn fnv(digest: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(digest, |d, b| (d ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

/// Name of an enum, and its values with their numbers.
fn named_numbers(item: TokenStream) -> Option<(String, Vec<(String, i64)>)> {
    let mut tokens = item.into_iter().skip_while(|t| t.to_string() != "enum").skip(1);
    let name = tokens.next()?.to_string();
    let body = tokens.find_map(|t| match t {
        TokenTree::Group(body) if body.delimiter() == Delimiter::Brace => Some(body.stream()),
        _ => None,
    })?;
    let mut values = Vec::new();
    let (mut next, mut body) = (0, body.into_iter().peekable());
    while let Some(token) = body.next() {
        let value = match token {
            // An attribute: `#` and its brackets.
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                body.next()?;
                continue;
            }
            TokenTree::Ident(value) => value.to_string(),
            _ => return None,
        };
        let number: String =
            std::iter::from_fn(|| body.next_if(|t| t.to_string() != ",")).map(|t| t.to_string()).collect();
        body.next();
        if !number.is_empty() {
            next = number.strip_prefix('=')?.parse().ok()?;
        }
        if !value.ends_with("_COUNT") {
            values.push((value, next));
        }
        next += 1;
    }
    Some((name, values))
}
