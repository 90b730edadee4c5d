//! What a daemon tells a member of its socket's group of a victim beside events: what is usual, and what its quota
//! took of the last seconds. And the picture of it for Perfetto.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use flate2::read::ZlibDecoder;
use noise_tests::daemon::{Outcome, Socketed, run};
use noise_tests::group::{Group, Hierarchy};
use noise_tests::load::{Place, Worker};
use noise_tests::rights::UNPRIVILEGED;
use noise_tests::scratch::Folder;
use serde_json::Value;

use crate::lifecycle::{PublicCopy, ensure_refused};
use crate::{INCONCLUSIVE, Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("why_as_a_member_of_the_group", why_as_a_member_of_the_group)];

/// The group `daemon` of every system.
const DAEMON: u32 = 1;
/// In which a baseline is learnt, and more than a loaded machine takes.
const TIMEOUT: Duration = Duration::from_secs(90);
/// A quota that stops its group for so much of the time at least was tested.
const LEAST_STOPPED: f64 = 0.3;
/// How far parts of the time may be apart: what is counted are whole windows, and waits count when they end.
const APART: f64 = 0.35;

/// Whether the kernel says what quotas take.
pub(crate) fn says_quota() -> Result<bool> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    let (major, minor) = (next().context("no release")?, next().context("no release")?);
    Ok((major, minor) >= (6, 6))
}

/// What is usual of waits for a CPU, where it was learnt.
fn learnt(found: &Value) -> Option<&Value> {
    let usual = found["usual"].as_array()?;
    let is_it = |one: &&Value| one["signal"] == "cgroup_runqueue_wait" && one["from"] == "baseline";
    usual.iter().find(is_it)
}

fn why_as_a_member_of_the_group() -> Result<()> {
    let copy = PublicCopy::new()?;
    let options =
        ["--socket.group=daemon", "--incidents.recent-windows=4", "--incidents.warmup-windows=20"];
    let served = Socketed::start(&options)?;
    let socket = served.socket.to_str().context("a path that is not UTF-8")?;
    // Their way to the socket.
    let way = served.socket.parent().context("no folder")?;
    fs::set_permissions(way, fs::Permissions::from_mode(0o755))?;
    let place = Folder::new("theirs")?;
    chown(place.path(), Some(UNPRIVILEGED), Some(UNPRIVILEGED))?;
    let victim = Group::new("quota", &[Hierarchy::Cpu])?;
    ensure!(
        victim.limit_cpu(Duration::from_millis(20), Duration::from_millis(100))?,
        Impossible("this host limits the CPU time of no group".into())
    );
    let worker = Worker::start_at(Place::group(&victim), "burn", &["0"])?;
    let label = victim.label();
    let why = |group: u32, options: &[&str]| -> Result<Outcome> {
        let mut command = Command::new(copy.path());
        command.args(["why", &label, "--connect", socket]).args(options);
        command.current_dir("/").uid(UNPRIVILEGED).gid(group);
        run(command)
    };
    // Its usual is learnt, and from the daemon: the state is not theirs to read.
    let (begun, throttled_ns) = (Instant::now(), victim.throttled_ns()?);
    let found = loop {
        let found: Value = why(DAEMON, &["--json"])?.json()?;
        if learnt(&found).is_some() {
            break found;
        }
        ensure!(begun.elapsed() < TIMEOUT, "nothing is usual: {}", found["usual"]);
    };
    let stopped_ns = victim.throttled_ns()? - throttled_ns;
    let part = stopped_ns as f64 / begun.elapsed().as_nanos() as f64;
    let usual = learnt(&found).context("not learnt")?;
    println!("usual: {usual}; its quota took {part:.2} of the time; {}", found["stopped"]);
    ensure!(usual["mean_ns"].as_f64().is_some_and(|mean_ns| mean_ns > 0.0), "no mean");
    ensure!(usual["lost"].as_f64().is_some_and(|lost| lost > 0.0), "no time is lost usually");
    ensure!(part > LEAST_STOPPED, "{INCONCLUSIVE}: its quota took {part} of the time");
    let stopped = &found["stopped"];
    let span_ns = stopped["span_ns"].as_f64().context("no span")?;
    ensure!(stopped["hypervisor_ns"].is_u64(), "what the hypervisor took is missing");
    match says_quota()? {
        false => ensure!(stopped["quota_ns"].is_null(), "a quota is known from nowhere"),
        true => {
            let quota = stopped["quota_ns"].as_f64().context("no quota")? / span_ns;
            ensure!((quota - part).abs() < APART, "the quota took {part}, and it says {quota}");
        }
    }

    // For people, with the picture.
    let to = place.path().join("picture");
    let path = to.to_str().context("a path that is not UTF-8")?;
    let page = why(DAEMON, &["--all", "--perfetto", path])?;
    println!("{}{}", page.stdout, page.stderr);
    ensure!(page.code == 0, "it exits with {}", page.code);
    let first = page.stdout.lines().take(3).collect::<Vec<_>>().join(" ");
    let answer = if says_quota()? { "by its own CPU quota" } else { "waited" };
    ensure!(first.contains(answer) && first.contains(&label), "it says {first}");
    for part in ["stopped, as the daemon counted", "against its usual", "remedies"] {
        ensure!(page.stdout.contains(part), "{part:?} is not on the page");
    }
    ensure!(page.stderr.contains("ui.perfetto.dev") && page.stderr.contains(path), "no word of it");
    let picture = unpacked(&fs::read(&to)?)?;
    let name = b"Critical path of ";
    ensure!(picture.windows(name.len()).any(|part| part == name), "no path is in the picture");
    ensure!(fs::metadata(&to)?.permissions().mode() & 0o777 == 0o600, "others may read it");
    ensure_refused(&why(DAEMON, &["--perfetto", "-"])?, 2, &["--perfetto", "standard output"])?;
    let nowhere = ["--next", "1h", "--perfetto", "/nowhere/picture"];
    ensure_refused(&why(DAEMON, &nowhere)?, 1, &["cannot write /nowhere/picture"])?;
    ensure_refused(&why(UNPRIVILEGED, &[])?, 3, &["sudo adduser"])?;
    worker.stop()?;
    Ok(())
}

/// The packets of a picture, all of which are compressed.
fn unpacked(mut file: &[u8]) -> Result<Vec<u8>> {
    let mut packets = Vec::new();
    while !file.is_empty() {
        ensure!(varint(&mut file)? == 1 << 3 | 2, "no packet");
        let length = varint(&mut file)?.try_into()?;
        let (mut packet, rest) = file.split_at_checked(length).context("a packet is cut")?;
        file = rest;
        ensure!(varint(&mut packet)? == 50 << 3 | 2, "a packet is not compressed");
        varint(&mut packet)?;
        ZlibDecoder::new(packet).read_to_end(&mut packets)?;
    }
    Ok(packets)
}

fn varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().context("a number is cut")?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if *first < 0x80 {
            break;
        }
    }
    Ok(value)
}
