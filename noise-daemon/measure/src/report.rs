//! The document that `noised bench detour` writes, and that others read.

use noise_text::clean::reading::from_json;

use super::source::GapSource;

pub const DETOURS_FORMAT: &str = "noised-detours";
pub const DETOURS_VERSION: u32 = 1;

/// Detours of all CPUs that were measured at once.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct DetourReport {
    pub format: String,
    /// Version of this document.
    pub version: u32,
    /// Name of the host.
    pub host: String,
    /// Release of its kernel.
    pub kernel: String,
    /// When it was measured.
    pub started: jiff::Timestamp,
    /// Sources that [`DetourPart`]s refer to by their place here.
    pub sources: Vec<GapSource>,
    /// The CPUs, in order of their numbers.
    pub cpus: Vec<CpuDetours>,
}

/// What one CPU's loop saw.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct CpuDetours {
    /// Number of the CPU.
    pub cpu: u32,
    /// When the loop began, CLOCK_MONOTONIC, ns.
    pub start_ns: u64,
    /// How long it was measured, ns.
    pub duration_ns: u64,
    /// Length from which on a gap is a detour, ns.
    pub threshold_ns: u64,
    /// The shortest pass of the loop, ns: the length that every gap has without noise.
    pub min_loop_ns: f64,
    /// Smallest step of the clock between two readings, ns.
    pub resolution_ns: u64,
    /// Passes of the loop.
    pub passes: u64,
    /// The detours, in order of time.
    pub detours: Vec<Detour>,
    /// Detours beyond what could be kept: their time is missing from the detours.
    pub lost_detours: u64,
    /// Events of the kernel that were lost: detours of this CPU may lack parts.
    pub lost_events: u64,
}

/// A gap that was longer than the threshold.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Detour {
    /// Begin, from [`CpuDetours::start_ns`], ns.
    pub start_ns: u64,
    /// Length, ns, one undisturbed pass of the loop included.
    pub duration_ns: u64,
    /// What filled it, net, in order of time. None = no event of the kernel: the hardware or the
    /// hypervisor. Their sum never exceeds the length: what is left is kernel entry/exit overhead.
    pub parts: Vec<DetourPart>,
}

/// One event inside a detour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DetourPart {
    /// Place in [`DetourReport::sources`].
    pub source: usize,
    /// Begin, from [`CpuDetours::start_ns`], ns.
    pub start_ns: u64,
    pub duration_ns: u64,
}

/// Nanoseconds of all CPUs together: 146 years.
const LARGEST_SUM: u64 = 1 << 62;

/// What is wrong with a document.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// It is no report of detours.
    #[error("this is no report of detours (`noised bench detour --json` writes one): {0}")]
    NotAReport(String),
    /// It was written by another version.
    #[error(
        "this report has version {0}, and this noised reads version {DETOURS_VERSION}: measure \
         again with this noised, or read it with the one that wrote it"
    )]
    OtherVersion(u32),
    /// Its numbers contradict one another.
    #[error("this report contradicts itself: {0}")]
    Inconsistent(String),
}

impl DetourReport {
    /// Reads a report, and checks that its parts belong to sources, that they fit into their
    /// detours, and that detours come in order and do not overlap.
    /// Errors: those of [`ReportError`].
    pub fn parse(text: &str) -> Result<Self, ReportError> {
        let not = |error: serde_json::Error| ReportError::NotAReport(error.to_string());
        let value: serde_json::Value = from_json(text.as_bytes()).map_err(not)?;
        let format = value.get("format").and_then(serde_json::Value::as_str);
        if format != Some(DETOURS_FORMAT) {
            let reason = format!("`format` is not \"{DETOURS_FORMAT}\"");
            return Err(ReportError::NotAReport(reason));
        }
        let version = value.get("version").and_then(serde_json::Value::as_u64).unwrap_or(0);
        if version != u64::from(DETOURS_VERSION) {
            return Err(ReportError::OtherVersion(u32::try_from(version).unwrap_or(u32::MAX)));
        }
        let report: Self = serde_json::from_value(value).map_err(not)?;
        report.cpus.iter().try_for_each(|cpu| cpu.check(report.sources.len()))?;
        report.check_sums()?;
        Ok(report)
    }

    /// What is added up over all CPUs must not overflow.
    fn check_sums(&self) -> Result<(), ReportError> {
        let numbers: [fn(&CpuDetours) -> u64; 5] = [
            |cpu| cpu.start_ns,
            |cpu| cpu.duration_ns,
            |cpu| cpu.passes,
            |cpu| cpu.lost_detours,
            |cpu| cpu.lost_events,
        ];
        let sums = numbers.map(|number| self.cpus.iter().map(|cpu| u128::from(number(cpu))).sum());
        if sums.iter().all(|sum: &u128| *sum <= u128::from(LARGEST_SUM)) {
            return Ok(());
        }
        Err(ReportError::Inconsistent("its numbers are larger than any measurement's".to_owned()))
    }

    /// How long all CPUs together were measured, ns.
    pub fn measured_ns(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.duration_ns).sum()
    }
}

impl CpuDetours {
    /// Time of all detours, ns.
    pub fn detours_ns(&self) -> u64 {
        self.detours.iter().map(|detour| detour.duration_ns).sum()
    }

    fn check(&self, sources: usize) -> Result<(), ReportError> {
        let wrong =
            |what: &str| Err(ReportError::Inconsistent(format!("{what} on CPU {}", self.cpu)));
        let mut end_ns = 0;
        for detour in &self.detours {
            let parts = detour.parts.iter().map(|part| part.duration_ns);
            let sum = parts.fold(0u64, u64::saturating_add);
            if detour.start_ns < end_ns {
                return wrong("detours overlap or are out of order");
            }
            if detour.parts.iter().any(|part| part.start_ns > LARGEST_SUM) {
                return wrong("a part begins later than any measurement ends");
            }
            if sum > detour.duration_ns {
                return wrong("the parts of a detour are longer than the detour");
            }
            if detour.parts.iter().any(|part| part.source >= sources) {
                return wrong("a part has a source that is not listed");
            }
            end_ns = detour.start_ns.saturating_add(detour.duration_ns);
        }
        if end_ns > self.duration_ns {
            return wrong("a detour ends after the measurement");
        }
        Ok(())
    }
}

impl Detour {
    /// What is in no part: the kernel entry/exit overhead, or all of it where nothing explains it; ns.
    pub fn rest_ns(&self) -> u64 {
        let parts: u64 = self.parts.iter().map(|part| part.duration_ns).sum();
        self.duration_ns.saturating_sub(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn numbers_beyond_any_measurement_are_refused() {
        let text = |report: &DetourReport| serde_json::to_string(report).unwrap();
        let report = sample::report(2, 1_000_000, &[], 1);
        assert_eq!(DetourReport::parse(&text(&report)), Ok(report.clone()));
        let set: [fn(&mut CpuDetours); 5] = [
            |cpu| cpu.start_ns = u64::MAX,
            |cpu| cpu.duration_ns = u64::MAX,
            |cpu| cpu.passes = u64::MAX,
            |cpu| cpu.lost_detours = u64::MAX,
            |cpu| cpu.lost_events = u64::MAX,
        ];
        for set in set {
            let mut report = report.clone();
            report.cpus.iter_mut().for_each(set);
            let error = DetourReport::parse(&text(&report)).unwrap_err();
            assert!(matches!(error, ReportError::Inconsistent(_)), "{error}");
        }
    }
}
