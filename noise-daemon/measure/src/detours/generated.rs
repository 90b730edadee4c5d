//! Reports for tests.

use proptest::prelude::{Strategy, any};

use crate::{
    Class, CpuDetours, DETOURS_FORMAT, DETOURS_VERSION, Detour, DetourPart, DetourReport, GapSource,
};

fn source(class: Class, name: &str, id: u32) -> GapSource {
    GapSource { class, name: name.to_owned(), id }
}

fn cpu(cpu: u32, detours: Vec<Detour>) -> CpuDetours {
    CpuDetours {
        cpu,
        start_ns: 77_000_000_000,
        duration_ns: 1_000_000_000,
        threshold_ns: 1_000,
        min_loop_ns: 24.5,
        resolution_ns: 1,
        passes: 40_000_000,
        detours,
        lost_detours: 0,
        lost_events: 0,
    }
}

fn detour(start_ns: u64, duration_ns: u64, parts: &[(usize, u64)]) -> Detour {
    let part = |(source, duration_ns): &(usize, u64)| DetourPart {
        source: *source,
        start_ns,
        duration_ns: *duration_ns,
    };
    Detour { start_ns, duration_ns, parts: parts.iter().map(part).collect() }
}

fn with(cpus: Vec<CpuDetours>) -> DetourReport {
    DetourReport {
        format: DETOURS_FORMAT.to_owned(),
        version: DETOURS_VERSION,
        host: "node1".to_owned(),
        kernel: "6.18.0".to_owned(),
        started: "2026-11-21T09:41:02Z".parse().unwrap(),
        sources: vec![
            source(Class::Irq, "local_timer", 236),
            source(Class::Softirq, "timer", 1),
            source(Class::Thread, "kworker/0:1", 99),
            source(Class::Thread, "kworker/0:2H", 100),
            source(Class::Nmi, "", 0),
            source(Class::Thread, "odd, \"name\";\u{1b}[2J", 4242),
        ],
        cpus,
    }
}

/// Two CPUs, one of them quiet.
pub fn report() -> DetourReport {
    let detours = vec![
        detour(1_000_000, 8_000, &[(0, 6_000), (1, 2_000)]),
        detour(5_000_000, 6_000, &[]),
        detour(9_000_000, 20_000, &[(2, 10_000), (3, 8_000)]),
        detour(13_000_000, 2_000, &[(0, 2_000)]),
    ];
    let first = cpu(0, detours);
    let mut second = cpu(1, Vec::new());
    (second.lost_detours, second.lost_events) = (3, 2);
    with(vec![first, second])
}

/// Any report that contradicts itself nowhere.
pub fn any_report() -> impl Strategy<Value = DetourReport> {
    let parts = proptest::collection::vec((0usize..6, 0u64..5_000), 0..4);
    let detour_of = (0u64..10_000_000, parts, 0u64..3_000);
    let detours = proptest::collection::vec(detour_of, 0..40);
    let one = (detours, any::<u16>());
    proptest::collection::vec(one, 0..4).prop_map(|cpus| {
        let made = cpus.into_iter().enumerate().map(|(number, (planned, lost))| {
            let mut end_ns = 0;
            let mut detours = Vec::new();
            for (gap_ns, parts, rest_ns) in planned {
                let sum: u64 = parts.iter().map(|(_, ns)| ns).sum();
                let made = detour(end_ns + gap_ns, sum + rest_ns + 1_000, &parts);
                end_ns = made.start_ns + made.duration_ns;
                detours.push(made);
            }
            let mut made = cpu(number as u32, detours);
            made.lost_detours = u64::from(lost);
            made
        });
        with(made.collect())
    })
}
