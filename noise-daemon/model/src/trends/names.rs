//! PURE: names that points have, each once, as long as a point has it.

use std::collections::HashMap;
use std::sync::Arc;

use super::NAME_BYTES;

/// A name by its number.
pub(super) type Id = u16;

#[derive(Clone, Debug, Default)]
pub(super) struct TrendNames {
    ids: HashMap<Arc<str>, Id>,
    /// Each with how many have it.
    names: Vec<Option<(Arc<str>, u32)>>,
    free: Vec<Id>,
    text_bytes: usize,
}

impl PartialEq for TrendNames {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names
    }
}

impl TrendNames {
    /// The number of a name that one more has; `None` where there are too many names.
    pub fn take(&mut self, name: &Arc<str>) -> Option<Id> {
        if let Some(id) = self.ids.get(name) {
            let (_, users) = self.names.get_mut(usize::from(*id))?.as_mut()?;
            *users += 1;
            return Some(*id);
        }
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                let id = Id::try_from(self.names.len()).ok()?;
                self.names.push(None);
                id
            }
        };
        *self.names.get_mut(usize::from(id))? = Some((Arc::clone(name), 1));
        self.ids.insert(Arc::clone(name), id);
        self.text_bytes += name.len();
        Some(id)
    }

    /// One less has it.
    pub fn release(&mut self, id: Id) {
        let Some(slot) = self.names.get_mut(usize::from(id)) else { return };
        let Some((name, users)) = slot else { return };
        *users = users.saturating_sub(1);
        if *users == 0 {
            self.text_bytes -= name.len();
            self.ids.remove(name);
            *slot = None;
            self.free.push(id);
        }
    }

    pub fn id(&self, name: &str) -> Option<Id> {
        self.ids.get(name).copied()
    }

    /// As it is written: by number, without what is free.
    pub fn all(&self) -> impl Iterator<Item = (Id, &Arc<str>)> {
        let named = |(id, slot): (Id, &'_ Option<(Arc<str>, u32)>)| slot.is_some().then_some(id);
        let ids: Vec<Id> = (0..).zip(&self.names).filter_map(named).collect();
        ids.into_iter().filter_map(|id| Some((id, &self.names.get(usize::from(id))?.as_ref()?.0)))
    }

    pub fn bytes(&self) -> usize {
        self.text_bytes + self.names.len() * NAME_BYTES
    }
}
