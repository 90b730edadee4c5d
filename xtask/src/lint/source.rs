//! A Rust file as the rules see it: tokens with lines, comments, names of paths, test modules.
//!
//! This is a lexer, not a parser: it knows comments, strings, characters and lifetimes well enough
//! never to take one for code, and reads `use` trees and paths from the tokens. What macros expand
//! to is not seen.

/// A file under examination.
pub struct Source<'a> {
    /// Relative to the workspace, with `/` between folders.
    pub path: &'a str,
    pub text: &'a str,
    pub tokens: Vec<Token<'a>>,
    /// Comments with the line on which each begins.
    pub comments: Vec<(usize, &'a str)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    pub line: usize,
    pub kind: Kind<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind<'a> {
    /// An identifier or keyword.
    Word(&'a str),
    /// A string, character, number or lifetime.
    Other,
    Punctuation(char),
}

/// A path of names, from a `use` tree or from an expression or type.
#[derive(Debug, PartialEq, Eq)]
pub struct Name<'a> {
    pub line: usize,
    /// Index of the token that it begins at (of its whole `use` item, if it comes from one).
    pub token: usize,
    /// Its parts; the last one is `*` for a glob.
    pub parts: Vec<&'a str>,
    pub imported: bool,
}

impl<'a> Source<'a> {
    pub fn new(path: &'a str, text: &'a str) -> Self {
        let mut lexer = Lexer { text, at: 0, line: 1, tokens: Vec::new(), comments: Vec::new() };
        lexer.run();
        Self { path, text, tokens: lexer.tokens, comments: lexer.comments }
    }

    /// The word at that token, if it is one.
    pub fn word(&self, index: usize) -> Option<&'a str> {
        match self.tokens.get(index)?.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    /// Whether that token is this punctuation character.
    pub fn is(&self, index: usize, character: char) -> bool {
        self.tokens.get(index).is_some_and(|token| token.kind == Kind::Punctuation(character))
    }

    fn is_colons(&self, index: usize) -> bool {
        self.is(index, ':') && self.is(index + 1, ':')
    }

    fn line(&self, index: usize) -> usize {
        self.tokens.get(index).map_or(1, |token| token.line)
    }

    /// Every path in the file; single names only where they are imported.
    pub fn names(&self) -> Vec<Name<'a>> {
        let mut names = Vec::new();
        let mut index = 0;
        while index < self.tokens.len() {
            // `use<'a>` is not an import but a bound.
            if self.word(index) == Some("use") && !self.is(index + 1, '<') {
                index = self.use_tree(index, index + 1, &[], &mut names);
            } else if self.word(index).is_some() {
                let begin = index;
                let mut parts = Vec::new();
                while let Some(word) = self.word(index) {
                    parts.push(word);
                    index += 1;
                    if !(self.is_colons(index) && self.word(index + 2).is_some()) {
                        break;
                    }
                    index += 2;
                }
                if parts.len() > 1 {
                    names.push(Name {
                        line: self.line(begin),
                        token: begin,
                        parts,
                        imported: false,
                    });
                }
            } else {
                index += 1;
            }
        }
        names
    }

    /// Reads one branch of a `use` tree; returns the index of the token behind it.
    fn use_tree(
        &self,
        item: usize,
        mut index: usize,
        prefix: &[&'a str],
        names: &mut Vec<Name<'a>>,
    ) -> usize {
        let mut parts = prefix.to_vec();
        let line = self.line(index);
        loop {
            if self.is_colons(index) {
                index += 2;
            } else if self.is(index, '{') {
                index += 1;
                while index < self.tokens.len() && !self.is(index, '}') {
                    let next = self.use_tree(item, index, &parts, names);
                    index = if next == index || self.is(next, ',') { next + 1 } else { next };
                }
                return index + 1;
            } else if self.is(index, '*') {
                parts.push("*");
                index += 1;
                break;
            } else if self.word(index) == Some("as") {
                index += 2;
                break;
            } else if let Some(word) = self.word(index) {
                parts.push(word);
                index += 1;
            } else {
                break;
            }
        }
        if parts.len() > prefix.len() {
            names.push(Name { line, token: item, parts, imported: true });
        }
        index
    }

    /// Whether that token lies in a test module, or the whole file is one.
    pub fn in_tests(&self, token: usize) -> bool {
        self.path.ends_with("/tests.rs")
            || self.test_modules().iter().any(|&(from, to)| (from..to).contains(&token))
    }

    /// Token ranges of modules under `#[cfg(test)]`.
    fn test_modules(&self) -> Vec<(usize, usize)> {
        let mut modules = Vec::new();
        let mut index = 0;
        while index < self.tokens.len() {
            let attribute = self.is(index, '#') && self.is(index + 1, '[');
            if !attribute {
                index += 1;
                continue;
            }
            let end = self.closing(index + 1);
            let words: Vec<&str> = (index..end).filter_map(|inside| self.word(inside)).collect();
            index = end;
            if words.first() != Some(&"cfg") || !words.contains(&"test") || words.contains(&"not") {
                continue;
            }
            // Further attributes may stand between this one and the module.
            let mut item = end;
            while self.is(item, '#') {
                item = self.closing(item + 1);
            }
            if self.word(item) == Some("mod") && self.is(item + 2, '{') {
                index = self.closing(item + 2);
                modules.push((item, index));
            }
        }
        modules
    }

    /// Index behind the bracket that closes the one at `open`.
    fn closing(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for index in open..self.tokens.len() {
            match self.tokens[index].kind {
                Kind::Punctuation('(' | '[' | '{') => depth += 1,
                Kind::Punctuation(')' | ']' | '}') => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return index + 1;
            }
        }
        self.tokens.len()
    }
}

struct Lexer<'a> {
    text: &'a str,
    /// Byte offset of the next character.
    at: usize,
    line: usize,
    tokens: Vec<Token<'a>>,
    comments: Vec<(usize, &'a str)>,
}

impl<'a> Lexer<'a> {
    fn run(&mut self) {
        while let Some(character) = self.peek() {
            let rest = &self.text[self.at..];
            if rest.starts_with("//") {
                let length = rest.find('\n').unwrap_or(rest.len());
                self.comment(length);
            } else if rest.starts_with("/*") {
                self.comment(block_comment(rest));
            } else if character == '"' {
                self.take(Kind::Other, string(rest));
            } else if character == '\'' {
                self.take(Kind::Other, character_or_lifetime(rest));
            } else if let Some(length) = raw_string(rest) {
                self.take(Kind::Other, length);
            } else if character.is_alphanumeric() || character == '_' {
                let rest = rest.strip_prefix("r#").map_or(rest, |word| {
                    self.at += 2;
                    word
                });
                let length = rest
                    .find(|next: char| !next.is_alphanumeric() && next != '_')
                    .unwrap_or(rest.len());
                let number = character.is_ascii_digit();
                self.take(if number { Kind::Other } else { Kind::Word(&rest[..length]) }, length);
            } else if character.is_whitespace() {
                self.skip(character.len_utf8());
            } else {
                self.take(Kind::Punctuation(character), character.len_utf8());
            }
        }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take(&mut self, kind: Kind<'a>, length: usize) {
        self.tokens.push(Token { line: self.line, kind });
        self.skip(length);
    }

    fn comment(&mut self, length: usize) {
        self.comments.push((self.line, &self.text[self.at..self.at + length]));
        self.skip(length);
    }

    fn skip(&mut self, length: usize) {
        let skipped = &self.text[self.at..self.at + length];
        self.line += skipped.matches('\n').count();
        self.at += length;
    }
}

/// Length of the nested block comment at the start of `text`.
fn block_comment(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// Length of the string at the start of `text`, with its quotes.
fn string(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// Length of the character literal (`'x'`, `'\''`) or lifetime (`'static`) at the start of `text`.
fn character_or_lifetime(text: &str) -> usize {
    let inside = &text[1..];
    if let Some(escaped) = inside.strip_prefix('\\') {
        // The escaped character itself may be a quote; a code point in braces may follow.
        let first = escaped.chars().next().map_or(0, char::len_utf8);
        return escaped[first..].find('\'').map_or(text.len(), |end| 2 + first + end + 1);
    }
    let first = inside.chars().next().map_or(0, char::len_utf8);
    if inside[first..].starts_with('\'') {
        return 1 + first + 1;
    }
    let end = inside.find(|next: char| !next.is_alphanumeric() && next != '_');
    1 + end.unwrap_or(inside.len())
}

/// Length of the raw string at the start of `text`, if there is one.
fn raw_string(text: &str) -> Option<usize> {
    let after = ["r", "br", "cr"].iter().find_map(|prefix| {
        text.strip_prefix(prefix).filter(|rest| rest.starts_with('"') || rest.starts_with('#'))
    })?;
    let hashes = after.bytes().take_while(|&byte| byte == b'#').count();
    let body = after[hashes..].strip_prefix('"')?;
    let begin = text.len() - body.len();
    let end = format!("\"{}", "#".repeat(hashes));
    Some(body.find(&end).map_or(text.len(), |length| begin + length + end.len()))
}

#[cfg(test)]
mod tests {
    use super::Source;

    fn words(text: &str) -> Vec<&str> {
        let source = Source::new("a.rs", text);
        (0..source.tokens.len()).filter_map(|index| source.word(index)).collect()
    }

    #[test]
    fn comments_and_literals_are_no_code() {
        assert_eq!(words("a // b\nc /* d /* e */ f */ g"), ["a", "c", "g"]);
        assert_eq!(words(r#"a "b \" c" d"#), ["a", "d"]);
        assert_eq!(words(r###"a r#"b " c"# d br"e" f"###), ["a", "d", "f"]);
        assert_eq!(words(r"a '\'' b '\u{7f}' c '{' d &'e f"), ["a", "b", "c", "d", "f"]);
        assert_eq!(words("r#type 0x1f 1_000u64"), ["type"]);
        assert_eq!(words("'b \"unterminated"), [""; 0]);
    }

    #[test]
    fn lines_are_counted_through_everything() {
        let source = Source::new("a.rs", "/* \n */ \"x\ny\"\n// z\nlast");
        assert_eq!(source.tokens.last().map(|token| token.line), Some(5));
        assert_eq!(source.comments, [(1, "/* \n */"), (4, "// z")]);
    }

    #[test]
    fn trees_of_imports_are_spelled_out() {
        let source =
            Source::new("a.rs", "use a::{b, c::{self, d as e}, f::*,};\npub use ::g; x::y(z)");
        let names: Vec<_> =
            source.names().iter().map(|name| (name.line, name.parts.join("::"))).collect();
        let expected =
            [(1, "a::b"), (1, "a::c::self"), (1, "a::c::d"), (1, "a::f::*"), (2, "g"), (2, "x::y")];
        assert_eq!(names, expected.map(|(line, name)| (line, name.to_owned())));
    }

    #[test]
    fn a_bound_is_no_import() {
        let source = Source::new("a.rs", "fn f<'a>() -> impl Sized + use<'a> { 2 * 3 }");
        assert_eq!(source.names(), []);
    }

    #[test]
    fn unfinished_imports_end() {
        for text in ["use", "use a::{b", "use a::{;", "use {{{", "use a::<"] {
            Source::new("a.rs", text).names();
        }
    }

    #[test]
    fn test_modules_are_found() {
        let text = "fn a() { b }\n#[cfg(test)]\n#[allow(x)]\nmod tests { fn c() { d } }\nfn e() {}";
        let source = Source::new("a.rs", text);
        let inside: Vec<_> = (0..source.tokens.len())
            .filter(|&index| source.in_tests(index))
            .filter_map(|index| source.word(index))
            .collect();
        assert_eq!(inside, ["mod", "tests", "fn", "c", "d"]);
        let other = Source::new("a.rs", "#[cfg(not(test))]\nmod m { a }");
        assert!((0..other.tokens.len()).all(|index| !other.in_tests(index)));
    }
}
