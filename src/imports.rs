//! Checks which module imports which: no import climbs to a higher layer, and none closes a circle.
//!
//! Reads the sources as tokens. A module imports another one if a path in its code, tests aside, leads there; a path
//! that leads through `pub use` leads to the module that defines the item. The units of a folder are its files and its
//! folders, each with all that it contains.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The layers, from the lowest. Those of one row do not know each other.
const LAYERS: [&[&str]; 17] = [
    &["abi"],
    &["error"],
    &["sys"],
    &["log"],
    &["environment"],
    &["trace"],
    &["guard"],
    &["quant"],
    &["tensor"],
    &["graph", "gguf"],
    &["backend"],
    &["alloc"],
    &["sched"],
    &["cpu", "vulkan", "rpc"],
    &["opt"],
    &["capi"],
    &["lib"],
];

type Name = Vec<String>;

/// What a module's code says.
#[derive(Default)]
struct Module {
    /// Names that `use` brings in, and the paths that they abbreviate.
    aliases: BTreeMap<String, Name>,
    /// Those of them that are only passed on (`pub use`).
    passed_on: BTreeSet<String>,
    /// Modules all of whose names it brings in.
    globs: Vec<Name>,
    /// Items that it defines.
    items: BTreeSet<String>,
    /// Paths in its code.
    paths: Vec<Name>,
    /// Modules of it that are for tests only.
    tests: Vec<String>,
}

fn is(token: Option<&TokenTree>, text: &str) -> bool {
    token.is_some_and(|t| match t {
        TokenTree::Ident(i) => i == text,
        TokenTree::Punct(p) => text.len() == 1 && text.starts_with(p.as_char()),
        _ => false,
    })
}

fn ident(token: Option<&TokenTree>) -> Option<String> {
    match token? {
        TokenTree::Ident(i) => Some(i.to_string()),
        _ => None,
    }
}

impl Module {
    /// Reads the tokens of a file, or of a group in it.
    fn read(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let at = |i: usize| tokens.get(i);
        let (mut i, mut tests) = (0, false);
        while i < tokens.len() {
            match &tokens[i] {
                TokenTree::Punct(p) if p.as_char() == '#' => {
                    let attribute = at(i + 1 + usize::from(is(at(i + 1), "!")));
                    let text = attribute.map(TokenTree::to_string).unwrap_or_default();
                    tests |= text.contains("cfg") && !text.contains("not") && text.contains("test");
                    i += 2 + usize::from(is(at(i + 1), "!"));
                    continue;
                }
                // The item, field or statement after an attribute for tests.
                _ if tests => {
                    let end = |t: &TokenTree| matches!(t, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace);
                    let rest = &tokens[i..];
                    let n = rest.iter().position(|t| is(Some(t), ";") || is(Some(t), ",") || end(t));
                    if let Some(k) = rest.iter().position(|t| is(Some(t), "mod")).filter(|&k| k < 5) {
                        self.tests.extend(ident(rest.get(k + 1)));
                    }
                    i += n.map_or(rest.len(), |n| n + 1);
                    tests = false;
                    continue;
                }
                TokenTree::Ident(word) if word == "use" && (i == 0 || !is(at(i - 1), "<")) => {
                    let end = tokens[i..].iter().position(|t| is(Some(t), ";")).map_or(tokens.len(), |n| i + n);
                    let before = self.aliases.clone();
                    self.import(&mut Name::new(), &tokens[i + 1..end]);
                    // `pub`, or `pub(crate)`.
                    if i > 0 && (is(at(i - 1), "pub") || i > 1 && is(at(i - 2), "pub")) {
                        let new = self.aliases.keys().filter(|name| !before.contains_key(*name)).cloned();
                        self.passed_on.extend(new);
                    }
                    i = end;
                }
                TokenTree::Ident(word) => {
                    let word = word.to_string();
                    let defines =
                        ["struct", "enum", "union", "trait", "fn", "const", "static", "type", "mod"].contains(&&*word);
                    if defines && let Some(name) = ident(at(i + 1)) {
                        self.items.insert(name);
                    }
                    if word == "macro_rules" {
                        self.items.extend(ident(at(i + 2)));
                    }
                    i += self.path(&tokens[i..]);
                }
                // `pub(in PATH)` imports nothing.
                TokenTree::Group(_) if i > 0 && is(at(i - 1), "pub") => {}
                TokenTree::Group(g) => self.read(g.stream()),
                _ => {}
            }
            i += 1;
        }
    }

    /// Reads a path in code. Returns how many tokens after the first belong to it.
    fn path(&mut self, tokens: &[TokenTree]) -> usize {
        let mut path: Name = ident(tokens.first()).into_iter().collect();
        let mut n = 0;
        while is(tokens.get(n + 1), ":") && is(tokens.get(n + 2), ":") {
            let Some(next) = ident(tokens.get(n + 3)) else { break };
            path.push(next);
            n += 3;
        }
        if path.len() > 1 {
            self.paths.push(path);
        }
        n
    }

    /// Reads a tree of `use`, which begins with `base`.
    fn import(&mut self, base: &mut Name, tokens: &[TokenTree]) {
        for tree in tokens.split(|t| is(Some(t), ",")) {
            let depth = base.len();
            let mut i = 0;
            loop {
                match tree.get(i) {
                    Some(TokenTree::Group(g)) => {
                        let inner: Vec<TokenTree> = g.stream().into_iter().collect();
                        self.import(base, &inner);
                    }
                    Some(TokenTree::Punct(p)) if p.as_char() == '*' => self.globs.push(base.clone()),
                    Some(TokenTree::Ident(name)) => {
                        if name != "self" || base.is_empty() {
                            base.push(name.to_string());
                        }
                        if is(tree.get(i + 1), ":") {
                            i += 3;
                            continue;
                        }
                        let alias =
                            if is(tree.get(i + 1), "as") { ident(tree.get(i + 2)) } else { base.last().cloned() };
                        self.aliases.extend(alias.map(|alias| (alias, base.clone())));
                    }
                    _ => {}
                }
                break;
            }
            base.truncate(depth);
        }
    }
}

/// All modules of the sources.
struct Sources(BTreeMap<Name, Module>);

impl Sources {
    fn read(root: &Path) -> Self {
        let mut files = Vec::new();
        files_in(root, &mut files);
        let read = |path: PathBuf| {
            let mut name: Name = path.strip_prefix(root).ok()?.with_extension("").iter().map(as_text).collect();
            if matches!(name.last().map(String::as_str), Some("mod" | "lib")) {
                name.pop();
            }
            let mut module = Module::default();
            module.read(std::fs::read_to_string(&path).ok()?.parse().ok()?);
            Some((name, module))
        };
        Self(files.into_iter().filter_map(read).collect())
    }

    fn is_test(&self, name: &[String]) -> bool {
        (1..=name.len()).any(|n| self.0.get(&name[..n - 1]).is_some_and(|m| m.tests.contains(&name[n - 1])))
    }

    /// The module that defines what a path in a module names.
    fn defining(&self, path: &[String], from: &[String], depth: usize) -> Option<Name> {
        let module = self.0.get(from)?;
        let (mut at, mut rest) = match path.first()?.as_str() {
            "crate" => (Name::new(), &path[1..]),
            "self" | "super" => {
                let ups = path.iter().take_while(|p| *p == "super" || *p == "self");
                let (n, up) = (ups.clone().count(), ups.filter(|p| *p == "super").count());
                (from[..from.len().checked_sub(up)?].to_vec(), &path[n..])
            }
            first => {
                let child: Name = from.iter().cloned().chain([first.to_owned()]).collect();
                match module.aliases.get(first).filter(|_| !self.0.contains_key(&child)) {
                    Some(alias) if depth < 12 && alias != path && alias[0] != first => {
                        let whole: Name = alias.iter().chain(&path[1..]).cloned().collect();
                        return self.defining(&whole, from, depth + 1);
                    }
                    _ if self.0.contains_key(&child) => (child, &path[1..]),
                    _ => return None,
                }
            }
        };
        while let Some(next) = rest.first() {
            at.push(next.clone());
            if !self.0.contains_key(&at) {
                at.pop();
                break;
            }
            rest = &rest[1..];
        }
        let (module, Some(item)) = (self.0.get(&at)?, rest.first()) else { return Some(at) };
        if depth >= 12 || module.items.contains(item) {
            return Some(at);
        }
        if let Some(alias) = module.aliases.get(item) {
            let whole: Name = alias.iter().chain(&rest[1..]).cloned().collect();
            return self.defining(&whole, &at, depth + 1).or(Some(at));
        }
        for glob in &module.globs {
            let whole: Name = glob.iter().chain(rest).cloned().collect();
            if let Some(found) = self.defining(&whole, &at, depth + 1)
                && self.0[&found].items.contains(item)
            {
                return Some(found);
            }
        }
        Some(at)
    }

    /// Pairs of modules of which the first imports the second.
    fn imports(&self) -> BTreeSet<(Name, Name)> {
        let mut all = BTreeSet::new();
        for (name, module) in self.0.iter().filter(|(name, _)| !self.is_test(name)) {
            // What `use` brings in counts, but for modules, whose paths in the code do, and re-exports of children.
            let used =
                module.aliases.iter().filter(|(name, path)| !module.passed_on.contains(*name) && !path.is_empty());
            let used = used.map(|(_, path)| path);
            let used = used.filter(|path| self.defining(path, name, 0).is_some_and(|m| m.last() != path.last()));
            for path in used.chain(&module.paths) {
                let Some(other) = self.defining(path, name, 0) else { continue };
                if other != *name && !self.is_test(&other) {
                    all.insert((name.clone(), other));
                }
            }
        }
        all
    }
}

fn as_text(part: &std::ffi::OsStr) -> String {
    part.to_string_lossy().into_owned()
}

fn files_in(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_in(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("spirv/interface.rs") {
            found.push(path);
        }
    }
}

/// The circles of a graph: of each, the members, sorted.
fn circles<T: Ord + Clone>(edges: &BTreeSet<(T, T)>) -> BTreeSet<Vec<T>> {
    let mut next: BTreeMap<&T, Vec<&T>> = BTreeMap::new();
    edges.iter().for_each(|(a, b)| next.entry(a).or_default().push(b));
    let reached = |from: &T| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(at) = open.pop() {
            open.extend(next.get(at).into_iter().flatten().copied().filter(|to| seen.insert((*to).clone())));
        }
        seen
    };
    let reached: BTreeMap<&T, BTreeSet<T>> = next.keys().map(|&n| (n, reached(n))).collect();
    let back = |a: &T, b: &&T| reached.get(*b).is_some_and(|r| r.contains(a));
    reached
        .iter()
        .map(|(&a, r)| r.iter().filter(|b| back(a, b)).cloned().collect())
        .filter(|c: &Vec<T>| c.len() > 1)
        .collect()
}

fn sources() -> Sources {
    let all = Sources::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(all.0.len() > 500, "the sources were not found");
    all
}

fn text(name: &[String]) -> String {
    if name.is_empty() { "lib".into() } else { name.join("::") }
}

/// The unit of a folder to which a module belongs: the next part of its name, or `mod` for the folder itself.
fn unit(name: &[String], folder: &[String]) -> Option<String> {
    let rest = name.strip_prefix(folder)?;
    Some(rest.first().map_or_else(|| "mod".into(), String::clone))
}

#[test]
fn imports_close_no_circle() {
    let (all, imports) = (sources(), sources().imports());
    assert!(imports.len() > 2000, "{} imports: the sources were not read", imports.len());
    let names: BTreeSet<(String, String)> = imports.iter().map(|(a, b)| (text(a), text(b))).collect();
    assert_eq!(circles(&names), BTreeSet::new(), "circles of files");
    let folders: BTreeSet<&[String]> = all.0.keys().flat_map(|n| (0..n.len()).map(|i| &n[..i])).collect();
    for folder in folders {
        let within = imports.iter().filter_map(|(a, b)| Some((unit(a, folder)?, unit(b, folder)?)));
        let found = circles(&within.filter(|(a, b)| a != b).collect());
        assert_eq!(found, BTreeSet::new(), "circles of the files and folders in {}", text(folder));
    }
}

#[test]
fn imports_never_climb() {
    let layer = |name: &Name| {
        let first = name.first().map_or("lib", String::as_str);
        let found = LAYERS.iter().position(|row| row.contains(&first));
        (found.unwrap_or_else(|| panic!("{first} has no layer")), first.to_owned())
    };
    let climbs = |(a, b): &&(Name, Name)| {
        let ((from, a), (to, b)) = (layer(a), layer(b));
        a != b && from <= to
    };
    // What `lib.rs` re-exports as macros belongs to layers of their own.
    let wrong: Vec<_> = sources().imports().into_iter().filter(|pair| climbs(&pair)).collect();
    assert_eq!(wrong, []);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_up(files: &[(&str, &str)]) -> Sources {
        let read = |(name, text): &(&str, &str)| {
            let mut module = Module::default();
            module.read(text.parse().unwrap());
            (name.split("::").filter(|n| !n.is_empty()).map(str::to_owned).collect(), module)
        };
        Sources(files.iter().map(read).collect())
    }

    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        made_up(files).imports().iter().map(|(a, b)| format!("{} {}", text(a), text(b))).collect()
    }

    #[test]
    fn paths_lead_to_the_module_that_defines_the_item() {
        let lib = ("", "mod a; mod b;");
        let user = |code| imports(&[lib, ("a", code), ("b", "pub use c::T; pub mod c;"), ("b::c", "pub struct T;")]);
        for code in ["use crate::b::T;", "use crate::b::{self, c::{T as U}};", "use super::b; fn f() { b::T::new() }"] {
            assert_eq!(user(code), ["a b::c"], "{code}");
        }
        assert_eq!(user("fn f(x: crate::b::c::T) {}"), ["a b::c"]);
        assert_eq!(user("#[cfg(test)] use crate::b::T; #[cfg(test)] mod t { use crate::b; } fn f() {}"), [""; 0]);
        assert_eq!(user("fn f() { /* crate::b::T */ let s = \"crate::b::T\"; }"), [""; 0]);
    }

    #[test]
    fn circles_are_found() {
        let of = |edges: &[(&str, &str)]| circles(&edges.iter().map(|&(a, b)| (a.to_owned(), b.to_owned())).collect());
        assert!(of(&[("a", "b"), ("b", "c"), ("a", "c")]).is_empty());
        let found = of(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("e", "f"), ("f", "e")]);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [["b", "c"], ["e", "f"]]);
    }
}
