//! `noised osnoise`: how much of a CPU a busy thread gets, and who takes the rest.

mod backend;
mod session;
mod show;
mod stopping;
mod tenant;

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use noise_command::interrupt;
use noise_command::{CommandError, Exit};
use noise_measure::cpus::{self, CpuError};
use noise_measure::osnoise::{self, OsnoiseOptions};
use noise_measure::placement::Priority;
use noise_measure::tenant::Subject;
use noise_text::cpulist::CpuList;

use self::session::Session;
use self::stopping::OnThreshold;
use crate::measured::measured;
use noise_command::durations::{Plain, duration, nanoseconds};

/// Who measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Backend {
    /// noised's own threads, and its programs.
    Noised,
    /// The kernel's osnoise tracer.
    Kernel,
}

/// Arguments of `noised osnoise`.
#[derive(Debug, clap::Args)]
pub struct OsnoiseArgs {
    /// What to print.
    #[arg(value_enum, default_value_t = View::Top)]
    pub view: View,
    /// Who measures: noised's own threads and programs, on any kernel, or the kernel's osnoise tracer,
    /// where the kernel has it.
    #[arg(long, value_enum, default_value_t = Backend::Noised)]
    pub backend: Backend,
    /// Measure with preemption off (kernel backend).
    #[arg(long)]
    pub preempt_disable: bool,
    /// Measure with interrupts off (kernel backend).
    #[arg(long)]
    pub irq_disable: bool,
    /// Count the same seconds with noised's own programs as well, show both counts, and fail where they
    /// differ by more than 5 % (kernel backend).
    #[arg(long)]
    pub cross_check: bool,
    /// CPUs to measure (0-3,8) [default: all].
    #[arg(long, short, value_name = "LIST")]
    pub cpus: Option<CpuList>,
    /// From the begin of one measurement to that of the next (1s, 500ms; without a unit: microseconds).
    #[arg(long, short, value_name = "TIME", default_value = "1s", value_parser = period)]
    pub period: Duration,
    /// How long each measurement takes, the period at most; without a unit: microseconds [default: the period].
    #[arg(long, short, value_name = "TIME", value_parser = period)]
    pub runtime: Option<Duration>,
    /// How long altogether (5s, 10m; without a unit: seconds) [default: until it is interrupted].
    #[arg(long, short, value_name = "TIME", value_parser = whole)]
    pub duration: Option<Duration>,
    /// A gap of this length is noise (5us; without a unit: microseconds).
    #[arg(long, short = 'T', value_name = "TIME", default_value = "5us", value_parser = gap)]
    pub threshold: Duration,
    /// End as soon as a single gap is this long; without a unit: microseconds.
    #[arg(long, short, value_name = "TIME", value_parser = gap)]
    pub stop: Option<Duration>,
    /// End as soon as the noise of one period is this much; without a unit: microseconds.
    #[arg(long, short = 'S', value_name = "TIME", value_parser = gap)]
    pub stop_total: Option<Duration>,
    /// What to do when it ends by --stop or --stop-total: `dump` the recent samples of that CPU, or
    /// `shell,command=COMMAND`; may be given more than once.
    #[arg(long, value_name = "ACTION", default_value = "dump")]
    pub on_threshold: Vec<OnThreshold>,
    /// Scheduling of the measuring threads: o:NICE, f:PRIORITY, r:PRIORITY or d:RUNTIME:PERIOD.
    #[arg(long, short = 'P', value_name = "POLICY")]
    pub priority: Option<Priority>,
    /// CPUs for everything else that this command does.
    #[arg(long, short = 'H', value_name = "LIST")]
    pub housekeeping: Option<CpuList>,
    /// Width of a bucket of the histogram; without a unit: microseconds.
    #[arg(long, short, value_name = "TIME", default_value = "1us", value_parser = bucket)]
    pub bucket_size: Duration,
    /// Number of its buckets; longer samples are counted apart.
    #[arg(long, short = 'E', value_name = "NUMBER", default_value_t = 256)]
    #[arg(value_parser = clap::value_parser!(u32).range(10..10_000))]
    pub entries: u32,
    /// Measure no CPU: account for a process, or one thread, instead: what was taken from it, and
    /// behind whom it waited.
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(conflicts_with_all = WORKLOAD_ONLY)]
    pub task: Option<u32>,
    /// The same for a cgroup and all below it, by its path.
    #[arg(long, value_name = "PATH", conflicts_with = "task", conflicts_with_all = WORKLOAD_ONLY)]
    pub cgroup: Option<PathBuf>,
    /// Print JSON, at the end.
    #[arg(long)]
    pub json: bool,
}

/// How often the events of the programs are drained.
const TURN: Duration = Duration::from_millis(20);

/// Options that make no sense without a measuring thread.
const WORKLOAD_ONLY: [&str; 8] =
    ["cpus", "period", "runtime", "stop", "stop_total", "priority", "housekeeping", "threshold"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum View {
    /// A line for each CPU, and who it was.
    Top,
    /// Samples by length.
    Hist,
    /// Every sample with its parts, in the words of the kernel's tracer.
    Log,
}

fn period(text: &str) -> Result<Duration, String> {
    duration(text, Plain::Microseconds, Duration::from_millis(1), Duration::from_secs(3600))
}

fn whole(text: &str) -> Result<Duration, String> {
    duration(text, Plain::Seconds, Duration::from_millis(10), Duration::from_secs(366 * 86_400))
}

fn gap(text: &str) -> Result<Duration, String> {
    duration(text, Plain::Microseconds, Duration::from_nanos(100), Duration::from_secs(3600))
}

fn bucket(text: &str) -> Result<Duration, String> {
    duration(text, Plain::Microseconds, Duration::from_nanos(100), Duration::from_secs(1))
}

impl OsnoiseArgs {
    fn options(&self) -> Result<OsnoiseOptions, CommandError> {
        let runtime = self.runtime.unwrap_or(self.period);
        if runtime > self.period {
            let period = self.period;
            return Err(CommandError::misused(format!(
                "a runtime of {runtime:?} does not fit into a period of {period:?}: give a longer \
                 --period or a shorter --runtime"
            )));
        }
        let asked = self.cpus.as_ref();
        let cpus = match self.backend {
            Backend::Noised => cpus::choose(asked),
            Backend::Kernel => cpus::choose_online(asked),
        };
        let cpus = cpus.map_err(measured)?;
        let housekeeping = match &self.housekeeping {
            Some(asked) => Some(cpus::choose(Some(asked)).map_err(hint)?),
            None => self.spare(&cpus),
        };
        Ok(OsnoiseOptions {
            cpus,
            period: self.period,
            runtime,
            duration: self.duration,
            threshold_ns: nanoseconds(self.threshold),
            stop_single_ns: self.stop.map(nanoseconds),
            stop_total_ns: self.stop_total.map(nanoseconds),
            priority: self.priority.unwrap_or_default(),
            housekeeping,
            turn: TURN,
            lock_memory: true,
            in_turns: false,
        })
    }

    /// Whom to account for, if not for a measuring thread.
    fn subject(&self) -> Result<Option<Subject>, CommandError> {
        let subject = match (self.task, &self.cgroup) {
            (Some(pid), _) => Subject::task(pid),
            (None, Some(path)) => Subject::cgroup(path),
            (None, None) => return Ok(None),
        };
        subject.map(Some).map_err(CommandError::usage)
    }

    /// CPUs that are not measured, if there are any.
    fn spare(&self, measured: &CpuList) -> Option<CpuList> {
        let spare = cpus::allowed().ok()?.without(measured);
        (!spare.is_empty()).then_some(spare)
    }
}

fn hint(error: CpuError) -> CommandError {
    CommandError::misused(format!("--housekeeping: {error}"))
}

pub fn run(args: &OsnoiseArgs) -> Result<Exit, CommandError> {
    backend::refuse(args)?;
    if let Some(subject) = args.subject()? {
        let stop = interrupt::flag()?;
        return tenant::run(subject, args.duration, args.json, &stop).map(|()| Exit::Fine);
    }
    let options = args.options()?;
    let stop = interrupt::flag()?;
    let session = RefCell::new(Session::new(args));
    match args.backend {
        Backend::Noised => osnoise::run(
            &options,
            &stop,
            |period| session.borrow_mut().period(&period),
            || session.borrow_mut().turn(&stop),
        ),
        Backend::Kernel => backend::measure(args, &options, &stop, &session),
    }
    .map_err(measured)?;
    session.into_inner().end()
}

#[cfg(test)]
mod tests {
    use noise_command::fixtures::parsed;

    use super::*;

    #[test]
    fn numbers_without_a_unit_are_read_as_rtla_reads_them() {
        let words = "-d 5 -p 1000000 -r 950000 -s 100 -S 2000 -T 5 --bucket-size 2";
        let args: OsnoiseArgs = parsed(words.split(' ')).unwrap();
        assert_eq!(args.duration, Some(Duration::from_secs(5)));
        let lengths = [Some(args.period), args.runtime, args.stop, args.stop_total];
        let micros = lengths.map(|length| length.unwrap().as_micros());
        assert_eq!(micros, [1_000_000, 950_000, 100, 2_000]);
        assert_eq!((args.threshold.as_micros(), args.bucket_size.as_micros()), (5, 2));
        let same = "-d 5s -p 1s -r 950ms -s 100us -S 2ms -T 5us --bucket-size 2us";
        let same: OsnoiseArgs = parsed(same.split(' ')).unwrap();
        assert_eq!((same.duration, same.stop), (args.duration, args.stop));
    }
}
