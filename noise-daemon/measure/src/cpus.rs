//! Which CPUs are measured.

use std::path::Path;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use noise_system::procfs;
use noise_text::cpulist::CpuList;

/// Why CPUs cannot be measured.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuError {
    /// This machine has no such CPUs, or they are off.
    #[error("CPU {asked} is not online (online are {online}): choose others with --cpus")]
    Offline {
        /// The given CPUs that are offline.
        asked: CpuList,
        online: CpuList,
    },
    /// This process may not run there.
    #[error(
        "this process may not run on CPU {asked} (its cpuset or affinity allows {allowed}): start \
         it in another cpuset, or choose others with --cpus"
    )]
    NotAllowed {
        /// The given CPUs that are out of reach.
        asked: CpuList,
        /// Where it may run.
        allowed: CpuList,
    },
    /// The system does not say.
    #[error("cannot find out which CPUs there are: {0}")]
    Unknown(String),
}

/// The CPUs that are online.
/// Errors: where sysfs cannot be read.
pub fn online() -> Result<CpuList, CpuError> {
    let path = Path::new("/sys/devices/system/cpu/online");
    let text = procfs::text(path)
        .map_err(|error| CpuError::Unknown(format!("{}: {error}", path.display())))?;
    text.trim().parse().map_err(CpuError::Unknown)
}

/// The CPUs on which this thread may run.
/// Errors: where the kernel refuses to say.
pub fn allowed() -> Result<CpuList, CpuError> {
    let set = sched_getaffinity(Pid::from_raw(0))
        .map_err(|error| CpuError::Unknown(error.to_string()))?;
    let cpus = (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false));
    Ok(cpus.filter_map(|cpu| u32::try_from(cpu).ok()).collect())
}

/// The CPUs to measure: those that were given, or all on which this process may run.
/// Errors name the CPUs that are offline or out of reach; see [`CpuError`].
pub fn choose(asked: Option<&CpuList>) -> Result<CpuList, CpuError> {
    among(asked, &online()?, &allowed()?)
}

/// The CPUs that kernel threads measure, which this process's cpuset does not bind: those that
/// were given, or all that are online.
/// Errors name the CPUs that are offline; see [`CpuError`].
pub fn choose_online(asked: Option<&CpuList>) -> Result<CpuList, CpuError> {
    let online = online()?;
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
