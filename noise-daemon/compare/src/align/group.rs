//! Rows that are aligned with each other, and how two groups of them are put side by side.

use super::AlignError;

/// Where a row has a gap.
pub const GAP: u32 = u32::MAX;

/// What a column of two groups side by side is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A column of each.
    Both,
    /// A column of the first, and gaps.
    First,
    /// Gaps, and a column of the second.
    Second,
}

/// How two groups are put side by side.
pub type Ops = Vec<Op>;

/// Rows of equal length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Which sequence each row is of.
    pub members: Vec<usize>,
    pub rows: Vec<Vec<u32>>,
}

impl Group {
    pub fn single(member: usize, sequence: &[u32]) -> Self {
        Self { members: vec![member], rows: vec![sequence.to_vec()] }
    }

    /// How many columns there are.
    pub fn columns(&self) -> usize {
        self.rows.first().map_or(0, Vec::len)
    }

    /// The row of a sequence.
    pub fn row(&self, member: usize) -> Option<&[u32]> {
        let place = self.members.iter().position(|other| *other == member)?;
        self.rows.get(place).map(Vec::as_slice)
    }

    /// Both groups side by side.
    /// Errors: more columns than `max_columns`.
    pub fn join(a: &Self, b: &Self, ops: &Ops, max_columns: usize) -> Result<Self, AlignError> {
        if ops.len() > max_columns {
            return Err(AlignError::TooManyColumns { columns: max_columns });
        }
        let stretched = |group: &Self, gap: Op| {
            group.rows.iter().map(|row| stretch(row, ops, gap)).collect::<Vec<_>>()
        };
        let members = [a.members.as_slice(), &b.members].concat();
        let rows = [stretched(a, Op::Second), stretched(b, Op::First)].concat();
        Ok(Self { members, rows })
    }

    /// The rows of the members that `is_first` names and the others, and how both are put side by side here.
    /// Neither has columns of gaps alone.
    pub fn split(&self, is_first: &[bool]) -> (Self, Self, Ops) {
        let mut sides = [Self::default(), Self::default()];
        let mut is_used = [vec![false; self.columns()], vec![false; self.columns()]];
        for (member, row) in self.members.iter().zip(&self.rows) {
            let side = usize::from(!is_first.get(*member).copied().unwrap_or(false));
            for (is_used, symbol) in is_used[side].iter_mut().zip(row) {
                *is_used |= *symbol != GAP;
            }
        }
        for (member, row) in self.members.iter().zip(&self.rows) {
            let side = usize::from(!is_first.get(*member).copied().unwrap_or(false));
            let used = row.iter().zip(&is_used[side]).filter(|(_, is_used)| **is_used);
            sides[side].members.push(*member);
            sides[side].rows.push(used.map(|(symbol, _)| *symbol).collect());
        }
        let op = |(first, second): (&bool, &bool)| match (first, second) {
            (true, true) => Some(Op::Both),
            (true, false) => Some(Op::First),
            (false, true) => Some(Op::Second),
            (false, false) => None,
        };
        let ops = is_used[0].iter().zip(&is_used[1]).filter_map(op).collect();
        let [first, second] = sides;
        (first, second, ops)
    }
}

/// A row with a gap wherever an op is `gap`.
fn stretch(row: &[u32], ops: &Ops, gap: Op) -> Vec<u32> {
    let mut symbols = row.iter().copied();
    ops.iter().map(|op| if *op == gap { GAP } else { symbols.next().unwrap_or(GAP) }).collect()
}

#[cfg(test)]
mod tests {
    use super::{GAP, Group, Op};

    #[test]
    fn groups_are_joined_and_split() {
        let a = Group { members: vec![0, 2], rows: vec![vec![1, 2, 3], vec![1, GAP, 3]] };
        let b = Group::single(1, &[1, 3, 4]);
        let ops = vec![Op::Both, Op::First, Op::Both, Op::Second];
        let both = Group::join(&a, &b, &ops, 4).unwrap();
        assert_eq!(both.members, [0, 2, 1]);
        assert_eq!(both.rows, [[1, 2, 3, GAP], [1, GAP, 3, GAP], [1, GAP, 3, 4]]);
        assert_eq!(both.split(&[true, false, true]), (a.clone(), b.clone(), ops.clone()));
        assert!(Group::join(&a, &b, &ops, 3).is_err());
        // Without the first row its second column is none of the others'.
        let (first, rest, ops) = both.split(&[true, false, false]);
        assert_eq!(first.rows, [[1, 2, 3]]);
        assert_eq!(rest.rows, [[1, 3, GAP], [1, 3, 4]]);
        assert_eq!(ops, [Op::Both, Op::First, Op::Both, Op::Second]);
    }
}
