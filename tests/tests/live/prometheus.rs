//! The dashboards and rules of `deploy/`, asked of a real Prometheus that scrapes a real daemon while every
//! signal moves: each query finds data, and whatever it names exists.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use noise_tests::attribution::kept_by_others;
use noise_tests::daemon::{free_address, nameless};
use noise_tests::group::{Group, Hierarchy};
use noise_tests::load::{Place, Worker};
use noise_tests::needed::needs;
use noise_tests::pod::{POD, Pod};
use noise_tests::prometheus::{
    Bustle, CONFIGURATION, Choices, DISTURBED, Panel, QUIET, Query, Series, Server, dashboards,
    selectors,
};
use noise_tests::wait::wait_until;
use serde_json::Value;

use crate::{INCONCLUSIVE, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("promtool_finds_no_fault", promtool_finds_no_fault),
    ("every_query_finds_data", every_query_finds_data),
    ("pods_join_what_their_cluster_says", pods_join_what_their_cluster_says),
];

/// What graphs show.
const LATEST: Duration = Duration::from_secs(25);
/// What rules are asked for: a busy host misses a scrape of one second now and then, and an incident ends.
const DISTURBANCE: Duration = Duration::from_secs(45);
const STEP: Duration = Duration::from_secs(1);
/// How much of the quiet service's time others may take: an incident is measured against what is usual then.
const MOST_NOISE: f64 = 0.15;
/// How many of the scrapes have to be answered for graphs to have something to show.
const LEAST_ANSWERED: f64 = 0.75;

/// In which a server has scraped what burns, and what is said of it.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Waits of a pod beside what its cluster says of it.
const JOINED: &str = "noised_cgroup_runqueue_wait_seconds_count \
                      * on (namespace, pod) group_left (created_by_name) kube_pod_info";

/// Metrics, or parts of their names, of what this machine may not have, and why.
const UNPROVOKED: &[(&str, &str)] = &[(
    "noised_nmi_seconds",
    "virtual machines have no NMIs, and a profiler here would slow everything",
)];
/// Begin of the names of metrics that are there only where they are asked for: a query that names them finds something without.
const OPTIONAL: &str = "noised_osnoise_";
/// Expressions that find nothing although all that they name is there, and why.
const EMPTY: &[(&str, &str)] = &[
    (r#"absent(up{job=~"noised.*"}"#, "a host is scraped"),
    (r#"reason="map_full""#, "no table is full: that is what the alert is for"),
    (
        r#"noised_probe_attached{job="$job",instance=~"$instance"} == 0"#,
        "every hook that this kernel has is attached: that is what the table is for",
    ),
];

/// Why a query may find nothing, where the machine cannot provoke it.
fn excuse(expr: &str) -> Option<&'static str> {
    let named = |(part, why): &(&str, &'static str)| expr.contains(part).then_some(*why);
    UNPROVOKED.iter().chain(EMPTY).find_map(named)
}

/// Everything that is wrong, reported at once.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn unless(&mut self, holds: bool, fault: impl FnOnce() -> String) {
        if !holds {
            self.0.push(fault());
        }
    }

    fn verdict(self) -> Result<()> {
        ensure!(self.0.is_empty(), "{} faults:\n{}", self.0.len(), self.0.join("\n"));
        Ok(())
    }
}

/// What has been asked and found so far.
struct Asked<'a> {
    server: &'a Server,
    known: BTreeMap<String, BTreeSet<String>>,
    faults: Faults,
    queries: usize,
    series: usize,
}

impl Asked<'_> {
    /// The labels of a metric; none if there is no such metric.
    fn labels(&mut self, metric: &str) -> Result<&BTreeSet<String>> {
        if !self.known.contains_key(metric) {
            let labels = self.server.labels_of(metric)?.into_iter().collect();
            self.known.insert(metric.to_owned(), labels);
        }
        self.known.get(metric).context("just inserted")
    }

    /// Requires that whatever an expression names exists.
    fn names(&mut self, place: &str, expr: &str) -> Result<()> {
        let found = selectors(expr);
        self.faults.unless(!found.is_empty(), || format!("{place} asks for nothing: {expr}"));
        for selector in found {
            let is_unprovoked = UNPROVOKED.iter().any(|(part, _)| selector.metric.contains(part));
            if is_unprovoked || selector.metric.starts_with(OPTIONAL) {
                continue;
            }
            let labels = self.labels(&selector.metric)?.clone();
            self.faults
                .unless(!labels.is_empty(), || format!("{place}: there is no {}", selector.metric));
            for label in selector.labels.iter().filter(|_| !labels.is_empty()) {
                self.faults.unless(labels.contains(label), || {
                    format!("{place}: {} has no label {label}", selector.metric)
                });
            }
        }
        Ok(())
    }

    /// Requires that an expression found something, or has a reason not to.
    fn data(&mut self, place: &str, expr: &str, found: &[Series]) {
        self.queries += 1;
        self.series += found.len();
        let has = found.iter().any(Series::has_values);
        match excuse(expr) {
            Some(why) => println!("{place}: {} ({why})", if has { "data" } else { "nothing" }),
            None => self.faults.unless(has, || format!("{place} finds nothing: {expr}")),
        }
    }

    /// Requires that each series has the labels that people are shown.
    fn shows(&mut self, place: &str, panel: &Panel, query: &Query, found: &[Series]) {
        let legend = query.legend.split("{{").skip(1).filter_map(|rest| rest.split_once("}}"));
        let mut wanted: Vec<String> = legend.map(|(label, _)| label.to_owned()).collect();
        wanted.extend(panel.columns());
        for label in &wanted {
            let all = found.iter().all(|series| series.labels.contains_key(label));
            self.faults.unless(all, || format!("{place} shows {label}, which a series has not"));
        }
        let names: BTreeSet<String> = found.iter().map(|series| query.name(series)).collect();
        let distinct = panel.columns().is_empty() && !found.is_empty();
        self.faults.unless(!distinct || names.len() == found.len(), || {
            format!("{place}: {} series have {} names", found.len(), names.len())
        });
    }
}

/// Every variable, panel and annotation of every dashboard.
fn ask_dashboards(asked: &mut Asked<'_>) -> Result<()> {
    for dashboard in dashboards()? {
        for variable in &dashboard.variables {
            asked
                .names(&format!("{} / ${}", dashboard.title, variable.name), &variable.selector)?;
        }
        let choices: Choices = dashboard.opened(asked.server)?;
        let host = choices.get("instance");
        asked.faults.unless(host.is_none_or(|host| host == ".+" || host == "here"), || {
            format!("{} opens with the host {host:?}", dashboard.title)
        });
        for panel in &dashboard.panels {
            let place = format!("{} / {}", dashboard.title, panel.title);
            for query in &panel.queries {
                asked.names(&place, &query.expr)?;
                let found = query
                    .ask(asked.server, &choices, LATEST)
                    .with_context(|| format!("{place}: {}", query.expr))?;
                asked.data(&place, &query.expr, &found);
                asked.shows(&place, panel, query, &found);
            }
        }
        for expr in &dashboard.annotations {
            asked.names(&dashboard.title, expr)?;
            let query = Query { expr: expr.clone(), legend: String::new(), instant: true };
            let found = query.ask(asked.server, &choices, LATEST)?;
            asked.data(&format!("annotations of {}", dashboard.title), expr, &found);
        }
    }
    Ok(())
}

/// An alert's expression with thresholds that everything exceeds: what it compares has to be there.
fn without_thresholds(expr: &str) -> String {
    let mut words = expr.split(' ').peekable();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        kept.push(word);
        if ["==", ">", ">=", "<"].contains(&word)
            && words
                .peek()
                .is_some_and(|number| number.trim_end_matches(')').parse::<f64>().is_ok())
        {
            kept.pop();
            kept.push(">=");
            let number = words.next().unwrap_or_default();
            kept.push(if number.ends_with(')') { "0)" } else { "0" });
        }
    }
    kept.join(" ")
}

/// Every rule: evaluated without complaint, of metrics that exist, and not of nothing.
fn ask_rules(asked: &mut Asked<'_>) -> Result<()> {
    let data = asked.server.ask("rules", &[])?;
    let groups = data["groups"].as_array().context("no groups")?;
    let rules: Vec<&Value> =
        groups.iter().filter_map(|group| group["rules"].as_array()).flatten().collect();
    ensure!(rules.len() > 100, "only {} rules were loaded", rules.len());
    for rule in rules {
        let text = |key: &str| rule[key].as_str().unwrap_or_default();
        let (name, expr) = (text("name"), text("query"));
        asked.faults.unless(text("health") == "ok", || format!("{name}: {}", rule["lastError"]));
        asked.names(name, expr)?;
        let wanted =
            if text("type") == "alerting" { without_thresholds(expr) } else { expr.to_owned() };
        let found = asked
            .server
            .query_range(&wanted, DISTURBANCE, STEP)
            .with_context(|| format!("{name}: {wanted}"))?;
        asked.data(name, &wanted, &found);
    }
    Ok(())
}

/// Alerts that must have been on their way: one target does not answer, and a disturbed host has incidents.
fn ask_alerts(asked: &mut Asked<'_>) -> Result<()> {
    for (name, of) in [("NoisedDown", "gone"), ("NoiseIncident", "here")] {
        let expr = format!(r#"ALERTS{{alertname="{name}",instance="{of}"}}"#);
        let found = asked.server.query_range(&expr, DISTURBANCE, STEP)?;
        asked.faults.unless(!found.is_empty(), || format!("{name} of {of} is not on its way"));
    }
    let data = asked.server.ask("alerts", &[])?;
    for alert in data["alerts"].as_array().context("no alerts")? {
        let summary = alert["annotations"]["summary"].as_str().unwrap_or_default();
        println!("{}: {summary}", alert["labels"]["alertname"].as_str().unwrap_or_default());
        let of = alert["labels"]["instance"].as_str().unwrap_or_default();
        let well =
            summary.contains(of) && !summary.contains("<no value>") && !summary.contains("error");
        asked.faults.unless(well, || format!("an alert does not say what is wrong: {summary:?}"));
    }
    Ok(())
}

/// Rules and configuration are well-formed, and every rule does what its tests say.
fn promtool_finds_no_fault() -> Result<()> {
    needs(&["promtool"])?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/prometheus");
    let rules = ["recording.rules.yml", "alerts.rules.yml", "federation.rules.yml"];
    let configurations = ["prometheus.yml", "federation.yml"];
    let lint = ["--lint=all", "--lint-fatal"];
    for arguments in [
        [&["check", "rules"], &lint[..], &rules[..]].concat(),
        [&["check", "config"], &lint[..], &configurations[..]].concat(),
        vec![
            "test",
            "rules",
            "tests/recording.test.yml",
            "tests/alerts.test.yml",
            "tests/dashboards.test.yml",
            "tests/federation.test.yml",
        ],
    ] {
        let output = Command::new("promtool").args(&arguments).current_dir(&folder).output()?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let content = said.contains("SUCCESS")
            && !["WARNING", "FAILED", "error"].iter().any(|word| said.contains(word));
        ensure!(output.status.success() && content, "promtool {arguments:?}: {said}");
    }
    Ok(())
}

fn every_query_finds_data() -> Result<()> {
    needs(&["prometheus"])?;
    let (_file, path) = nameless(CONFIGURATION)?;
    // Whom to choose among namespaces and pods.
    let pod = Pod::new()?;
    let _server = Worker::start_at(Place::group(pod.group()), "sleep", &["0", "2000"])?;
    let daemon = pod.start_daemon(&["--config.file", &path])?;
    let incidents = || -> Result<f64> { Ok(daemon.scrape()?.total("noised_incidents_total")) };
    let targets = BTreeMap::from([("here", daemon.address), ("gone", free_address()?)]);
    let server = Server::start(&targets)?;
    let mut bustle = Bustle::start()?;
    let first = daemon.scrape()?;
    thread::sleep(QUIET);
    let (service, last) = (bustle.service(), daemon.scrape()?);
    let noise = kept_by_others((&first, &last), QUIET, &service, |name| name == service)?;
    println!("others take {noise:.3} of the quiet service's time");
    bustle.disturb()?;
    bustle.go_on(DISTURBED)?;
    if incidents()? == 0.0 {
        bustle.go_on(DISTURBED)?;
    }
    if incidents()? == 0.0 && noise > MOST_NOISE {
        bail!("{INCONCLUSIVE}: noise was usual when it was learnt what is, so no incident opened");
    }
    let outcome = ask(&server, &bustle);
    let answered = answered(&server)?;
    println!("{answered:.2} of the scrapes were answered in time");
    if outcome.is_err() && answered < LEAST_ANSWERED {
        bail!("{INCONCLUSIVE}: of the scrapes, only {answered:.2} were answered in time");
    }
    outcome
}

/// A cluster's own metrics of its pods, served until the process ends.
fn serve_cluster() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let [namespace, pod, _] = POD;
    let line = format!(
        "# TYPE kube_pod_info gauge\nkube_pod_info{{namespace=\"{namespace}\",pod=\"{pod}\",created_by_name=\"front\"}} 1\n"
    );
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n";
            // The request is short; what becomes of the answer is the client's affair.
            let _ = stream.read(&mut [0; 4096]);
            let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{line}", line.len());
        }
    });
    Ok(address)
}

/// Series of a pod bear the labels that its cluster has for it, whatever those of the scraped pod are; and the
/// dashboards narrow to them.
fn pods_join_what_their_cluster_says() -> Result<()> {
    needs(&["prometheus", "unshare"])?;
    let pod = Pod::new()?;
    let other = Group::new("other", &[Hierarchy::Cpu])?;
    let daemon = pod.start_daemon(&[])?;
    let _burning = [
        Worker::start_at(Place::group(pod.group()), "burn", &["0"])?,
        Worker::start_at(Place::group(&other), "burn", &["0"])?,
    ];
    let server = Server::start_jobs(
        &format!(
            "- job_name: noised\n  honor_labels: true\n  static_configs:\n  - targets: ['{}']\n    \
             labels: {{instance: here, namespace: noised, pod: noised-x, container: noised}}\n\
             - job_name: cluster\n  static_configs: [{{targets: ['{}']}}]\n",
            daemon.address,
            serve_cluster()?
        ),
        &[],
    )?;
    let [namespace, name, container] = POD;
    let mut faults = Faults::default();
    let mut joined = Vec::new();
    wait_until("a series that joins what the cluster says", TIMEOUT, || {
        joined = server.query(JOINED)?;
        Ok(!joined.is_empty())
    })?;
    let expected = [
        ("namespace", namespace),
        ("pod", name),
        ("container", container),
        ("created_by_name", "front"),
    ];
    let label = match joined.as_slice() {
        [one] if one.has_values() => {
            for (label, value) in expected {
                let found = one.labels.get(label);
                faults.unless(found.is_some_and(|found| found == value), || {
                    format!("{label} is {found:?}")
                });
            }
            one.labels.get("cgroup").cloned().unwrap_or_default()
        }
        others => bail!("not one series joins what the cluster says: {others:?}"),
    };
    // Both are there to be left out.
    let burning = [label.clone(), other.label()];
    wait_until("both as victims, of whatever pod", TIMEOUT, || {
        let shown = chosen_victims(&server, None);
        Ok(shown.is_ok_and(|shown| burning.iter().all(|victim| shown.contains(victim))))
    })?;
    // What is the host's bears the labels of the target; what is another cgroup's never claims to be a pod's.
    let host =
        server.query(r#"noised_runqueue_wait_seconds_count{namespace="noised",pod="noised-x"}"#)?;
    faults
        .unless(!host.is_empty(), || "series of the host lack the labels of the target".to_owned());
    let info = |selector: &str| server.query(&format!("noised_cgroup_info{{{selector}}}"));
    for (selector, of) in [
        (
            format!(
                "cgroup=\"{label}\",namespace=\"{namespace}\",pod=\"{name}\",container=\"{container}\""
            ),
            "the pod",
        ),
        (
            format!("cgroup=\"{}\",namespace=\"\",pod=\"\",container=\"\"", other.label()),
            "the other",
        ),
    ] {
        faults.unless(info(&selector)?.len() == 1, || format!("no noised_cgroup_info of {of}"));
    }
    faults.unless(info(r#"pod="noised-x""#)?.is_empty(), || {
        "cgroups are said to be noised's own".to_owned()
    });
    for (chosen, excluded) in [(name, other.label()), ("another", label)] {
        let victims = chosen_victims(&server, Some(chosen))?;
        println!("victims where the pod {chosen} is chosen: {victims:?}");
        faults.unless(!victims.contains(&excluded), || {
            format!("{chosen} does not exclude {excluded}")
        });
        faults.unless(chosen != name || victims.len() == 1, || format!("{chosen} has {victims:?}"));
    }
    faults.verdict()
}

/// The victims with a name that *Who did it* shows where a pod is chosen, or none.
fn chosen_victims(server: &Server, pod: Option<&str>) -> Result<BTreeSet<String>> {
    let board = dashboards()?.into_iter().find(|board| board.uid == "noised-who");
    let board = board.context("there is no dashboard of culprits")?;
    let mut choices = board.opened(server)?;
    if let Some(pod) = pod {
        choices.insert("pod".to_owned(), pod.to_owned());
    }
    let panel = board.panels.iter().find(|panel| panel.title == "Victims").context("no victims")?;
    let query = panel.queries.first().context("victims of nothing")?;
    let found = query.ask(server, &choices, LATEST)?;
    let names = found.into_iter().filter_map(|mut series| series.labels.remove("victim"));
    Ok(names.filter(|name| !name.starts_with('~')).collect())
}

/// The part of the latest scrapes that were answered within their second.
fn answered(server: &Server) -> Result<f64> {
    let found = server.query_range(r#"up{job="noised",instance="here"}"#, LATEST, STEP)?;
    let points = &found.first().context("the host was never scraped")?.points;
    Ok(points.iter().map(|(_, up)| up).sum::<f64>() / points.len().max(1) as f64)
}

/// Asks everything.
fn ask(server: &Server, bustle: &Bustle) -> Result<()> {
    let mut asked =
        Asked { server, known: BTreeMap::new(), faults: Faults::default(), queries: 0, series: 0 };
    ask_dashboards(&mut asked)?;
    ask_rules(&mut asked)?;
    ask_alerts(&mut asked)?;
    let [device, interface] = bustle.places();
    for (metric, label, value) in [
        ("noised_block_device_wait_seconds_count", "device", device),
        ("noised_net_tx_wait_seconds_count", "interface", interface),
    ] {
        let values = server.values_of(metric, label)?;
        asked.faults.unless(values.iter().any(|found| found == value), || {
            format!("{value} cannot be chosen among {values:?}")
        });
    }
    println!("{} queries found {} series", asked.queries, asked.series);
    asked.faults.verdict()
}
