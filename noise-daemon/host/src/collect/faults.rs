//! Page faults, as `/proc/vmstat` counts them anyway. A program on every fault would slow down each of
//! them by more than its figure is worth.

use std::borrow::Cow;
use std::path::Path;

use noise_system::procfs::Reader;

/// Page faults of the host since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Faults {
    minor: u64,
    /// That had to wait for a device.
    major: u64,
}

fn parse(text: &str) -> Option<Faults> {
    let count = |wanted: &str| {
        let mut words = text.lines().map(|line| line.split_ascii_whitespace());
        words.find_map(|mut line| (line.next()? == wanted).then(|| line.next()?.parse().ok())?)
    };
    let (all, major): (u64, u64) = (count("pgfault")?, count("pgmajfault")?);
    Some(Faults { minor: all.saturating_sub(major), major })
}

/// The counts, as they were read at most.
///
/// A fault counts as major when its read begins and among all when it is over: in between, the
/// difference is one too small.
#[derive(Debug, Default)]
pub struct PageFaults(Faults);

impl PageFaults {
    /// Reads the counts; nothing where the kernel does not say.
    pub fn read(&mut self, procfs: &Path, reader: &mut Reader) -> Vec<(Cow<'static, str>, u64)> {
        let Some(now) = parse(&reader.read(&procfs.join("vmstat"))) else { return Vec::new() };
        let Self(most) = self;
        most.minor = most.minor.max(now.minor);
        most.major = most.major.max(now.major);
        vec![("minor".into(), most.minor), ("major".into(), most.major)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn major_faults_are_told_apart() {
        let text = "nr_free_pages 7\npgfault 1200\npgmajfault 200\n";
        assert_eq!(parse(text), Some(Faults { minor: 1000, major: 200 }));
        assert_eq!(parse("pgfault 12\n"), None);
        let nothing = PageFaults::default().read("/nonexistent".as_ref(), &mut Reader::default());
        assert!(nothing.is_empty());
    }

    #[test]
    fn a_fault_under_way_takes_nothing_back() {
        let procfs = tempfile::tempdir().unwrap();
        let (mut faults, mut reader) = (PageFaults::default(), Reader::default());
        let mut minor = |all: u64, major: u64| {
            let text = format!("pgfault {all}\npgmajfault {major}\n");
            std::fs::write(procfs.path().join("vmstat"), text).unwrap();
            faults.read(procfs.path(), &mut reader)[0].1
        };
        assert_eq!(minor(100, 10), 90);
        assert_eq!(minor(100, 12), 90);
        assert_eq!(minor(104, 12), 92);
    }
}
