//! The dashboards of `deploy/grafana`, read back and asked as Grafana asks them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{Series, Server};

/// A dashboard.
#[derive(Clone, Debug)]
pub struct Dashboard {
    /// Its name in addresses.
    pub uid: String,
    /// Its headline.
    pub title: String,
    /// What can be chosen, the data source excluded.
    pub variables: Vec<Variable>,
    /// Its panels.
    pub panels: Vec<Panel>,
    /// The expressions of its annotations.
    pub annotations: Vec<String>,
}

/// A choice at the top of a dashboard.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Of `label_values(selector, label)`.
    pub selector: String,
    /// Of `label_values(selector, label)`.
    pub label: String,
    /// What stands for all values, where all can be chosen.
    pub all: Option<String>,
}

/// A panel, with everything else about it in its JSON.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Its headline.
    pub title: String,
    /// What it asks.
    pub queries: Vec<Query>,
    /// All of it.
    pub json: Value,
}

/// What a panel asks.
#[derive(Clone, Debug)]
pub struct Query {
    /// In PromQL, with variables.
    pub expr: String,
    /// How series are called.
    pub legend: String,
    /// Whether only the present counts.
    pub instant: bool,
}

/// Values of variables.
pub type Choices = BTreeMap<String, String>;

/// Four scrapes of one second, and the step that Grafana adds.
const RATE_INTERVAL: &str = "5s";

fn text(value: &Value, key: &str) -> Result<String> {
    Ok(value[key].as_str().with_context(|| format!("no {key} in {value}"))?.to_owned())
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    value[key].as_array().with_context(|| format!("no list {key}"))
}

/// All dashboards of this project.
/// Errors: if one is not as Grafana's are.
pub fn dashboards() -> Result<Vec<Dashboard>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/grafana/dashboards");
    let mut paths: Vec<_> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.sort();
    let all: Result<Vec<Dashboard>> = paths
        .iter()
        .map(|path| {
            let json = serde_json::from_slice(&fs::read(path)?)?;
            Dashboard::read(&json).with_context(|| format!("reading {}", path.display()))
        })
        .collect();
    ensure!(all.as_ref().is_ok_and(|all| !all.is_empty()) || all.is_err(), "there is no dashboard");
    all
}

impl Dashboard {
    fn read(json: &Value) -> Result<Self> {
        let variables = list(&json["templating"], "list")?
            .iter()
            .filter(|variable| variable["type"] == "query")
            .map(Variable::read)
            .collect::<Result<_>>()?;
        let annotations = list(&json["annotations"], "list")?;
        Ok(Self {
            uid: text(json, "uid")?,
            title: text(json, "title")?,
            variables,
            panels: list(json, "panels")?.iter().map(Panel::read).collect::<Result<_>>()?,
            annotations: annotations.iter().map(|one| text(one, "expr")).collect::<Result<_>>()?,
        })
    }

    /// What is chosen when the dashboard is opened: everything, or the first value.
    /// Errors: if a variable has no value to choose.
    pub fn opened(&self, server: &Server) -> Result<Choices> {
        let mut choices = Choices::new();
        for variable in &self.variables {
            let values = variable.values(server, &choices)?;
            let first = values.first().with_context(|| {
                format!("{} has nothing to choose for ${}", self.title, variable.name)
            })?;
            choices.insert(variable.name.clone(), variable.all.clone().unwrap_or(first.clone()));
        }
        Ok(choices)
    }
}

impl Variable {
    fn read(json: &Value) -> Result<Self> {
        let query = text(&json["query"], "query")?;
        let inside = query
            .strip_prefix("label_values(")
            .and_then(|rest| rest.strip_suffix(')'))
            .with_context(|| format!("{query} is no label_values(…)"))?;
        let (selector, label) = inside.rsplit_once(", ").context("label_values without a label")?;
        Ok(Self {
            name: text(json, "name")?,
            selector: selector.to_owned(),
            label: label.to_owned(),
            all: json["allValue"].as_str().map(str::to_owned),
        })
    }

    /// What it offers, given the choices before it.
    pub fn values(&self, server: &Server, choices: &Choices) -> Result<Vec<String>> {
        server.values_of(&interpolated(&self.selector, choices), &self.label)
    }
}

impl Panel {
    fn read(json: &Value) -> Result<Self> {
        let query = |target: &Value| {
            Ok(Query {
                expr: text(target, "expr")?,
                legend: text(target, "legendFormat")?,
                instant: target["instant"] == true,
            })
        };
        Ok(Self {
            title: text(json, "title")?,
            queries: list(json, "targets")?.iter().map(query).collect::<Result<_>>()?,
            json: json.clone(),
        })
    }

    /// The labels that its columns show, for a table.
    pub fn columns(&self) -> Vec<String> {
        let steps = self.json["transformations"].as_array().into_iter().flatten();
        let names = steps.filter_map(|step| step["options"]["renameByName"].as_object()).flatten();
        names.map(|(field, _)| field.clone()).filter(|field| !field.starts_with("Value")).collect()
    }
}

impl Query {
    /// Asks it for the latest time.
    pub fn ask(&self, server: &Server, choices: &Choices, latest: Duration) -> Result<Vec<Series>> {
        let expr = interpolated(&self.expr, choices);
        if self.instant {
            server.query(&expr)
        } else {
            server.query_range(&expr, latest, Duration::from_secs(1))
        }
    }

    /// What a series is called.
    pub fn name(&self, series: &Series) -> String {
        let mut name = self.legend.clone();
        for (label, value) in &series.labels {
            name = name.replace(&format!("{{{{{label}}}}}"), value);
        }
        name
    }
}

/// An expression as it is sent: with the choices in their places.
pub fn interpolated(expr: &str, choices: &Choices) -> String {
    let mut expr = expr.replace("$__rate_interval", RATE_INTERVAL);
    for (name, value) in choices {
        expr = expr.replace(&format!("${name}"), value);
    }
    expr
}
