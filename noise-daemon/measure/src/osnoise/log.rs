//! Samples in the kernel tracer's own words, so that what reads its trace reads ours. Pure, but for
//! the names of sources.

use std::fmt::Write as _;

use noise_common::watch::{KINDS, NoiseEvent, NoiseKind};

use super::period::PeriodReport;
use crate::explain::Explained;
use crate::naming::Naming;

const NS_PER_S: u64 = 1_000_000_000;

/// Lines of a sample: its parts as they ended, then the sample itself.
pub fn lines(period: &PeriodReport, sample: &Explained, naming: &mut Naming) -> String {
    let mut text = String::new();
    for part in &sample.parts {
        let named = naming.source(part);
        let what = match KINDS.get(part.kind as usize) {
            Some(NoiseKind::Nmi) => "nmi_noise:".to_owned(),
            Some(NoiseKind::Hardirq | NoiseKind::Vector) => {
                format!("irq_noise: {}:{}", named.name, named.id)
            }
            Some(NoiseKind::Softirq) => {
                format!("softirq_noise: {}:{}", named.name.to_uppercase(), named.id)
            }
            Some(NoiseKind::PageFault) => "page_fault_noise:".to_owned(),
            _ => format!("thread_noise: {}:{}", named.name, named.id),
        };
        prefix(&mut text, period, part.end_ns);
        let _ = writeln!(text, "{what} start {} duration {} ns", start(part), part.net_ns);
    }
    prefix(&mut text, period, sample.gap.end_ns());
    let (start_ns, duration_ns) = (sample.gap.start_ns, sample.gap.duration_ns);
    let interferences = sample.parts.len() as u64 + sample.unseen;
    let _ = writeln!(
        text,
        "sample_threshold: start {} duration {duration_ns} ns interferences {interferences}",
        seconds(start_ns)
    );
    text
}

fn prefix(text: &mut String, period: &PeriodReport, time_ns: u64) {
    let PeriodReport { cpu, thread, .. } = period;
    let (whole, micro) = (time_ns / NS_PER_S, time_ns % NS_PER_S / 1_000);
    let name = format!("osnoise/{cpu}-{thread}");
    let _ = write!(text, "{name:>20} [{cpu:03}] {whole:5}.{micro:06}: ");
}

/// The begin of a part, pushed behind what interrupted it, as the tracer does: begin and duration
/// end where the part ended.
fn start(part: &NoiseEvent) -> String {
    let begin_ns = part.end_ns.saturating_sub(part.net_ns).max(part.start_ns);
    seconds(begin_ns)
}

fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / NS_PER_S, ns % NS_PER_S)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::osnoise::tally::sampled;

    #[test]
    fn a_name_does_not_break_its_line() {
        let mut period = sampled::period();
        let name = u64::from_le_bytes(*b"a\nb\x1b[2J\0");
        period.samples.truncate(2);
        period.samples[1].parts[0].comm = [name, 0];
        let mut naming = Naming::new(std::path::Path::new("/nonexistent"));
        let text = lines(&period, &period.samples[1], &mut naming);
        assert_eq!(text.lines().count(), 2);
        assert!(text.contains("thread_noise: a\\x0ab\\x1b[2J:77 start "), "{text}");
    }

    #[test]
    fn samples_are_reported_in_the_tracers_words() {
        let period = sampled::period();
        let mut naming = Naming::new(std::path::Path::new("/nonexistent"));
        let text: String =
            period.samples.iter().map(|sample| lines(&period, sample, &mut naming)).collect();
        insta::assert_snapshot!(text);
    }
}
