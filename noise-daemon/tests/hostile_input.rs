//! What reads data of others, fed with seeds that are changed at random: a short form of what
//! `cargo xtask fuzz` does for longer, and with an eye on where an input goes.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "all of this is a test, whose targets fail by panicking"
)]

#[path = "../../tests/fuzz/src/targets.rs"]
mod targets;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng as _, RngExt as _, SeedableRng as _};

/// Changed seeds of one target, at most.
const CHANGES: u64 = 2000;
/// How long one target is fed at most: the slow ones get fewer changed seeds.
const LENGTH: Duration = Duration::from_secs(3);

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let corpus: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz/corpus");
    let mut paths: Vec<PathBuf> =
        fs::read_dir(corpus.join(target)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Bytes that parsers look for.
const MARKS: &[u8] = b"\0\n\r \"'[]{}<>=:;,.-+/\\%0179aexz\x7f\x80\xff";

/// A seed with a few changes: bytes that are replaced, inserted, removed or repeated, and what another
/// seed has at its end.
fn changed(seeds: &[Vec<u8>], random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut bytes = seeds[random.random_range(0..seeds.len())].clone();
    for _ in 0..random.random_range(1..8) {
        let at = random.random_range(0..=bytes.len());
        let end = (at + random.random_range(1..16)).min(bytes.len());
        match random.random_range(0..6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
            1 if at < bytes.len() => bytes[at] = MARKS[random.random_range(0..MARKS.len())],
            2 => bytes.insert(at, random.next_u32() as u8),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let again = bytes[at..end].repeat(random.random_range(1..20));
                bytes.splice(at..at, again);
            }
            _ => {
                let other = &seeds[random.random_range(0..seeds.len())];
                bytes.truncate(at);
                bytes.extend(&other[at.min(other.len())..]);
            }
        }
    }
    bytes
}

fn feed(target: &str) {
    let (_, read) = targets::TARGETS.iter().find(|(name, _)| *name == target).unwrap();
    let seeds = seeds(target);
    assert!(!seeds.is_empty());
    seeds.iter().for_each(|seed| read(seed));
    let begin = Instant::now();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut fed = 0;
    while fed < CHANGES && begin.elapsed() < LENGTH {
        let bytes = changed(&seeds, &mut random);
        // So that a failure shows what it was.
        let shown = std::panic::catch_unwind(|| read(&bytes));
        assert!(shown.is_ok(), "{target}, change {fed}: {:?}", String::from_utf8_lossy(&bytes));
        fed += 1;
    }
    println!("{target}: {} seeds, {fed} changed ones", seeds.len());
}

macro_rules! targets {
    ($($target:ident)*) => {
        $(#[test]
        fn $target() {
            feed(stringify!($target));
        })*

        #[test]
        fn every_target_has_a_test() {
            assert_eq!(targets::TARGETS.len(), [$(stringify!($target)),*].len());
        }
    };
}

targets!(
    http config web_file frame recording state btf tracer_line cgroup report cpu_list tsdl packets ftrace
    mark execution paths kept
);
