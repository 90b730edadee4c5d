//! PURE: which incidents and long waits are asked for, by who was delayed.

use noise_analysis::Report;

/// Names of those that are shown; all where there is none.
#[derive(Clone, Debug, Default)]
pub struct Subjects(pub Vec<String>);

impl Subjects {
    /// Whether any part of an incident is of them.
    pub fn have(&self, report: &Report) -> bool {
        report.episodes().any(|episode| self.include(&episode.subject))
    }

    /// Whether that is one of them.
    pub fn include(&self, subject: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|name| is_called(subject, name))
    }
}

/// Whether a subject has that name: all of it, the end of its path, without the kind of unit (`web` is `web.service`),
/// or without the operation of a device (`vda` is `vda read`).
fn is_called(subject: &str, name: &str) -> bool {
    let leaf = subject.rsplit('/').next().unwrap_or_default();
    let is_kind = |rest: &str| rest.strip_prefix('.').is_some_and(|kind| !kind.contains('.'));
    [subject, leaf].iter().any(|whole| {
        let rest = whole.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' ') || is_kind(rest))
    })
}

/// A name on the command line.
///
/// # Errors
/// Where it is none.
pub fn parse(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => {
            Err("expected a name, as `noised incidents` has it: web.service, `vda read`".to_owned())
        }
        name => Ok(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_or_lack_what_goes_without_saying() {
        for (subject, name, expected) in [
            ("web.service", "web.service", true),
            ("web.service", "web", true),
            ("web.service", "we", false),
            ("web.1.service", "web", false),
            ("web.1.service", "web.1", true),
            ("/a/web.service", "web", true),
            ("/a/web.service", "a", false),
            ("/a/web", "/a/web", true),
            ("/", "/", true),
            ("/a", "/", false),
            ("vda read", "vda", true),
            ("vda read", "vda read", true),
            ("vda1 read", "vda", false),
        ] {
            assert_eq!(is_called(subject, name), expected, "{subject} {name}");
        }
        assert!(Subjects::default().include("anything"));
        assert!(parse(" ").is_err() && parse("a").is_ok());
    }
}
