//! PURE: detours as data for other programs.

use std::fmt::Write as _;

use noise_text::csv::cell;

use crate::{CpuDetours, Detour, DetourReport};

/// The report as JSON, which [`DetourReport::parse`] reads.
/// Errors: never for a report of numbers that are finite.
pub fn json(report: &DetourReport) -> serde_json::Result<String> {
    serde_json::to_string(report).map(|text| text + "\n")
}

/// One line per detour, as RFC 4180 has it, but with plain newlines: CPU, begin (ns from the begin
/// of the CPU's loop), length (ns), what is in no part (ns), and the parts, net and in order of
/// time, as `class name:id=ns` with semicolons between.
pub fn csv(report: &DetourReport) -> String {
    let mut text = "cpu,start_ns,duration_ns,rest_ns,sources\n".to_owned();
    let labels: Vec<String> =
        report.sources.iter().map(|source| without_marks(&source.to_string())).collect();
    for cpu in &report.cpus {
        for detour in &cpu.detours {
            let Detour { start_ns, duration_ns, .. } = detour;
            let parts = detour.parts.iter().filter_map(|part| {
                labels.get(part.source).map(|label| format!("{label}={}", part.duration_ns))
            });
            let parts = cell(&parts.collect::<Vec<_>>().join(";"));
            let rest_ns = detour.rest_ns();
            let _ = writeln!(text, "{},{start_ns},{duration_ns},{rest_ns},{parts}", cpu.cpu);
        }
    }
    text
}

/// A name without what separates parts, and without what steers a terminal.
fn without_marks(name: &str) -> String {
    name.replace(|c: char| c.is_control() || matches!(c, ';' | '='), "_")
}

/// The noise of one CPU as LogGOPSim takes it with `--noise-trace`: lines of begin and length, ns,
/// with a tab between; `#` begins a comment.
///
/// The simulator repeats a trace from its last begin on, and passes over the first line when it
/// does: lines without length at the begin and at the end of the measurement make it repeat after
/// exactly the time that was measured. It reads an empty last line as one more detour, so that the
/// text does not end with a newline.
pub fn loggopsim(report: &DetourReport, cpu: &CpuDetours) -> String {
    let mut text = format!(
        "# detours of CPU {} of {}, kernel {}, {}\n# begin_ns\tduration_ns\n0\t0\n",
        cpu.cpu,
        without_marks(&report.host),
        without_marks(&report.kernel),
        report.started
    );
    for Detour { start_ns, duration_ns, .. } in &cpu.detours {
        let _ = writeln!(text, "{start_ns}\t{duration_ns}");
    }
    let _ = write!(text, "{}\t0", cpu.duration_ns);
    text
}

#[cfg(test)]
mod tests {
    use noise_text::clean::clean;
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::super::generated::{any_report, report};
    use super::*;

    #[test]
    fn detours_as_csv() {
        let mut report = report();
        report.cpus[0].detours[3].parts[0].source = 5;
        assert_eq!(
            csv(&report),
            "cpu,start_ns,duration_ns,rest_ns,sources\n\
             0,1000000,8000,0,irq local_timer:236=6000;softirq timer:1=2000\n\
             0,5000000,6000,6000,\n\
             0,9000000,20000,2000,thread kworker/0:1:99=10000;thread kworker/0:2H:100=8000\n\
             0,13000000,2000,0,\"thread odd, \"\"name\"\"__[2J:4242=2000\"\n"
        );
    }

    #[test]
    fn a_simulator_reads_begin_and_length() {
        let report = report();
        assert_eq!(
            loggopsim(&report, &report.cpus[0]),
            "# detours of CPU 0 of node1, kernel 6.18.0, 2026-11-21T09:41:02Z\n\
             # begin_ns\tduration_ns\n\
             0\t0\n1000000\t8000\n5000000\t6000\n9000000\t20000\n13000000\t2000\n1000000000\t0"
        );
    }

    proptest! {
        #[test]
        fn a_report_comes_back_from_json(report in any_report()) {
            let read = DetourReport::parse(&json(&report).unwrap()).unwrap();
            let mut expected = report;
            for source in &mut expected.sources {
                source.name = clean(&source.name).into_owned();
            }
            prop_assert_eq!(read, expected);
        }
    }
}
