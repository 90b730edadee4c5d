//! Rules about README.md and the pages of `docs/`: the first page leads to every other one, no link is dead, neither
//! in the repository nor where a package has put the pages; every metric is on the page of metrics.
//!
//! Anchors are those that GitHub and GitLab make of headings. Links to other hosts are not followed. The link checker
//! of the field (lychee) is a download of 78 MB, more than all other tools together; what is needed of it is `dead`
//! and what that calls.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};

use crate::lint::Finding;
use crate::lint::drift::has_word;

const README: &str = "README.md";
const FOLDER: &str = "docs";
/// The page that lists what is exported.
const METRICS: &str = "docs/metrics.md";

/// All pages, by their paths in the repository.
pub struct Pages(BTreeMap<String, String>);

/// A link of a page.
#[derive(Debug, PartialEq, Eq)]
struct Link {
    line: usize,
    target: String,
}

impl Pages {
    /// Reads README.md and the pages of the folder. What is missing is a finding, not an error.
    pub fn read(root: &Path) -> Result<Self> {
        let mut paths = vec![README.to_owned()];
        match fs::read_dir(root.join(FOLDER)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            entries => {
                for entry in entries.with_context(|| format!("cannot list {FOLDER}"))? {
                    let entry = entry.with_context(|| format!("cannot list {FOLDER}"))?;
                    let name = entry.file_name().to_string_lossy().into_owned();
                    if name.ends_with(".md") {
                        paths.push(format!("{FOLDER}/{name}"));
                    }
                }
            }
        }
        let mut pages = BTreeMap::new();
        for path in paths {
            match fs::read_to_string(root.join(&path)) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                text => {
                    let text = text.with_context(|| format!("cannot read {path}"))?;
                    pages.insert(path, text);
                }
            }
        }
        Ok(Self(pages))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The text of a page.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// What breaks a rule, given the names of all metrics and the paths of all files that packages install beside the pages.
    pub fn findings(&self, metrics: &BTreeSet<String>, installed: &[String]) -> Vec<Finding> {
        let mut findings = self.first_page();
        for (path, text) in &self.0 {
            for link in links(text) {
                if let Some(message) = self.dead(path, &link.target, installed) {
                    findings.push(Finding { path: path.clone(), line: link.line, message });
                }
            }
        }
        let listed = self.text(METRICS).unwrap_or_default();
        for metric in metrics.iter().filter(|metric| !has_word(listed, metric)) {
            findings.push(on_top(METRICS, format!("does not mention the metric `{metric}`")));
        }
        findings
    }

    /// README.md is there, and leads to every page.
    fn first_page(&self) -> Vec<Finding> {
        let Some(readme) = self.text(README) else {
            return vec![on_top(README, "is missing".to_owned())];
        };
        let mut findings = Vec::new();
        let linked: BTreeSet<String> = links(readme)
            .iter()
            .filter_map(|link| split(README, &link.target))
            .map(|to| to.0)
            .collect();
        for page in self.0.keys().filter(|page| *page != README && !linked.contains(*page)) {
            findings.push(on_top(README, format!("does not link to {page}")));
        }
        findings
    }

    /// Why a link of a page leads nowhere, if it does not.
    fn dead(&self, page: &str, target: &str, installed: &[String]) -> Option<String> {
        if ["https://", "http://", "mailto:"].iter().any(|scheme| target.starts_with(scheme)) {
            return None;
        }
        let Some((path, anchor)) = split(page, target) else {
            return Some(format!("`{target}` leads out of the repository"));
        };
        let text = self.text(&path);
        // A file, or a folder of files.
        let is_there = |file: &String| {
            file.strip_prefix(&path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if !installed.iter().any(is_there) {
            return Some(format!("`{target}`: no package installs {path}, or it does not exist"));
        }
        let anchor = anchor?;
        let is_there = text.is_some_and(|text| anchors(text).contains(&anchor));
        (!is_there).then(|| format!("`{target}`: {path} has no heading with the anchor #{anchor}"))
    }
}

/// Names of events in recordings, which begin as those of metrics do.
const EVENTS: [&str; 11] = [
    "noised_mark",
    "noised_throttled",
    "noised_connection",
    "noised_id",
    "noised_object",
    "noised_other",
    "noised_peek",
    "noised_peer",
    "noised_position",
    "noised_statedump_socket",
    "noised_tid",
];

/// The metrics that a Rust file names: strings that are a name as a whole.
pub fn metrics_in(text: &str) -> BTreeSet<String> {
    let is_part = |character: char| matches!(character, 'a'..='z' | '0'..='9' | '_');
    let strings = text.split('"');
    let names = strings.filter(|string| {
        string.strip_prefix("noised_").is_some_and(|rest| {
            !rest.is_empty() && !rest.ends_with('_') && rest.chars().all(is_part)
        }) && !EVENTS.contains(string)
    });
    names.map(str::to_owned).collect()
}

fn on_top(path: &str, message: String) -> Finding {
    Finding { path: path.to_owned(), line: 1, message }
}

/// The lines that are text, with their numbers: no code between fences.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_fence && !is_code
    })
}

/// Links and pictures of a page: `[text](target)`, not inside code.
fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    // Whether the line before ended in code, which may go on for a paragraph. Text between two
    // backticks is code; a link may have code in its text.
    let mut is_code = false;
    for (line, text) in prose(text) {
        is_code &= !text.is_empty();
        let mut rest = String::new();
        for (at, piece) in text.split('`').enumerate() {
            is_code ^= at > 0;
            if !is_code {
                rest.push_str(piece);
            }
        }
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, after)) = after.split_once(')') else { break };
            links.push(Link { line, target: target.to_owned() });
            rest = after.to_owned();
        }
    }
    links
}

/// Path in the repository and anchor of a link on a page; none if it leads out.
fn split(page: &str, target: &str) -> Option<(String, Option<String>)> {
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor.to_owned())),
        None => (target, None),
    };
    if path.is_empty() {
        return Some((page.to_owned(), anchor));
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "" => return None,
            "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some((parts.join("/"), anchor))
}

/// The anchors of a page's headings; where two are alike, the later ones are numbered.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let anchor = anchor(heading.trim());
        let count = seen.entry(anchor.clone()).or_default();
        anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

/// What a heading is called in a link.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|character| match character {
        ' ' => Some('-'),
        '-' | '_' => Some(character),
        other => other.is_alphanumeric().then_some(other),
    });
    kept.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::{Pages, anchor, anchors, links, metrics_in, split};
    use std::collections::BTreeSet;

    const PAGE: &str =
        "# Page\n\nThis page says it.\n\n## One `thing`, two\n\n## Again\n\n## Again\n";
    const FIRST: &str = "# noised\n\n[page](docs/page.md), [list](docs/metrics.md)\n";
    const LIST: &str = "# Metrics\n\nThis page lists `noised_a_total`.\n";

    /// What is found on pages with these texts beside a picture; `noised_a_total` is exported.
    fn messages(first: &str, page: &str, list: &str) -> Vec<String> {
        let texts = [("README.md", first), ("docs/page.md", page), ("docs/metrics.md", list)];
        let pages = texts.map(|(path, text)| (path.to_owned(), text.to_owned()));
        let installed = ["README.md", "docs/page.md", "docs/metrics.md", "deploy/picture.png"];
        let installed = installed.map(str::to_owned);
        let metrics = BTreeSet::from(["noised_a_total".to_owned()]);
        let found = Pages(pages.into()).findings(&metrics, &installed);
        found.iter().map(ToString::to_string).collect()
    }

    fn on_page(line: &str) -> Vec<String> {
        messages(FIRST, &format!("{PAGE}\n{line}\n"), LIST)
    }

    #[test]
    fn pages_that_keep_the_rules_are_fine() {
        assert_eq!(messages(FIRST, PAGE, LIST), [""; 0]);
    }

    #[test]
    fn a_dead_link_is_found() {
        for target in [
            "missing.md",
            "../deploy/noised",
            "page.md#two",
            "#two",
            "../../x",
            "/etc/x",
            "metrics.md#",
        ] {
            let found = on_page(&format!("[x]({target})"));
            assert_eq!(found.len(), 1, "{target}: {found:?}");
            assert!(found[0].starts_with("docs/page.md:11: "), "{found:?}");
        }
    }

    #[test]
    fn links_that_lead_somewhere_or_are_none_are_fine() {
        for line in [
            "[x](metrics.md), [`y`](metrics.md#metrics) and [z](../README.md#noised)",
            "![picture](../deploy/picture.png) in [its folder](../deploy)",
            "[x](#one-thing-two) [x](page.md#again-1)",
            "[x](https://example.org/missing.md#x)",
            "`[x](missing.md)`",
            "a `code that\ngoes on [x](missing.md)`",
            "```\n[x](missing.md)\n# Heading\n```",
        ] {
            assert_eq!(on_page(line), [""; 0], "{line}");
        }
    }

    #[test]
    fn a_page_without_a_link_to_it_is_found() {
        let found = messages("# noised\n\n[list](docs/metrics.md)\n", PAGE, LIST);
        assert_eq!(found, ["README.md:1: does not link to docs/page.md"]);
    }

    #[test]
    fn a_metric_that_the_page_leaves_out_is_found() {
        let list = LIST.replace("a_total", "a_totals");
        assert_eq!(
            messages(FIRST, PAGE, &list),
            ["docs/metrics.md:1: does not mention the metric `noised_a_total`"]
        );
    }

    #[test]
    fn missing_pages_are_found() {
        let found = Pages([].into()).findings(&BTreeSet::new(), &[]);
        assert_eq!(
            found.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["README.md:1: is missing"]
        );
    }

    #[test]
    fn anchors_are_those_of_the_forges() {
        assert_eq!(anchor("Who may ask, and over what?"), "who-may-ask-and-over-what");
        assert_eq!(anchor("noised bench `fwq` and `ftq`"), "noised-bench-fwq-and-ftq");
        assert_eq!(anchor("The kernel's own tracer"), "the-kernels-own-tracer");
        let found = anchors("# A\n## B_1\n#tag\n```\n# C\n```\n## A\n");
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "a-1", "b_1"]);
    }

    #[test]
    fn a_link_behind_code_of_two_lines_is_seen() {
        let found = links("a `b\nc` [d](e)\n\nan odd ` ends here\n\n[f](g)\n");
        let found: Vec<_> = found.iter().map(|link| (link.line, link.target.as_str())).collect();
        assert_eq!(found, [(2, "e"), (6, "g")]);
    }

    #[test]
    fn several_links_of_a_line_are_seen() {
        let found = links("a\n[b](c) d [`e`](f#g), ![h](i)\n");
        let found: Vec<_> = found.iter().map(|link| (link.line, link.target.as_str())).collect();
        assert_eq!(found, [(2, "c"), (2, "f#g"), (2, "i")]);
    }

    #[test]
    fn paths_are_taken_from_the_folder_of_the_page() {
        let path = |page, target| split(page, target).map(|(path, _)| path);
        assert_eq!(path("docs/a.md", "b.md"), Some("docs/b.md".to_owned()));
        assert_eq!(path("docs/a.md", "../deploy/"), Some("deploy".to_owned()));
        assert_eq!(path("README.md", "./docs/a.md"), Some("docs/a.md".to_owned()));
        assert_eq!(path("README.md", "../x"), None);
    }

    #[test]
    fn metrics_are_whole_strings() {
        let found = metrics_in(
            r#"x("noised_a_total", "noised_", "noised_b c", "other_d", "noised_e_", "noised_mark")"#,
        );
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), ["noised_a_total"]);
    }
}
