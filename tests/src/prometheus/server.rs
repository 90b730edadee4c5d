//! Prometheus as a child process, with a folder of its own.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::daemon::{Process, free_address};
use crate::http;
use crate::prom::LabelSet;
use crate::scratch::Folder;

/// Debian's package puts it here.
const PROGRAM: &str = "/usr/bin/prometheus";
const TIMEOUT: Duration = Duration::from_secs(60);

const RULES: [&str; 2] = ["recording.rules.yml", "alerts.rules.yml"];

/// Where the rules that this project comes with are.
fn rules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/prometheus")
}

/// A Prometheus: one that was started here, or one that ran before.
#[derive(Debug)]
pub struct Server {
    /// Where it answers.
    pub address: SocketAddr,
    // Ended before its folder goes.
    process: Process,
    _folder: Folder,
}

/// One series of an answer: its labels, and its values with their times, seconds.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Labels, the name included.
    pub labels: LabelSet,
    /// Times and values in order; an instant query has one.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// Whether any value is a number.
    pub fn has_values(&self) -> bool {
        self.points.iter().any(|(_, value)| value.is_finite())
    }
}

impl Server {
    /// Starts one that scrapes these targets, by instance, every second, with this project's rules.
    /// Errors: if it does not start or finds fault with the rules.
    pub fn start(targets: &BTreeMap<&str, SocketAddr>) -> Result<Self> {
        Self::start_with(targets, &[])
    }

    /// The same with these features on.
    /// Errors: those of [`Self::start`].
    pub fn start_with(targets: &BTreeMap<&str, SocketAddr>, features: &[&str]) -> Result<Self> {
        let mut jobs = String::from("- job_name: noised\n  static_configs:\n");
        for (instance, address) in targets {
            jobs +=
                &format!("  - {{targets: ['{address}'], labels: {{instance: '{instance}'}}}}\n");
        }
        Self::start_jobs(&jobs, features)
    }

    /// The same with these jobs, in YAML.
    /// Errors: those of [`Self::start`].
    pub fn start_jobs(jobs: &str, features: &[&str]) -> Result<Self> {
        let folder = Folder::new("prometheus")?;
        let path = folder.path();
        for name in RULES {
            let text = fs::read_to_string(rules().join(name))?;
            // Every second, like everything here.
            let kept = text.lines().filter(|line| !line.trim().starts_with("interval: "));
            fs::write(path.join(name), kept.collect::<Vec<_>>().join("\n"))?;
        }
        let text = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
             rule_files: ['*.rules.yml']\n\
             scrape_configs:\n{jobs}",
        );
        let config = path.join("prometheus.yml");
        fs::write(&config, text)?;
        let address = free_address()?;
        let mut command = Command::new(PROGRAM);
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", path.join("data").display()));
        command.arg(format!("--web.listen-address={address}"));
        if !features.is_empty() {
            command.arg(format!("--enable-feature={}", features.join(",")));
        }
        let process = Process::start(command)?;
        let mut server = Self { address, process, _folder: folder };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.process.ended()? {
                bail!("prometheus ended with {status}: {}", self.process.stderr()?);
            }
            if http::get(self.address, "/-/ready", &[]).is_ok_and(|answer| answer.status == 200) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "prometheus does not become ready");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The `data` of an answer of its API.
    /// Errors: if it does not like the question, with what it says.
    pub fn ask(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value> {
        let query: Vec<String> = parameters
            .iter()
            .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)))
            .collect();
        let answer = http::get(self.address, &format!("/api/v1/{path}?{}", query.join("&")), &[])?;
        let mut value: Value = serde_json::from_slice(&answer.body)
            .with_context(|| format!("prometheus answers {} to {path}", answer.status))?;
        ensure!(value["status"] == "success", "prometheus: {}", value["error"]);
        Ok(value["data"].take())
    }

    /// What an expression is now.
    pub fn query(&self, expr: &str) -> Result<Vec<Series>> {
        series(&self.ask("query", &[("query", expr)])?)
    }

    /// What an expression was over the latest time, in steps.
    pub fn query_range(&self, expr: &str, latest: Duration, step: Duration) -> Result<Vec<Series>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
        // As Grafana does: at multiples of the step.
        let step = step.as_secs_f64();
        let end = (now / step).floor() * step;
        let start = (end - latest.as_secs_f64()).to_string();
        let parameters = [
            ("query", expr),
            ("start", &start),
            ("end", &end.to_string()),
            ("step", &step.to_string()),
        ];
        series(&self.ask("query_range", &parameters)?)
    }

    /// The names of labels that series of a metric have.
    pub fn labels_of(&self, metric: &str) -> Result<Vec<String>> {
        names(&self.ask("labels", &[("match[]", metric)])?)
    }

    /// The values of a label among the series that a selector finds.
    pub fn values_of(&self, selector: &str, label: &str) -> Result<Vec<String>> {
        names(&self.ask(&format!("label/{label}/values"), &[("match[]", selector)])?)
    }

    /// Its resident memory, bytes; 0 if it was not started here.
    pub fn resident_bytes(&self) -> Result<u64> {
        crate::daemon::resident_bytes(self.process.pid())
    }
}

fn names(data: &Value) -> Result<Vec<String>> {
    serde_json::from_value(data.clone()).context("not a list of names")
}

fn point(pair: &Value) -> Result<(f64, f64)> {
    let at = pair[0].as_f64().context("a point without a time")?;
    let value = pair[1].as_str().context("a point without a value")?;
    Ok((at, value.replace("Inf", "inf").parse()?))
}

fn series(data: &Value) -> Result<Vec<Series>> {
    let kind = data["resultType"].as_str().unwrap_or_default();
    if kind == "scalar" {
        return Ok(vec![Series { points: vec![point(&data["result"])?], ..Series::default() }]);
    }
    let found = data["result"].as_array().context("an answer without a result")?;
    found
        .iter()
        .map(|one| {
            let labels = serde_json::from_value(one["metric"].clone())?;
            let points = match kind {
                "vector" => vec![point(&one["value"])?],
                _ => one["values"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(point)
                    .collect::<Result<_>>()?,
            };
            Ok(Series { labels, points })
        })
        .collect()
}

/// A text as part of an address.
fn encoded(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    text.bytes()
        .map(
            |byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") },
        )
        .collect()
}
