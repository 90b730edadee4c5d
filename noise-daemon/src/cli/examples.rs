//! Examples of command lines, for the manual. A test parses each, so that none outlives an option.

/// Command lines, each with what it is for. A page of the manual has those that begin with its command.
pub const EXAMPLES: [(&str, &str); 30] = [
    ("noised check", "Whether this kernel and these privileges are enough."),
    ("noised check --json", "The same for scripts."),
    ("noised run --config.file=/etc/noised/noised.toml", "Measure, as the service does."),
    ("noised top", "Who is held up on this host, by whom."),
    ("noised top --connect http://db1:19435 --screen who", "Who delays whom on another host."),
    ("noised top --once --json", "One reading for scripts."),
    ("noised top --replay monday.noised", "What `noised top --record monday.noised` wrote."),
    ("noised why nginx", "Why a service is slow now."),
    ("noised why 4242 --since 14:03", "What held a process up from 14:03 on."),
    ("noised why --request http", "The last requests that a server on this host answered."),
    ("noised incidents --since 2h", "What was unusual in the last two hours."),
    (
        "noised incidents --since 14:00 --until 14:30 --json",
        "The same of half an hour, for scripts.",
    ),
    ("noised incidents show 7 --path", "What the victim of incident 7 waited for when it opened."),
    (
        "noised osnoise --cpus 2-3 --duration 1m",
        "How much of two CPUs a busy thread gets, and who takes the rest.",
    ),
    ("noised bench detour --duration 30s", "What interrupts a thread, seen from inside of it."),
    ("noised bench fwq", "How much longer than the shortest equal pieces of work take."),
    ("noised bench ftq", "How much work is done in equal times."),
    ("noised bench scale before.json", "What that noise would do to a program on many nodes."),
    (
        "noised bench compare before.json after.json",
        "What changed between two reports of `bench detour --json`.",
    ),
    (
        "noised record --duration 10s --output slow",
        "Ten seconds of kernel events, as the folder slow.",
    ),
    ("noised record --output build -- make -j8", "The same as long as a command runs."),
    ("noised mark begin request --key 42", "Say in a recording that a request begins."),
    ("noised trace events slow --summary", "How many events of each kind are in a recording."),
    ("noised trace delays slow --from +2s --to +3s", "Who waited for whom in the third second."),
    ("noised trace states slow --cgroup nginx.service", "How long its threads ran and slept."),
    (
        "noised trace critical-path slow --execution process:make",
        "What a process really waited for.",
    ),
    (
        "noised trace compare usual slow --execution mark:request",
        "What makes requests slower than usual.",
    ),
    (
        "noised trace compare --normal u1 u2 u3 --sample s1 s2 s3 --execution mark:request",
        "Whether that is more than recordings of one program differ by.",
    ),
    ("noised trace sketch slow", "How requests went through threads and tiers."),
    ("noised trace export slow --perfetto slow.pftrace", "A recording for ui.perfetto.dev."),
];

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory as _, Parser as _};

    use super::EXAMPLES;
    use crate::cli::Cli;

    #[test]
    fn each_is_a_command_line_of_ours() {
        for (line, meaning) in EXAMPLES {
            if let Err(error) = Cli::try_parse_from(line.split(' ')) {
                panic!("{line}: {error}");
            }
            assert!(meaning.ends_with('.'), "{meaning}");
        }
    }

    #[test]
    fn each_command_that_reports_has_one() {
        let mut left = vec![(Cli::command(), "noised".to_owned())];
        while let Some((command, name)) = left.pop() {
            let inner = command
                .get_subcommands()
                .map(|inner| (Command::clone(inner), format!("{name} {}", inner.get_name())));
            left.extend(inner);
            let reports = command.get_arguments().any(|argument| argument.get_id() == "json");
            let is_shown = EXAMPLES.iter().any(|(line, _)| line.starts_with(&name));
            assert!(is_shown || !reports, "{name} has no example");
        }
    }
}
