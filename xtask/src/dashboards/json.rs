//! Dashboards as Grafana's JSON.

use serde_json::{Map, Value, json};

use crate::dashboards::table::{Board, Panel, Query, Shape, Unit, Variable};

/// Of Grafana 11; later versions migrate it when they load it.
const SCHEMA_VERSION: u32 = 39;
const COLUMNS: u32 = 24;
/// The tag by which people find the dashboards.
const TAG: &str = "noised";

fn datasource() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

/// An expression in which one value is compared as it is. Grafana makes what is chosen fit into a regular
/// expression only where several can be; elsewhere `[2001:db8::1]` would be one of these letters.
fn exact(expr: &str, variables: &[Variable]) -> String {
    let single = variables.iter().filter(|variable| !variable.many);
    single.fold(expr.to_owned(), |expr, variable| {
        let chosen = format!("\"${}\"", variable.name);
        expr.replace(&format!("=~{chosen}"), &format!("={chosen}"))
    })
}

/// The name that a dashboard has in addresses.
pub fn uid(board: &Board) -> String {
    format!("noised-{}", board.name)
}

/// The ways to the other dashboards, with the time and what is chosen.
fn links(board: &Board, all: &[Board]) -> Vec<Value> {
    let others = all.iter().filter(|other| other.name != board.name);
    others
        .map(|other| {
            // Several hosts, or all, are no choice where there is one.
            let fits = board.hosts().is_none_or(|many| !many || other.hosts() != Some(false));
            let query = if fits { "" } else { "?var-datasource=${datasource}&var-job=${job}" };
            json!({
                "type": "link", "title": other.title, "url": format!("/d/{}{query}", uid(other)),
                "includeVars": fits, "keepTime": true, "targetBlank": false, "asDropdown": false,
                "icon": "dashboard", "tooltip": other.description, "tags": [],
            })
        })
        .collect()
}

/// A whole dashboard, which knows of all.
pub fn dashboard(board: &Board, all: &[Board]) -> Value {
    let mut variables = vec![json!({
        "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
        "current": {}, "hide": 0, "includeAll": false, "multi": false, "options": [],
        "refresh": 1, "regex": "", "skipUrlSync": false,
    })];
    variables.extend(board.variables.iter().map(|own| variable(own, &board.variables)));
    json!({
        "uid": uid(board),
        "title": format!("noised / {}", board.title),
        "description": board.description,
        "tags": [TAG],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": true,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "fiscalYearStartMonth": 0,
        "liveNow": false,
        "timepicker": {},
        "links": links(board, all),
        "annotations": {"list": [incidents(board)]},
        "templating": {"list": variables},
        "panels": panels(board),
    })
}

/// Open incidents as marks in every graph.
fn incidents(board: &Board) -> Value {
    let hosts = if board.variables.iter().any(|variable| variable.name == "instance") {
        r#"job=~"$job",instance=~"$instance""#
    } else {
        r#"job=~"$job""#
    };
    json!({
        "name": "Incidents", "enable": true, "hide": false, "iconColor": "red",
        "datasource": datasource(),
        "expr": exact(&format!("noised_incident_active{{{hosts}}}"), &board.variables),
        "step": "30s",
        "titleFormat": "Incident on {{instance}}",
        "textFormat": "{{signal}} of {{subject}}",
    })
}

fn variable(variable: &Variable, all: &[Variable]) -> Value {
    let query = exact(variable.query, all);
    let mut value = json!({
        "name": variable.name, "label": variable.label, "type": "query",
        "datasource": datasource(),
        "definition": query,
        "query": {"qryType": 1, "query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        "current": {}, "hide": 0, "options": [], "regex": "", "skipUrlSync": false,
        // With the time range: labels of what is gone are not offered.
        "refresh": 2,
        "sort": 1,
        "includeAll": variable.many, "multi": variable.many,
    });
    if variable.many {
        value["allValue"] = json!(variable.all);
        value["current"] = json!({"selected": true, "text": ["All"], "value": ["$__all"]});
    }
    value
}

/// The panels in reading order, row by row.
fn panels(board: &Board) -> Vec<Value> {
    let (mut x, mut y, mut tallest) = (0, 0, 0);
    let mut placed = Vec::new();
    for (index, panel) in board.panels.iter().enumerate() {
        if x + panel.width > COLUMNS {
            (x, y, tallest) = (0, y + tallest, 0);
        }
        let place = json!({"x": x, "y": y, "w": panel.width, "h": panel.height});
        placed.push(self::panel(index + 1, panel, place, &board.variables));
        x += panel.width;
        tallest = tallest.max(panel.height);
    }
    placed
}

fn panel(id: usize, panel: &Panel, place: Value, variables: &[Variable]) -> Value {
    let (kind, options) = look(panel);
    let targets = panel.queries.iter().enumerate();
    let targets = targets.map(|(index, query)| target(panel, index, query, variables));
    let mut value = json!({
        "id": id,
        "title": panel.title,
        "description": panel.says,
        "type": kind,
        "datasource": datasource(),
        "gridPos": place,
        "targets": targets.collect::<Vec<_>>(),
        "fieldConfig": {"defaults": defaults(panel), "overrides": overrides(panel)},
        "options": options,
    });
    if let Shape::Table(columns) = panel.shape {
        value["transformations"] = transformations(panel, columns);
    }
    value
}

fn letter(index: usize) -> String {
    char::from(b'A' + u8::try_from(index).unwrap_or_default()).to_string()
}

fn target(panel: &Panel, index: usize, query: &Query, variables: &[Variable]) -> Value {
    let instant = matches!(panel.shape, Shape::Table(_) | Shape::Bars);
    let format = match panel.shape {
        Shape::Table(_) => "table",
        Shape::Heatmap => "heatmap",
        _ => "time_series",
    };
    json!({
        "refId": letter(index),
        "datasource": datasource(),
        "editorMode": "code",
        "expr": exact(&query.expr, variables),
        "legendFormat": query.legend,
        "format": format,
        "instant": instant,
        "range": !instant,
    })
}

fn look(panel: &Panel) -> (&'static str, Value) {
    let reduced = json!({"calcs": ["lastNotNull"], "fields": "", "values": false});
    match panel.shape {
        Shape::Lines | Shape::Stacked => {
            let calcs = json!(["lastNotNull", "max"]);
            let placement = if panel.queries.len() > 8 { "right" } else { "bottom" };
            let legend = json!({"displayMode": "table", "placement": placement, "showLegend": true, "calcs": calcs});
            let tooltip = json!({"mode": "multi", "sort": "desc"});
            ("timeseries", json!({"legend": legend, "tooltip": tooltip}))
        }
        Shape::Number => {
            let options = json!({
                "reduceOptions": reduced, "colorMode": "value", "graphMode": "area",
                "justifyMode": "auto", "orientation": "auto", "textMode": "value", "wideLayout": true,
            });
            ("stat", options)
        }
        Shape::Bars => {
            let options = json!({
                "reduceOptions": reduced, "displayMode": "gradient", "orientation": "horizontal",
                "valueMode": "color", "namePlacement": "auto", "showUnfilled": true, "sizing": "auto",
                "minVizHeight": 16, "minVizWidth": 8, "maxVizHeight": 300,
            });
            ("bargauge", options)
        }
        Shape::Heatmap => {
            let color = json!({"mode": "scheme", "scheme": "Oranges", "scale": "exponential", "exponent": 0.5, "steps": 64, "reverse": false, "fill": "dark-orange"});
            let options = json!({
                // The buckets are counted already.
                "calculate": false,
                "cellGap": 1, "color": color,
                "cellValues": {"unit": Unit::PerSecond.id()},
                "yAxis": {"axisPlacement": "left", "unit": panel.unit.id(), "reverse": false},
                "rowsFrame": {"layout": "auto"},
                "filterValues": {"le": 1e-9},
                "exemplars": {"color": "rgba(255,0,255,0.7)"},
                "legend": {"show": true}, "showValue": "never",
                "tooltip": {"mode": "single", "showColorScale": true, "yHistogram": true},
            });
            ("heatmap", options)
        }
        Shape::Table(_) => {
            let options = json!({
                "cellHeight": "sm", "showHeader": true,
                "footer": {"show": false, "reducer": ["sum"], "countRows": false, "fields": ""},
                "sortBy": sorted_by(panel),
            });
            ("table", options)
        }
    }
}

/// Tables stand with the largest of their first value on top.
fn sorted_by(panel: &Panel) -> Value {
    match panel.queries.first() {
        Some(first) if !first.legend.is_empty() => {
            json!([{"displayName": first.legend, "desc": true}])
        }
        _ => json!([]),
    }
}

fn defaults(panel: &Panel) -> Value {
    let mut steps = vec![json!({"color": "green", "value": null})];
    if let Some((look, bad)) = panel.limits {
        steps.push(json!({"color": "orange", "value": look}));
        steps.push(json!({"color": "red", "value": bad}));
    }
    let palette = match panel.shape {
        Shape::Number | Shape::Bars => "thresholds",
        _ => "palette-classic",
    };
    let mut defaults = json!({
        "unit": panel.unit.id(),
        "color": {"mode": palette},
        "thresholds": {"mode": "absolute", "steps": steps},
        "mappings": [],
        "links": [],
    });
    match panel.shape {
        Shape::Lines | Shape::Stacked => {
            // Delays span six orders of magnitude; everything else starts at zero.
            let scale = if panel.unit == Unit::Seconds {
                json!({"type": "log", "log": 10})
            } else {
                defaults["min"] = json!(0);
                json!({"type": "linear"})
            };
            let stacked = panel.shape == Shape::Stacked;
            defaults["custom"] = json!({
                "drawStyle": "line", "lineInterpolation": "linear", "lineWidth": 1,
                "fillOpacity": if stacked { 40 } else { 0 }, "gradientMode": "none",
                "showPoints": "never", "pointSize": 5, "spanNulls": false, "insertNulls": false,
                "stacking": {"mode": if stacked { "normal" } else { "none" }, "group": "A"},
                "axisPlacement": "auto", "axisLabel": "", "axisColorMode": "text",
                "axisBorderShow": false, "axisCenteredZero": false, "barAlignment": 0,
                "scaleDistribution": scale,
                "hideFrom": {"legend": false, "tooltip": false, "viz": false},
                "thresholdsStyle": {"mode": if panel.limits.is_some() { "dashed" } else { "off" }},
            });
        }
        Shape::Bars => defaults["min"] = json!(0),
        Shape::Heatmap => {
            defaults["custom"] = json!({
                "hideFrom": {"legend": false, "tooltip": false, "viz": false},
                "scaleDistribution": {"type": "linear"},
            });
        }
        Shape::Table(_) => {
            defaults["custom"] = json!({"align": "auto", "cellOptions": {"type": "auto"}, "inspect": false, "filterable": true});
        }
        Shape::Number => {}
    }
    defaults
}

/// What a table does differently in single columns.
fn overrides(panel: &Panel) -> Vec<Value> {
    let Shape::Table(columns) = panel.shape else { return Vec::new() };
    let mut found = Vec::new();
    for (query, unit) in panel.queries.iter().zip(panel.units) {
        found.push(json!({
            "matcher": {"id": "byName", "options": query.legend},
            "properties": [{"id": "unit", "value": unit.id()}],
        }));
    }
    for (_, shown) in columns.iter().filter(|(label, _)| *label == "instance") {
        let link = json!({
            "title": "Host noise of ${__value.text}",
            "url": "/d/noised-host?var-datasource=${datasource}&var-job=${job}&var-instance=${__value.text}&${__url_time_range}",
            "targetBlank": false,
        });
        found.push(json!({
            "matcher": {"id": "byName", "options": shown},
            "properties": [{"id": "links", "value": [link]}],
        }));
    }
    found
}

/// Labels become columns that people can read, in order; the rest is not shown.
fn transformations(panel: &Panel, columns: &[(&str, &str)]) -> Value {
    let several = panel.queries.len() > 1;
    let (mut names, mut order, mut shown) = (Map::new(), Map::new(), Vec::new());
    let values = panel.queries.iter().enumerate().map(|(index, query)| {
        let field = if several { format!("Value #{}", letter(index)) } else { "Value".to_owned() };
        (field, &*query.legend)
    });
    // A value without a name says no more than that the row is there.
    let values = values.filter(|(_, name)| !name.is_empty());
    let labels = columns.iter().map(|(label, name)| ((*label).to_owned(), *name));
    for (index, (field, name)) in labels.chain(values).enumerate() {
        names.insert(field.clone(), json!(name));
        order.insert(field.clone(), json!(index));
        shown.push(field);
    }
    let mut steps = Vec::new();
    if several {
        steps.push(json!({"id": "merge", "options": {}}));
    }
    steps.push(json!({"id": "filterFieldsByName", "options": {"include": {"names": shown}}}));
    steps.push(json!({
        "id": "organize",
        "options": {"excludeByName": {}, "indexByName": order, "renameByName": names},
    }));
    json!(steps)
}
