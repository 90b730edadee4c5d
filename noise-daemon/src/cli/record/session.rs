//! A recording while it is made: takes events over and writes files.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jiff::Timestamp;
use noise_host::kernel::monotonic_ns;
use noise_host::resolve::read_host;
use noise_system::procfs;
use noise_trace::capture::Capture;
use noise_trace::ctf::write::{Origin, Uuid, metadata};

use super::dump::Host;
use super::folder::Folder;
use super::line::Progress;
use super::summary::{End, Limits, Summary};
use super::supply::{Supply, SupplyResult};
use crate::cli::CommandError;

/// A packet is whole when it has so many bytes …
const PACKET_BYTES: usize = 256 << 10;
/// … or is so old: what a recording loses that is killed.
const PACKET_NS: u64 = 200_000_000;
/// Events are written in the order of time once they are that old: a program that has read the clock may be
/// interrupted before it writes.
const SETTLED_NS: u64 = 1_000_000;
/// How long the store is left alone, at least and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));
/// How full the fullest part is to be when it is drained again.
const FULL: f64 = 0.125;

/// A recording.
pub struct Session {
    supply: Box<dyn Supply>,
    capture: Capture,
    folder: Folder,
    host: Host,
    uuid: Uuid,
    origin: Origin,
    begin_ns: u64,
    drained_ns: u64,
    flushed_ns: u64,
    length: Duration,
}

/// By how much real time is ahead of the programs' clock, ns.
fn offset_ns() -> u64 {
    let before_ns = monotonic_ns();
    let real_ns = Timestamp::now().as_nanosecond();
    let clock_ns = i128::from(before_ns.midpoint(monotonic_ns()));
    u64::try_from(real_ns - clock_ns).unwrap_or(0)
}

/// A number that no other recording has.
fn uuid() -> anyhow::Result<Uuid> {
    let path = "/proc/sys/kernel/random/uuid";
    let text = procfs::text(path).with_context(|| format!("cannot read {path}"))?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16).with_context(|| format!("{path} has none"))?;
    Ok(number.to_be_bytes())
}

fn origin() -> Origin {
    let host = read_host(Path::new("/"));
    let version = procfs::text("/proc/sys/kernel/version").unwrap_or_default();
    Origin {
        hostname: host.name,
        kernel_release: host.kernel,
        kernel_version: version.trim().to_owned(),
        recorder: format!("noised {}", host.noised),
        offset_ns: offset_ns(),
        offset_at_end_ns: None,
    }
}

impl Session {
    /// Reads who and what there is, makes the files, and begins.
    ///
    /// # Errors
    /// See [`CommandError`]; nothing is left attached.
    pub fn start(path: &Path, supply: impl FnOnce() -> SupplyResult) -> Result<Self, CommandError> {
        let host = Host::new();
        let dump = host.dump();
        let supply = supply()?;
        let (uuid, origin) = (uuid()?, origin());
        let folder = Folder::create(path, &metadata(uuid, &origin))?;
        noise_system::memory::give_back();
        let begin_ns = supply.begin_ns();
        let capture = Capture::new(uuid, supply.cpus(), PACKET_BYTES, begin_ns, &dump);
        Ok(Self {
            supply,
            capture,
            folder,
            host,
            uuid,
            origin,
            begin_ns,
            drained_ns: begin_ns,
            flushed_ns: begin_ns,
            length: Duration::ZERO,
        })
    }

    /// Records until a limit is reached or `is_over`.
    ///
    /// # Errors
    /// Where the store cannot be read, or a file cannot be written.
    pub fn record(
        &mut self,
        limits: Limits,
        progress: &mut Progress,
        mut is_over: impl FnMut() -> bool,
    ) -> anyhow::Result<End> {
        let mut end = None;
        loop {
            let begin = Instant::now();
            // Asked before the last turn, which has all that happened until then.
            let over = is_over() || limits.duration.is_some_and(|most| self.length >= most);
            let fullness = self.drain()?;
            if over || end.is_some() {
                break;
            }
            self.capture.advance(self.drained_ns.saturating_sub(SETTLED_NS), &mut self.host);
            if self.drained_ns.saturating_sub(self.flushed_ns) >= PACKET_NS {
                self.flushed_ns = self.drained_ns;
                self.capture.flush();
            }
            self.write()?;
            progress.at(self.summary());
            if limits.bytes.is_some_and(|most| self.folder.bytes() >= most) {
                end = Some(End::Full);
                break;
            }
            self.pause(fullness, begin, limits);
        }
        self.capture.finish(self.drained_ns, &mut self.host);
        self.write()?;
        Ok(end.unwrap_or(End::Over))
    }

    /// Waits as long as it takes until the store has something to drain.
    fn pause(&self, fullness: f64, begin: Instant, limits: Limits) {
        let (least, most) = PAUSE;
        let passed = begin.elapsed().max(least);
        let wanted = passed.mul_f64((FULL / fullness.max(1e-3)).min(1e3));
        let left = limits.duration.map(|whole| whole.saturating_sub(self.length));
        thread::sleep(wanted.clamp(least, most).min(left.unwrap_or(most).max(least)));
    }

    /// Takes over what is new; how full the fullest part was.
    fn drain(&mut self) -> anyhow::Result<f64> {
        let now_ns = monotonic_ns();
        self.drained_ns = now_ns;
        self.length = Duration::from_nanos(now_ns.saturating_sub(self.begin_ns));
        self.supply.drain(now_ns, &mut self.capture)
    }

    /// Writes whole packets.
    fn write(&mut self) -> anyhow::Result<()> {
        for cpu in 0..self.supply.cpus() {
            let packets = self.capture.packets(cpu);
            self.folder.append(cpu, &packets)?;
        }
        Ok(())
    }

    /// What was recorded so far.
    pub fn summary(&self) -> Summary {
        Summary {
            length: self.length,
            events: self.capture.events(),
            bytes: self.folder.bytes(),
            lost: self.capture.discarded(),
        }
    }

    /// Detaches the programs, and notes how real time is at the end.
    ///
    /// # Errors
    /// Where that cannot be written.
    pub fn finish(self, is_whole: bool) -> anyhow::Result<()> {
        drop(self.supply);
        if !is_whole {
            return Ok(());
        }
        let origin = Origin { offset_at_end_ns: Some(offset_ns()), ..self.origin };
        self.folder.replace_metadata(&metadata(self.uuid, &origin))
    }
}
