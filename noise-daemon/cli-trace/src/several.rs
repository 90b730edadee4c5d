//! Recordings of several machines together.

use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use noise_command::output::complain;
use noise_paths::build::{Builder, Waker};
use noise_paths::clocks::ClockLine;
use noise_paths::clocks::traffic::{Traffic, lines};
use noise_paths::several::{Merged, traffic};
use noise_trace::ctf::CtfReader;
use noise_trace::damage::Damage;
use noise_trace::reach::Reach;
use noise_trace::record::{Record, Stored};

use super::recording::{Ctf, ProgressSource, Recording};

/// Recordings of machines beside the first one.
const MAX_OTHERS: usize = 64;

/// Opens the recordings beside the first one.
/// Errors: which of them cannot be read, or has no headers of packets.
pub fn open(first: &Recording, others: &[PathBuf]) -> anyhow::Result<Vec<Recording>> {
    if others.len() > MAX_OTHERS {
        bail!("--with can be given {MAX_OTHERS} times at most");
    }
    let all: Vec<_> =
        others.iter().map(|path| Recording::open(path)).collect::<anyhow::Result<_>>()?;
    let is_text = |recording: &Recording| matches!(recording, Recording::Text(_));
    if !all.is_empty() && all.iter().chain([first]).any(is_text) {
        bail!("a text of ftrace has no headers of packets; --with takes recordings in CTF alone");
    }
    Ok(all)
}

/// All recordings, with their clocks brought together.
pub struct Together<'r> {
    all: Vec<(&'r Recording, &'r Ctf, ClockLine)>,
}

/// What says how far clocks are apart.
pub struct Common {
    /// Finds it in a recording.
    pub of: fn(ProgressSource<'_, CtfReader<'_>>) -> Traffic,
    /// What a recording lacks that has none.
    pub lacks: &'static str,
    /// How it is recorded.
    pub remedy: &'static str,
}

const PACKETS: Common = Common {
    of: |source| traffic(source),
    lacks: "has no headers of TCP packets, which say how far the clocks of two machines are apart; noised records none",
    remedy: "record net_dev_queue and netif_receive_skb with LTTng 2.8 or later on both machines",
};

impl<'r> Together<'r> {
    /// The first one and others, by their packets.
    /// Errors: why their clocks cannot be brought together.
    pub fn new(
        recording: &'r Recording,
        first: &'r Ctf,
        others: &'r [Recording],
        paths: &[PathBuf],
    ) -> anyhow::Result<Self> {
        Self::by(&PACKETS, recording, first, others, paths)
    }

    /// The first one and others.
    /// Errors: why their clocks cannot be brought together.
    pub fn by(
        common: &Common,
        recording: &'r Recording,
        first: &'r Ctf,
        others: &'r [Recording],
        paths: &[PathBuf],
    ) -> anyhow::Result<Self> {
        let Common { of, lacks, remedy } = common;
        let mut all = vec![(recording, first, ClockLine::SAME)];
        for other in others {
            if let Recording::Ctf(ctf) = other {
                all.push((other, ctf, ClockLine::SAME));
            }
        }
        if all.len() > 1 {
            let common = |(recording, ctf, _): &(&'r Recording, &'r Ctf, ClockLine)| {
                of(recording.shown(CtfReader::new(&ctf.layout, &ctf.streams()), false))
            };
            let traffic: Vec<Traffic> = all.iter().map(common).collect();
            if let Some(number) = traffic.iter().position(Traffic::is_empty) {
                let path = number.checked_sub(1).and_then(|other| paths.get(other));
                let shown = path
                    .map_or("the first recording".to_owned(), |path| path.display().to_string());
                bail!("{shown} {lacks}: {remedy}");
            }
            let found = lines(&traffic).map_err(|(number, error)| {
                let path = number.checked_sub(1).and_then(|other| paths.get(other));
                let shown = path.map(|path| path.display().to_string()).unwrap_or_default();
                anyhow!(
                    "the clock of {shown} cannot be brought together with the others': {error}; {remedy}, while they \
                     exchange packets of TCP"
                )
            })?;
            for (place, line) in all.iter_mut().zip(found) {
                place.2 = line;
            }
        }
        Ok(Self { all })
    }

    /// What makes their graph: each has the event that says who wakes a thread.
    pub fn builder(&self) -> Builder {
        let first = self.all.first().map_or_else(Waker::default, |(_, ctf, _)| ctf.waker());
        let numbered = (0u16..).zip(&self.all);
        numbered.fold(Builder::new(first), |builder, (machine, (_, ctf, _))| {
            builder.with_waker(machine, ctf.waker())
        })
    }

    /// Those whose wake-ups are said by `sched_wakeup` alone, by their numbers.
    pub fn by_wakeup(&self) -> impl Iterator<Item = u16> {
        let numbered = (0u16..).zip(&self.all);
        let those = numbered.filter(|(_, (_, ctf, _))| ctf.waker() == Waker::Wakeup);
        those.map(|(machine, _)| machine)
    }

    pub fn read(&self) -> Merged<ProgressSource<'_, CtfReader<'_>>> {
        Merged::new(self.all.iter().map(|(recording, ctf, line)| {
            (recording.shown(CtfReader::new(&ctf.layout, &ctf.streams()), false), *line)
        }))
    }
}

/// What to say of what could not be read of each recording.
fn unread(first: &Path, others: &[PathBuf], damages: &[Damage]) -> Vec<String> {
    let paths = [first].into_iter().chain(others.iter().map(PathBuf::as_path));
    paths.zip(damages).filter_map(|(path, damage)| super::unread(path, damage)).collect()
}

/// Says it on standard error.
pub fn report(first: &Path, others: &[PathBuf], damages: &[Damage]) {
    unread(first, others, damages).iter().for_each(|sentence| complain(sentence));
}

/// How far each of several recordings is known, in the part that is asked for.
pub struct PartReach {
    all: Vec<Reach>,
    /// When that begins, until it has begun.
    from_ns: Option<u64>,
}

impl PartReach {
    pub fn new(machines: u16, from_ns: Option<u64>) -> Self {
        Self { all: vec![Reach::default(); usize::from(machines)], from_ns }
    }

    /// Takes the next record that is not behind the part.
    pub fn follow<'t>(&mut self, machine: u16, record: &Record<impl Stored<'t>>) {
        if let Some(from_ns) = self.from_ns.take_if(|from_ns| *from_ns <= record.time_ns) {
            self.all.iter_mut().for_each(|reach| reach.begin(from_ns));
        }
        if let Some(reach) = self.all.get_mut(usize::from(machine)) {
            reach.follow(record.time_ns, record.cpu, record.loss().as_ref());
        }
    }

    /// That of the first one, and how many events were lost in all.
    pub fn finish(mut self) -> (Reach, u64) {
        let lost = self.all.iter().map(Reach::discarded);
        let discarded = lost.fold(0, u64::saturating_add);
        (self.all.first_mut().map(std::mem::take).unwrap_or_default(), discarded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampled::small;
    use noise_keep::export::exported;
    use noise_trace::summary::UnreadDocument;

    #[test]
    fn recordings_of_ours_have_no_headers_and_that_is_said() {
        let root = tempfile::tempdir().unwrap();
        let paths = ["one", "other"].map(|name| root.path().join(name));
        for path in &paths {
            exported(path);
        }
        let [one, other] = &paths;
        let first = Recording::open(one).unwrap();
        let others = open(&first, std::slice::from_ref(other)).unwrap();
        let Recording::Ctf(ctf) = &first else { panic!("no CTF") };
        let error = Together::new(&first, ctf, &others, std::slice::from_ref(other)).err().unwrap();
        let text = error.to_string();
        assert!(text.contains("the first recording has no headers of TCP packets"), "{text}");
        assert!(text.contains("noised records none") && text.contains("LTTng 2.8"), "{text}");
    }

    #[test]
    fn which_recording_is_cut_is_said() {
        let folders = [small(), small()];
        let cut = folders[1].path().join("kernel/channel0_1");
        let file = std::fs::OpenOptions::new().write(true).open(cut).unwrap();
        file.set_len(file.metadata().unwrap().len() - 3).unwrap();
        let paths = folders.each_ref().map(|folder| folder.path().to_owned());
        let opened = paths.each_ref().map(|path| Recording::open(path).unwrap());
        let files = opened.each_ref().map(|recording| {
            let Recording::Ctf(ctf) = recording else { panic!("no CTF") };
            (&ctf.layout, ctf.streams())
        });
        let readers = files.each_ref().map(|(layout, files)| CtfReader::new(layout, files));
        let mut merged = Merged::new(readers.map(|reader| (reader, ClockLine::SAME)));
        while merged.read_from().is_some() {}
        let damages = merged.damages();
        let said = unread(&paths[0], &paths[1..], &damages);
        assert_eq!(said.len(), 1, "{said:?}");
        let begin = format!("{} was not read completely: ", paths[1].display());
        assert!(said[0].starts_with(&begin), "{said:?}");
        assert!(said[0].contains("3 bytes are missing (channel0_1 of CPU 1 is not"), "{said:?}");
        let documented = UnreadDocument::of(&Damage::of_all(&damages)).unwrap();
        assert!(documented.places[0].starts_with("recording 1: channel0_1 of CPU "));
        assert_eq!(serde_json::to_value(&documented.cuts).unwrap()[0]["recording"], 1);
    }
}
