//! The page of made requests.

use super::made::{MS, found};
use super::*;
use crate::sketch::made::system;

#[test]
fn the_slow_tier_and_whom_it_waits_for_are_said_first() {
    let system = system();
    let page = page(&found(&system), 120).text(false);
    let sentences = page.replace('\n', " ");
    assert!(sentences.contains("db :5432 has 75.4 % of their time"), "{page}");
    assert!(
        sentences.contains("it waited for a CPU, 7.00 ms of it for hog 99 of batch.service"),
        "{page}"
    );
    insta::assert_snapshot!(page);
    let mut system = system;
    system.counts.left_out = 3;
    let page = super::page(&found(&system), 120).text(false);
    let sentence = "\n3 slices more are left out; ask for a shorter time with --next\n";
    assert!(page.contains(sentence), "{page}");
}

#[test]
fn what_cannot_be_assigned_is_in_the_first_sentence() {
    let system = system();
    let mut found = found(&system);
    let service = found.tiers[0].link.service;
    let port = Some(5432);
    let calls = |unassigned| UnassignedCalls { service, port, calls: 400, unassigned };
    found.unassigned = vec![calls(200)];
    let told = page(&found, 120).text(false).replace('\n', " ");
    let sentence =
        "99 % within 9.00 ms; 50.0 % of the calls to :5432 cannot be assigned to a request. ";
    assert!(told.contains(sentence), "{told}");
    // Less than what counts is not worth it.
    found.unassigned = vec![calls(1)];
    let told = page(&found, 120).text(false);
    assert!(!told.contains("assigned"), "{told}");
}

#[test]
fn the_document_has_what_the_page_says() {
    let system = system();
    let json = serde_json::to_value(found(&system)).unwrap();
    assert_eq!(json["tiers"][0]["service"], "db :5432");
    assert_eq!(json["tiers"][0]["states_ns"]["waiting_cpu"], 7 * MS);
    assert_eq!(json["tiers"][0]["culprits"][0]["comm"], "hog");
    assert_eq!(json["slowest"]["parts"][0]["kind"], "reach");
    assert_eq!(json["slowest"]["sketch"]["slices"].as_array().unwrap().len(), 3);
}
