//! The metrics of this process: what the library collects of it, and what serving costs.

use std::time::{Duration, SystemTime};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use nix::time::{ClockId, clock_gettime};
use prometheus::core::Collector as _;
use prometheus::proto::{MetricFamily, MetricType};

use super::family::{Family, Origin, Point};
use super::own::SINCE_BOOT;
use crate::web::{Costs, Web};

/// The library's name of the CPU time.
const CPU_TIME: &str = "process_cpu_seconds_total";

/// When counters began to count, since 1970.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Began {
    /// Those of the daemon.
    daemon: Duration,
    /// Those of the kernel.
    host: Duration,
    /// The clock of samples.
    clock: Duration,
}

impl Began {
    /// Those of the running process, whose start is among its metrics. Computed once: the time of day can
    /// be set meanwhile.
    fn of_self(families: &[MetricFamily], clock_ns: u64) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let up = clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from);
        let start = families.iter().find(|family| family.name() == "process_start_time_seconds");
        let start = start.and_then(|family| family.get_metric().first());
        let start = start.map(|metric| metric.get_gauge().get_value());
        let start = start.and_then(|start| Duration::try_from_secs_f64(start).ok());
        let clock = now.saturating_sub(Duration::from_nanos(clock_ns));
        Self { daemon: start.unwrap_or(now), host: now.saturating_sub(up), clock }
    }

    /// Those of a family.
    pub(super) fn of(self, family: &str) -> Origin {
        let start = if SINCE_BOOT.contains(&family) { self.host } else { self.daemon };
        Origin { start, clock: self.clock }
    }
}

pub struct Process {
    began: Began,
    collector: prometheus::process_collector::ProcessCollector,
    web: Web,
    costs: Costs,
}

impl Process {
    /// Those of the running process, when the clock of samples shows that time.
    pub fn of_self(web: Web, costs: Costs, clock_ns: u64) -> Self {
        let collector = prometheus::process_collector::ProcessCollector::for_self();
        let began = Began::of_self(&collector.collect(), clock_ns);
        Self { began, collector, web, costs }
    }

    /// When what is counted began.
    pub(super) fn began(&self) -> Began {
        self.began
    }

    /// Datagrams that came as marks and became nothing.
    pub(super) fn lost_marks(&self) -> [(&'static str, u64); 2] {
        self.costs.marks.lost()
    }

    /// What the library collects.
    pub(super) fn collect(&self) -> Vec<MetricFamily> {
        self.collector.collect()
    }

    /// The families of that, and those of what serving costs.
    pub(super) fn families<'a>(&self, collected: &'a [MetricFamily]) -> Vec<Family<'a>> {
        let mut families: Vec<Family<'a>> = collected.iter().filter_map(read).collect();
        let hangups = self.costs.hangups.counts();
        families.push(Family::counters(
            "noised_http_hangups_total",
            "Connections that this daemon ended before their clients were done, by reason: unused or slow while others waited, or late.",
            &["reason"],
            hangups.map(|(why, count)| Point::new([why], count as f64)),
        ));
        families.push(Family::counter(
            "noised_http_requests_delayed_total",
            "Requests that waited for their turn, because answering had used up its part of a CPU.",
            self.costs.budget.delayed() as f64,
        ));
        let marks = self.costs.marks.all();
        families.push(Family::counters(
            "noised_marks_total",
            "Datagrams that came to the socket of marks, by what became of them.",
            &["result"],
            marks.map(|(what, count)| Point::new([what], count as f64)),
        ));
        families.push(Family::gauges(
            "noised_tls_certificate_expiry_timestamp_seconds",
            "When the first certificate of the server's chain expires, since 1970.",
            &[],
            self.web.expiry_s().map(|seconds| Point::bare(seconds as f64)),
        ));
        families
    }
}

/// A family of the library: one number without labels. It counts whole seconds of CPU time, and this process needs few.
fn read(family: &MetricFamily) -> Option<Family<'_>> {
    let (name, help) = (family.name(), family.help());
    let metric = family.get_metric().first()?;
    match family.get_field_type() {
        MetricType::COUNTER => {
            let finer = (name == CPU_TIME).then(cpu_time).flatten();
            let value = finer.unwrap_or_else(|| metric.get_counter().get_value());
            Some(Family::counter(name, help, value))
        }
        MetricType::GAUGE => {
            let value = metric.get_gauge().get_value();
            Some(Family::gauge(name, help, value))
        }
        _ => None,
    }
}

/// The CPU time of this process, seconds.
fn cpu_time() -> Option<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let used = [usage.user_time(), usage.system_time()];
    Some(used.map(|time| time.num_microseconds() as f64 / 1e6).iter().sum())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use noise_analysis::Overview;
    use noise_model::Model;

    use super::*;
    use crate::metrics::family::Metrics;
    use crate::metrics::{Format, render};

    #[test]
    fn counters_began_with_the_process_or_with_the_host() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let began = Process::of_self(Web::plain(), Costs::default(), 7_000_000_000).began();
        let (own, host) = (began.of("noised_dropped_total"), began.of(SINCE_BOOT[0]));
        let from = own.of(5_000_000_000);
        assert!(from + Duration::from_secs(2) >= now && from < now, "{from:?}, {now:?}");
        let (own, host) = (own.of(0), host.of(0));
        assert!(host < own && own <= now, "{host:?}, {own:?}, {now:?}");
        assert!(now - own < Duration::from_secs(3600), "{own:?}");
    }

    #[test]
    fn marks_that_became_nothing_are_among_what_was_dropped() {
        let costs = Costs::default();
        costs.marks.taken.store(7, Ordering::Relaxed);
        costs.marks.refused.store(5, Ordering::Relaxed);
        costs.marks.dropped.store(3, Ordering::Relaxed);
        let process = Process::of_self(Web::plain(), costs, 0);
        let (model, overview) = (Model::default(), Overview::default());
        let page = render(Format::Text, &model, &overview, Some(&process));
        let page = String::from_utf8(page).unwrap();
        for line in [
            "noised_dropped_total{where=\"marks\",reason=\"refused\"} 5",
            "noised_dropped_total{where=\"marks\",reason=\"rate_limited\"} 3",
            "noised_marks_total{result=\"taken\"} 7",
            "noised_marks_total{result=\"dropped\"} 3",
        ] {
            assert!(page.lines().any(|own| own == line), "{line} is not in {page}");
        }
    }

    #[test]
    fn cpu_time_of_the_process_is_given_in_fractions_of_a_second() {
        let spent = || {
            let process = Process::of_self(Web::plain(), Costs::default(), 0);
            let collected = process.collect();
            let families = process.families(&collected);
            let cpu = families.iter().find(|family| family.name == CPU_TIME).unwrap();
            let Metrics::Counters(points) = &cpu.metrics else { panic!("{cpu:?}") };
            points[0].value
        };
        let before = spent();
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_millis(50) {}
        let after = spent();
        assert!(after > before && after - before < 1.0, "{before}, then {after}");
    }
}
