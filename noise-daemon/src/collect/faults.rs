//! Page faults, as `/proc/vmstat` counts them anyway. A program on every fault would cost each of
//! them more than what it tells is worth.

use std::borrow::Cow;
use std::path::Path;

/// Page faults of the host since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Faults {
    /// Served from memory.
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

/// Reads the counts; nothing where the kernel does not say.
pub fn faults(procfs: &Path) -> Vec<(Cow<'static, str>, u64)> {
    let text = std::fs::read_to_string(procfs.join("vmstat")).unwrap_or_default();
    let Some(Faults { minor, major }) = parse(&text) else { return Vec::new() };
    vec![("minor".into(), minor), ("major".into(), major)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn major_faults_are_told_apart() {
        let text = "nr_free_pages 7\npgfault 1200\npgmajfault 200\n";
        assert_eq!(parse(text), Some(Faults { minor: 1000, major: 200 }));
        assert_eq!(parse("pgfault 12\n"), None);
        assert!(faults("/nonexistent".as_ref()).is_empty());
    }
}
