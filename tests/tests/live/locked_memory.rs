//! The limit on locked memory, to which kernels before 5.11 charge maps.

use std::fs;

use anyhow::{Result, bail, ensure};
use noise_tests::bpf;
use noise_tests::http::get;

use crate::faults::starts::{Start, limit, start};
use crate::lifecycle::ensure_refused_in_a_line;
use crate::{Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("the_flight_recorder_takes_what_is_left", the_flight_recorder_takes_what_is_left)];

/// CAP_SYS_RESOURCE of Linux's `uapi/linux/capability.h`: with it, a process lifts its limits.
const CAP_SYS_RESOURCE: libc::c_ulong = 24;

/// With less than the rest needs, a start is refused.
fn the_flight_recorder_takes_what_is_left() -> Result<()> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    if (numbers.next(), numbers.next()) >= (Some(5), Some(11)) {
        let reason = format!("Linux {} charges maps to no limit", release.trim());
        bail!(Impossible(reason));
    }
    let before = bpf::program_ids()?;
    let (mut refused, mut shortened, mut whole) = (0, 0, 0);
    for mebibytes in [1_u64, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 64] {
        let outcome = start(&[], move || {
            // SAFETY: prctl is async-signal-safe and touches no memory here.
            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, CAP_SYS_RESOURCE) };
            limit(libc::RLIMIT_MEMLOCK, mebibytes << 20)
        })?;
        match outcome {
            Start::Ended(outcome) => {
                println!("{mebibytes} MiB: {}", outcome.stderr.trim());
                ensure!(shortened + whole == 0, "{mebibytes} MiB are refused, less was enough");
                ensure_refused_in_a_line(&outcome, 1, &["locked memory", "LimitMEMLOCK"])?;
                refused += 1;
            }
            Start::Ready(mut process, address) => {
                let page = get(address, "/metrics", &[])?;
                ensure!(page.status == 200, "{mebibytes} MiB: {}", page.status);
                process.signal(libc::SIGTERM)?;
                ensure!(process.wait()?.success(), "{}", process.stderr()?);
                let stderr = process.stderr()?;
                println!("{mebibytes} MiB: works: {stderr}");
                let is_short = stderr.contains("flight recorder") && stderr.contains("ulimit -l");
                (shortened, whole) =
                    (shortened + u32::from(is_short), whole + u32::from(!is_short));
            }
        }
        bpf::ensure_none_left(&before)?;
    }
    println!("{refused} limits refused, {shortened} with less of a flight recorder, {whole} whole");
    ensure!(refused > 0 && shortened > 0 && whole > 0, "the limits do not separate the three");
    Ok(())
}
