//! A dashboard as a page.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::graph::{self, Look};
use super::unit::shown;
use crate::prom::LabelSet;
use crate::prometheus::{Choices, Dashboard, Panel, Query, Series, Server};

/// Pixels of one of 24 columns, of a row, and between panels.
const COLUMN: u64 = 66;
const ROW: u64 = 38;
const GAP: u64 = 8;
const TOP: u64 = 56;
const STYLE: &str = "body{margin:0;background:#111217;color:#ccccdc;font:13px Inter,Arial,sans-serif}\
    h1{font-size:18px;font-weight:500;margin:0;position:absolute;left:10px;top:8px}\
    .choices{position:absolute;left:10px;top:32px;color:#9a9aa8;font-size:12px}\
    .panel{position:absolute;background:#181b1f;border:1px solid #2b2e35;border-radius:2px;overflow:hidden;box-sizing:border-box}\
    .title{font-weight:500;padding:6px 8px 2px}.number{font-size:34px;text-align:center;position:absolute;top:42px;width:100%}\
    .spark{position:absolute;bottom:0;left:0;opacity:.5}table{border-collapse:collapse;width:100%;font-size:12px}\
    td,th{padding:2px 8px;text-align:left;border-bottom:1px solid #25282e;white-space:nowrap}th{color:#6e9fff;font-weight:500}\
    .legend td,.legend th{border:0;padding:0 8px;font-size:11px}.legend td+td,.legend th+th{text-align:right}\
    .key{display:inline-block;width:12px;height:3px;margin-right:6px;vertical-align:middle}\
    .bar{display:flex;align-items:center;margin:3px 8px;font-size:12px}.bar .name{width:38%;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}\
    .bar .track{flex:1;background:#22252b;height:15px;margin:0 8px}.bar .fill{height:15px}.bar .value{width:76px;text-align:right}\
    .none{color:#888;text-align:center;padding-top:40px}";

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// What each query of a panel found.
type Found<'a> = Vec<(&'a Query, Vec<Series>)>;

/// The page of a dashboard, and how high it is, pixels. `renamed` is applied to all text.
///
/// # Errors
/// If Prometheus does not answer, or a panel cannot be drawn.
pub fn page(
    dashboard: &Dashboard,
    server: &Server,
    latest: Duration,
    renamed: &dyn Fn(&str) -> String,
) -> Result<(String, u64)> {
    let choices = dashboard.opened(server)?;
    let mut body = format!("<h1>{}</h1>", escaped(&dashboard.title));
    let chosen =
        choices.iter().map(|(name, value)| format!("{name}: {}", value.replace(".+", "All")));
    body += &format!("<div class=choices>{}</div>", chosen.collect::<Vec<_>>().join(" &nbsp; "));
    let mut height = 0;
    for panel in &dashboard.panels {
        let place = &panel.json["gridPos"];
        let of = |key: &str| place[key].as_u64().context("a panel without its place");
        let (x, y, w, h) = (
            of("x")? * COLUMN,
            of("y")? * ROW + TOP,
            of("w")? * COLUMN - GAP,
            of("h")? * ROW - GAP,
        );
        height = height.max(y + h + GAP);
        let inside = draw(panel, server, &choices, latest, (w, h))
            .with_context(|| format!("{} / {}", dashboard.title, panel.title))?;
        body += &format!(
            "<div class=panel style='left:{}px;top:{y}px;width:{w}px;height:{h}px'><div class=title>{}</div>{inside}</div>",
            x + GAP,
            escaped(&panel.title)
        );
    }
    let body = renamed(&body);
    Ok((format!("<!doctype html><meta charset=utf-8><style>{STYLE}</style>{body}"), height))
}

fn draw(
    panel: &Panel,
    server: &Server,
    choices: &Choices,
    latest: Duration,
    size: (u64, u64),
) -> Result<String> {
    let asked = panel.queries.iter().map(|query| Ok((query, query.ask(server, choices, latest)?)));
    let found: Found<'_> = asked.collect::<Result<_>>()?;
    if !found.iter().any(|(_, series)| series.iter().any(Series::has_values)) {
        return Ok("<div class=none>No data</div>".to_owned());
    }
    let unit = panel.json["fieldConfig"]["defaults"]["unit"].as_str().unwrap_or("short");
    match panel.json["type"].as_str().unwrap_or_default() {
        "stat" => number(panel, &found, unit, size),
        "bargauge" => Ok(bars(panel, &found, unit)),
        "table" => Ok(table(panel, &found, unit)),
        "heatmap" => {
            let series: Vec<Series> = found.into_iter().flat_map(|(_, series)| series).collect();
            let look = Look {
                size: (size.0 as u32, size.1 as u32 - 30),
                unit,
                logarithmic: false,
                stacked: false,
                axes: true,
            };
            graph::heatmap(&series, &look)
        }
        _ => over_time(panel, &found, unit, size),
    }
}

/// The colour of a value by the panel's limits.
fn rated(panel: &Panel, value: f64) -> &'static str {
    let steps = panel.json["fieldConfig"]["defaults"]["thresholds"]["steps"].as_array();
    let passed = steps
        .into_iter()
        .flatten()
        .rfind(|step| step["value"].as_f64().is_none_or(|limit| value >= limit));
    match passed.and_then(|step| step["color"].as_str()) {
        Some("red") => "#f2495c",
        Some("orange") => "#ff9830",
        _ => "#73bf69",
    }
}

fn last(series: &Series) -> f64 {
    series
        .points
        .iter()
        .rev()
        .map(|point| point.1)
        .find(|value| value.is_finite())
        .unwrap_or(f64::NAN)
}

fn largest(series: &Series) -> f64 {
    series
        .points
        .iter()
        .map(|point| point.1)
        .filter(|value| value.is_finite())
        .fold(f64::MIN, f64::max)
}

fn number(panel: &Panel, found: &Found<'_>, unit: &str, size: (u64, u64)) -> Result<String> {
    let series: Vec<Series> = found.iter().flat_map(|(_, series)| series.clone()).collect();
    let value = series.first().map_or(f64::NAN, last);
    let look =
        Look { size: (size.0 as u32, 44), unit, logarithmic: false, stacked: false, axes: false };
    let past = graph::lines(&series, &look)?;
    Ok(format!(
        "<div class=spark>{past}</div><div class=number style='color:{}'>{}</div>",
        rated(panel, value),
        shown(unit, value)
    ))
}

fn over_time(panel: &Panel, found: &Found<'_>, unit: &str, size: (u64, u64)) -> Result<String> {
    let custom = &panel.json["fieldConfig"]["defaults"]["custom"];
    let named: Vec<(String, Series)> = found
        .iter()
        .flat_map(|(query, series)| series.iter().map(|one| (query.name(one), one.clone())))
        .filter(|(_, series)| series.has_values())
        .collect();
    let series: Vec<Series> = named.iter().map(|(_, series)| series.clone()).collect();
    // As in Grafana, the legend takes up to a part of the panel, and scrolls beyond.
    let right = panel.json["options"]["legend"]["placement"] == "right";
    let (width, below) = if right {
        (size.0 * 3 / 4, 0)
    } else {
        (size.0, (17 * (named.len() as u64 + 1)).min(size.1 * 9 / 20))
    };
    let look = Look {
        size: (width as u32, (size.1 - 32 - below) as u32),
        unit,
        logarithmic: custom["scaleDistribution"]["type"] == "log",
        stacked: custom["stacking"]["mode"] == "normal",
        axes: true,
    };
    let mut html = graph::lines(&series, &look)?;
    let place = if right { "style='position:absolute;top:28px;right:0;width:25%'" } else { "" };
    html += &format!("<table class=legend {place}><tr><th></th><th>Last</th><th>Max</th></tr>");
    for (index, (name, series)) in named.iter().enumerate() {
        let colour = graph::colour(index);
        html += &format!(
            "<tr><td><span class=key style='background:rgb({},{},{})'></span>{}</td><td>{}</td><td>{}</td></tr>",
            colour.0,
            colour.1,
            colour.2,
            escaped(name),
            shown(unit, last(series)),
            shown(unit, largest(series))
        );
    }
    Ok(html + "</table>")
}

fn bars(panel: &Panel, found: &Found<'_>, unit: &str) -> String {
    let named = found
        .iter()
        .flat_map(|(query, series)| series.iter().map(|one| (query.name(one), last(one))));
    let named: Vec<(String, f64)> = named.collect();
    let most = named.iter().map(|(_, value)| *value).fold(1e-12, f64::max);
    let bar = |(name, value): &(String, f64)| {
        format!(
            "<div class=bar><div class=name>{}</div><div class=track><div class=fill style='width:{:.1}%;background:{}'></div></div><div class=value>{}</div></div>",
            escaped(name),
            value / most * 100.0,
            rated(panel, *value),
            shown(unit, *value)
        )
    };
    named.iter().map(bar).collect()
}

/// The unit of a column.
fn unit_of<'a>(panel: &'a Panel, column: &str, otherwise: &'a str) -> &'a str {
    let overrides = panel.json["fieldConfig"]["overrides"].as_array();
    let own = overrides
        .into_iter()
        .flatten()
        .find(|one| one["matcher"]["options"] == column && one["properties"][0]["id"] == "unit");
    own.and_then(|one| one["properties"][0]["value"].as_str()).unwrap_or(otherwise)
}

/// A row of a table, with all its labels, shown or not, and a value for each query.
#[derive(Debug, PartialEq)]
struct Row {
    labels: LabelSet,
    values: Vec<Option<f64>>,
}

/// The rows of a table. As in Grafana's merge, a label is a column, the metric's name too, and rows become
/// one where they agree in all columns that every query has, unless they contradict each other in another.
fn merged(found: &Found<'_>) -> Vec<Row> {
    let of_query = |series: &[Series]| -> BTreeSet<String> {
        series.iter().flat_map(|one| one.labels.keys().cloned()).collect()
    };
    let answered = found.iter().filter(|(_, series)| !series.is_empty());
    let common = answered
        .map(|(_, series)| of_query(series))
        .reduce(|all, own| all.intersection(&own).cloned().collect())
        .unwrap_or_default();
    let mut rows: Vec<Row> = Vec::new();
    for (index, (_, series)) in found.iter().enumerate() {
        for one in series {
            let fits = |row: &&mut Row| {
                let same =
                    common.iter().all(|label| row.labels.get(label) == one.labels.get(label));
                let mut own = one.labels.iter();
                let agree = own
                    .all(|(label, value)| row.labels.get(label).is_none_or(|other| other == value));
                same && agree && row.values[index].is_none()
            };
            match rows.iter_mut().find(fits) {
                Some(row) => {
                    row.labels.extend(one.labels.clone());
                    row.values[index] = Some(last(one));
                }
                None => {
                    let mut values = vec![None; found.len()];
                    values[index] = Some(last(one));
                    rows.push(Row { labels: one.labels.clone(), values });
                }
            }
        }
    }
    rows
}

fn table(panel: &Panel, found: &Found<'_>, unit: &str) -> String {
    let steps = panel.json["transformations"].as_array().into_iter().flatten();
    let organized =
        steps.into_iter().find(|step| step["id"] == "organize").map(|step| &step["options"]);
    let place = |field: &str| {
        organized.and_then(|options| options["indexByName"][field].as_u64()).unwrap_or(0)
    };
    let name = |field: &str| {
        organized
            .and_then(|options| options["renameByName"][field].as_str())
            .unwrap_or(field)
            .to_owned()
    };
    let mut labels = panel.columns();
    labels.sort_by_key(|field| place(field));
    let mut rows = merged(found);
    let first = |row: &Row| row.values.first().copied().flatten().unwrap_or(0.0);
    rows.sort_by(|a, b| first(b).total_cmp(&first(a)));
    let heads = labels
        .iter()
        .map(|label| name(label))
        .chain(found.iter().map(|(query, _)| query.legend.clone()));
    let heads = heads.filter(|head| !head.is_empty());
    let mut html = String::from("<table><tr>");
    html += &heads.map(|head| format!("<th>{}</th>", escaped(&head))).collect::<String>();
    for row in rows {
        html += "</tr><tr>";
        for label in &labels {
            let text = row.labels.get(label).map_or("", String::as_str);
            html += &format!("<td>{}</td>", escaped(text));
        }
        for (value, (query, _)) in
            row.values.iter().zip(found).filter(|(_, (query, _))| !query.legend.is_empty())
        {
            let unit = unit_of(panel, &query.legend, unit);
            html +=
                &format!("<td>{}</td>", value.map_or(String::new(), |value| shown(unit, value)));
        }
    }
    html + "</tr></table>"
}

#[cfg(test)]
mod tests {
    use super::{Found, escaped, merged};
    use crate::prometheus::{Query, Series};

    #[test]
    fn names_are_no_markup() {
        assert_eq!(escaped("<a & b>"), "&lt;a &amp; b&gt;");
    }

    fn series(labels: &[(&str, &str)], value: f64) -> Series {
        let owned = |(label, text): &(&str, &str)| ((*label).to_owned(), (*text).to_owned());
        Series { labels: labels.iter().map(owned).collect(), points: vec![(0.0, value)] }
    }

    /// The values of each row.
    fn rows(answers: &[Vec<Series>]) -> Vec<Vec<Option<f64>>> {
        let query = Query { expr: String::new(), legend: String::new(), instant: true };
        let found: Found<'_> = answers.iter().map(|series| (&query, series.clone())).collect();
        merged(&found).into_iter().map(|row| row.values).collect()
    }

    #[test]
    fn rows_are_one_where_all_common_labels_agree() {
        let host = |name| series(&[("instance", name)], 1.0);
        let of = |metric, name| series(&[("__name__", metric), ("instance", name)], 1.0);
        let (yes, no) = (Some(1.0), None);
        // Two columns of two hosts, the second of which has only one of them.
        let plain = rows(&[vec![host("a"), host("b")], vec![host("a")]]);
        assert_eq!(plain, [[yes, yes], [yes, no]]);
        // The metric's name is a column as well.
        assert_eq!(rows(&[vec![of("x", "a")], vec![of("y", "a")]]), [[yes, no], [no, yes]]);
        // What only one query has keeps nothing apart, but rows of that query.
        assert_eq!(rows(&[vec![of("x", "a")], vec![host("a")]]), [[yes, yes]]);
        let parts = |part| series(&[("instance", "a"), ("cpu", part)], 1.0);
        assert_eq!(rows(&[vec![parts("0"), parts("1")]]), [[yes], [yes]]);
    }
}
