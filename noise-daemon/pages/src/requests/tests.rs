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
fn the_document_has_what_the_page_says() {
    let system = system();
    let json = serde_json::to_value(found(&system)).unwrap();
    assert_eq!(json["tiers"][0]["service"], "db :5432");
    assert_eq!(json["tiers"][0]["states_ns"]["waiting_cpu"], 7 * MS);
    assert_eq!(json["tiers"][0]["culprits"][0]["comm"], "hog");
    assert_eq!(json["slowest"]["parts"][0]["kind"], "reach");
    assert_eq!(json["slowest"]["sketch"]["slices"].as_array().unwrap().len(), 3);
}
