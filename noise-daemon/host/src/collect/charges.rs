//! Who was charged with what: the programs' tables and hash, added up under the labels of those
//! who they are about.
//!
//! What is read is compared with the last reading, and what came since then goes to the labels that
//! victim and culprit have now. So totals by label never run backwards when an entry of the
//! programs is freed, or when two cgroups that bear one label come and go. What is charged before
//! the name of a new cgroup is known is kept back for it, which takes about a second.
//!
//! What this process charges itself ([`Charging`]) is added up under the same labels.
//!
//! An entry is freed, for others to use, when one whom it is about is gone and it has not changed
//! for [`QUIET_NS`]. Labels that no entry is about any more disappear from the sample, with what
//! they had; should they come again after a sample without them, they begin at 0.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use noise_common::charge::{
    CHARGE_CAUSES, CHARGE_SLOTS, Cause, ChargeKey, Charged, RESOURCES, Resource, UNKNOWN,
};
use noise_common::event::Hash;
use noise_common::subject::SubjectKind;
use noise_model::labels::{GONE, OTHER};
use noise_model::{Amount as _, Bounded, Foldable, Interference};
use slab::Slab;

use super::hashed::Hashed;
use super::old_parts::Charging;
use super::states::{CpuStates, sum};
use crate::resolve::{Entity, Parties, SubjectNames};

/// Most labels that charges are kept under; the others count for [`OTHER`].
const PAIRS: usize = 4_096;
/// How long an entry must be unchanged to be freed, ns.
const QUIET_NS: u64 = 5_000_000_000;
/// Entries of the hash from which on those of the gone are freed early.
const CROWDED_HASH: usize = 512;
/// Used entries of one CPU's table from which on those of the gone are freed early.
const CROWDED_TABLE: usize = CHARGE_SLOTS * 3 / 4;

/// Victims with their culprits that this process charges; more are of unknown cgroups.
const MOST_ADDED: usize = 16_384;

const UNBOUND: usize = usize::MAX;

/// An entry of the programs as it was read last.
#[derive(Clone, Copy, Debug)]
struct MapEntry {
    last: Charged,
    row: usize,
    changed_ns: u64,
}

const NEW: MapEntry = MapEntry { last: Charged { ns: 0, count: 0 }, row: UNBOUND, changed_ns: 0 };

/// What a row is about, in the order of the sample.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RowLabel {
    resource: Resource,
    cause: Cause,
    parties: Parties,
}

impl RowLabel {
    /// The label of the row that adds up all folded pairs of a resource and cause.
    fn others(resource: Resource, cause: Cause) -> Self {
        let other: Arc<str> = Arc::from(OTHER);
        let parties = Parties { place: "".into(), victim: Arc::clone(&other), culprit: other };
        Self { resource, cause, parties }
    }
}

impl Foldable for RowLabel {
    fn rest(&self) -> Self {
        Self::others(self.resource, self.cause)
    }
}

#[derive(Debug)]
struct LabelCharges {
    label: RowLabel,
    charged: Charged,
    /// Entries that are about it.
    entries: usize,
}

#[derive(Debug)]
struct LabelChargeTable {
    rows: Slab<LabelCharges>,
    order: Bounded<RowLabel, usize>,
    /// What labels had that no entry is about since the last sample.
    left: BTreeMap<RowLabel, Charged>,
}

impl LabelChargeTable {
    /// One more entry is about a label, or about the rest where there is no room for it.
    fn bind(&mut self, label: RowLabel) -> usize {
        let Self { rows, order, left } = self;
        let row = *order.value_with(label, |label| {
            let charged = left.remove(label).unwrap_or_default();
            rows.insert(LabelCharges { label: label.clone(), charged, entries: 0 })
        });
        if let Some(known) = rows.get_mut(row) {
            known.entries += 1;
        }
        row
    }

    /// One entry less is about it.
    fn unbind(&mut self, row: usize) {
        let Some(known) = self.rows.get_mut(row) else { return };
        known.entries -= 1;
        if known.entries == 0 {
            let Some(LabelCharges { label, charged, .. }) = self.rows.try_remove(row) else {
                return;
            };
            self.order.remove(&label);
            self.left.insert(label, charged);
        }
    }

    fn add(&mut self, row: usize, charged: Charged) {
        if let Some(row) = self.rows.get_mut(row) {
            row.charged.add(&charged);
        }
    }

    fn label(&self, row: usize) -> Option<&RowLabel> {
        self.rows.get(row).map(|row| &row.label)
    }
}

/// The charges of all CPUs.
pub struct Charges {
    rows: LabelChargeTable,
    /// By CPU and place in its table.
    slots: Vec<MapEntry>,
    hashed: HashMap<ChargeKey, MapEntry>,
    /// What the programs charged by resource and cause alone.
    unplaced: Vec<MapEntry>,
    hash: Option<Hashed<ChargeKey, Charged>>,
    /// What this process charged, since attach.
    added: HashMap<ChargeKey, (Charged, MapEntry)>,
    crowded: bool,
    folded: u64,
}

/// Names, and the time at which they are looked up.
pub struct Asked<'a> {
    pub names: &'a mut SubjectNames,
    /// Now, for the names.
    pub at: Instant,
    pub at_ns: u64,
}

impl Charges {
    /// Those of the programs' tables and of the hash, where the object has one.
    pub fn new(hash: Option<Hashed<ChargeKey, Charged>>) -> Self {
        Self {
            rows: LabelChargeTable {
                rows: Slab::new(),
                order: Bounded::new(PAIRS),
                left: BTreeMap::new(),
            },
            slots: Vec::new(),
            hashed: HashMap::new(),
            unplaced: Vec::new(),
            hash,
            added: HashMap::new(),
            crowded: false,
            folded: 0,
        }
    }

    /// Whether entries run short, and a sweep should come early.
    pub fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// How often a label was counted for [`OTHER`] because there were too many, and how often a
    /// program charged by cause alone because there was no room for the pair.
    pub fn folded(&self) -> u64 {
        self.unplaced.iter().fold(self.folded, |sum, entry| sum.wrapping_add(entry.last.count))
    }

    pub fn read(&mut self, states: &CpuStates, asked: &mut Asked<'_>) {
        let Self { rows, slots, hashed, unplaced, hash, added, folded, .. } = self;
        let mut binder = Binder { rows, asked, folded };
        slots.resize(states.len() * CHARGE_SLOTS, NEW);
        let mut fullest = 0;
        for (cpu, entries) in slots.chunks_exact_mut(CHARGE_SLOTS).enumerate() {
            let mut used = 0;
            for (index, entry) in entries.iter_mut().enumerate() {
                let Some(charged) = states.charged(cpu, index) else { continue };
                used += 1;
                if charged != entry.last || entry.row == UNBOUND {
                    let key = || states.charge_key(cpu, index);
                    binder.update(entry, charged, key);
                }
            }
            fullest = fullest.max(used);
        }
        if let Some(hash) = hash.as_mut().filter(|_| states.uses(Hash::Charges)) {
            let read = hash.read(|key, by_cpu| {
                let entry = hashed.entry(key).or_insert(NEW);
                binder.update(entry, sum(by_cpu.iter().copied()), || Some(key));
            });
            if let Err(error) = read {
                tracing::debug!(%error, "cannot read the hash of charges");
            }
        }
        for (key, (charged, entry)) in added.iter_mut() {
            binder.update(entry, *charged, || Some(*key));
        }
        unplaced.resize(RESOURCES.len() * CHARGE_CAUSES.len(), NEW);
        let kinds = RESOURCES
            .iter()
            .flat_map(|resource| CHARGE_CAUSES.iter().map(move |cause| (*resource, *cause)));
        for (entry, (resource, cause)) in unplaced.iter_mut().zip(kinds) {
            let charged = states.unplaced(resource, cause);
            if charged == entry.last {
                continue;
            }
            if entry.row == UNBOUND {
                entry.row = binder.rows.bind(RowLabel::others(resource, cause));
            }
            binder.add(entry, charged);
        }
        self.rows.left = BTreeMap::new();
        self.crowded = fullest >= CROWDED_TABLE || self.hashed.len() >= CROWDED_HASH;
    }

    /// Charges at these interfaces, which have other names now, go to other labels from now on. What
    /// there was stays with the label that it has.
    pub fn rename(&mut self, states: &CpuStates, interfaces: &BTreeSet<u64>) {
        let is_there = |key: &ChargeKey| {
            key.resource().and_then(Resource::place) == Some(SubjectKind::Interface)
                && interfaces.contains(&u64::from(key.place))
        };
        let Self { rows, slots, hashed, .. } = self;
        // One that is bound to nothing stays so.
        let mut unbind =
            |entry: &mut MapEntry| rows.unbind(std::mem::replace(&mut entry.row, UNBOUND));
        for (cpu, entries) in slots.chunks_exact_mut(CHARGE_SLOTS).enumerate() {
            for (index, entry) in entries.iter_mut().enumerate() {
                if states.charge_key(cpu, index).as_ref().is_some_and(is_there) {
                    unbind(entry);
                }
            }
        }
        hashed.iter_mut().filter(|(key, _)| is_there(key)).for_each(|(_, entry)| unbind(entry));
    }

    /// Every label's charges, in order.
    pub fn totals(&self) -> Vec<Interference> {
        let rows = self.rows.order.iter().filter_map(|(_, row)| self.rows.rows.get(*row));
        rows.map(|LabelCharges { label, charged, .. }| Interference {
            resource: label.resource,
            cause: label.cause,
            place: Arc::clone(&label.parties.place),
            victim: Arc::clone(&label.parties.victim),
            culprit: Arc::clone(&label.parties.culprit),
            charged: *charged,
        })
        .collect()
    }

    /// Frees the entries of those who are gone, and looks up names again that were not found.
    pub fn sweep(&mut self, states: &CpuStates, asked: &mut Asked<'_>) {
        let Self { rows, slots, hashed, hash, added, .. } = self;
        let mut gone: HashMap<Entity, bool> = HashMap::new();
        for (cpu, entries) in slots.chunks_exact_mut(CHARGE_SLOTS).enumerate() {
            for (index, entry) in entries.iter_mut().enumerate() {
                if entry.row == UNBOUND {
                    continue;
                }
                let Some(key) = states.charge_key(cpu, index) else { continue };
                if is_over(entry, &key, asked, &mut gone)
                    && states.free_charge(cpu, index, entry.last)
                {
                    rows.unbind(entry.row);
                    *entry = NEW;
                } else {
                    ask_again(rows, entry);
                }
            }
        }
        hashed.retain(|key, entry| {
            if entry.row == UNBOUND {
                return true;
            }
            if !is_over(entry, key, asked, &mut gone) {
                ask_again(rows, entry);
                return true;
            }
            if let Some(hash) = hash {
                hash.remove(key);
            }
            rows.unbind(entry.row);
            false
        });
        added.retain(|key, (_, entry)| {
            let is_over = entry.row != UNBOUND && is_over(entry, key, asked, &mut gone);
            if is_over {
                rows.unbind(entry.row);
            } else if entry.row != UNBOUND {
                ask_again(rows, entry);
            }
            !is_over
        });
        for (entity, _) in gone.iter().filter(|(_, gone)| **gone) {
            if let Entity::Place(signal, subject) = entity {
                asked.names.forget(*signal, *subject);
            }
        }
    }
}

impl Charging for Charges {
    fn charge(&mut self, key: ChargeKey, ns: u64) {
        let is_room = self.added.len() < MOST_ADDED || self.added.contains_key(&key);
        let key =
            if is_room { key } else { ChargeKey { victim: UNKNOWN, culprit: UNKNOWN, ..key } };
        let (charged, _) = self.added.entry(key).or_insert((Charged::default(), NEW));
        charged.add(&Charged { ns, count: 1 });
    }
}

/// Whether an entry can grow no more: one whom it is about is gone.
fn is_over(
    entry: &MapEntry,
    key: &ChargeKey,
    asked: &mut Asked<'_>,
    gone: &mut HashMap<Entity, bool>,
) -> bool {
    if entry.changed_ns.saturating_add(QUIET_NS) > asked.at_ns {
        return false;
    }
    let (Some(resource), Some(cause)) = (key.resource(), key.cause()) else { return false };
    SubjectNames::entities(key, resource, cause)
        .into_iter()
        .any(|entity| *gone.entry(entity).or_insert_with(|| asked.names.is_gone(entity)))
}

/// Gives up a label that only says that a name was not found.
fn ask_again(rows: &mut LabelChargeTable, entry: &mut MapEntry) {
    let nameless = rows
        .label(entry.row)
        .is_some_and(|label| &*label.parties.victim == GONE || &*label.parties.culprit == GONE);
    if nameless {
        rows.unbind(entry.row);
        entry.row = UNBOUND;
    }
}

/// Finds the label that an entry is about, and adds to it.
struct Binder<'a, 'b> {
    rows: &'a mut LabelChargeTable,
    asked: &'a mut Asked<'b>,
    folded: &'a mut u64,
}

impl Binder<'_, '_> {
    fn update(
        &mut self,
        entry: &mut MapEntry,
        charged: Charged,
        key: impl FnOnce() -> Option<ChargeKey>,
    ) {
        if entry.row == UNBOUND {
            let Some(row) = key().and_then(|key| self.bind(&key)) else { return };
            entry.row = row;
        }
        if charged != entry.last {
            self.add(entry, charged);
        }
    }

    fn add(&mut self, entry: &mut MapEntry, charged: Charged) {
        let delta = charged.since(&entry.last);
        self.rows.add(entry.row, delta);
        entry.last = charged;
        entry.changed_ns = self.asked.at_ns;
    }

    fn bind(&mut self, key: &ChargeKey) -> Option<usize> {
        let (resource, cause) = (key.resource()?, key.cause()?);
        let parties = self.asked.names.parties(key, resource, cause, self.asked.at)?;
        let label = RowLabel { resource, cause, parties };
        *self.folded += u64::from(!self.rows.order.has_room(&label));
        Some(self.rows.bind(label))
    }
}

#[cfg(test)]
mod tests;
