//! PURE but for the process metrics: a model as metrics, in the [`Format`] that a client takes.

mod cgroups;
#[cfg(test)]
pub(crate) mod decoded;
mod exposition;
mod family;
mod format;
mod incidents;
mod native;
mod own;
mod process;
mod protobuf;
mod recorder;
#[cfg(test)]
mod tests;
mod text;

use std::borrow::Cow;

use noise_analysis::Overview;
use noise_common::signals::{ExportKind, SIGNALS, SignalInfo};
use noise_common::subject::SubjectKind;
use noise_model::{Count, Exported, INTERFERENCE_METRIC, Model, PREEMPTIONS_METRIC, Series};
use noise_protobuf::Message;

use self::exposition::Syntax;
use self::family::{Family, FamilyDelays, Metrics, OF_CGROUP, Origin, Point, seconds};
use self::text::Text;

pub use self::format::Format;
pub use self::process::Process;

/// Room for the text of most hosts. From 128 KiB on, musl would map memory anew for each page.
const USUAL_BYTES: usize = 96 << 10;

/// A series, and since when it counts.
type Counting<'a> = (&'a Series, u64);
/// The series and folded series of all signals.
type AllSeries<'a> = [Vec<Counting<'a>>; 2];

fn signal_family<'a>(
    model: &'a Model,
    [series, folded]: &AllSeries<'a>,
    counts: &'a [Exported<Cow<'a, Count>>],
    info: &'static SignalInfo,
) -> Family<'a> {
    let is_of_cgroup = matches!(info.subject, SubjectKind::Cgroup);
    let names_pods = is_of_cgroup && cgroups::has_pods(model);
    let labels = if is_of_cgroup { OF_CGROUP } else { info.labels };
    let metrics = match info.kind {
        ExportKind::Histogram(buckets) => {
            let from = if info.is_folded() { folded } else { series };
            let own = from.iter().copied().filter(|(series, _)| series.signal == info.signal);
            let delays = |(series, from_ns): Counting<'a>| FamilyDelays {
                series,
                from_ns,
                pod: names_pods.then(|| cgroups::pod(model, &series.labels)),
            };
            Metrics::Histograms(buckets, own.map(delays).collect())
        }
        ExportKind::Counter => {
            let own = counts.iter().filter(|count| count.series.signal == info.signal);
            let point = |one: &'a Exported<Cow<'a, Count>>| {
                Point::new(one.series.labels.iter(), one.series.total as f64).since(one.from_ns)
            };
            Metrics::Counters(own.map(point).collect())
        }
    };
    Family { name: info.metric, help: info.help, labels, metrics }
}

/// The families of who delayed whom.
fn blame_families(model: &Model) -> [Family<'_>; 2] {
    let interference = model.interference.iter().map(|Exported { series, from_ns }| {
        let (pair, charged) = series;
        let labels = [pair.resource.name(), &pair.victim, &pair.culprit, pair.cause.name()];
        Point::new(labels, seconds(charged.ns)).since(*from_ns)
    });
    let preemptions = model.preemptions.iter().map(|Exported { series, from_ns }| {
        let (pair, charged) = series;
        let labels = [&pair.victim, &*pair.culprit, pair.cause.name()];
        Point::new(labels, charged.count as f64).since(*from_ns)
    });
    [
        Family::counters(
            INTERFERENCE_METRIC,
            "Time that a cgroup was delayed, by what it waited for or what was taken from it, by whom, and why.",
            &["resource", "victim", "culprit", "cause"],
            interference,
        ),
        Family::counters(
            PREEMPTIONS_METRIC,
            "How often a cgroup lost a CPU that it could have used on, by who took it.",
            &["victim", "culprit", "relation"],
            preemptions,
        ),
    ]
}

/// A page as it grows.
enum ExpositionPage {
    Text(Text),
    OpenMetrics(Text),
    Protobuf(Message),
}

impl ExpositionPage {
    fn new(format: Format) -> Self {
        match format {
            Format::Text => Self::Text(Text::with_capacity(USUAL_BYTES)),
            Format::OpenMetrics => Self::OpenMetrics(Text::with_capacity(USUAL_BYTES)),
            Format::Protobuf => Self::Protobuf(Message::with_capacity(USUAL_BYTES / 4)),
        }
    }

    fn add(&mut self, family: &Family<'_>, origin: Origin) {
        match self {
            Self::Text(text) => exposition::write(text, family, Syntax::Prometheus),
            Self::OpenMetrics(text) => {
                exposition::write(text, family, Syntax::OpenMetrics { origin });
            }
            Self::Protobuf(message) => protobuf::write(message, family, origin),
        }
    }

    fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::OpenMetrics(mut text) => {
                text.push(exposition::END);
                text.into_bytes()
            }
            Self::Protobuf(message) => message.into_bytes(),
        }
    }
}

/// Renders a model and the incidents, with the metrics of the process where given; families in order of their names.
pub fn render(
    format: Format,
    model: &Model,
    overview: &Overview,
    process: Option<&Process>,
) -> Vec<u8> {
    // What was counted before a signal was switched off would look like calm.
    let is_absent = |signal| model.sample.absent.iter().any(|(absent, _)| *absent == signal);
    let measured = SIGNALS.iter().filter(|info| !is_absent(info.signal));
    let (series, counts) = (model.series(), model.counts());
    let series = [
        series.iter().map(|one| (&*one.series, one.from_ns)).collect(),
        model.folded_series.iter().map(|one| (&one.series, one.from_ns)).collect(),
    ];
    let collected = process.map(Process::collect).unwrap_or_default();
    let mut families: Vec<Family<'_>> =
        measured.map(|info| signal_family(model, &series, &counts, info)).collect();
    families.extend(blame_families(model));
    families.push(cgroups::family(model));
    families.extend(own::families(model, process.map(Process::lost_marks).into_iter().flatten()));
    families.extend(own::noise_families(model));
    families.extend(recorder::families(model));
    families.extend(incidents::families(overview));
    families.extend(process.map(|process| process.families(&collected)).into_iter().flatten());
    families.sort_by_key(|family| family.name);
    let began = process.map(Process::began).unwrap_or_default();
    let mut page = ExpositionPage::new(format);
    for family in families.iter().filter(|family| !family.is_empty()) {
        page.add(family, began.of(family.name));
    }
    page.into_bytes()
}
