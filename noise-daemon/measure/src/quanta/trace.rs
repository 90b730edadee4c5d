//! PURE: quanta as data for other programs.

use std::fmt::Write as _;

use super::{QuantaReport, QuantaSummary, Quantum};

/// A report with its summaries.
#[derive(serde::Serialize)]
struct QuantaDocument<'a> {
    #[serde(flatten)]
    report: &'a QuantaReport,
    summaries: Vec<QuantaSummary>,
}

/// The report as JSON, with a summary of each CPU that has samples.
/// Errors: never for numbers that are finite.
pub fn json(report: &QuantaReport) -> serde_json::Result<String> {
    let summaries = report.cpus.iter().filter_map(|cpu| QuantaSummary::of(report, cpu)).collect();
    serde_json::to_string(&QuantaDocument { report, summaries }).map(|text| text + "\n")
}

/// One line per quantum: CPU, begin (CLOCK_MONOTONIC, ns), and its units of work, or how long it took (ns).
pub fn csv(report: &QuantaReport) -> String {
    let mut text = match report.quantum {
        Quantum::TimeNs(_) => "cpu,start_ns,work_units\n".to_owned(),
        Quantum::WorkUnits(_) => "cpu,start_ns,duration_ns\n".to_owned(),
    };
    for cpu in &report.cpus {
        for (start_ns, sample) in cpu.starts_ns(report.quantum).zip(&cpu.samples) {
            let _ = writeln!(text, "{},{start_ns},{sample}", cpu.cpu);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::generated::report;
    use super::*;

    #[test]
    fn quanta_as_csv() {
        let ftq = report(Quantum::TimeNs(1_000), vec![vec![7, 9], vec![8]]);
        assert_eq!(
            csv(&ftq),
            "cpu,start_ns,work_units\n0,77000000000,7\n0,77000001000,9\n1,77000000000,8\n"
        );
        let fwq = report(Quantum::WorkUnits(5), vec![vec![700, 900]]);
        assert_eq!(csv(&fwq), "cpu,start_ns,duration_ns\n0,77000000000,700\n0,77000000700,900\n");
    }

    #[test]
    fn quanta_as_json() {
        let ftq = report(Quantum::TimeNs(1_000), vec![vec![8, 9], vec![]]);
        let value: serde_json::Value = serde_json::from_str(&json(&ftq).unwrap()).unwrap();
        assert_eq!(value["format"], "noised-ftq");
        assert_eq!(value["quantum"]["time_ns"], 1_000);
        assert_eq!(value["cpus"][0]["samples"][1], 9);
        assert_eq!(value["summaries"].as_array().unwrap().len(), 1);
        assert_eq!(value["summaries"][0]["samples"]["mean"], 8.5);
        assert!(value["summaries"][0]["tick"].is_null());
    }
}
