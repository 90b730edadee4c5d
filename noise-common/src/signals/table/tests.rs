//! The table holds together.

use super::*;
use crate::charge::{Cause, Resource};
use crate::offsets::FIELDS;
use crate::remedy::against;
use crate::shown::{Shown, Stage};
use crate::signals::{ExportKind, Storage};
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
        assert!(!info.name.is_empty(), "{:?} has no name", info.signal);
        assert!(seen.insert(info.name), "{} twice", info.name);
        assert!(seen.insert(info.metric), "{} twice", info.metric);
        assert!(info.metric.starts_with("noised_"));
        assert!(info.help.len() > 20, "{} has no help", info.name);
        assert!(info.between.len() > 20, "{} has no row", info.name);
        assert_eq!(info.labels.len(), info.subject.labels(), "{}", info.name);
        assert!(!info.hooks.is_empty() || !info.optional_hooks.is_empty());
        let suffix = match info.kind {
            ExportKind::Histogram(_) => "_seconds",
            ExportKind::Counter => "_total",
        };
        assert!(info.metric.ends_with(suffix), "{}", info.metric);
        let counts = matches!(info.storage, Storage::Switches | Storage::KeyedCounter);
        assert_eq!(counts, !info.is_delay(), "{}", info.name);
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
fn what_a_row_says_of_a_signal_agrees() {
    for info in &SIGNALS {
        let name = info.name;
        assert!(info.is_delay() || !info.watched && info.resource.is_none(), "{name}");
        assert!(info.cause.is_some() || info.interrupts.is_none(), "{name}");
        let rows: BTreeSet<_> = info.remedies.iter().map(|(cause, _)| *cause).collect();
        assert_eq!(rows.len(), info.remedies.len(), "{name} has a cause twice");
        for (cause, remedies) in info.remedies {
            // A row comes before what helps whatever is delayed, so it has to say something else.
            let is_known = against(*cause) == *remedies || *cause == Cause::Untracked;
            assert!(!is_known && !remedies.is_empty(), "{name}: {cause:?}");
        }
        if let Some(whole) = info.part_of.map(Signal::info) {
            assert!(whole.part_of.is_none() && whole.resource == info.resource, "{name}");
        }
        let place = info.resource.and_then(Resource::place);
        assert!(place.is_none_or(|place| place == info.subject), "{name}");
        if let Shown::Way { way, stage } = info.shown {
            assert_eq!(stage == Stage::Events, !info.is_delay(), "{name}");
            let own = |other: &SignalInfo| other.shown == Shown::Way { way, stage };
            assert_eq!(SIGNALS.iter().filter(|other| own(other)).count(), 1, "{name}");
        }
        if let Shown::Source { kind } | Shown::Before { kind } = info.shown {
            let shown = |shown| SIGNALS.iter().filter(|other| other.shown == shown).count();
            assert_eq!(shown(Shown::Source { kind }), 1, "{name}");
            assert!(shown(Shown::Before { kind }) <= 1, "{name}");
        }
    }
    let read: BTreeSet<_> = in_reading_order().map(|info| info.signal).collect();
    assert_eq!((read.len(), in_reading_order().count()), (SIGNAL_COUNT, SIGNAL_COUNT));
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
