//! A recording while it is made: takes events over and writes files.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use noise_command::CommandError;
use noise_common::hooks::Hook;
use noise_common::store::Class;
use noise_host::kernel::{both_clocks, monotonic_ns};
use noise_host::resolve::read_host;
use noise_system::output::Spot;
use noise_system::procfs;
use noise_trace::capture::Capture;
use noise_trace::ctf::write::{HEAD_BYTES, Origin, Packets, Uuid, metadata};

use crate::dump::DumpedHost;
use crate::folder::{Folder, Most, Room};
use crate::line::RecordingLine;
use crate::own_marks;
use crate::summary::{Limits, RecordSummary, RecordingEnd};
use crate::supply::{Supply, SupplyResult};

/// A small recording has room for so many packets of each CPU.
const LEAST_PACKETS: u64 = 8;
/// A packet is whole when it has so many bytes, at least and at most …
const PACKET_BYTES: (usize, usize) = (4 << 10, 256 << 10);
/// … or is so old: what a recording loses that is killed.
const PACKET_NS: u64 = 200_000_000;
/// Events are written in the order of time once they are that old: a program that has read the clock may be
/// interrupted before it writes.
const SETTLED_NS: u64 = 1_000_000;
/// Where the files may have so many bytes in all, events of so much time are written at once …
const STEP_NS: u64 = 1_000_000;
/// … or this part of what there is: of a burst that has no room, what has room is written.
const MOST_STEPS: u64 = 64;
/// How long the store is left alone, at least and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));
/// How full the fullest part is to be when it is drained again.
const FULL: f64 = 0.125;

pub struct Session {
    supply: Box<dyn Supply>,
    capture: Capture,
    folder: Folder,
    /// Marks of programs, where they do not come with the events.
    marks: Option<own_marks::Socket>,
    host: DumpedHost,
    uuid: Uuid,
    origin: Origin,
    begin_ns: u64,
    drained_ns: u64,
    flushed_ns: u64,
    advanced_ns: u64,
    /// All events up to then are in the files.
    written_ns: u64,
    length: Duration,
    /// Events that are lost and could not be counted as such in the files.
    uncounted: u64,
    /// Events that were read, and lost because the files had no room for them.
    given_up: u64,
    /// What was lost since the last time cannot be counted.
    may_lack_more: bool,
    /// Packets by CPU that were to be written when that failed.
    unwritten: Vec<(u32, Packets)>,
    /// What to know of files that were open at the begin, if not all of them are in it.
    cut: Option<String>,
}

/// By how much real time is ahead of the programs' clock, ns.
pub fn offset_ns() -> u64 {
    let (clock_ns, real_ns) = both_clocks();
    real_ns.saturating_sub(clock_ns)
}

/// How long the store is left alone after a turn that took so long, and found its fullest part so full; not
/// longer than what is left of the recording.
pub fn pause(fullness: f64, turn: Duration, left: Option<Duration>) -> Duration {
    let (least, most) = PAUSE;
    let wanted = turn.max(least).mul_f64((FULL / fullness.max(1e-3)).min(1e3));
    wanted.clamp(least, most).min(left.unwrap_or(most).max(least))
}

/// Bytes of a packet, where the files of a recording may have so many in all.
fn packet_bytes(most: Option<u64>, cpus: u32) -> usize {
    let (least, usual) = PACKET_BYTES;
    let share = most.map(|most| most / LEAST_PACKETS / u64::from(cpus.max(1)));
    share.and_then(|share| usize::try_from(share).ok()).unwrap_or(usual).clamp(least, usual)
}

/// A number that no other recording has.
/// Errors: where the kernel has none.
pub fn uuid() -> anyhow::Result<Uuid> {
    Ok(procfs::uuid().context("the kernel has no number for this recording")?.to_be_bytes())
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
        has_calls: false,
        buffer_bytes: None,
    }
}

impl Session {
    /// Reads who and what there is, makes the files, and begins.
    /// Nothing is left attached.
    pub fn start(
        spot: Spot,
        limits: Limits,
        classes: Option<&[Class]>,
        supply: impl FnOnce() -> SupplyResult,
    ) -> Result<Self, CommandError> {
        let host = DumpedHost::default();
        let mut dump = host.dump();
        let mut supply = supply()?;
        // What was created until events were recorded.
        host.add_threads(&mut dump);
        let has_calls = classes.is_some_and(|classes| classes.contains(&Class::Ipc));
        let cut = if has_calls { host.add_files(&mut dump) } else { None };
        let buffer_bytes = supply.buffer_bytes();
        let (uuid, origin) = (uuid()?, Origin { has_calls, buffer_bytes, ..origin() });
        let most = limits.bytes.map(|bytes| Most { bytes, files: limits.files });
        let folder = Folder::create(spot, &metadata(uuid, &origin), supply.cpus(), most)?;
        let marks = match supply.marks() {
            Some(_) => None,
            None => own_marks::Socket::make(folder.whole()),
        };
        noise_system::memory::give_back();
        let begin_ns = supply.begin_ns();
        if let Some(length) = limits.duration {
            supply.ends_at(begin_ns.saturating_add(length.as_nanos() as u64));
        }
        let packet_bytes = packet_bytes(limits.bytes, supply.cpus());
        let mut capture = Capture::new(uuid, supply.cpus(), packet_bytes, begin_ns, &dump);
        if let Some(classes) = classes {
            capture.only(classes);
        }
        Ok(Self {
            supply,
            capture,
            folder,
            marks,
            host,
            uuid,
            origin,
            begin_ns,
            drained_ns: begin_ns,
            flushed_ns: begin_ns,
            advanced_ns: begin_ns,
            written_ns: begin_ns,
            length: Duration::ZERO,
            uncounted: 0,
            given_up: 0,
            may_lack_more: false,
            unwritten: Vec::new(),
            cut,
        })
    }

    /// Records until a limit is reached or `is_over`.
    /// Errors: where the store cannot be read, or a file cannot be written.
    pub fn record(
        &mut self,
        limits: Limits,
        progress: &mut RecordingLine,
        mut is_over: impl FnMut() -> bool,
    ) -> anyhow::Result<RecordingEnd> {
        let ended = self.record_until(limits, progress, &mut is_over);
        if ended.is_err() {
            self.count_unwritten();
        }
        ended
    }

    fn record_until(
        &mut self,
        limits: Limits,
        progress: &mut RecordingLine,
        is_over: &mut impl FnMut() -> bool,
    ) -> anyhow::Result<RecordingEnd> {
        loop {
            let begin = Instant::now();
            // Asked before the last turn, which has all that happened until then.
            let over = is_over() || limits.duration.is_some_and(|most| self.length >= most);
            let fullness = self.drain()?;
            let settled_ns = self.drained_ns.saturating_sub(SETTLED_NS);
            if self.advance(settled_ns)? == Room::Full {
                return Ok(RecordingEnd::Full);
            }
            if over {
                self.capture.finish(self.drained_ns, &mut self.host);
                let room = self.write(self.drained_ns)?;
                return Ok(if room == Room::Full {
                    RecordingEnd::Full
                } else {
                    RecordingEnd::Over
                });
            }
            progress.at(self.summary());
            self.pause(fullness, begin, limits);
        }
    }

    /// Converts events up to a time, and writes packets that are whole or old enough.
    fn advance(&mut self, settled_ns: u64) -> anyhow::Result<Room> {
        let length_ns = settled_ns.saturating_sub(self.advanced_ns);
        let step_ns = match self.folder.is_bounded() {
            true => STEP_NS.max(length_ns / MOST_STEPS),
            false => u64::MAX,
        };
        while self.advanced_ns < settled_ns {
            let mut until_ns = self.advanced_ns.saturating_add(step_ns).min(settled_ns);
            self.capture.advance(until_ns, &mut self.host);
            // A packet with lost events ends with the time in which they were lost: what comes until then belongs into it.
            while let Some(loss_ns) = self.capture.loss_until_ns()
                && loss_ns > until_ns
                && until_ns < settled_ns
            {
                until_ns = loss_ns.min(settled_ns);
                self.capture.advance(until_ns, &mut self.host);
            }
            self.advanced_ns = until_ns;
            let is_due = until_ns.saturating_sub(self.flushed_ns) >= PACKET_NS;
            if is_due || self.capture.whole_bytes() > 0 {
                self.flushed_ns = until_ns;
                if self.write(until_ns)? == Room::Full {
                    return Ok(Room::Full);
                }
                self.rotate()?;
            }
        }
        Ok(Room::Enough)
    }

    /// Waits as long as it takes until the store has something to drain.
    fn pause(&mut self, fullness: f64, begin: Instant, limits: Limits) {
        let left = limits.duration.map(|whole| whole.saturating_sub(self.length));
        let length = pause(fullness, begin.elapsed(), left);
        match &mut self.marks {
            Some(marks) => marks.wait(length, &mut self.capture),
            None => thread::sleep(length),
        }
    }

    /// Takes over what is new; how full the fullest part was.
    fn drain(&mut self) -> anyhow::Result<f64> {
        let now_ns = monotonic_ns();
        let before_ns = std::mem::replace(&mut self.drained_ns, now_ns);
        self.length = Duration::from_nanos(now_ns.saturating_sub(self.begin_ns));
        if let Some(marks) = &mut self.marks {
            marks.drain(&mut self.capture);
        }
        self.supply.drain(now_ns, &mut self.capture).inspect_err(|_| {
            // What happened since the last time did not come, or not all of it.
            self.may_lack_more = true;
            for cpu in 0..self.supply.cpus() {
                self.capture.lost(cpu, 1, before_ns, now_ns);
            }
        })
    }

    /// Where programs send their marks.
    pub fn marks(&self) -> Option<PathBuf> {
        let own = self.marks.as_ref().map(|marks| marks.path().to_owned());
        own.or_else(|| self.supply.marks())
    }

    /// Writes all events up to a time: those of all CPUs, or, where the recording is full, of none.
    fn write(&mut self, until_ns: u64) -> anyhow::Result<Room> {
        self.capture.flush();
        // There is always room for what the files end with.
        let ends = u64::from(self.supply.cpus()) * HEAD_BYTES as u64;
        let room = self.folder.make_room(self.capture.whole_bytes() + ends)?;
        match room {
            Room::Full => self.capture.withdraw(self.written_ns),
            Room::Scarce | Room::Enough => self.written_ns = until_ns,
        }
        self.append(room == Room::Scarce)?;
        Ok(room)
    }

    /// Appends the whole packets, or what is written in their place where they are given up.
    fn append(&mut self, is_given_up: bool) -> anyhow::Result<()> {
        let mut round: VecDeque<(u32, Packets)> = VecDeque::new();
        for cpu in 0..self.supply.cpus() {
            let packets = self.capture.packets(cpu);
            self.given_up += if is_given_up { packets.events() } else { 0 };
            let given_up = is_given_up.then(|| self.capture.give_up(cpu, &packets));
            round.push_back((cpu, given_up.unwrap_or(packets)));
        }
        while let Some((cpu, packets)) = round.front() {
            if let Err(error) = self.folder.append(*cpu, packets) {
                self.unwritten = round.into();
                return Err(error);
            }
            round.pop_front();
        }
        Ok(())
    }

    /// Goes on with other files where those that are written have their share of the room.
    fn rotate(&mut self) -> anyhow::Result<()> {
        if !self.folder.has_its_share() {
            return Ok(());
        }
        self.capture.end(self.written_ns.saturating_sub(1));
        self.append(false)?;
        self.folder.rotate()?;
        self.capture.begin_again(self.written_ns);
        Ok(())
    }

    /// Counts what could not be written as lost where it is missing, as far as the disk takes that.
    fn count_unwritten(&mut self) {
        self.folder.free_reserve();
        self.capture.finish(self.drained_ns, &mut self.host);
        // It was not the disk that failed, or there is room for it now.
        if self.unwritten.is_empty() && self.write(self.drained_ns).is_ok() {
            return;
        }
        let mut unwritten: Vec<Packets> = Vec::new();
        unwritten.resize_with(self.supply.cpus() as usize, Packets::default);
        for (cpu, packets) in std::mem::take(&mut self.unwritten) {
            if let Some(place) = unwritten.get_mut(cpu as usize) {
                *place = packets;
            }
        }
        for (cpu, mut packets) in (0..).zip(unwritten) {
            packets.append(self.capture.packets(cpu));
            let lost = self.capture.give_up(cpu, &packets);
            if self.folder.append(cpu, &lost).is_err() {
                self.uncounted = self.uncounted.saturating_add(packets.events());
            }
        }
    }

    /// What was recorded so far.
    pub fn summary(&self) -> RecordSummary {
        let (removed, kept) = self.folder.events();
        RecordSummary {
            length: self.length,
            events: removed + kept,
            removed,
            bytes: self.folder.bytes(),
            lost: self.capture.discarded(),
            may_lack_more: self.may_lack_more,
            uncounted: self.uncounted,
            late: self.capture.late(),
        }
    }

    /// What loses fewer events, if some were overwritten before they were read.
    pub fn remedy(&self) -> Option<String> {
        let overwritten = self.capture.discarded().saturating_sub(self.given_up);
        (overwritten > 0).then(|| match self.supply.buffer_bytes() {
            Some(bytes) => format!(
                "the buffer of each CPU had {} KiB: a larger --buffer loses fewer events",
                bytes / 1024
            ),
            None => "a larger flight recorder of the daemon ([recorder]), or --own with a --buffer, loses fewer events"
                .to_owned(),
        })
    }

    /// What to know of its marks, if there is something.
    pub fn left_out(&self) -> Option<String> {
        self.marks.as_ref().and_then(own_marks::Socket::left_out)
    }

    /// What to know of system calls and open files that are not in it, if there is something.
    pub fn lacks_calls(&self) -> [Option<String>; 2] {
        let calls = Some(self.supply.foreign_calls()).filter(|calls| *calls > 0);
        let calls =
            calls.map(|calls| format!("{calls} system calls of 32-bit programs were left out"));
        [self.cut.clone(), calls]
    }

    /// Hooks whose events are not in it, though those of their class are.
    pub fn lacks(&self) -> Vec<Hook> {
        self.supply.lacks()
    }

    /// Detaches the programs, and removes the files: nothing was recorded.
    pub fn discard(self) {
        drop((self.supply, self.marks));
        self.folder.discard();
    }

    /// Detaches the programs, notes how real time is at the end, and waits until all is on the disk.
    /// Errors: where that cannot be written.
    pub fn finish(self, is_whole: bool) -> anyhow::Result<()> {
        drop(self.supply);
        self.folder.free_reserve();
        if !is_whole {
            return Ok(());
        }
        let origin = Origin { offset_at_end_ns: Some(offset_ns()), ..self.origin };
        self.folder.replace_metadata(&metadata(self.uuid, &origin))?;
        self.folder.sync()
    }
}

#[cfg(test)]
mod tests;
