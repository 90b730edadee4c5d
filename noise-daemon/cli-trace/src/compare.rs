//! `noised trace compare`: what is different in some executions, held against normal ones.

pub mod sets;

use std::path::{Path, PathBuf};

use noise_command::CommandError;
use noise_command::output;
use noise_command::progress::ProgressLine;
use noise_compare::comparison::fasta;
use noise_compare::comparison::{CompareError, CompareProgress, Comparison, Settings, compare};
use noise_compare::csv::csv;
use noise_compare::kinds::Clustering;
use noise_compare::picture::{alignment, clusters, reachability};
use noise_compare::rules::{LEAST_CHANCE, Thresholds};
use noise_compare::side::Side;
use noise_pages::comparison;
use noise_text::times::Moment;
use serde::Serialize;

use self::sets::{ComparedRecording, Origin, Sets};
use super::asked::Asking;
use super::{export, report};
use noise_pages::width::columns;

/// Arguments of `noised trace compare`.
#[derive(Debug, clap::Args)]
pub struct CompareArgs {
    /// The recording of normal executions: a folder in CTF (ours, LTTng's, perf's), or a text of ftrace.
    #[arg(value_name = "NORMAL", required_unless_present = "normals", conflicts_with = "normals")]
    normal: Option<PathBuf>,
    /// The recording of those that are held against them.
    #[arg(value_name = "SAMPLE", required_unless_present_any = ["split", "sample_key", "samples"], conflicts_with_all = ["split", "sample_key"])]
    sample: Option<PathBuf>,
    /// Several recordings of normal executions. Executions of one recording are not exchangeable with another's: from
    /// three of each side on, noised can tell a difference from drift between recordings. With --sample.
    #[arg(id = "normals", long = "normal", value_name = "RECORDING", num_args = 1.., requires = "samples")]
    normals: Vec<PathBuf>,
    /// Several recordings of executions that are held against those of --normal.
    #[arg(id = "samples", long = "sample", value_name = "RECORDING", num_args = 1.., requires = "normals", conflicts_with_all = ["sample", "split", "sample_key"])]
    samples: Vec<PathBuf>,
    /// Of one recording: executions that end before that time are the normal ones, those that begin after it the sample.
    #[arg(long, value_name = "TIME", value_parser = Moment::of_recording, conflicts_with = "sample_key")]
    split: Option<Moment>,
    /// Of one recording: executions whose marks have that key are the sample, all others the normal ones. With * at its end
    /// it stands for all keys that begin so. May be given several times.
    #[arg(long, value_name = "KEY")]
    sample_key: Vec<String>,
    #[command(flatten)]
    asking: Asking,
    #[command(flatten)]
    how: How,
    /// Write the two vectors of each execution as CSV.
    #[arg(long, value_name = "FILE")]
    vectors: Option<PathBuf>,
    /// Write the paths as they stand beside each other, as aligned FASTA.
    #[arg(long, value_name = "FILE")]
    alignment: Option<PathBuf>,
    /// Draw kinds of executions, the order in which they were found, and the paths of those that lost the most, as
    /// SVG into this folder.
    #[arg(long, value_name = "DIR")]
    picture: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// How executions are compared.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct How {
    /// How many standard deviations above the normal mean is anomalous.
    #[arg(long, value_name = "NUMBER", default_value_t = Thresholds::default().t1, value_parser = positive)]
    t1: f64,
    /// How many times the normal share of executions above the normal mean is anomalous.
    #[arg(long, value_name = "NUMBER", default_value_t = Thresholds::default().t2, value_parser = positive)]
    t2: f64,
    /// How often at most chance, or drift between recordings, may flag any state, from 0.0022 on; 1: take no account of
    /// them, and flag none.
    #[arg(long, value_name = "PART", default_value_t = Thresholds::default().chance, value_parser = chance)]
    chance: f64,
    /// Least growth of the mean time in a state that flags it, as a part of a mean normal execution; 0: any.
    #[arg(long, value_name = "PART", default_value_t = Thresholds::default().least, value_parser = part)]
    least: f64,
    /// How many executions make a dense region in which a kind is seen.
    #[arg(long, value_name = "COUNT", default_value_t = Clustering::default().min_points as u16, value_parser = clap::value_parser!(u16).range(2..=1000))]
    min_points: u16,
    /// How much less dense executions between kinds are than those of a kind.
    #[arg(long, value_name = "PART", default_value_t = Clustering::default().xi, value_parser = below_one)]
    xi: f64,
    /// Go on where no state is flagged.
    #[arg(long)]
    force: bool,
}

impl How {
    /// As the comparison takes it.
    pub fn settings(&self) -> Settings {
        let Self { t1, t2, chance, least, min_points, xi, force } = *self;
        Settings {
            thresholds: Thresholds { t1, t2, chance, least },
            clustering: Clustering {
                min_points: usize::from(min_points),
                xi,
                ..Clustering::default()
            },
            force,
            ..Settings::default()
        }
    }
}

fn number(text: &str, is_fine: impl Fn(f64) -> bool, what: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| is_fine(*number));
    number.ok_or_else(|| format!("expected {what}"))
}

fn positive(text: &str) -> Result<f64, String> {
    number(text, |it| (0.0..=1e6).contains(&it), "a number from 0 on, such as 1.5")
}

fn chance(text: &str) -> Result<f64, String> {
    let what = format!(
        "a part between {LEAST_CHANCE} and 1, such as 0.01: the random divisions that noised tries cannot tell less"
    );
    number(text, |it| (LEAST_CHANCE..=1.0).contains(&it), &what)
}

fn part(text: &str) -> Result<f64, String> {
    number(text, |it| (0.0..=1.0).contains(&it), "a part between 0 and 1, such as 0.01")
}

fn below_one(text: &str) -> Result<f64, String> {
    number(text, |it| it > 0.0 && it < 1.0, "a part between 0 and 1, such as 0.05")
}

/// A comparison with where its executions come from.
#[derive(Debug, Serialize)]
struct ExecutionComparison<'a> {
    /// Executions that are in neither set, because they lie on both sides of the time at which a recording is split.
    across: usize,
    /// Events that were lost while recording, in both.
    discarded: u64,
    /// What is missing in each.
    recordings: &'a [ComparedRecording],
    #[serde(flatten)]
    comparison: &'a Comparison,
}

impl<'a> ExecutionComparison<'a> {
    fn new(sets: &'a Sets, comparison: &'a Comparison) -> Self {
        let Sets { across, recordings, .. } = sets;
        let lost = recordings.iter().map(|recording| recording.discarded);
        let discarded = lost.fold(0, u64::saturating_add);
        Self { across: *across, discarded, recordings, comparison }
    }
}

pub fn run(args: &CompareArgs) -> Result<(), CommandError> {
    let origin = origin(args);
    let sets = Sets::read(&args.asking, &origin)?;
    if let Some(file) = &args.vectors {
        output::save(file, &csv([("normal", &sets.normal), ("sample", &sets.sample)]))?;
    }
    let keeps_alignments = args.alignment.is_some() || args.picture.is_some();
    let settings = Settings { keeps_alignments, ..args.how.settings() };
    let damaged = || sets.damage.iter().for_each(|(path, damage)| report(path, damage));
    // What is missing may be why.
    let comparison = compared(&sets.normal, &sets.sample, &settings).map_err(|error| {
        output::note(&sets.notes().text(false));
        damaged();
        origin.explained(error)
    })?;
    if let Some(file) = &args.alignment {
        match fasta(&comparison) {
            text if text.is_empty() => output::complain(&unwritten(file, &comparison)),
            text => output::save(file, &text)?,
        }
    }
    if let Some(folder) = &args.picture {
        draw(folder, &comparison)?;
    }
    match args.json {
        true => {
            output::print_document(&ExecutionComparison::new(&sets, &comparison))?;
        }
        false => {
            let mut page = sets.notes();
            page.append(comparison::page(&comparison, columns(), true));
            output::print_painted(&page)?;
        }
    }
    damaged();
    Ok(())
}

/// Says why a file or folder that was asked for is not written.
fn unwritten(path: &Path, comparison: &Comparison) -> String {
    let why = match comparison.went_on {
        true => "no path was put beside normal ones",
        false => "no state is flagged, and there is no effect (--force goes on all the same)",
    };
    format!("{} is not written: {why}", path.display())
}

/// Where both sides come from.
fn origin(args: &CompareArgs) -> Origin<'_> {
    let CompareArgs { normal, sample, normals, samples, split, sample_key, .. } = args;
    match (normal, split) {
        (Some(recording), Some(moment)) => Origin::Time(recording, moment),
        (Some(recording), None) if !sample_key.is_empty() => Origin::Keys(recording, sample_key),
        _ => Origin::Recordings(
            [(normal, normals), (sample, samples)]
                .map(|(one, more)| one.iter().chain(more).cloned().collect()),
        ),
    }
}

/// Paths that are drawn.
const DRAWN_PATHS: usize = 5;

/// Writes all pictures that there are of a comparison.
fn draw(folder: &Path, comparison: &Comparison) -> anyhow::Result<()> {
    let mut pictures = vec![
        ("clusters.svg".to_owned(), clusters(comparison)?),
        ("reachability.svg".to_owned(), reachability(comparison)?),
    ];
    for localised in comparison.localised.iter().take(DRAWN_PATHS) {
        let name = format!("alignment-{}.svg", localised.execution);
        pictures.push((name, alignment(comparison, localised)?));
    }
    if pictures.iter().all(|(_, picture)| picture.is_none()) {
        output::complain(&unwritten(folder, comparison));
        return Ok(());
    }
    let folder = export::folder(folder)?;
    let mut drawn = pictures.iter().filter_map(|(name, picture)| Some((name, picture.as_ref()?)));
    let saved = drawn
        .try_for_each(|(name, picture)| output::save_at(export::place_in(&folder, name)?, picture));
    if saved.is_err() {
        let _ = folder.discard();
    }
    saved
}

/// Compares, and shows a person how far that is.
/// Errors: what cannot be compared.
pub fn compared(
    normal: &Side,
    sample: &Side,
    settings: &Settings,
) -> Result<Comparison, CompareError> {
    let mut line = ProgressLine::begin();
    let mut progress = |progress: CompareProgress| match progress {
        CompareProgress::Kinds => line.draw("looking for kinds of executions"),
        CompareProgress::Paths { done, of } => {
            line.draw(&format!("putting paths side by side: {done} of {of}"));
        }
    };
    compare(normal, sample, settings, &mut progress)
}

#[cfg(test)]
mod tests;
