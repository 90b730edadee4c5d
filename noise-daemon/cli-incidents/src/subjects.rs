//! PURE: which incidents and long waits are asked for, by who was delayed.

use std::fmt;

use noise_analysis::Report;
use noise_text::nearest::nearest;

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

/// A name that none of these has.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub struct Unknown {
    name: String,
    what: &'static str,
    meant: Option<String>,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, what, meant } = self;
        write!(f, "no {what} that is known is about `{name}`")?;
        match meant {
            Some(meant) => write!(f, ": did you mean `{meant}`?"),
            None => write!(f, ": leave --subject out to see what they are about"),
        }
    }
}

/// The end of a subject's path, without the kind of unit and the operation of a device.
fn short(subject: &str) -> &str {
    let leaf = subject.rsplit('/').next().unwrap_or_default();
    let leaf = leaf.split(' ').next().unwrap_or_default();
    leaf.rsplit_once('.').map_or(leaf, |(name, _)| name)
}

impl Subjects {
    /// Whether each name is that of one of these subjects, of which the incidents or long waits are, or of something
    /// that `is_there`, of which there are none.
    /// Errors: the first that is not.
    pub fn ensure_known(
        &self,
        what: &'static str,
        known: &[&str],
        is_there: impl Fn(&str) -> bool,
    ) -> Result<(), Unknown> {
        let is_known =
            |name: &&String| known.iter().any(|subject| is_called(subject, name)) || is_there(name);
        let Some(name) = self.0.iter().find(|name| !is_known(name)) else { return Ok(()) };
        let whole = nearest(name, known.iter().copied());
        let meant = whole.or_else(|| {
            let near = nearest(name, known.iter().map(|subject| short(subject)))?;
            known.iter().copied().find(|subject| short(subject) == near)
        });
        Err(Unknown { name: name.clone(), what, meant: meant.map(str::to_owned) })
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
/// Errors: where it is none.
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
        let known = ["web.service", "/user.slice/a", "vda read"];
        let ask = |name: &str| {
            let subjects = Subjects(vec!["vda".to_owned(), name.to_owned()]);
            let is_there = |name: &str| name == "postgres";
            let known = subjects.ensure_known("incident", &known, is_there);
            known.map_err(|error| error.to_string())
        };
        assert_eq!((ask("web"), ask("postgres")), (Ok(()), Ok(())));
        for (name, words) in [
            ("wweb", "about `wweb`: did you mean `web.service`?"),
            ("web.servic", "did you mean `web.service`?"),
            ("nginx", "no incident that is known is about `nginx`: leave --subject out"),
        ] {
            let error = ask(name).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert!(Subjects::default().ensure_known("incident", &[], |_| false).is_ok());
        assert!(Subjects::default().include("anything"));
        assert!(parse(" ").is_err() && parse("a").is_ok());
    }
}
