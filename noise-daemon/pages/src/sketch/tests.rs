//! The document and the page of sketches.

use noise_sketches::cluster::cluster;
use noise_sketches::document::Nearest;
use noise_sketches::query::Query;
use noise_sketches::system::System;
use noise_sketches::tallies::UNKNOWN;
use noise_sketches::tiers::{self, probability, tiers};
use noise_trace::reach::Reach;

use super::made::system;
use super::*;

fn document(system: &System, given: &str, of: Option<&str>, by: tiers::By) -> Vec<String> {
    let given: Option<Query> = (!given.is_empty()).then(|| given.parse().unwrap());
    let keeps =
        |id: &SliceId| given.as_ref().is_none_or(|given| given.of(system).holds(*id) == Some(true));
    let shown: Vec<SliceId> = (0..system.slices.len() as SliceId).filter(keeps).collect();
    let has_condition = given.is_some();
    let answer = of.map(|of| {
        let of: Query = of.parse().unwrap();
        let (all, groups) = probability(system, &shown, &of, Some(by));
        Answer { given: given.map(|given| given.to_string()), of: of.to_string(), all, groups }
    });
    let tiers = tiers(system, &shown, system.span);
    let document = SketchesDocument {
        system,
        span: system.span,
        shown,
        tiers,
        has_condition,
        answer,
        nearest: nearest(system),
        discarded: 0,
        reach: Reach::default(),
        unread_lines: None,
    };
    vec![page(&document, 120).text(false), serde_json::to_string_pretty(&document).unwrap()]
}

fn nearest(system: &System) -> Option<Nearest> {
    let to = system.whole(0)?;
    let sketches = system.wholes.nearest(to, system.wholes.all.iter(), 10);
    Some(Nearest { to: to.first, sketches })
}

#[test]
fn tiers_and_the_slowest_request_are_shown_as_agreed() {
    let mut system = system();
    cluster(&mut system).unwrap();
    let [page, json] = document(&system, "", None, tiers::By::Marker).try_into().unwrap();
    insta::assert_snapshot!("page", page);
    insta::assert_snapshot!("json", json);
}

#[test]
fn questions_are_answered_as_agreed() {
    let system = system();
    let shown =
        document(&system, "marker = tcp_receive", Some("latency > 5ms"), tiers::By::Process);
    insta::assert_snapshot!("answer", shown[0]);
    let mut system = system;
    system.slices[0].profile = UNKNOWN;
    let page = document(&system, "", Some("calls > 1000"), tiers::By::Process).remove(0);
    let answer =
        "P(calls > 1000) = 0.0000: 0 of 7 slices, without 1 whose system calls are not known\n";
    assert!(page.starts_with(answer), "{page}");
}

#[test]
fn what_the_slice_is_whose_tree_is_shown_is_said() {
    let mut system = system();
    let shown = |system: &System, given: &str| {
        let page = document(system, given, None, tiers::By::Marker).remove(0);
        let line = page.lines().find(|line| line.starts_with("The ")).unwrap();
        let (what, rest) = line.split_once(", slice ").unwrap();
        format!("{what}:{}", rest.split_once(':').unwrap().1)
    };
    // What the database did was caused, and waited for nothing.
    let db = "process = db";
    let slowest = shown(&system, db);
    assert_eq!(slowest, "The slowest request: 8.000 ms from 0.011200 s on, 1 slice.");
    system.slices.iter_mut().for_each(|slice| slice.cause = NONE);
    assert!(shown(&system, db).starts_with("The slowest request that nothing else caused: 8.000 "));
    system.slices.iter_mut().for_each(|slice| slice.ended = Ended::Implicit);
    assert!(shown(&system, db).starts_with("The longest slice: 8.000 "));
}

#[test]
fn of_one_slice_no_half_is_said() {
    let given = "process = db and latency > 5ms";
    let page = document(&system(), given, Some("port = 80"), tiers::By::Marker).remove(0);
    assert!(page.contains(": 0 of 1 slice\n"), "{page}");
    let alone = "has 100.0 % of all true latency: its only slice takes 8.000 ms, with a true latency of 8.000 ms.\n";
    assert!(page.contains(alone) && page.contains(" s, 1 slice, 1 sketch; all times"), "{page}");
}

#[test]
fn where_there_is_no_slice_that_is_said() {
    let page = document(&System::default(), "", None, tiers::By::Marker).remove(0);
    assert!(page.starts_with("No slice is known"), "{page}");
    let page = document(&system(), "process = web", None, tiers::By::Marker).remove(0);
    assert!(page.starts_with("None of the 8 slices fulfils the condition (--where) in "), "{page}");
    let system = system();
    let none = SketchesDocument {
        system: &system,
        span: system.span,
        shown: Vec::new(),
        tiers: Vec::new(),
        has_condition: false,
        answer: None,
        nearest: None,
        discarded: 0,
        reach: Reach::default(),
        unread_lines: None,
    };
    let page = super::page(&none, 120).text(false);
    assert!(
        page.starts_with("None of the 8 slices lies in the part that is asked for.\n"),
        "{page}"
    );
}
