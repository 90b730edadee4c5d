//! The configurations of `deploy/prometheus`: that what is commented out in them fits where it stands, and
//! that servers which share hosts and the one above them agree.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use noise_tests::needed::needs;
use noise_tests::pages;
use noise_tests::prometheus::{dashboards, selectors};
use serde_json::{Value, json};

use crate::Test;

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "pods_of_the_manifest_are_found_and_are_hosts_of_the_job_noised",
        pods_of_the_manifest_are_found_and_are_hosts_of_the_job_noised,
    ),
    ("what_is_commented_out_fits_where_it_stands", what_is_commented_out_fits_where_it_stands),
    (
        "labels_of_pods_count_wherever_hosts_are_scraped",
        labels_of_pods_count_wherever_hosts_are_scraped,
    ),
    ("the_pages_show_what_the_configuration_says", the_pages_show_what_the_configuration_says),
    (
        "servers_that_share_hosts_fit_the_one_above_them",
        servers_that_share_hosts_fit_the_one_above_them,
    ),
];

fn read(name: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/prometheus").join(name);
    fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
}

/// A configuration in which everything that is commented out is a setting. Explanations have one blank
/// after their #, settings none, or two and more where they belong to the line before.
fn in_force(text: &str) -> String {
    let line = |line: &str| {
        let (indent, rest) = line.split_at(line.len() - line.trim_start().len());
        match rest.strip_prefix('#') {
            Some(setting) if !setting.starts_with(' ') || setting.starts_with("  ") => {
                format!("{indent}{setting}\n")
            }
            _ => format!("{line}\n"),
        }
    };
    text.lines().map(line).collect()
}

fn parsed(text: &str) -> Result<Value> {
    Ok(serde_saphyr::from_str(text)?)
}

/// Has promtool look at configurations; certificates and the like need not be there. Comes last in a test, so that all
/// else is judged where there is no promtool.
fn are_accepted(configurations: &[(&str, String)]) -> Result<()> {
    needs(&["promtool"])?;
    for (name, text) in configurations {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::write(&path, text)?;
        let arguments = ["check", "config", "--syntax-only"];
        let output = Command::new("promtool").args(arguments).arg(&path).output()?;
        let said = [output.stdout, output.stderr].concat();
        ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&said));
    }
    Ok(())
}

fn pods_of_the_manifest_are_found_and_are_hosts_of_the_job_noised() -> Result<()> {
    let config = parsed(&read("kubernetes.yml")?)?;
    let job = &config["scrape_configs"][0];
    // Debian builds Prometheus without Kubernetes: the rest has to please it.
    let mut rest = config.clone();
    let elsewhere = rest["scrape_configs"][0].as_object_mut().context("no job")?;
    elsewhere.remove("kubernetes_sd_configs").context("pods are not looked for")?;
    let manifest: Vec<Value> = serde_saphyr::from_multiple(&read("../kubernetes/noised.yaml")?)?;
    let set = manifest.iter().find(|document| document["kind"] == "DaemonSet");
    let set = set.context("there is no DaemonSet")?;
    let namespaces = json!({"names": [set["metadata"]["namespace"]]});
    let found = json!([{"role": "pod", "namespaces": namespaces}]);
    assert_eq!(job["kubernetes_sd_configs"], found);
    let pod = &set["spec"]["template"];
    let name = pod["metadata"]["labels"]["app.kubernetes.io/name"].as_str().context("no label")?;
    let port = &pod["spec"]["containers"][0]["ports"][0]["name"];
    let port = port.as_str().context("a port without a name")?;
    let steps = job["relabel_configs"].as_array().context("no steps")?;
    let labels = ["label_app_kubernetes_io_name", "container_port_name"]
        .map(|label| format!("__meta_kubernetes_pod_{label}"));
    let kept = steps.iter().find(|step| step["action"] == "keep").context("all are kept")?;
    assert_eq!(kept["source_labels"], json!(labels));
    assert_eq!(kept["regex"], format!("{name};{port}"));
    let named = |label: &str| steps.iter().find(|step| step["target_label"] == label);
    assert_eq!(named("job").context("no job")?["replacement"], "noised");
    assert_eq!(
        named("instance").context("no instance")?["source_labels"],
        json!(["__meta_kubernetes_pod_node_name"])
    );
    are_accepted(&[("kubernetes.yml", rest.to_string())])
}

fn what_is_commented_out_fits_where_it_stands() -> Result<()> {
    let text = read("prometheus.yml")?;
    let all = in_force(&text);
    let (before, after) = (parsed(&text)?, parsed(&all)?);
    assert_ne!(before, after);
    // Nothing that was there is gone.
    let (before, after) = (&before["scrape_configs"][0], &after["scrape_configs"][0]);
    for (key, value) in before.as_object().context("no job")? {
        match value.as_array() {
            Some(list) => {
                let kept = after[key].as_array().context("no list")?.starts_with(list);
                assert!(kept, "{key} is {}", after[key]);
            }
            None => assert_eq!(&after[key], value, "{key}"),
        }
    }
    are_accepted(&[("prometheus.yml", all)])
}

fn labels_of_pods_count_wherever_hosts_are_scraped() -> Result<()> {
    for name in ["prometheus.yml", "kubernetes.yml"] {
        let config = parsed(&read(name)?)?;
        assert_eq!(config["scrape_configs"][0]["honor_labels"], true, "{name}");
    }
    Ok(())
}

/// What the pages have people write into their own configuration is what stands in ours.
fn the_pages_show_what_the_configuration_says() -> Result<()> {
    let mut shown = pages::blocks("yaml")?;
    shown.retain(|block| block.starts_with("rule_files:"));
    ensure!(!shown.is_empty(), "no page has the lines");
    let ours = parsed(&read("prometheus.yml")?)?;
    for shown in &shown {
        let shown = parsed(shown)?;
        assert_eq!(shown["rule_files"], ours["rule_files"]);
        let jobs = [&shown, &ours].map(|config| &config["scrape_configs"][0]);
        for (key, value) in jobs[0].as_object().context("no job")? {
            assert_eq!(&jobs[1][key], value, "{key}");
        }
    }
    let shown: Vec<_> = shown.into_iter().map(|shown| ("pages.yml", shown)).collect();
    are_accepted(&shown)
}

/// The names of a file's recorded series, and the expressions of its rules.
fn rules(file: &str) -> Result<(BTreeSet<String>, Vec<String>)> {
    let (mut names, mut exprs) = (BTreeSet::new(), Vec::new());
    let file = parsed(&read(file)?)?;
    let groups = file["groups"].as_array().context("no groups")?;
    for rule in groups.iter().filter_map(|group| group["rules"].as_array()).flatten() {
        names.insert(rule["record"].as_str().context("a rule without a name")?.to_owned());
        exprs.push(rule["expr"].as_str().context("a rule of nothing")?.to_owned());
    }
    Ok((names, exprs))
}

/// Whether one of the selectors of `/federate` names a metric. They are lists of names, or of how
/// names begin.
fn is_fetched(metric: &str, fetched: &[Value]) -> bool {
    let lists = fetched.iter().filter_map(Value::as_str);
    let lists = lists.filter_map(|one| one.strip_prefix("{__name__=~\"")?.split_once('"'));
    let mut names = lists.flat_map(|(list, _)| list.split('|'));
    names.any(|name| match name.strip_suffix(".*") {
        Some(start) => metric.starts_with(start),
        None => metric == name,
    })
}

fn servers_that_share_hosts_fit_the_one_above_them() -> Result<()> {
    let shard = parsed(&in_force(&read("prometheus.yml")?))?;
    let steps = shard["scrape_configs"][0]["relabel_configs"].as_array().context("no steps")?;
    let [.., hash, keep] = steps.as_slice() else { bail!("no sharding among {steps:?}") };
    assert_eq!((&hash["action"], &keep["action"]), (&json!("hashmod"), &json!("keep")));
    assert_eq!(json!([hash["target_label"]]), keep["source_labels"]);
    assert_eq!(keep["regex"], shard["global"]["external_labels"]["shard"]);

    let text = read("federation.yml")?;
    let above = parsed(&text)?;
    let job = &above["scrape_configs"][0];
    assert_eq!(job["honor_labels"], true);
    let servers = job["static_configs"][0]["targets"].as_array().context("no servers")?;
    assert_eq!(hash["modulus"], servers.len());

    // What it fetches, by the names that it gives.
    let renaming = job["metric_relabel_configs"].as_array().context("no renaming")?;
    let [step] = renaming.as_slice() else { bail!("one step is expected: {renaming:?}") };
    assert_eq!(
        (&step["regex"], &step["replacement"]),
        (&json!("job_(.+)"), &json!("job_shard_$1"))
    );
    let fetched = job["params"]["match[]"].as_array().context("nothing is fetched")?;
    let (recorded, _) = rules("recording.rules.yml")?;
    let raw = ["noised_build_info", "noised_incident_active", "scrape_samples_scraped", "up"];
    let listed: BTreeSet<String> = recorded
        .iter()
        .map(String::as_str)
        .chain(raw)
        .filter(|metric| is_fetched(metric, fetched))
        .map(|metric| match metric.strip_prefix("job_") {
            Some(rest) => format!("job_shard_{rest}"),
            None => metric.to_owned(),
        })
        .collect();
    let (own, exprs) = rules("federation.rules.yml")?;
    assert_eq!(listed.intersection(&own).next(), None, "that would be counted twice");
    let fleet = dashboards()?.into_iter().find(|dashboard| dashboard.uid == "noised-fleet");
    let fleet = fleet.context("there is no dashboard of the fleet")?;
    let queries = fleet.panels.iter().flat_map(|panel| &panel.queries);
    let asked = queries.map(|query| &query.expr).chain(&fleet.annotations).chain(&exprs);
    let asked = asked.chain(fleet.variables.iter().map(|variable| &variable.selector));
    for expr in asked {
        let metrics = selectors(expr);
        assert!(!metrics.is_empty(), "{expr} asks for nothing");
        for metric in metrics.into_iter().map(|selector| selector.metric) {
            let known = listed.contains(&metric) || own.contains(&metric);
            assert!(known, "{metric} is not known there: {expr}");
        }
    }
    are_accepted(&[("federation.yml", text)])
}
