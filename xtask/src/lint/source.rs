//! The names that a Rust file uses outside of its tests, as `syn` reads them. Of macros, paths in their arguments
//! are seen; what they expand to is not.

use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, File, ItemMod, ItemUse, Macro, Meta, Path, UseTree};

/// A file under examination.
pub struct Source<'a> {
    /// Relative to the workspace, with `/` between folders.
    pub path: &'a str,
    /// Every path of several names; single names only where they are imported.
    pub names: Vec<Name>,
}

/// A path of names, from a `use` tree or from an expression or type.
#[derive(Debug, PartialEq, Eq)]
pub struct Name {
    /// The last one is `*` for a glob.
    pub parts: Vec<String>,
    pub imported: bool,
}

impl<'a> Source<'a> {
    /// Errors: where it is no Rust.
    pub fn new(path: &'a str, text: &str) -> Result<Self> {
        let mut names = Names::default();
        // A file of tests has none that count.
        if !path.ends_with("/tests.rs") {
            let file: File =
                syn::parse_file(text).with_context(|| format!("cannot read {path}"))?;
            names.visit_file(&file);
        }
        Ok(Self { path, names: names.0 })
    }
}

#[derive(Default)]
struct Names(Vec<Name>);

impl Names {
    fn add(&mut self, parts: Vec<String>, imported: bool) {
        self.0.push(Name { parts, imported });
    }

    fn tree(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: String| [before, &[name]].concat();
        match tree {
            UseTree::Path(path) => self.tree(&path.tree, &with(path.ident.to_string())),
            UseTree::Name(name) => self.add(with(name.ident.to_string()), true),
            UseTree::Rename(name) => self.add(with(name.ident.to_string()), true),
            UseTree::Glob(_) => self.add(with("*".to_owned()), true),
            UseTree::Group(group) => group.items.iter().for_each(|item| self.tree(item, before)),
        }
    }

    /// Paths among the arguments of a macro.
    fn arguments(&mut self, tokens: TokenStream) {
        let mut parts: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.end(&mut parts);
                    }
                    parts.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.end(&mut parts);
                    self.arguments(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => self.end(&mut parts),
            }
        }
        self.end(&mut parts);
    }

    fn end(&mut self, parts: &mut Vec<String>) {
        let parts = std::mem::take(parts);
        if parts.len() > 1 {
            self.add(parts, false);
        }
    }
}

impl Visit<'_> for Names {
    fn visit_item_mod(&mut self, item: &ItemMod) {
        if !item.attrs.iter().any(is_for_tests) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &ItemUse) {
        self.tree(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &Path) {
        let parts: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        if parts.len() > 1 {
            self.add(parts, false);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &Macro) {
        self.visit_path(&item.path);
        self.arguments(item.tokens.clone());
    }
}

/// Whether it is `#[cfg(test)]`, or another condition with that; not one of what is left out of tests.
fn is_for_tests(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else { return false };
    let condition = list.tokens.to_string();
    let has = |word: &str| condition.split(|c: char| !c.is_alphanumeric()).any(|part| part == word);
    list.path.is_ident("cfg") && has("test") && !has("not")
}

#[cfg(test)]
mod tests {
    use super::Source;

    fn names(text: &str) -> Vec<String> {
        let source = Source::new("a.rs", text).unwrap();
        source.names.iter().map(|name| name.parts.join("::")).collect()
    }

    #[test]
    fn trees_of_imports_are_spelled_out() {
        let found =
            names("use a::{b, c::{self, d as e}, f::*,};\npub use ::g;\nfn h() { x::y(z) }");
        assert_eq!(found, ["a::b", "a::c::self", "a::c::d", "a::f::*", "g", "x::y"]);
    }

    #[test]
    fn paths_in_types_and_macros_are_seen() {
        let found = names("fn f(a: b::C<d::E>) { g!(\"h::i\", [j::k(l)], m: n) } // o::p");
        assert_eq!(found, ["b::C", "d::E", "j::k"]);
    }

    #[test]
    fn tests_have_no_names() {
        let found = names("#[cfg(test)]\n#[allow(x)]\nmod tests { use a::b; }\nuse c::d;");
        assert_eq!(found, ["c::d"]);
        assert_eq!(names("#[cfg(not(test))]\nmod m { use a::b; }"), ["a::b"]);
        assert!(Source::new("a/tests.rs", "use a::b;").unwrap().names.is_empty());
    }

    #[test]
    fn what_is_no_rust_is_named() {
        assert!(Source::new("a.rs", "fn {").is_err());
    }
}
