//! What a daemon keeps of the moment when an incident opened: the paths name who had the CPU, the kernel
//! events become a recording, and both are there after a restart.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::{Daemon, SOCKET_PATH, STATE_DIRECTORY, run_noised};
use noise_tests::http::get;
use noise_tests::recorded::recorded;
use noise_tests::scratch::Folder;
use serde_json::Value;

use crate::INCONCLUSIVE;
use crate::incidents::until;
use crate::record::ensure_babeltrace;

/// From which part of the waits on the hog has the CPU: others use the machine too.
const MAIN_SHARE: f64 = 0.25;

/// Events of one incident that are kept, so that reading them takes little time.
const MOST_EVENTS: u64 = 1 << 15;

/// What a daemon says of what it kept of an incident.
fn said(daemon: &Daemon, id: u64) -> Result<Value> {
    let trace = || -> Result<Option<Value>> {
        let answer = get(daemon.address, "/api/v1/incidents", &[])?;
        let document: Value = serde_json::from_slice(&answer.body)?;
        let traces = document["traces"].as_array().context("no list of traces")?;
        Ok(traces.iter().find(|trace| trace["incident"] == id).cloned())
    };
    ensure!(until(|| Ok(trace()?.is_some()))?, "nothing is said of incident {id}");
    let trace = trace()?.context("it went")?;
    println!("  kept: {trace}");
    let trouble = trace["trouble"].as_str().unwrap_or_default();
    let is_crowded = ["of 6 an hour", "opened at once"].iter().any(|of| trouble.contains(of));
    ensure!(!is_crowded, "{INCONCLUSIVE}: too many other incidents: {trace}");
    Ok(trace)
}

/// Where a daemon keeps its state, and where it answers.
pub(crate) struct Keeping {
    folder: Folder,
    socket: PathBuf,
}

impl Keeping {
    pub(crate) fn new() -> Result<Self> {
        let folder = Folder::new("kept")?;
        let socket = folder.path().join("noised.sock");
        Ok(Self { folder, socket })
    }

    fn state(&self) -> Result<String> {
        Ok(format!("{}/state", self.folder.argument()?))
    }

    fn socket(&self) -> Result<&str> {
        self.socket.to_str().context("a path that is not UTF-8")
    }

    /// The daemon's options.
    pub(crate) fn options(&self) -> Result<Vec<String>> {
        let (socket, state) = (self.socket()?.to_owned(), self.state()?);
        let kibibytes = format!("--state.trace-kibibytes={}", MOST_EVENTS * 32 / 1024);
        Ok(vec![SOCKET_PATH.to_owned(), socket, STATE_DIRECTORY.to_owned(), state, kibibytes])
    }

    fn show(&self, id: u64, options: &[&str]) -> Result<String> {
        let id = id.to_string();
        let command = ["incidents", "--connect", self.socket()?, "show", &id];
        run_noised(&[&command[..], options].concat())?.printed()
    }

    /// The paths of an incident, which a planted hog brought about.
    pub(crate) fn ensure_kept(&self, daemon: &Daemon, id: u64, hogs: &[i32]) -> Result<Value> {
        let trace = said(daemon, id)?;
        let events = trace["events"].as_u64().unwrap_or(0);
        ensure!(trace["trouble"].is_null() && (1..=MOST_EVENTS).contains(&events), "{trace}");
        let document: Value = serde_json::from_str(&self.show(id, &["--path", "--json"])?)?;
        let paths = document["executions"].as_array().context("no paths")?;
        ensure!(!paths.is_empty(), "no path: {trace}");
        let (mut waits_ns, mut by_hogs_ns) = (0, 0);
        for path in paths {
            let totals = path["totals_ns"].as_object().context("no totals")?;
            let sum: u64 = totals.values().filter_map(Value::as_u64).sum();
            ensure!(path["span_ns"] == sum, "{path}");
            for segment in path["path"].as_array().into_iter().flatten() {
                for culprit in segment["culprits"].as_array().into_iter().flatten() {
                    let ns = culprit["ns"].as_u64().context("no time")?;
                    let is_hog = hogs.iter().any(|hog| culprit["tid"] == *hog);
                    waits_ns += ns;
                    by_hogs_ns += if is_hog { ns } else { 0 };
                }
            }
        }
        println!("  hogs had the CPU for {by_hogs_ns} of {waits_ns} ns that were waited for it");
        let share = by_hogs_ns as f64 / waits_ns.max(1) as f64;
        ensure!(share >= MAIN_SHARE, "the hogs {hogs:?} have {share}: {document}");
        // What the daemon found by itself, for those who may not have the events.
        let own = get(daemon.address, &format!("/api/v1/incidents/{id}/path"), &[])?;
        ensure!(own.status == 200, "the path is answered with {}", own.status);
        ensure!(serde_json::from_slice::<Value>(&own.body)? == document, "another document");
        let raw = get(daemon.address, &format!("/api/v1/incidents/{id}/trace"), &[])?;
        ensure!(raw.status == 404, "kernel events are answered with {}", raw.status);
        let page = get(daemon.address, "/", &[])?;
        let link = format!("/api/v1/incidents/{id}/path");
        ensure!(page.text()?.contains(&link), "the status page has no link to the path");
        let wait = trace["waits"][0].as_str().context("no sentence")?;
        let shown = self.show(id, &["--path"])?;
        ensure!(shown.starts_with(wait), "the answer does not come first: {shown}");
        Ok(document)
    }

    /// The paths of an incident of a disk are of sleeps that requests to it end.
    pub(crate) fn ensure_disk_paths(&self, daemon: &Daemon, incident: &Value) -> Result<()> {
        let id = incident["id"].as_u64().context("an incident without a number")?;
        let trace = said(daemon, id)?;
        if !trace["trouble"].is_null() {
            // Others may have had six incidents in the last hour.
            println!("  no path of {id} is judged");
            return Ok(());
        }
        let path = format!("/api/v1/incidents/{id}/path");
        let answer = get(daemon.address, &path, &[])?;
        ensure!(answer.status == 200, "the path is answered with {}", answer.status);
        let document: Value = serde_json::from_slice(&answer.body)?;
        let paths = document["executions"].as_array().context("no paths")?;
        ensure!(!paths.is_empty(), "no path of {incident}");
        let (mut disk_ns, mut all_ns) = (0, 0);
        for path in paths {
            println!("  kept: {} {} {}", path["comm"], path["name"], path["totals_ns"]);
            disk_ns += path["totals_ns"]["disk"].as_u64().context("no disk")?;
            all_ns += path["span_ns"].as_u64().context("no span")?;
        }
        ensure!(disk_ns >= all_ns / 2, "{disk_ns} of {all_ns} ns are for a disk: {document}");
        Ok(())
    }

    /// The events are a recording, in which the same path is found.
    fn ensure_exported(&self, id: u64, path: &Value) -> Result<()> {
        let folder = Folder::new("exported")?;
        self.show(id, &["--export", folder.argument()?])?;
        ensure_babeltrace(folder.path(), &recorded(folder.path())?)?;
        let name = path["name"].as_str().context("no name")?;
        let options = ["trace", "critical-path", folder.argument()?, "--execution", name, "--json"];
        let again: Value = run_noised(&options)?.json()?;
        let again = &again["executions"][0];
        for key in ["tid", "from_ns", "to_ns", "span_ns"] {
            ensure!(again[key] == path[key], "{key}: {again} is not {path}");
        }
        Ok(())
    }

    /// The same is read from another daemon, and without any; what it was found in is a recording.
    pub(crate) fn ensure_survives(&self, daemon: Daemon, id: u64, paths: &Value) -> Result<()> {
        let (status, _) = daemon.stop(libc::SIGTERM)?;
        ensure!(status.success(), "ended with {status}");
        let read = |place: &[&str]| -> Result<()> {
            let number = id.to_string();
            let options = [&["incidents", "show", &number, "--path", "--json"], place].concat();
            let document: Value = run_noised(&options)?.json()?;
            ensure!(document == *paths, "{place:?}: another document");
            Ok(())
        };
        read(&[STATE_DIRECTORY, &self.state()?])?;
        let options = self.options()?;
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let daemon = Daemon::start_with(&options)?;
        read(&["--connect", self.socket()?])?;
        let unknown = run_noised(&["incidents", "--connect", self.socket()?, "show", "999999"])?;
        ensure!(unknown.code == 1 && unknown.stderr.contains("no incident 999999"), "{unknown:?}");
        self.ensure_exported(id, &paths["executions"][0])?;
        let (status, _) = daemon.stop(libc::SIGTERM)?;
        ensure!(status.success(), "ended with {status}");
        self.ensure_damage_is_said(id)
    }

    /// One that is cut off, and one that is damaged, say so.
    fn ensure_damage_is_said(&self, id: u64) -> Result<()> {
        let state = self.state()?;
        let number = id.to_string();
        let file = |ending: &str| format!("{state}/incident-{id}.{ending}");
        let refused = |words: &str| -> Result<()> {
            for what in [&["--path"][..], &["--export", &format!("{state}/exported")]] {
                let command = ["incidents", "show", &number, STATE_DIRECTORY, &state];
                let outcome = run_noised(&[&command[..], what].concat())?;
                let is_clear = outcome.code == 1 && outcome.stderr.contains(words);
                // Behind that this is what a daemon left.
                ensure!(is_clear && outcome.stderr.lines().count() == 2, "{outcome:?}");
            }
            Ok(())
        };
        let length = fs::metadata(file("trace"))?.len();
        OpenOptions::new().write(true).open(file("trace"))?.set_len(length / 2)?;
        refused("is cut off, damaged or none of noised")?;
        fs::write(file("path"), "garbage")?;
        refused("their file is damaged")?;
        let outcome = run_noised(&["incidents", "show", &number, STATE_DIRECTORY, &state])?;
        let is_said = outcome.stdout.contains("are not kept: their file is damaged");
        ensure!(outcome.code == 0 && is_said, "{outcome:?}");
        fs::remove_file(file("path"))?;
        refused("no kernel events of incident")
    }
}
