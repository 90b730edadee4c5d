//! What each surface of noised shows, and whether that is what was planted.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde_json::Value;

use super::kit::Lookers;
use super::truth::{Truth, commands};
use crate::daemon::{Outcome, Socketed, binary, run};
use crate::group::prefix;
use crate::http;
use crate::scratch::argument;

/// Lines of a small terminal.
const SCREEN_LINES: usize = 24;

/// What a surface showed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Shown {
    /// Since something was planted, when it was shown, s.
    pub seconds: f64,
    /// Its first words on the victim; empty where there are none.
    pub words: String,
    /// The first resource and culprit, where it has fields for them.
    pub resource: String,
    /// See there.
    pub culprit: String,
    /// Whether that is what was planted.
    pub is_right: bool,
    /// Remedies with commands, each with its commands.
    pub remedies: Vec<Vec<String>>,
}

/// All surfaces at about one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Look {
    /// The page of the victim.
    pub why: Shown,
    /// The first screen.
    pub screen: Shown,
    /// Its incident, in the list and in JSON.
    pub incident: Shown,
    /// Incidents that the victim is part of.
    pub incidents: usize,
    /// Those of them whose culprits are others on this host, not the drill's.
    pub by_others: usize,
    /// Incidents of others on this host.
    pub others: usize,
}

/// Where it is looked.
pub struct Surfaces<'a> {
    /// The daemon.
    pub noised: &'a Socketed,
    /// Where who looks runs.
    pub lookers: &'a Lookers,
    /// What noised calls the victim.
    pub victim: &'a str,
    /// What was planted.
    pub truth: &'a Truth,
    /// When.
    pub planted: Instant,
    /// Incidents that there were before.
    pub known: &'a BTreeSet<u64>,
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The resource of a delay, where a surface has the signal and the cause alone.
fn resource_of(signal: &str, cause: &str) -> &'static str {
    match (signal, cause) {
        (_, "throttle") => "quota",
        (_, "steal") => "hypervisor",
        (_, "hardirq" | "softirq" | "nmi") | ("interruption", _) => "interrupt",
        _ if signal.contains("runqueue") => "cpu",
        _ if signal.starts_with("block") || signal == "uninterruptible_wait" => "disk",
        _ if signal.starts_with("net_") => "network",
        ("direct_reclaim" | "compaction", _) => "memory",
        _ => "",
    }
}

/// The first sentence of a page, without the one that says how little of the time is known.
fn first_sentence(page: &str) -> String {
    let paragraph: Vec<&str> = page.lines().take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ");
    let mut sentences = paragraph.split(". ");
    let first = sentences.find(|sentence| !sentence.starts_with("The flight recorder holds"));
    first.unwrap_or_default().to_owned()
}

fn commands_of(remedy: &Value) -> Vec<String> {
    let list = if remedy["command"].is_array() { &remedy["command"] } else { &remedy["commands"] };
    array(list).iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

/// Remedies with commands, of findings and of advice.
fn remedies_of(findings: &[Value], advice: &Value) -> Vec<Vec<String>> {
    let found = findings.iter().map(|finding| commands_of(&finding["remedy"]));
    let advised = array(advice).iter().map(commands_of);
    found.chain(advised).filter(|commands| !commands.is_empty()).collect()
}

/// The incidents of a document.
pub fn incidents(noised: &Socketed) -> Result<Vec<Value>> {
    let answer = http::get(noised.daemon.address, "/api/v1/incidents", &[])?;
    let document: Value = serde_json::from_slice(&answer.body).context("incidents")?;
    Ok(array(&document["incidents"]).to_vec())
}

/// Whether a group is part of an incident.
pub fn concerns(incident: &Value, victim: &str) -> bool {
    let also = array(&incident["also"]).iter();
    [incident].into_iter().chain(also).any(|part| text(part, "subject") == victim)
}

/// Who is charged with most of an incident.
fn culprit_of(incident: &Value) -> &str {
    array(&incident["culprits"]).first().map_or("", |first| text(first, "culprit"))
}

impl Surfaces<'_> {
    /// Looks at all of them.
    /// Errors: if one does not answer.
    pub fn look(&self) -> Result<Look> {
        let look = self.incident()?;
        Ok(Look { why: self.why()?, screen: self.screen()?, ..look })
    }

    fn seconds(&self) -> f64 {
        self.planted.elapsed().as_secs_f64()
    }

    fn noised(&self, arguments: &[&str]) -> Result<Outcome> {
        let mut command = Command::new(binary()?);
        command.args(arguments).args(["--connect", argument(&self.noised.socket)?]);
        self.lookers.operator.admit(&mut command)?;
        run(command)
    }

    /// What it prints with `--json`; nothing where it refuses.
    fn document(&self, arguments: &[&str]) -> Result<Value> {
        let outcome = self.noised(&[arguments, &["--json"]].concat())?;
        let is_whole = || format!("noised {} --json", arguments.join(" "));
        if outcome.code == 0 {
            serde_json::from_str(&outcome.stdout).with_context(is_whole)
        } else {
            Ok(Value::Null)
        }
    }

    /// What it prints for people, be it why it refuses.
    fn page(&self, arguments: &[&str]) -> Result<String> {
        let outcome = self.noised(arguments)?;
        Ok(if outcome.code == 0 { outcome.stdout } else { outcome.stderr })
    }

    fn why(&self) -> Result<Shown> {
        let page = self.page(&["why", self.victim])?;
        let seconds = self.seconds();
        let document = self.document(&["why", self.victim])?;
        let words = first_sentence(&page);
        let findings = array(&document["verdict"]["findings"]);
        let first = findings.first().unwrap_or(&Value::Null);
        let mut remedies = remedies_of(findings, &document["remedies"]);
        remedies.extend(commands(&page).into_iter().map(|command| vec![command]));
        Ok(Shown {
            seconds,
            resource: text(first, "resource").to_owned(),
            culprit: text(&first["culprit"], "name").to_owned(),
            is_right: self.truth.is_found(findings) && self.truth.is_named(&words),
            words,
            remedies,
        })
    }

    fn screen(&self) -> Result<Shown> {
        let page = self.page(&["top", "--once"])?;
        let seconds = self.seconds();
        let document = self.document(&["top", "--once"])?;
        let first: Vec<&str> = page.lines().take(SCREEN_LINES).collect();
        Ok(self.judge_screen(&first, &document, seconds))
    }

    fn judge_screen(&self, lines: &[&str], document: &Value, seconds: f64) -> Shown {
        // Shortened names fill their columns: the victim's row is that which the document has for it.
        let row = array(&document["rows"]).iter().find(|row| text(row, "victim") == self.victim);
        let row = row.unwrap_or(&Value::Null);
        let is_here = |line: &&&str| super::truth::names(line, self.victim);
        let own: Vec<&str> = lines.iter().filter(is_here).map(|line| line.trim()).collect();
        let mut opened = lines.iter().filter_map(|line| line.strip_prefix("! "));
        let opened = opened.find(|line| self.truth.is_named(line));
        let signal = opened.and_then(|line| line.split(' ').next()).unwrap_or_default();
        let cause = match text(row, "why") {
            "its CPU quota" => "throttle",
            "hypervisor" => "steal",
            "interrupt" | "softirq" | "NMI" => "hardirq",
            _ => "",
        };
        let resource = match text(row, "resource") {
            "" => resource_of(signal, cause),
            word => word,
        };
        let (words, culprit) = (own.join(" / "), text(row, "culprit"));
        let is_named = own.iter().any(|line| self.truth.is_named(line));
        Shown {
            seconds,
            resource: resource.to_owned(),
            culprit: culprit.to_owned(),
            is_right: is_named && self.truth.causes.iter().any(|cause| cause.takes(resource)),
            remedies: Vec::new(),
            words,
        }
    }

    /// The incident that the victim is part of, and how many there are.
    fn incident(&self) -> Result<Look> {
        let page = self.page(&["incidents"])?;
        let seconds = self.seconds();
        let all = incidents(self.noised)?;
        // One that was over and is open again, is new as well.
        let is_new = |one: &&Value| {
            one["open"] == true || one["id"].as_u64().is_none_or(|id| !self.known.contains(&id))
        };
        let (own, others): (Vec<&Value>, Vec<&Value>) =
            all.iter().filter(is_new).partition(|one| self.is_own(one));
        let shown = own.iter().map(|one| self.judge_incident(one, &page, seconds));
        // A right one is what an operator can find; without one, the first is what is shown.
        let mut shown: Vec<Shown> = shown.collect();
        // Two causes may be two incidents.
        let findings = own.iter().map(|one| array(&one["verdict"]["findings"]));
        let findings: Vec<&[Value]> = findings.collect();
        if self.truth.is_found_in(&findings) {
            let is_cause = |one: &&mut Shown| self.truth.is(&one.resource, &one.culprit);
            shown.iter_mut().filter(is_cause).for_each(|one| one.is_right = true);
        }
        shown.sort_by_key(|one| !one.is_right);
        let mut first = shown.first().cloned().unwrap_or_default();
        first.remedies = shown.into_iter().flat_map(|one| one.remedies).collect();
        let drill = format!("/{}", prefix());
        let by_others = own.iter().filter(|one| !culprit_of(one).starts_with(&drill)).count();
        let (incidents, others) = (own.len(), others.len());
        Ok(Look { incident: first, incidents, by_others, others, ..Look::default() })
    }

    /// Whether the victim is part of it, or it is about a device that the culprit used. What the looks themselves did is
    /// not counted.
    fn is_own(&self, incident: &Value) -> bool {
        let is_device = !text(incident, "subject").starts_with('/');
        let culprit = culprit_of(incident);
        let is_of_look = self.lookers.groups().iter().any(|group| culprit == group.label());
        (concerns(incident, self.victim) || is_device && self.truth.is_named(culprit))
            && !is_of_look
    }

    fn judge_incident(&self, incident: &Value, page: &str, seconds: f64) -> Shown {
        let findings = array(&incident["verdict"]["findings"]);
        let first = findings.first().unwrap_or(&Value::Null);
        let charged = array(&incident["culprits"]).first().unwrap_or(&Value::Null);
        let (resource, culprit) = match first.is_null() {
            false => (text(first, "resource"), text(&first["culprit"], "name")),
            true => (
                resource_of(text(incident, "signal"), text(charged, "cause")),
                text(charged, "culprit"),
            ),
        };
        let is_right = match first.is_null() {
            false => self.truth.is_found(findings),
            true => self.truth.is(resource, culprit),
        };
        let id = format!("#{}", incident["id"]);
        let lines = page.lines().skip_while(|line| line.split(' ').next() != Some(&id)).take(3);
        let lines: Vec<&str> = lines.map(str::trim).collect();
        let sentence = text(&incident["verdict"], "sentence");
        Shown {
            seconds,
            words: if sentence.is_empty() { lines.join(" / ") } else { sentence.to_owned() },
            resource: resource.to_owned(),
            culprit: culprit.to_owned(),
            is_right,
            remedies: remedies_of(findings, &incident["advice"]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_sentence_of_a_page() {
        let page = "service web.service waited 9 ms for a CPU, 5 ms of\nit for sh of /hog, as usual. It also slept.\n\nrest";
        let first =
            "service web.service waited 9 ms for a CPU, 5 ms of it for sh of /hog, as usual";
        assert_eq!(first_sentence(page), first);
        assert_eq!(first_sentence("nothing"), "nothing");
    }

    #[test]
    fn resources_of_signals() {
        for (signal, cause, resource) in [
            ("cgroup_runqueue_wait", "foreign", "cpu"),
            ("cgroup_runqueue_wait", "throttle", "quota"),
            ("cgroup_runqueue_wait", "softirq", "interrupt"),
            ("interruption", "", "interrupt"),
            ("block_queue_wait", "foreign", "disk"),
            ("direct_reclaim", "", "memory"),
            ("net_rx_wait", "", "network"),
            ("anything", "", ""),
        ] {
            assert_eq!(resource_of(signal, cause), resource);
        }
    }

    #[test]
    fn remedies_are_those_with_commands() {
        let findings = [json!({"remedy": {"command": ["echo 1 > a"]}}), json!({"remedy": null})];
        let advice = json!([{"commands": ["echo 2 > b", "echo 3 > b"]}, {"commands": []}]);
        let found = remedies_of(&findings, &advice);
        assert_eq!(found, [vec!["echo 1 > a"], vec!["echo 2 > b", "echo 3 > b"]]);
    }

    #[test]
    fn an_incident_concerns_those_who_joined_it() {
        let incident = json!({"subject": "/a", "also": [{"subject": "/b"}]});
        assert!(
            concerns(&incident, "/a") && concerns(&incident, "/b") && !concerns(&incident, "/")
        );
    }
}
