//! `cargo xtask dashboards`: Grafana's dashboards, Prometheus's recording rules, and what else repeats
//! the table of signals: tests of those rules and the documentation's table.
//!
//! They are written from tables here and from noise-common's table of signals, so that a hundred
//! queries are not kept in step by hand.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::cargo::Workspace;

mod boards;
mod json;
mod promql;
mod repeated;
mod rules;
mod signals_page;
mod table;

/// Tests of rules, the parts of which that are the same for every histogram are generated.
const RULE_TESTS: [(&str, &str); 2] = [
    (
        "deploy/prometheus/tests/recording.test.yml",
        include_str!("../../../deploy/prometheus/tests/recording.test.yml"),
    ),
    (
        "deploy/prometheus/tests/federation.test.yml",
        include_str!("../../../deploy/prometheus/tests/federation.test.yml"),
    ),
];

/// The files that are generated, relative to the workspace, with their text.
fn files() -> Vec<(String, String)> {
    let mut files = vec![
        ("deploy/prometheus/recording.rules.yml".to_owned(), rules::file()),
        ("deploy/prometheus/federation.rules.yml".to_owned(), rules::federation()),
    ];
    files.extend(RULE_TESTS.map(|(path, text)| (path.to_owned(), repeated::repeated(text))));
    files.push((signals_page::PATH.to_owned(), signals_page::page()));
    let all = boards::all();
    files.extend(all.iter().map(|board| {
        let path = format!("deploy/grafana/dashboards/{}.json", json::uid(board));
        (path, format!("{:#}\n", json::dashboard(board, &all)))
    }));
    files
}

/// Writes the files.
pub fn run(workspace: &Workspace) -> Result<ExitCode> {
    for (path, text) in files() {
        let full = workspace.root.join(&path);
        if let Some(folder) = full.parent() {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
        }
        fs::write(&full, text).with_context(|| format!("cannot write {path}"))?;
        println!("{path}");
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::{boards, files, json, table::Shape};
    use noise_common::signals::SIGNALS;
    use serde_json::Value;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    fn root() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
    }

    #[test]
    fn the_committed_files_are_what_is_generated() {
        for (path, text) in files() {
            let committed = fs::read_to_string(root().join(&path)).unwrap_or_default();
            assert!(committed == text, "{path} is not up to date: run `cargo xtask dashboards`");
        }
        let expected = boards::all().len();
        let folder = fs::read_dir(root().join("deploy/grafana/dashboards")).unwrap();
        assert_eq!(folder.count(), expected, "a dashboard that nothing generates");
    }

    #[test]
    fn every_panel_explains_itself() {
        for board in boards::all() {
            let mut titles = BTreeSet::new();
            for panel in &board.panels {
                let name = format!("{} / {}", board.title, panel.title);
                // A number of now and its past may share a title.
                let number = panel.shape == Shape::Number;
                assert!(titles.insert((panel.title.clone(), number)), "{name} twice");
                assert!(
                    panel.says.len() > 40 && panel.says.ends_with('.'),
                    "{name}: {}",
                    panel.says
                );
                assert!(!panel.queries.is_empty() && panel.queries.len() <= 26, "{name}");
                assert!((1..=24).contains(&panel.width), "{name}");
                let one = panel.queries.len() == 1;
                assert!(one || !matches!(panel.shape, Shape::Number | Shape::Heatmap), "{name}");
                let legends: BTreeSet<_> =
                    panel.queries.iter().map(|query| &query.legend).collect();
                assert_eq!(legends.len(), panel.queries.len(), "{name} has a legend twice");
            }
        }
    }

    #[test]
    fn no_variable_is_idle_and_none_is_missing() {
        for board in boards::all() {
            let queries = board.panels.iter().flat_map(|panel| &panel.queries);
            let queries: Vec<&str> = queries.map(|query| query.expr.as_str()).collect();
            for variable in &board.variables {
                let used = format!("\"${}\"", variable.name);
                assert!(
                    queries.iter().any(|query| query.contains(&used)),
                    "{used} of {}",
                    board.title
                );
            }
            for query in &queries {
                for word in query.split('$').skip(1) {
                    let name: String = word
                        .chars()
                        .take_while(|letter| letter.is_alphanumeric() || *letter == '_')
                        .collect();
                    let known = name == "__rate_interval"
                        || board.variables.iter().any(|variable| variable.name == name);
                    assert!(known, "{} has no ${name}: {query}", board.title);
                }
            }
        }
    }

    /// Grafana makes one row of what agrees in all labels, and the metric's name is one of them.
    #[test]
    fn columns_of_a_table_have_the_labels_that_it_shows_and_no_more() {
        for board in boards::all() {
            for panel in board.panels.iter().filter(|panel| panel.queries.len() > 1) {
                let Shape::Table(columns) = panel.shape else { continue };
                let labels: Vec<&str> = columns.iter().map(|(label, _)| *label).collect();
                let wanted = format!("max by ({}) (", labels.join(", "));
                for query in &panel.queries {
                    let of =
                        query.expr.strip_prefix("topk(").and_then(|rest| rest.split_once(", "));
                    let all = of.is_some_and(|(_, inside)| inside.starts_with(&wanted));
                    assert!(all, "{} / {}: {}", board.title, panel.title, query.expr);
                }
            }
        }
    }

    /// All queries as Grafana sends them: one job, one host where there is no choice of several,
    /// else everything.
    fn asked() -> BTreeSet<String> {
        let all = boards::all();
        let mut found = BTreeSet::new();
        for board in &all {
            let json = json::dashboard(board, &all);
            let panels = json["panels"].as_array().unwrap().iter();
            for target in panels.flat_map(|panel| panel["targets"].as_array().unwrap()) {
                let mut expr = target["expr"].as_str().unwrap().replace("$__rate_interval", "5m");
                for variable in &board.variables {
                    let one = if variable.name == "job" { "noised" } else { "[2001:db8::1]" };
                    let chosen = if variable.many { variable.all } else { one };
                    expr = expr.replace(&format!("${}", variable.name), chosen);
                }
                found.insert(expr);
            }
        }
        found
    }

    /// All texts of a dashboard, wherever they are in it.
    fn texts(json: &Value) -> Vec<&str> {
        match json {
            Value::String(text) => vec![text],
            Value::Array(list) => list.iter().flat_map(texts).collect(),
            Value::Object(map) => map.values().flat_map(texts).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn one_value_is_compared_and_several_are_matched() {
        let all = boards::all();
        for board in &all {
            let json = json::dashboard(board, &all);
            for variable in &board.variables {
                let chosen = format!("\"${}\"", variable.name);
                let mut parts = 0;
                for text in texts(&json) {
                    for (before, _) in text.match_indices(&chosen).map(|(at, _)| text.split_at(at))
                    {
                        let matched = before.ends_with("=~");
                        let compared = before.ends_with('=') && !before.ends_with("!=");
                        let right = if variable.many { matched } else { compared };
                        assert!(right, "{}: {text}", board.title);
                        parts += 1;
                    }
                }
                assert!(parts > 0, "{chosen} is nowhere in {}", board.title);
            }
        }
    }

    /// The queries that promtool tests are those of the dashboards.
    #[test]
    fn tested_queries_are_those_of_dashboards() {
        let path = root().join("deploy/prometheus/tests/dashboards.test.yml");
        let text = fs::read_to_string(path).unwrap();
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix("- expr: '"));
        let tested: Vec<&str> = lines.map(|line| line.strip_suffix('\'').unwrap()).collect();
        assert!(!tested.is_empty());
        let asked = asked();
        for expr in tested {
            assert!(asked.contains(expr), "no dashboard asks {expr}");
        }
    }

    #[test]
    fn every_signal_is_on_a_dashboard_and_in_the_rules() {
        let files = files();
        for info in &SIGNALS {
            for wanted in ["recording.rules.yml", ".json"] {
                let named = files
                    .iter()
                    .any(|(path, text)| path.ends_with(wanted) && text.contains(info.metric));
                assert!(named, "{} is in no {wanted}", info.metric);
            }
        }
    }

    /// The hooks that the alert about missing ones asks for are those without which a signal cannot be measured. Those
    /// that a kernel does not have are not exported there.
    #[test]
    fn the_alert_about_hooks_names_those_that_signals_need() {
        let needed = SIGNALS.iter().flat_map(|info| info.hooks);
        let needed: BTreeSet<&str> = needed.map(|hook| hook.tracepoint()).collect();
        let pattern = needed.into_iter().collect::<Vec<_>>().join("|");
        let alerts = fs::read_to_string(root().join("deploy/prometheus/alerts.rules.yml")).unwrap();
        assert!(alerts.contains(&format!("hook=~\"{pattern}\"")), "{pattern}");
    }

    /// Every rule occurs in the tests of its file, which promtool runs.
    #[test]
    fn every_rule_is_tested() {
        let read =
            |path: &str| fs::read_to_string(root().join("deploy/prometheus").join(path)).unwrap();
        for (file, key) in
            [("recording", "- record: "), ("federation", "- record: "), ("alerts", "- alert: ")]
        {
            let (rules, tests) =
                (read(&format!("{file}.rules.yml")), read(&format!("tests/{file}.test.yml")));
            let names = rules.lines().filter_map(|line| line.trim().strip_prefix(key));
            let mut count = 0;
            for name in names {
                assert!(tests.contains(name), "{name} is tested nowhere");
                count += 1;
            }
            assert!(count > 0, "{file} has no rules");
        }
    }
}
