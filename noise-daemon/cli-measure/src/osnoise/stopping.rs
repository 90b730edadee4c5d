//! What happens when a measurement ends by a threshold.

use std::collections::{BTreeMap, VecDeque};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context as _, bail};
use noise_measure::gaps::Stopped;
use noise_measure::naming::Naming;
use noise_measure::osnoise::{self, PeriodReport};
use noise_text::units;

use noise_command::output;

/// Samples of a CPU that are kept for the record.
const RECENT: usize = 50;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnThreshold {
    /// Print the recent samples of that CPU.
    Dump,
    /// Run a command by the shell.
    Command(String),
}

impl FromStr for OnThreshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("shell,command=") {
            _ if text == "dump" => Ok(Self::Dump),
            Some(command) if !command.is_empty() => Ok(Self::Command(command.to_owned())),
            _ => Err("expected dump or shell,command=COMMAND".to_owned()),
        }
    }
}

/// The last samples of each CPU, as text.
#[derive(Debug, Default)]
pub struct Recent {
    cpus: BTreeMap<u32, VecDeque<String>>,
}

impl Recent {
    /// Keeps the last ones of a period.
    pub fn keep(&mut self, period: &PeriodReport, naming: &mut Naming) {
        let lines = self.cpus.entry(period.cpu).or_default();
        let first = period.samples.len().saturating_sub(RECENT);
        for sample in &period.samples[first..] {
            if lines.len() == RECENT {
                lines.pop_front();
            }
            lines.push_back(osnoise::lines(period, sample, naming));
        }
    }
}

/// Does what is to be done. Where the output is JSON, the record goes to standard error, and so does the output of commands.
/// Errors: where a command cannot be run, or fails.
pub fn act(
    actions: &[OnThreshold],
    cpu: u32,
    stopped: Stopped,
    recent: &Recent,
    json: bool,
) -> anyhow::Result<()> {
    let (what, gap) = match stopped {
        Stopped::Single(gap) => ("a single gap of", gap.duration_ns),
        Stopped::Total(noise_ns, _) => ("noise in one period of", noise_ns),
        Stopped::Asked => return Ok(()),
    };
    show(&record(actions, cpu, &format!("{what} {}", units::duration(gap as f64)), recent), json);
    for action in actions {
        let OnThreshold::Command(command) = action else { continue };
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).env("NOISED_CPU", cpu.to_string());
        if json {
            // Standard output is JSON and nothing else.
            #[allow(clippy::disallowed_methods, reason = "another program writes there")]
            shell.stdout(std::io::stderr());
        }
        let status = shell.status().with_context(|| format!("cannot run `{command}`"))?;
        if !status.success() {
            bail!("`{command}` ended with {status}");
        }
    }
    Ok(())
}

/// Why it ended and, where that is wanted, what was there before.
fn record(actions: &[OnThreshold], cpu: u32, reason: &str, recent: &Recent) -> String {
    let mut record = format!("\nstopped by {reason} on CPU {cpu}");
    if actions.contains(&OnThreshold::Dump) {
        let samples = recent.cpus.get(&cpu);
        let count = samples.map_or(0, VecDeque::len);
        record.push_str(&format!("; its last {count} samples:\n"));
        record.extend(samples.into_iter().flatten().map(String::as_str));
    } else {
        record.push('\n');
    }
    record
}

/// Prints the record. A reader that has gone is no failure.
fn show(record: &str, json: bool) {
    if json {
        output::note(record);
    } else {
        let _ = output::show(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_written_as_rtla_takes_them() {
        assert_eq!("dump".parse(), Ok(OnThreshold::Dump));
        let command = OnThreshold::Command("logger a,b=c".to_owned());
        assert_eq!("shell,command=logger a,b=c".parse(), Ok(command));
        for wrong in ["", "shell", "shell,command=", "trace"] {
            assert!(wrong.parse::<OnThreshold>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_record_has_the_samples_where_they_are_wanted() {
        let mut recent = Recent::default();
        recent.cpus.entry(1).or_default().push_back("a sample\n".to_owned());
        let command = OnThreshold::Command("false".to_owned());
        let of = |actions: &[OnThreshold], cpu| record(actions, cpu, "a reason", &recent);
        let text = "\nstopped by a reason on CPU 1; its last 1 samples:\na sample\n";
        assert_eq!(of(&[command.clone(), OnThreshold::Dump], 1), text);
        assert_eq!(of(&[command], 1), "\nstopped by a reason on CPU 1\n");
        let text = "\nstopped by a reason on CPU 0; its last 0 samples:\n";
        assert_eq!(of(&[OnThreshold::Dump], 0), text);
    }

    #[test]
    fn a_command_that_fails_is_reported() {
        let gap = noise_measure::gaps::LongGap { start_ns: 1, duration_ns: 2 };
        let act = |command: &str| {
            let actions = [OnThreshold::Command(command.to_owned())];
            act(&actions, 0, Stopped::Single(gap), &Recent::default(), true)
        };
        assert!(act("test \"$NOISED_CPU\" = 0").is_ok());
        let error = act("exit 3").unwrap_err().to_string();
        assert!(error.starts_with("`exit 3` ended with"), "{error}");
    }
}
