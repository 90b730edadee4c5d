//! PURE: lists of CPUs as the kernel writes them: `0-3,8`.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A list of CPUs as the kernel writes it: `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList(BTreeSet<u32>);

/// Largest number of a CPU that a list may hold; larger than that of any kernel.
const LARGEST_CPU: u32 = 65_535;

impl CpuList {
    /// The CPUs, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a CPU is among them.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// Those of this list that are not in another.
    pub fn without(&self, others: &Self) -> Self {
        Self(self.0.difference(&others.0).copied().collect())
    }

    /// What a file of the kernel says; of what makes no sense there (`(null)`), nothing.
    pub fn of_kernel(text: &str) -> Self {
        Self(text.split(',').filter_map(range).flatten().collect())
    }
}

impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

/// A number, or two with a dash between.
fn range(part: &str) -> Option<RangeInclusive<u32>> {
    let number = |text: &str| text.trim().parse().ok().filter(|cpu: &u32| *cpu <= LARGEST_CPU);
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some(first..=last)
}

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
        let ranges =
            ranges.ok_or_else(|| format!("expected CPUs such as 0-3,8 (up to {LARGEST_CPU})"))?;
        Ok(Self(ranges.into_iter().flatten().collect()))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut cpus = self.iter().peekable();
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if(|next| *next == last + 1) {
                last = next;
            }
            match last - first {
                0 => write!(formatter, "{separator}{first}")?,
                1 => write!(formatter, "{separator}{first},{last}")?,
                _ => write!(formatter, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::*;

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        let list = |text: &str| text.parse::<CpuList>().unwrap();
        assert_eq!(list("0-3,8").iter().collect::<Vec<_>>(), [0, 1, 2, 3, 8]);
        assert_eq!(list("8, 1,0-2").to_string(), "0-2,8");
        assert_eq!(list("0-1").to_string(), "0,1");
        for wrong in ["", "3-1", "a", "1,", "-1", "0-70000", "1-2-3"] {
            assert!(wrong.parse::<CpuList>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn files_that_make_no_sense_are_empty() {
        for text in ["", "\n", "(null)", "a-b", "3-1", "0-4294967295", "-", ",,"] {
            assert!(CpuList::of_kernel(text).is_empty(), "{text}");
        }
        assert_eq!(CpuList::of_kernel("1,x,3\n"), CpuList::from_iter([1, 3]));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(cpus: Vec<u16>) {
            let list: CpuList = cpus.into_iter().map(u32::from).collect();
            assert_eq!(CpuList::of_kernel(&list.to_string()), list);
            if !list.is_empty() {
                assert_eq!(list.to_string().parse(), Ok(list));
            }
        }

        #[test]
        fn what_is_a_list_is_the_same_to_both_readers(text in any::<String>()) {
            if let Ok(list) = text.parse::<CpuList>() {
                assert_eq!(CpuList::of_kernel(&text), list);
            }
        }
    }
}
