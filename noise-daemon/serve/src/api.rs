//! Incidents and long waits as JSON, for programs. The number of the version changes where a
//! reader of an older one would be misled; fields may be added.
//!
//! What goes on has neither an end nor an ending, and its durations count up to the answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use noise_analysis::{
    Beside, Culprit, Ending, Episode, KeptTrace, Level, Name, Process, Remedy, Report,
    ReportedOutlier, Rule, StartCommand, Time, Watched,
};
use noise_model::{HeldUp, Trends};
use noise_verdict::{Account, Verdict};
use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::Serializer;
use serde_json::Value;

/// The version of the documents and of their routes.
pub const API_VERSION: u64 = 1;

/// Victims of an incident that are written.
const VICTIMS: usize = 8;

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct IncidentsDocument {
    pub version: u64,
    /// Incidents, what began first is first.
    #[serde(serialize_with = "write", deserialize_with = "read")]
    pub incidents: Vec<Arc<Report>>,
    /// Kernel events that are kept of them, in the order of their numbers; an older noised keeps none.
    #[serde(default)]
    pub traces: Vec<Arc<KeptTrace>>,
    /// How those were held up over the last minutes whom open incidents are about.
    #[serde(default)]
    pub trends: Vec<HeldUp>,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct OutliersDocument {
    version: u64,
    /// Long waits, the oldest first.
    pub outliers: Vec<Arc<ReportedOutlier>>,
    /// What their threads were started as, where that is known.
    #[serde(default)]
    pub commands: Vec<StartCommand>,
}

impl IncidentsDocument {
    pub fn new(mut incidents: Vec<Arc<Report>>, traces: Vec<Arc<KeptTrace>>) -> Self {
        incidents.sort_by_key(|report| report.order());
        Self { version: API_VERSION, incidents, traces, trends: Vec::new() }
    }

    /// The same with what is known of those whom open incidents are about.
    pub fn with_trends(mut self, trends: &Trends) -> Self {
        let open = self.incidents.iter().filter(|report| report.open);
        let subjects: BTreeSet<&str> = open.map(|report| &*report.main.subject).collect();
        self.trends = subjects.into_iter().filter_map(|subject| trends.held_up(subject)).collect();
        self
    }
}

impl OutliersDocument {
    pub fn new(outliers: Vec<Arc<ReportedOutlier>>, commands: Vec<StartCommand>) -> Self {
        Self { version: API_VERSION, outliers, commands }
    }
}

/// What became of an incident: a line of `noised incidents --follow --json`, and the input of its command.
#[derive(serde::Serialize)]
pub struct IncidentEvent<'a> {
    version: u64,
    event: &'a str,
    time: Timestamp,
    sentence: String,
    changes: &'a [String],
    into: Option<u64>,
    incident: WrittenReport<'a>,
    trace: Option<&'a KeptTrace>,
}

impl<'a> IncidentEvent<'a> {
    /// One of this version: what became of it, when that was seen, the incident with what was kept of its begin, what
    /// changed in sentences, and the incident that it is a part of now.
    pub fn new(
        event: &'a str,
        time: Timestamp,
        report: &'a Report,
        trace: Option<&'a KeptTrace>,
        changes: &'a [String],
        into: Option<u64>,
    ) -> Self {
        let incident = WrittenReport::from(report);
        let sentence = incident.verdict.sentence.clone();
        Self { version: API_VERSION, event, time, sentence, changes, into, incident, trace }
    }
}

/// An incident as it is written.
#[derive(serde::Serialize)]
struct WrittenReport<'a> {
    id: u64,
    open: bool,
    /// How long it lasted, or has lasted so far.
    lasted_seconds: f64,
    /// What it is, who did it, and what can be done.
    verdict: Verdict,
    /// The part of its victim's time that is lost beyond what is usual.
    severity: f64,
    /// Who suffers from it.
    victims: Vec<WrittenVictim<'a>>,
    #[serde(flatten)]
    main: WrittenEpisode<'a>,
    also: Vec<WrittenEpisode<'a>>,
    untold: u64,
    resting: bool,
    processes: &'a [Process],
    #[serde(flatten)]
    beside: &'a Beside,
}

/// One who suffers from an incident, as it is written.
#[derive(serde::Serialize)]
struct WrittenVictim<'a> {
    name: &'a str,
    /// What it mainly lacks.
    resource: Account,
    /// Delay beyond what is usual.
    lost_seconds: f64,
    /// The part of its time that is.
    severity: f64,
}

/// One signal of one subject, as it is written.
#[derive(serde::Serialize)]
struct WrittenEpisode<'a> {
    signal: Watched,
    subject: &'a str,
    start: Timestamp,
    end: Option<Timestamp>,
    /// Whether it is disturbed now.
    active: bool,
    /// How long it was disturbed, or has been so far.
    seconds: f64,
    ending: Option<Ending>,
    rule: Rule,
    /// The figure that says most, in words.
    headline: Option<String>,
    before: Level,
    after: Level,
    lost_seconds: f64,
    culprits: &'a [Culprit<Name>],
    others: Time,
    untracked: Time,
    remedies: &'a [Remedy],
}

impl<'a> From<&'a Episode> for WrittenEpisode<'a> {
    fn from(episode: &'a Episode) -> Self {
        Self {
            signal: episode.signal,
            subject: &episode.subject,
            start: episode.start,
            end: (!episode.is_active()).then_some(episode.end),
            active: episode.is_active(),
            seconds: episode.disturbed_seconds(),
            ending: episode.ending,
            rule: episode.rule,
            headline: episode.headline().map(|headline| headline.text()),
            before: episode.before,
            after: episode.after,
            lost_seconds: episode.lost_seconds,
            culprits: &episode.culprits,
            others: episode.others,
            untracked: episode.untracked,
            remedies: &episode.remedies,
        }
    }
}

impl<'a> From<&'a Report> for WrittenReport<'a> {
    fn from(report: &'a Report) -> Self {
        let victim = |(lost_seconds, worst): (f64, &'a Episode)| WrittenVictim {
            name: &worst.subject,
            resource: report.resource_of(worst),
            lost_seconds,
            severity: worst.severity(),
        };
        let mut main = WrittenEpisode::from(&report.main);
        if report.open {
            // What opened it may be calm by now: its end is not that of the incident.
            (main.end, main.ending) = (None, None);
        }
        Self {
            id: report.id,
            open: report.open,
            lasted_seconds: report.lasted(),
            // Whoever reads it has another zone.
            verdict: report.verdict(&TimeZone::UTC),
            severity: report.severity(),
            victims: report.victims().into_iter().take(VICTIMS).map(victim).collect(),
            main,
            also: report.also.iter().map(WrittenEpisode::from).collect(),
            untold: report.untold,
            resting: report.resting,
            processes: &report.processes,
            beside: &report.beside,
        }
    }
}

fn write<S: Serializer>(incidents: &[Arc<Report>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(incidents.iter().map(|report| WrittenReport::from(&**report)))
}

fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Arc<Report>>, D::Error> {
    let incidents = Vec::<Value>::deserialize(deserializer)?;
    let report = |value| incident(value).map(Arc::new).map_err(D::Error::custom);
    incidents.into_iter().map(report).collect()
}

/// An incident that goes on ends, as far as is known, when it was read.
fn incident(mut value: Value) -> serde_json::Result<Report> {
    let lasted = value.get("lasted_seconds").and_then(Value::as_f64);
    let also = value.get("also").and_then(Value::as_array).into_iter().flatten();
    let starts = [&value].into_iter().chain(also).filter_map(|one| one.get("start"));
    let starts: Vec<Timestamp> = starts.map(Timestamp::deserialize).collect::<Result<_, _>>()?;
    let start = starts.into_iter().min();
    let read_at = start.zip(lasted).and_then(|(start, seconds)| {
        start.checked_add(SignedDuration::try_from_secs_f64(seconds).ok()?).ok()
    });
    let read_at = serde_json::to_value(read_at.or(start))?;
    let is_calm = value.get("open") == Some(&Value::Bool(true))
        && value.get("active") == Some(&Value::Bool(false));
    if is_calm && let Some(ending) = value.get_mut("ending") {
        *ending = serde_json::to_value(Ending::Over)?;
    }
    if let Some(end) = value.get_mut("end").filter(|end| end.is_null()) {
        *end = read_at.clone();
    }
    for episode in value.get_mut("also").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(end) = episode.get_mut("end").filter(|end| end.is_null()) {
            *end = read_at.clone();
        }
    }
    Report::deserialize(value)
}

#[cfg(test)]
mod tests {
    use noise_analysis::IncidentPressure;
    use noise_model::pressure::Pressure;
    use noise_verdict::Advice;

    use super::*;
    use crate::made;

    fn episode(subject: &str, start: i64, end: i64, ending: Option<Ending>) -> Episode {
        let time = |seconds| Timestamp::from_second(seconds).unwrap();
        Episode {
            subject: subject.into(),
            start: time(start),
            end: time(end),
            seconds: 3.5,
            ending,
            ..made::report(true).main.clone()
        }
    }

    fn beside() -> Beside {
        let opening =
            Pressure { unavailable: vec!["PSI is off".to_owned()], ..Pressure::default() };
        let latest = Some(Pressure { span_ns: Some(7), ..opening.clone() });
        let advice = vec![Advice::plain(Remedy::CpuWeight)];
        let pressure = Some(IncidentPressure { opening, latest });
        Beside { pressure, advice: Some(advice), ..Beside::default() }
    }

    fn report(open: bool, main: Option<Ending>, also: Option<Ending>) -> Report {
        let also = vec![episode("/b", 110, 130, also)];
        Report { beside: beside(), ..Report::new(3, open, episode("/a", 100, 120, main), also) }
    }

    fn written(report: &Report) -> Value {
        let document = IncidentsDocument::new(vec![Arc::new(report.clone())], Vec::new());
        serde_json::to_value(document).unwrap()["incidents"][0].clone()
    }

    #[test]
    fn what_goes_on_has_neither_an_end_nor_an_ending() {
        // What opened it is calm, what joined goes on.
        let value = written(&report(true, Some(Ending::Over), None));
        for key in ["end", "ending"] {
            assert!(value[key].is_null(), "{key}: {value}");
            assert!(value["also"][0][key].is_null(), "{key}: {value}");
        }
        assert_eq!((&value["active"], &value["also"][0]["active"]), (&false.into(), &true.into()));
        assert_eq!((&value["lasted_seconds"], &value["seconds"]), (&30.0.into(), &3.5.into()));
        let over = written(&report(false, Some(Ending::Over), Some(Ending::Vanished)));
        assert_eq!(over["end"], "1970-01-01T00:02:00Z");
        assert_eq!(
            (&over["ending"], &over["also"][0]["ending"]),
            (&"over".into(), &"vanished".into())
        );
    }

    #[test]
    fn incidents_are_listed_in_the_order_of_their_begins() {
        let of = |id: u64, from: i64, joined: i64, ending| {
            let also = vec![episode("/b", joined, 900, ending)];
            Report::new(id, ending.is_none(), episode("/a", from, 900, ending), also)
        };
        // As a board has them: those that are open last. One began with what joined it.
        let over = Some(Ending::Over);
        let incidents = [
            of(2, 300, 300, over),
            of(7, 500, 100, over),
            of(1, 200, 200, None),
            of(3, 300, 400, None),
        ];
        let document = IncidentsDocument::new(incidents.map(Arc::new).to_vec(), Vec::new());
        let ids: Vec<u64> = document.incidents.iter().map(|report| report.id).collect();
        assert_eq!(ids, [7, 1, 2, 3]);
    }

    #[test]
    fn what_is_written_is_read() {
        let mut led = report(true, None, None);
        // What it is about joined what had opened it.
        led.main.start = Timestamp::from_second(115).unwrap();
        led.main.end = led.also[0].end;
        for report in [
            led,
            report(true, Some(Ending::Over), None),
            report(true, None, Some(Ending::Over)),
            report(false, Some(Ending::Adopted), Some(Ending::Over)),
        ] {
            let document = IncidentsDocument::new(vec![Arc::new(report)], Vec::new());
            let text = serde_json::to_string(&document).unwrap();
            let read: IncidentsDocument = serde_json::from_str(&text).unwrap();
            assert_eq!(read.incidents[0].lasted(), document.incidents[0].lasted());
            assert_eq!(serde_json::to_string(&read).unwrap(), text);
            assert_eq!(read.incidents[0].beside, beside());
            let value: Value = serde_json::from_str(&text).unwrap();
            let pressure = &value["incidents"][0]["pressure"]["latest"];
            // What is not known is no number.
            assert!(pressure["cpu"].is_null() && pressure["span_ns"] == 7, "{pressure}");
        }
    }

    #[test]
    fn what_an_older_noised_answers_is_read() {
        let older = report(true, None, Some(Ending::Over));
        let mut value = serde_json::to_value(&older).unwrap();
        for newer in ["seconds", "pressure", "advice"] {
            value.as_object_mut().unwrap().remove(newer);
        }
        let read = incident(value).unwrap();
        assert_eq!(read.main.disturbed_seconds(), 20.0);
        assert_eq!((read.lasted(), read.main.is_active()), (30.0, true));
        assert!(incident(Value::Null).is_err());
    }
}
