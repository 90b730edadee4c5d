//! Counters by label: what subjects that are gone counted stays with the label while others bear it,
//! as an interface that was made anew under its name.

use std::collections::BTreeMap;

use noise_common::signals::Signal;

/// A signal with its label values.
pub type Label = (Signal, Vec<String>);

/// What forgotten subjects left.
#[derive(Debug, Default)]
pub struct Left(BTreeMap<Label, u64>);

impl Left {
    /// Takes what a subject has counted that is forgotten.
    pub fn take(&mut self, label: Label, count: u64) {
        *self.0.entry(label).or_default() += count;
    }

    /// Adds what was left to the labels that others bear; labels that nobody bears any more are
    /// forgotten.
    pub fn add_to(&mut self, counts: &mut BTreeMap<Label, u64>) {
        self.0.retain(|label, left| match counts.get_mut(label) {
            Some(count) => {
                *count += *left;
                true
            }
            None => false,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_keeps_what_its_subjects_counted() {
        let label = |name: &str| (Signal::TcpRetransmit, vec![name.to_owned()]);
        let mut left = Left::default();
        left.take(label("eth0"), 10);
        left.take(label("eth0"), 5);
        left.take(label("eth1"), 7);
        for own in [2, 3] {
            let mut counts = BTreeMap::from([(label("eth0"), own)]);
            left.add_to(&mut counts);
            assert_eq!(counts, BTreeMap::from([(label("eth0"), own + 15)]));
        }
        let mut counts = BTreeMap::from([(label("eth1"), 1)]);
        left.add_to(&mut counts);
        assert_eq!(counts, BTreeMap::from([(label("eth1"), 1)]));
    }
}
