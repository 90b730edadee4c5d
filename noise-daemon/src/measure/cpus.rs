//! Which CPUs are measured.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

use crate::procfs;

/// A list of CPUs as the kernel writes it: `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList(BTreeSet<u32>);

/// Largest number of a CPU that a list may hold.
const LARGEST_CPU: u32 = 65_535;

/// Why CPUs cannot be measured.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuError {
    /// This machine has no such CPUs, or they are off.
    #[error("CPU {asked} is not online (online are {online}): choose others with --cpus")]
    Offline {
        /// Those of the asked for.
        asked: CpuList,
        /// What there is.
        online: CpuList,
    },
    /// This process may not run there.
    #[error(
        "this process may not run on CPU {asked} (its cpuset or affinity allows {allowed}): start \
         it in another cpuset, or choose others with --cpus"
    )]
    NotAllowed {
        /// Those of the asked for.
        asked: CpuList,
        /// Where it may run.
        allowed: CpuList,
    },
    /// Not to be told.
    #[error("cannot find out which CPUs there are: {0}")]
    Unknown(String),
}

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

    /// The CPUs that are online.
    ///
    /// # Errors
    /// Where sysfs does not tell.
    pub fn online() -> Result<Self, CpuError> {
        let path = Path::new("/sys/devices/system/cpu/online");
        let text = procfs::text(path)
            .map_err(|error| CpuError::Unknown(format!("{}: {error}", path.display())))?;
        text.trim().parse().map_err(CpuError::Unknown)
    }

    /// The CPUs on which this thread may run.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn allowed() -> Result<Self, CpuError> {
        let set = sched_getaffinity(Pid::from_raw(0))
            .map_err(|error| CpuError::Unknown(error.to_string()))?;
        let cpus = (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false));
        Ok(Self(cpus.filter_map(|cpu| u32::try_from(cpu).ok()).collect()))
    }
}

impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("expected CPUs such as 0-3,8 (up to {LARGEST_CPU})");
        let number = |text: &str| -> Result<u32, String> {
            let cpu = text.trim().parse().map_err(|_| expected())?;
            if cpu <= LARGEST_CPU { Ok(cpu) } else { Err(expected()) }
        };
        let mut cpus = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if first > last {
                return Err(expected());
            }
            cpus.extend(first..=last);
        }
        Ok(Self(cpus))
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

/// The CPUs to measure: those asked for, or all on which this process may run.
///
/// # Errors
/// Names the CPUs that are offline or out of reach; see [`CpuError`].
pub fn choose(asked: Option<&CpuList>) -> Result<CpuList, CpuError> {
    among(asked, &CpuList::online()?, &CpuList::allowed()?)
}

/// The CPUs that kernel threads measure, which this process's cpuset does not bind: those asked for,
/// or all that are online.
///
/// # Errors
/// Names the CPUs that are offline; see [`CpuError`].
pub fn choose_online(asked: Option<&CpuList>) -> Result<CpuList, CpuError> {
    let online = CpuList::online()?;
    among(asked, &online, &online)
}

fn among(
    asked: Option<&CpuList>,
    online: &CpuList,
    allowed: &CpuList,
) -> Result<CpuList, CpuError> {
    let Some(asked) = asked else {
        return Ok(online.iter().filter(|cpu| allowed.contains(*cpu)).collect());
    };
    let offline = asked.without(online);
    if !offline.is_empty() {
        return Err(CpuError::Offline { asked: offline, online: online.clone() });
    }
    let refused = asked.without(allowed);
    if !refused.is_empty() {
        return Err(CpuError::NotAllowed { asked: refused, allowed: allowed.clone() });
    }
    Ok(asked.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> CpuList {
        text.parse().unwrap()
    }

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        assert_eq!(list("0-3,8").iter().collect::<Vec<_>>(), [0, 1, 2, 3, 8]);
        assert_eq!(list("8, 1,0-2").to_string(), "0-2,8");
        assert_eq!(list("0-1").to_string(), "0,1");
        for wrong in ["", "3-1", "a", "1,", "-1", "0-70000", "1-2-3"] {
            assert!(wrong.parse::<CpuList>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn without_a_wish_all_within_reach_are_measured() {
        assert_eq!(among(None, &list("0-3"), &list("1-9")), Ok(list("1-3")));
    }

    #[test]
    fn what_cannot_be_measured_is_named() {
        let error = among(Some(&list("1,5,7")), &list("0-3"), &list("0-9")).unwrap_err();
        assert_eq!(error, CpuError::Offline { asked: list("5,7"), online: list("0-3") });
        let error = among(Some(&list("0,1")), &list("0-3"), &list("1")).unwrap_err();
        assert!(error.to_string().starts_with("this process may not run on CPU 0 "), "{error}");
        assert_eq!(among(Some(&list("1")), &list("0-3"), &list("1")), Ok(list("1")));
    }
}
