//! Findings on made requests, to test with: those of the page of sketches.

use std::collections::BTreeSet;

use noise_sketches::document::SketchesDocument as Sketch;
use noise_sketches::marker::Marker;
use noise_sketches::requests::Requests;
use noise_sketches::slices::{Ended, Slice, SliceId};
use noise_sketches::system::System;
use noise_trace::reach::Reach;
use noise_why::culprits::Blamed;
use noise_why::request::{Own, RequestFindings, Slowest, Spent, Tier};

pub const MS: u64 = 1_000_000;

/// The database waited for a CPU in the slow request.
fn spent(service: &str) -> Spent {
    match service {
        "db :5432" => Spent {
            cgroup: None,
            pids: BTreeSet::new(),
            spent_ns: 9 * MS + 200_000,
            reach_ns: 200_000,
            states_ns: [("running", 2 * MS), ("waiting_cpu", 7 * MS), ("busy", 200_000)].into(),
            culprits: vec![Blamed {
                state: "waiting_cpu",
                tid: 99,
                pid: Some(99),
                comm: "hog".to_owned(),
                program: "hog".to_owned(),
                cgroup: Some("batch.service".to_owned()),
                cause: "foreign",
                ns: 7 * MS,
                by_counters: false,
                path: None,
            }],
        },
        _ => Spent {
            spent_ns: 3 * MS,
            reach_ns: 160_000,
            states_ns: [("running", 3 * MS)].into(),
            ..Spent::default()
        },
    }
}

/// What is said of two requests of an application, the second one slow in the database behind that.
pub fn found(system: &System) -> RequestFindings<'_> {
    let requests = Requests::new(system);
    let arrived = |slice: &Slice| {
        matches!(slice.marker, Marker::Receive(_))
            && slice.ended == Ended::Explicit
            && system.key(slice).ports()[0] == Some(80)
    };
    let all = (0..).zip(&system.slices).filter(|(_, slice)| arrived(slice));
    let mut ids: Vec<(u64, SliceId)> = all.map(|(id, slice)| (slice.to_ns, id)).collect();
    ids.sort_unstable();
    let ids: Vec<SliceId> = ids.into_iter().map(|(_, id)| id).collect();
    let below = ids.iter().flat_map(|id| requests.all_below(*id));
    let links = requests.links(below, false);
    let tier = |link: noise_sketches::requests::RequestLink| {
        let spent = spent(&link.service.to_string());
        Tier { share: spent.spent_ns as f64 / (12 * MS + 200_000) as f64, link, spent }
    };
    let own = |tier: &Tier| Own { service: tier.link.service, spent: tier.spent.clone() };
    let tiers: Vec<Tier> = links.into_iter().map(tier).collect();
    let slowest = ids[1];
    let mut shown = requests.all_below(slowest);
    shown.sort_unstable();
    RequestFindings {
        port: 80,
        source: "programs",
        clock_offset_ns: 0,
        from_ns: 0,
        to_ns: 3000 * MS,
        span_ns: 3000 * MS,
        discarded: 3,
        notes: Vec::new(),
        requests: ids.len() as u64,
        rate: 0.7,
        latency_mean_ns: 5 * MS,
        latency_p50_ns: 2 * MS,
        latency_p99_ns: 9 * MS,
        latency_max_ns: 9 * MS,
        unassigned: Vec::new(),
        divided: 1,
        slowest: Slowest {
            slice: slowest,
            latency_ns: 9 * MS,
            tiers: tiers.iter().map(own).collect(),
            parts: requests.parts(slowest),
            sketch: Sketch {
                system,
                span: system.span,
                shown,
                tiers: Vec::new(),
                has_condition: false,
                answer: None,
                nearest: None,
                discarded: 3,
                reach: Reach::default(),
                unread_lines: None,
            },
        },
        tiers,
    }
}
