//! Alignments by Debian's `muscle3` (MUSCLE 3.8) and `mafft`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process;

use noise_compare::align::{Alignment, Scoring, Symbol};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// It gets our table and gap costs. A gap of n costs `-gapopen` and n - 1 times `-gapextend`, and half of `-gapopen` at an
    /// end, as here; `-center`, which it adds to each pair of symbols, is 0. A table makes it score profiles by the sum of
    /// pairs. It weights sequences by default, and would then refine another sum than the one that it is judged
    /// by. Numbers are a hundred times ours, so that they are of the size of its own tables (its bounds for columns to
    /// anchor at are absolute).
    Muscle,
    /// It knows of text that symbols are the same or not, and has its own costs.
    Mafft,
}

pub const ALL: [Command; 2] = [Command::Muscle, Command::Mafft];

const AMINO_ACIDS: &[u8] = b"ACDEFGHIKLMNPQRSTVWY";
const TEXT: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

impl Command {
    const fn name(self) -> &'static str {
        match self {
            Self::Muscle => "muscle3",
            Self::Mafft => "mafft",
        }
    }

    const fn letters(self) -> &'static [u8] {
        match self {
            Self::Muscle => AMINO_ACIDS,
            Self::Mafft => TEXT,
        }
    }
}

/// Why the others cannot be asked.
pub fn missing() -> Option<String> {
    let is_missing = |command: &&Command| {
        let mut version = process::Command::new(command.name());
        version.arg(if **command == Command::Muscle { "-version" } else { "--version" });
        version.stdin(process::Stdio::null());
        version.output().is_err()
    };
    let missing: Vec<_> = ALL.iter().filter(is_missing).map(|command| command.name()).collect();
    let reason = format!("there is no {0}: apt-get install {0}", missing.join(" "));
    (!missing.is_empty()).then_some(reason)
}

/// The other's alignment of sequences; `None` where there are more symbols than it has letters for.
pub fn side_by_side(
    command: Command,
    name: &str,
    sequences: &[Vec<Symbol>],
    scoring: &Scoring,
) -> Option<Alignment> {
    let mut symbols: Vec<Symbol> = sequences.concat();
    symbols.sort_unstable();
    symbols.dedup();
    let letters: BTreeMap<Symbol, char> = symbols
        .iter()
        .copied()
        .zip(command.letters().iter().map(|letter| char::from(*letter)))
        .collect();
    if letters.len() < symbols.len() {
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("align-{}-{command:?}-{name}", process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{name}.fasta"));
    let mut text = String::new();
    for (number, sequence) in sequences.iter().enumerate() {
        let row: String = sequence.iter().map(|symbol| letters[symbol]).collect();
        writeln!(text, ">{number}\n{row}").unwrap();
    }
    fs::write(&file, &text).unwrap();
    let mut process = process::Command::new(command.name());
    match command {
        Command::Muscle => {
            let table = folder.join(format!("{name}.table"));
            fs::write(&table, as_ncbi(&symbols, scoring)).unwrap();
            let gaps = scoring.gaps();
            assert!((gaps.end_open * 2.0 - gaps.open).abs() < 1e-12, "muscle halves gaps at ends");
            let cost = |cost: f64| format!("{:.4}", -100.0 * cost);
            process.args(["-quiet", "-seqtype", "protein", "-center", "0.0"]);
            process.args(["-weight1", "none", "-weight2", "none"]);
            process.args(["-gapopen", &cost(gaps.open), "-gapextend", &cost(gaps.extend)]);
            process.arg("-matrix").arg(table).arg("-in").arg(&file);
        }
        Command::Mafft => drop(process.args(["--quiet", "--thread", "1", "--text"]).arg(&file)),
    }
    let output = process.stdin(process::Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} of {name}: {said}");
    fs::remove_dir_all(&folder).unwrap();
    let rows = read(&String::from_utf8(output.stdout).unwrap());
    let row = |(number, sequence): (usize, &Vec<Symbol>)| {
        let row = rows.get(&number.to_string()).unwrap();
        let found: String = row.chars().filter(|letter| *letter != '-').collect();
        let wanted: String = sequence.iter().map(|symbol| letters[symbol]).collect();
        assert_eq!(found, wanted, "{command:?} of {name}");
        let mut next = 0..sequence.len();
        row.chars().map(|letter| if letter == '-' { None } else { next.next() }).collect()
    };
    Some(Alignment { rows: sequences.iter().enumerate().map(row).collect() })
}

/// A table as NCBI writes them, of all letters that muscle asks for.
fn as_ncbi(symbols: &[Symbol], scoring: &Scoring) -> String {
    let letters: Vec<String> =
        AMINO_ACIDS.iter().map(|letter| char::from(*letter).to_string()).collect();
    let mut text = format!("   {}  *\n", letters.join("  "));
    for (number, letter) in letters.iter().enumerate() {
        text.push_str(letter);
        for other in 0..letters.len() {
            let pair = symbols.get(number).zip(symbols.get(other));
            let score = pair.map_or(0.0, |(a, b)| scoring.score(*a, *b));
            write!(text, " {:.4}", 100.0 * score).unwrap();
        }
        text.push_str(" 0\n");
    }
    format!("{text}*{}\n", " 0".repeat(letters.len() + 1))
}

/// The rows of aligned FASTA by name.
fn read(text: &str) -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    let mut row: Option<&mut String> = None;
    for line in text.lines() {
        match (line.strip_prefix('>'), &mut row) {
            (Some(name), _) => row = Some(rows.entry(name.trim().to_owned()).or_default()),
            (None, Some(row)) => row.push_str(line.trim()),
            (None, None) => panic!("{line} before the first row"),
        }
    }
    rows
}
