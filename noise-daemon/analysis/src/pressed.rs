//! PURE: pressure of a cgroup in words, a line for each resource that is known.

use noise_model::memory::{LimitHits, size};
use noise_model::pressure::{Pressure, ResourcePressure, Stalled, Throttled};
use noise_text::units::{count, duration, share};

use super::beside::IncidentPressure;

/// What the lines of one reading, or of two, are headed by.
pub const PRESSURE_HEADING: &str = "pressure of its cgroup (PSI): average of 10 s, time waited";

fn stalled(now: &Stalled, earlier: Option<&Stalled>, span_ns: Option<u64>) -> String {
    let average = |stalled: &Stalled| share(stalled.avg10_percent / 100.0);
    let then = earlier.map(|earlier| format!("{} -> ", average(earlier))).unwrap_or_default();
    let mut text = format!("{then}{}", average(now));
    if let (Some(ms), Some(span_ns)) = (now.stalled_ms, span_ns) {
        text.push_str(&format!(", {} of {}", duration(ms * 1e6), duration(span_ns as f64)));
    }
    text
}

fn resource(
    name: &str,
    now: &ResourcePressure,
    earlier: Option<&ResourcePressure>,
    span_ns: Option<u64>,
) -> String {
    let some = stalled(&now.some, earlier.map(|earlier| &earlier.some), span_ns);
    let full = now.full.as_ref().map(|full| {
        let earlier = earlier.and_then(|earlier| earlier.full.as_ref());
        format!("; full {}", stalled(full, earlier, span_ns))
    });
    format!("{name:<7}some {some}{}", full.unwrap_or_default())
}

fn quota(throttled: &Throttled) -> String {
    let Throttled { of, quota, periods, throttled_periods, throttled_ms, .. } = throttled;
    let Some(cpus) = quota.cpus() else { return "quota  none".to_owned() };
    let mut text = format!("quota  {cpus:.2} CPUs for {of}");
    if let (Some(periods), Some(stopped), Some(ms)) = (periods, throttled_periods, throttled_ms) {
        let time = duration(ms * 1e6);
        text.push_str(&format!(
            ", stopped in {stopped} of {periods} periods, its threads for {time}"
        ));
    }
    text
}

fn limit(hit: &LimitHits) -> String {
    let LimitHits { of, kind, bytes, hits, refaulted, gone, .. } = hit;
    let (file, size) = (kind.file(), size(*bytes));
    let mut text = format!("limit  {file} of {of} is {size}, hit {} times", count(*hits));
    if let (Some(refaulted), Some(gone)) = (refaulted, gone) {
        let (refaulted, gone) = (count(*refaulted), count(*gone));
        text.push_str(&format!("; {gone} pages went, {refaulted} came back"));
    }
    text
}

/// A reading in lines, with what was read before it: averages of ten seconds, what grew since, the quota, limits of memory that
/// were hit, and what is not known.
pub fn pressure_lines(earlier: Option<&Pressure>, now: &Pressure) -> Vec<String> {
    let before =
        |name: &str| earlier?.resources().find(|(own, _)| *own == name).map(|(_, one)| one);
    let line =
        |(name, one): (&str, &ResourcePressure)| resource(name, one, before(name), now.span_ns);
    let known = now.resources().map(line).chain(now.quota.as_ref().map(quota));
    let known = known.chain(now.limits.iter().flatten().map(limit));
    known.chain(now.unavailable.iter().cloned()).collect()
}

impl IncidentPressure {
    /// Both readings in lines.
    pub fn lines(&self) -> Vec<String> {
        match &self.latest {
            Some(latest) => pressure_lines(Some(&self.opening), latest),
            None => pressure_lines(None, &self.opening),
        }
    }
}

#[cfg(test)]
mod tests {
    use noise_model::memory::LimitKind;
    use noise_model::pressure::Quota;

    use super::*;

    fn hit() -> LimitHits {
        LimitHits {
            of: "web.service".to_owned(),
            is_own: true,
            kind: LimitKind::High,
            bytes: 64 << 20,
            hits: 1412,
            refaulted: Some(9_000),
            swapped_in: None,
            gone: Some(9_100),
        }
    }

    fn pressure(avg10_percent: f64, grown: Option<(u64, f64)>) -> Pressure {
        let stalled_ms = grown.map(|(_, ms)| ms);
        let some = Stalled { avg10_percent, stalled_ms };
        let full = Some(Stalled { avg10_percent: 0.0, stalled_ms: stalled_ms.map(|_| 0.0) });
        let throttled = Throttled {
            of: "web.service".to_owned(),
            above: 0,
            is_unclear: false,
            quota: Quota { quota_us: Some(50_000), period_us: 100_000 },
            periods: grown.map(|_| 20),
            throttled_periods: grown.map(|_| 12),
            throttled_ms: grown.map(|_| 812.0),
        };
        Pressure {
            span_ns: grown.map(|(span_ns, _)| span_ns),
            cpu: Some(ResourcePressure { some, full }),
            quota: Some(throttled),
            limits: grown.map(|_| vec![hit()]),
            unavailable: vec!["pressure of io, memory is not known: it is closed".to_owned()],
            ..Pressure::default()
        }
    }

    #[test]
    fn one_reading_has_averages_and_two_have_what_grew() {
        let opening = pressure(45.1, None);
        let both = IncidentPressure {
            opening: opening.clone(),
            latest: Some(pressure(80.25, Some((2_000_000_000, 1620.0)))),
        };
        assert_eq!(
            both.lines(),
            [
                "cpu    some 45.1 % -> 80.2 %, 1.62 s of 2.00 s; full 0 -> 0, 0 of 2.00 s",
                "quota  0.50 CPUs for web.service, stopped in 12 of 20 periods, its threads for 812 ms",
                "limit  memory.high of web.service is 64 MiB, hit 1.41 k times; 9.10 k pages went, 9.00 k came back",
                "pressure of io, memory is not known: it is closed",
            ]
        );
        let one = IncidentPressure { opening, latest: None };
        assert_eq!(
            one.lines()[..2],
            ["cpu    some 45.1 %; full 0", "quota  0.50 CPUs for web.service"]
        );
        let text = serde_json::to_string(&both).unwrap();
        assert_eq!(serde_json::from_str::<IncidentPressure>(&text).unwrap(), both);
    }
}
