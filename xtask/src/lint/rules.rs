//! Rules about a single file.
//!
//! A rule looks at a [`Source`] and returns its findings; it reads no file and keeps no state.

use crate::lint::Finding;
use crate::lint::source::{Name, Source};

/// A rule.
pub type Rule = fn(&Source<'_>) -> Vec<Finding>;

/// Every rule about a single file.
pub const RULES: [Rule; 10] = [
    purity,
    reading,
    length,
    file_names,
    globs,
    mutable_statics,
    leftovers,
    silenced_dead_code,
    module_head,
    outlets,
];

const DAEMON: &str = "noise-daemon/";
const MAX_LINES: usize = 600;
const EMPTY_NAMES: [&str; 6] = ["util", "utils", "helper", "helpers", "misc", "stuff"];

fn finding(source: &Source<'_>, line: usize, message: impl Into<String>) -> Finding {
    Finding { path: source.path.to_owned(), line, message: message.into() }
}

/// Where nothing but computing is done: whole crates, and parts of one that is more.
const PURE: [&str; 14] = [
    "text/src/",
    "cluster/src/",
    "model/src/",
    "verdict/src/",
    "analysis/src/",
    "protobuf/src/",
    "trace/src/",
    "paths/src/",
    "compare/src/",
    "sketches/src/",
    "measure/src/scale/",
    "measure/src/compare/",
    "host/src/collect/old_parts/culprits",
    "host/src/collect/old_parts/history",
];

/// The place of a file of one of the daemon's crates, below the folder of all of them.
fn in_daemon<'a>(source: &Source<'a>) -> Option<&'a str> {
    source
        .path
        .strip_prefix(DAEMON)
        .filter(|inside| inside.starts_with("src/") || inside.split('/').nth(1) == Some("src"))
}

/// What computes gets whatever it needs, time included, as an argument. The manifests of the pure crates
/// name no package that does more; the standard library is there for all.
fn purity(source: &Source<'_>) -> Vec<Finding> {
    let is_pure = |inside: &str| PURE.into_iter().any(|place| inside.starts_with(place));
    if !in_daemon(source).is_some_and(is_pure) {
        return Vec::new();
    }
    let mut findings: Vec<_> = source
        .names()
        .iter()
        .filter_map(|name| Some(finding(source, name.line, impure(name)?)))
        .collect();
    // Clocks that were imported under their parent's name or used as a plain word.
    for (index, token) in source.tokens.iter().enumerate() {
        if source.word(index).is_some_and(|word| CLOCKS.contains(&word)) {
            findings.push(finding(source, token.line, CLOCK));
        }
    }
    findings.sort();
    findings.dedup();
    findings
}

const CLOCKS: [&str; 5] = ["Instant", "SystemTime", "UNIX_EPOCH", "clock_gettime", "gettimeofday"];
const CLOCK: &str = "what computes reads no clock; take the time as an argument";

fn impure(name: &Name<'_>) -> Option<String> {
    let refused = |what: &str| {
        Some(format!("what computes is pure and may not use {what}; pass its result in"))
    };
    match name.parts.as_slice() {
        [first @ ("aya" | "tokio"), ..] => refused(first),
        ["std", module @ ("fs" | "net" | "env" | "process" | "thread"), ..] => {
            refused(&format!("std::{module}"))
        }
        [.., "now"] if !name.imported => Some(CLOCK.to_owned()),
        _ => None,
    }
}

/// Modules of the daemon that may read files in ways of their own: those by which all others read, and
/// tracefs, whose files want to be read in one piece.
const READERS: [&str; 3] =
    ["system/src/files.rs", "system/src/procfs.rs", "measure/src/osnoise/kernel/tracefs.rs"];

/// The daemon waits for no file, takes none of any length into memory, and finds text that is not UTF-8
/// in `/proc` and `/sys`: the standard library's own ways to read a file promise none of this.
fn reading(source: &Source<'_>) -> Vec<Finding> {
    let Some(inside) = in_daemon(source) else { return Vec::new() };
    if READERS.contains(&inside) || inside.ends_with("_tests.rs") || inside.ends_with("/tests.rs") {
        return Vec::new();
    }
    let names = source.names();
    let reads = names.iter().filter(|name| {
        matches!(
            name.parts.as_slice(),
            [.., "fs", "read" | "read_to_string"] | [.., "File", "open"]
        )
    });
    reads
        .filter(|name| !source.in_tests(name.token))
        .map(|name| {
            let message = format!(
                "`{}` may wait for ever, read without end, and refuse what is not UTF-8; use noise_system::files \
                 for files that people look after, noise_system::procfs for /proc and /sys",
                name.parts.join("::")
            );
            finding(source, name.line, message)
        })
        .collect()
}

/// A file that one person can hold in mind.
fn length(source: &Source<'_>) -> Vec<Finding> {
    let lines = source.text.lines().count();
    if lines <= MAX_LINES {
        return Vec::new();
    }
    let message =
        format!("{lines} lines, more than {MAX_LINES}; split it by what its parts are about");
    vec![finding(source, MAX_LINES + 1, message)]
}

/// Modules are named after what they are about.
fn file_names(source: &Source<'_>) -> Vec<Finding> {
    let message =
        |name: &str| format!("`{name}` says nothing about what is inside; name the subject");
    let mut findings: Vec<_> = source
        .path
        .trim_end_matches(".rs")
        .split('/')
        .filter(|part| EMPTY_NAMES.contains(part))
        .map(|part| finding(source, 1, message(part)))
        .collect();
    for (index, token) in source.tokens.iter().enumerate() {
        if source.word(index) == Some("mod")
            && let Some(name) = source.word(index + 1)
            && EMPTY_NAMES.contains(&name)
        {
            findings.push(finding(source, token.line, message(name)));
        }
    }
    findings
}

/// A reader sees where each name comes from. Test modules may take all of their parent.
fn globs(source: &Source<'_>) -> Vec<Finding> {
    source
        .names()
        .iter()
        .filter(|name| name.parts.last() == Some(&"*") && !source.in_tests(name.token))
        .map(|name| {
            let message =
                format!("`use {}` hides where names come from; list them", name.parts.join("::"));
            finding(source, name.line, message)
        })
        .collect()
}

/// No global mutable state.
fn mutable_statics(source: &Source<'_>) -> Vec<Finding> {
    (0..source.tokens.len())
        .filter(|&index| {
            source.word(index) == Some("static") && source.word(index + 1) == Some("mut")
        })
        .map(|index| {
            let message =
                "`static mut` is shared mutable state without rules; pass the value or use a map";
            finding(source, source.tokens[index].line, message)
        })
        .collect()
}

/// Work is finished or not there.
fn leftovers(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (first, comment) in &source.comments {
        for (offset, line) in comment.lines().enumerate() {
            for mark in MARKS {
                if has_word(line, mark) {
                    let message =
                        format!("a {mark} is unfinished work; do it or describe the limit");
                    findings.push(finding(source, first + offset, message));
                }
            }
        }
    }
    for (index, token) in source.tokens.iter().enumerate() {
        if let Some(name @ ("todo" | "unimplemented")) = source.word(index)
            && source.is(index + 1, '!')
        {
            let message = format!("`{name}!` is unfinished work; finish it or leave it out");
            findings.push(finding(source, token.line, message));
        }
    }
    findings
}

/// Spelled in halves, so that this file keeps its own rule.
const MARKS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Code that nothing uses goes. An `expect` with its reason is left alone: it serves values held only
/// for their `Drop`, and the compiler refuses it once it is no longer true.
fn silenced_dead_code(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, token) in source.tokens.iter().enumerate() {
        if source.word(index) != Some("allow") || !source.is(index + 1, '(') {
            continue;
        }
        let silenced = (index + 2..source.tokens.len())
            .take_while(|&inside| !source.is(inside, ')'))
            .filter_map(|inside| source.word(inside))
            .any(|word| matches!(word, "dead_code" | "unused"));
        if silenced {
            let message = "silences the warning about unused code; remove the code instead";
            findings.push(finding(source, token.line, message));
        }
    }
    findings
}

/// Where the daemon's program may write to standard output and error: commands through the first, which
/// cleans what they print. The others write what is made of this program's own words and sequences.
const OUTLETS: [&str; 4] = [
    "command/src/output.rs",
    "command/src/progress.rs",
    "src/cli/run/logging.rs",
    "top/src/term.rs",
];

/// What others named reaches a terminal through one place, so that none of it acts there.
fn outlets(source: &Source<'_>) -> Vec<Finding> {
    let is_outlet = |inside: &str| OUTLETS.contains(&inside);
    if in_daemon(source).is_none_or(is_outlet) || source.path.ends_with("tests.rs") {
        return Vec::new();
    }
    let is_macro = |index: usize| {
        let word = source.word(index);
        let prints = matches!(word, Some("print" | "println" | "eprint" | "eprintln" | "dbg"));
        prints && source.is(index + 1, '!')
    };
    let is_stream = |index: usize| {
        let word = source.word(index);
        // What another program is given as its own.
        let is_handed_on = || source.is(index.saturating_sub(1), '.') || source.is(index + 3, ')');
        matches!(word, Some("stdout" | "stderr"))
            && source.is(index + 1, '(')
            && source.is(index + 2, ')')
            && !is_handed_on()
    };
    (0..source.tokens.len())
        .filter(|index| (is_macro(*index) || is_stream(*index)) && !source.in_tests(*index))
        .map(|index| {
            let message = "writes to the terminal past noise-command, which cleans what is printed";
            finding(source, source.tokens[index].line, message)
        })
        .collect()
}

/// Every file says first what it is about.
fn module_head(source: &Source<'_>) -> Vec<Finding> {
    if source.text.trim_start().starts_with("//!") {
        return Vec::new();
    }
    vec![finding(source, 1, "the file does not begin with a `//!` head that says what it is about")]
}

/// Whether `word` stands in `text` with no letter, digit or underscore next to it.
pub fn has_word(text: &str, word: &str) -> bool {
    let joins = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(joins) && !text[at + word.len()..].starts_with(joins))
}

#[cfg(test)]
mod tests {
    use super::{
        MARKS, MAX_LINES, Rule, file_names, globs, has_word, leftovers, length, module_head,
        mutable_statics, outlets, purity, reading, silenced_dead_code,
    };
    use crate::lint::source::Source;

    /// Lines that the rule finds fault with.
    fn lines(rule: Rule, path: &str, text: &str) -> Vec<usize> {
        rule(&Source::new(path, text)).iter().map(|finding| finding.line).collect()
    }

    const NONE: [usize; 0] = [];
    const MODEL: &str = "noise-daemon/model/src/window.rs";

    #[test]
    fn purity_refuses_input_output_and_clocks() {
        for text in [
            "use aya::maps::HashMap;",
            "use tokio;",
            "use std::{collections::BTreeMap, fs};",
            "use std::{\n    net::IpAddr};",
            "fn f() { std::fs::read(p); }",
            "fn f() { std::thread::spawn(g); }",
            "use std::time::{Duration, Instant};",
            "use std::time;\nfn f(t: time::SystemTime) {}",
            "fn f() { jiff::Timestamp::now(); }",
            "fn f() { unsafe { libc::clock_gettime(0, p) } }",
        ] {
            assert_eq!(lines(purity, MODEL, text).len(), 1, "{text}");
        }
        let analysis = "noise-daemon/analysis/src/lib.rs";
        assert_eq!(lines(purity, analysis, "\nuse tokio::sync::watch;"), [2]);
        let scale = "noise-daemon/measure/src/scale/play.rs";
        assert_eq!(lines(purity, scale, "use std::fs;"), [1]);
    }

    #[test]
    fn purity_allows_computing_and_other_folders() {
        let pure = "//! Not tokio, not std::fs.\nuse std::time::Duration;\nfn f(now: u64) { g(\"aya::x\") }";
        assert_eq!(lines(purity, MODEL, pure), NONE);
        let io = "use std::{fs, time::Instant};";
        assert_eq!(lines(purity, "noise-daemon/host/src/collect/mod.rs", io), NONE);
        assert_eq!(lines(purity, "noise-common/src/model.rs", io), NONE);
    }

    #[test]
    fn files_are_read_in_one_way() {
        let watching = "noise-daemon/src/cli/watching.rs";
        for text in [
            "fn f() { std::fs::read(p); }",
            "use std::fs;\nfn f() { fs::read_to_string(p); }",
            "fn f() { File::open(p); }",
            "use std::fs::read_to_string;",
        ] {
            assert_eq!(lines(reading, watching, text).len(), 1, "{text}");
            assert_eq!(lines(reading, "noise-daemon/system/src/procfs.rs", text), NONE);
            assert_eq!(lines(reading, "xtask/src/setup.rs", text), NONE);
            let test = format!("#[cfg(test)]\nmod tests {{ {text} }}");
            assert_eq!(lines(reading, watching, &test), NONE, "{text}");
        }
        let other =
            "fn f() { fs::read_dir(p); fs::read_link(p); files::read(p); File::create(p); }";
        assert_eq!(lines(reading, watching, other), NONE);
    }

    #[test]
    fn commands_print_through_one_place() {
        let check = "noise-daemon/src/cli/check.rs";
        for text in [
            "fn f() { println!(\"a\"); }",
            "fn f() { eprint!(\"a\"); }",
            "fn f() { let _ = std::io::stdout().write_all(b); }",
            "fn f() { let mut out = io::stderr().lock(); }",
        ] {
            assert_eq!(lines(outlets, check, text), [1], "{text}");
            assert_eq!(lines(outlets, "noise-daemon/command/src/output.rs", text), NONE);
            assert_eq!(lines(outlets, "xtask/src/main.rs", text), NONE);
            let tests = format!("#[cfg(test)]\nmod tests {{ {text} }}");
            assert_eq!(lines(outlets, check, &tests), NONE);
        }
        for text in
            ["fn f() { output::print(text) }", "fn f() { shell.stdout(std::io::stderr()); }"]
        {
            assert_eq!(lines(outlets, check, text), NONE, "{text}");
        }
    }

    #[test]
    fn length_is_bounded() {
        assert_eq!(lines(length, "a.rs", &"x\n".repeat(MAX_LINES)), NONE);
        assert_eq!(lines(length, "a.rs", &"x\n".repeat(MAX_LINES + 1)), [MAX_LINES + 1]);
    }

    #[test]
    fn names_must_say_something() {
        for (path, text) in
            [("a/src/utils.rs", ""), ("a/src/helpers/mod.rs", ""), ("a/src/lib.rs", "mod misc {}")]
        {
            assert_eq!(lines(file_names, path, text), [1], "{path}: {text}");
        }
        assert_eq!(lines(file_names, "a/src/histogram.rs", "mod utilization;"), NONE);
    }

    #[test]
    fn globs_only_in_test_modules() {
        assert_eq!(lines(globs, "a.rs", "use a::b;\npub use c::*;"), [2]);
        assert_eq!(lines(globs, "a.rs", "use a::{b,\n c::{d, *}};"), [2]);
        assert_eq!(lines(globs, "a.rs", "mod m { use super::*; }"), [1]);
        assert_eq!(lines(globs, "a.rs", "#[cfg(test)]\nmod tests { use super::*; }"), NONE);
        assert_eq!(lines(globs, "a/tests.rs", "use super::*;"), NONE);
        assert_eq!(lines(globs, "a.rs", "use a::b; fn f() { 2 * c::d }"), NONE);
    }

    #[test]
    fn mutable_statics_are_refused() {
        assert_eq!(lines(mutable_statics, "a.rs", "\nstatic mut A: u8 = 0;"), [2]);
        assert_eq!(
            lines(mutable_statics, "a.rs", "static A: &'static mut u8 = b; // static mut"),
            NONE
        );
    }

    #[test]
    fn leftovers_are_refused() {
        for mark in MARKS {
            assert_eq!(lines(leftovers, "a.rs", &format!("a\n/* b\n {mark}: c */")), [3]);
            assert_eq!(lines(leftovers, "a.rs", &format!("let a = \"{mark}\"; // {mark}S")), NONE);
        }
        assert_eq!(
            lines(leftovers, "a.rs", "fn f() {\n todo!() }\nfn g() { unimplemented!() }"),
            [2, 3]
        );
        assert_eq!(lines(leftovers, "a.rs", "fn todo() {} // todo!"), NONE);
    }

    #[test]
    fn silencing_dead_code_is_refused() {
        assert_eq!(lines(silenced_dead_code, "a.rs", "\n#[allow(dead_code)]\nfn f() {}"), [2]);
        let several = "#![cfg_attr(x, allow(unsafe_code, dead_code, reason = \"y\"))]";
        assert_eq!(lines(silenced_dead_code, "a.rs", several), [1]);
        let held = "#[expect(dead_code, reason = \"held for its Drop\")]\nstruct Link(File);";
        assert_eq!(lines(silenced_dead_code, "a.rs", held), NONE);
        let other = "#[allow(unsafe_code)] fn dead_code() { x.allow(\"dead_code\") }";
        assert_eq!(lines(silenced_dead_code, "a.rs", other), NONE);
    }

    #[test]
    fn a_module_needs_a_head() {
        assert_eq!(lines(module_head, "a.rs", "//! Runqueue wait.\nuse a;"), NONE);
        assert_eq!(lines(module_head, "a.rs", "// Runqueue wait.\n"), [1]);
        assert_eq!(lines(module_head, "a.rs", ""), [1]);
    }

    #[test]
    fn words_stand_alone() {
        assert!(has_word("a `nmi`, b", "nmi"));
        assert!(!has_word("a nmi_b, anmi", "nmi"));
    }
}
