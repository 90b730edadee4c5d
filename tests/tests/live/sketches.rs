//! Sketches of a program of several tiers, beside what it knows of its requests.

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::run_noised;
use noise_tests::needed::needs;
use noise_tests::scratch::Folder;
use noise_tests::tiers::{PROGRAM, TIERS, first_whole, is_whole, joined};
use serde_json::Value;

use crate::{INCONCLUSIVE, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[("requests_are_joined", requests_are_joined)];

/// Clients at once, and requests of each.
const LOADS: [(usize, usize); 3] = [(1, 100), (8, 40), (64, 8)];
/// How long the helper sleeps for each request.
const SECONDS: &str = "0.003";
/// The part of requests that is joined rightly.
const RIGHT: f64 = 0.99;
/// How far the slowed tier's true latency is from what it says itself, as a part of that.
const OFF: f64 = 0.02;

/// Records so many clients and requests of each: what is said of them, and what they write themselves. `None` where events
/// are missing.
fn recorded((clients, requests): (usize, usize)) -> Result<Option<(Value, Folder)>> {
    let (recording, log) = (Folder::new("sketch")?, Folder::new("tiers")?);
    let path = |folder: &Folder| folder.path().display().to_string();
    let (clients, requests) = (clients.to_string(), requests.to_string());
    let to = path(&recording);
    let record = ["record", "--own", "--events", "sched,io,ipc", "-o", &to, "--"];
    let program = ["/usr/bin/python3", "-c", PROGRAM, &clients, &requests];
    let output = run_noised(&[&record[..], &program[..], &[&path(&log), SECONDS]].concat())?;
    ensure!(output.code == 0, "it ended with {}: {}", output.code, output.stderr);
    let document: Value = run_noised(&["trace", "sketch", &to, "--json"])?.json()?;
    Ok(is_whole(&document)?.then_some((document, log)))
}

fn requests_are_joined() -> Result<()> {
    needs(&["/usr/bin/python3"])?;
    for load in LOADS {
        let whole = first_whole(|| recorded(load))?;
        let (document, log) =
            whole.with_context(|| format!("{INCONCLUSIVE}: events are missing"))?;
        let found = joined(&document, log.path(), &TIERS)?;
        println!("{} clients: {found:?}", load.0);
        ensure!(found.right as f64 >= RIGHT * found.all as f64, "{found:?}");
        // The helper: it says how long it took, and waits for no other tier.
        let Some([own, _, of_slice]) = found.tiers.last() else { anyhow::bail!("no helper") };
        let off = of_slice.abs_diff(*own) as f64 / *own as f64;
        ensure!(off <= OFF, "the helper's true latency is {off:.3} off: {found:?}");
    }
    Ok(())
}
