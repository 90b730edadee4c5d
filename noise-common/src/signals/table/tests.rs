//! The table holds together.

use super::*;
use crate::offsets::FIELDS;
use crate::signals::Kind;
use std::collections::BTreeSet;

#[test]
fn table_order_is_the_discriminant() {
    for (index, info) in SIGNALS.iter().enumerate() {
        assert_eq!(info.signal as usize, index);
        assert_eq!(Signal::from_number(index as u32), Some(info.signal));
    }
    assert_eq!(Signal::from_number(SIGNAL_COUNT as u32), None);
}

#[test]
fn names_are_unique_and_texts_are_not_empty() {
    let mut seen = BTreeSet::new();
    for info in &SIGNALS {
        assert!(seen.insert(info.name), "{} twice", info.name);
        assert!(seen.insert(info.metric), "{} twice", info.metric);
        assert!(info.metric.starts_with("noised_"));
        assert!(info.help.len() > 20, "{} has no help", info.name);
        assert!(!info.hooks.is_empty() || !info.optional_hooks.is_empty());
        let suffix = match info.kind {
            Kind::Histogram(_) => "_seconds",
            Kind::Counter => "_total",
        };
        assert!(info.metric.ends_with(suffix), "{}", info.metric);
    }
}

#[test]
fn named_fields_exist() {
    for info in &SIGNALS {
        for field in info.fields {
            assert!(FIELDS.iter().any(|known| known.global == *field), "{field}");
        }
    }
}

#[test]
fn cells_are_laid_out_without_gaps() {
    let mut next = 0;
    for info in &SIGNALS {
        assert_eq!(info.signal.first_cell(), next);
        next += info.storage.cells();
    }
    assert_eq!(next, CELLS_PER_CPU);
}
