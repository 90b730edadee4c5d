//! `noised man`: the manual, made from the definition of the command line.

use std::io;
use std::path::PathBuf;

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};
use noise_command::Exit;
use noise_command::output;
use noise_system::output::PLAIN_MODE;

use super::Cli;
use super::examples::EXAMPLES;

/// Arguments of `noised man`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Write noised.1 and a page for each command into this directory, instead of printing noised.1.
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

/// Files, by their default paths.
const FILES: [(&str, &str); 3] = [
    ("/etc/noised/noised.toml", "Configuration of the service."),
    ("/run/noised/noised.sock", "Local query socket of the daemon; for root and the group noised."),
    ("/var/lib/noised", "Past incidents and learnt baselines."),
];

/// Prints a page or writes all.
/// Errors: where there is no such directory, or it or standard output cannot take it.
pub fn run(args: &ManArgs) -> anyhow::Result<()> {
    let Some(directory) = &args.directory else {
        let page = render(whole(), "noised")?;
        return output::print_own(&String::from_utf8_lossy(&page));
    };
    // All are written before the first has its name: where one cannot be written, the others are as they were.
    let mut targets = Vec::new();
    for (name, page) in pages()? {
        let mut target = output::place(&directory.join(name))?.begin(PLAIN_MODE)?;
        target.write(&page)?;
        targets.push(target);
    }
    targets.into_iter().try_for_each(|target| Ok(target.keep()?))
}

/// The command with all that clap adds to it, and without its `help`, which is no command of ours.
fn whole() -> Command {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    command
}

/// File name and text of every page.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut pages = Vec::new();
    let mut left = vec![whole()];
    while let Some(command) = left.pop() {
        left.extend(command.get_subcommands().filter(|inner| !inner.is_hide_set()).cloned());
        let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
        pages.push((format!("{name}.1"), render(command, &name)?));
    }
    Ok(pages)
}

fn render(command: Command, name: &str) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let version = command.get_version().unwrap_or_default().to_owned();
    Man::new(command)
        .title(name.to_uppercase())
        .source(format!("noised {version}"))
        .manual("noised")
        .render(&mut text)?;
    let examples = examples(name);
    if !examples.is_empty() {
        list("EXAMPLES", examples).to_writer(&mut text)?;
    }
    list("EXIT STATUS", Exit::ALL.map(|exit| (exit.code().to_string(), exit.meaning())))
        .to_writer(&mut text)?;
    if name == "noised" {
        list("FILES", FILES).to_writer(&mut text)?;
    }
    Ok(text)
}

/// The examples of a page, which is called after its command.
fn examples(page: &str) -> Vec<(&'static str, &'static str)> {
    let is_of = |line: &str| {
        let rest = line.replace(' ', "-");
        rest.strip_prefix(page).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    EXAMPLES.into_iter().filter(|(line, _)| is_of(line)).collect()
}

/// A section that says something of each of several things.
fn list(
    heading: &str,
    entries: impl IntoIterator<Item = (impl Into<String>, &'static str)>,
) -> Roff {
    let mut section = Roff::new();
    section.control("SH", [heading]);
    for (term, meaning) in entries {
        section.control("TP", []);
        section.text([bold(term)]);
        section.text(Vec::<Inline>::from([roman(meaning)]));
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let pages = pages().unwrap();
        let text = |name: &str| {
            let found = pages.iter().find(|(page, _)| page == name);
            String::from_utf8(found.unwrap_or_else(|| panic!("no {name}")).1.clone()).unwrap()
        };
        for command in whole().get_subcommands() {
            let page = text(&format!("noised-{}.1", command.get_name()));
            assert!(page.contains("EXIT STATUS"), "{page}");
        }
        assert!(text("noised-incidents.1").contains("EXAMPLES"));
        assert!(text("noised-incidents.1").contains("noised incidents \\-\\-since 2h"));
        assert!(text("noised-trace-delays.1").contains("third second"));
        assert!(!text("noised-trace-delays.1").contains("pftrace"));
        assert!(text("noised-run.1").contains("config.file"));
        assert!(text("noised-bench-detour.1").contains("threshold"));
        let own = text("noised.1");
        for word in [".TH NOISED 1", "/etc/noised/noised.toml", "noised\\-incidents(1)"] {
            assert!(own.contains(word), "{word} is not in {own}");
        }
        assert!(!pages.iter().any(|(name, _)| name.contains("help")));
    }

    #[test]
    fn what_pages_refer_to_is_installed() {
        let pages = pages().unwrap();
        let repository = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for (name, page) in &pages {
            let page = String::from_utf8_lossy(page).replace('\\', "");
            for word in page.split([' ', '(', ')', ',', '\n']) {
                if let Some(file) = word.strip_prefix("/usr/share/doc/noised/") {
                    assert!(repository.join(file).is_file(), "{name}: {word}");
                }
                let is_relative = word.ends_with(".md") && !word.starts_with('/');
                assert!(!is_relative, "{name}: {word} is not where the reader is");
            }
            for referred in page.split("(1)").filter_map(|before| before.split_whitespace().last())
            {
                let is_page = referred.starts_with("noised-");
                let file = format!("{referred}.1");
                assert!(!is_page || pages.iter().any(|(name, _)| *name == file), "{name}: {file}");
            }
        }
    }
}
