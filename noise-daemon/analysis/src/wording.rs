//! Incidents and long waits in words, for the terminal view and the commands. Names are as the host
//! has them: what shows them on a terminal takes the control characters out.

use noise_model::labels::spoken_briefly;

use super::culprits::{Culprit, Time, nothing_beyond};
use super::incident::Ending;
use super::name::Name;
use super::report::{Episode, Report, ReportedOutlier};

/// Least shares, of what is beyond the usual or of all, of culprits that are listed by name.
const LEAST_BEYOND: f64 = 0.01;
const LEAST_SHARE: f64 = 0.05;

impl Report {
    /// Whether it goes on, or how it ended.
    pub fn standing(&self) -> &'static str {
        // Of what joined, some may have gone on for longer than what opened it; and a signal may have
        // left `watch` long before the end.
        let end = self.end();
        let last = || self.episodes().filter(|one| one.end == end).map(|one| one.ending);
        let ending = match self.main.ending {
            _ if last().any(|ending| ending == Some(Ending::Unwatched)) => Some(Ending::Unwatched),
            Some(Ending::Unwatched) => last().next().flatten(),
            ending => ending,
        };
        match (self.open, ending) {
            (true, _) | (_, None) => "open",
            (_, Some(Ending::Over)) => "over",
            (_, Some(Ending::Adopted)) => "adopted as baseline",
            (_, Some(Ending::Vanished)) => "its subject is gone",
            (_, Some(Ending::Unwatched)) => "open when noised stopped watching it",
        }
    }

    /// How long it lasted, or has lasted so far, seconds.
    pub fn lasted(&self) -> f64 {
        self.end().duration_since(self.start()).as_secs_f64()
    }
}

impl Episode {
    /// Whether no culprit is charged with more than usual.
    pub fn nothing_beyond(&self) -> bool {
        nothing_beyond(&self.culprits)
    }

    /// Culprits that are worth their name, at most so many, and all others together.
    pub fn named_culprits(&self, most: usize) -> (Vec<&Culprit<Name>>, Time) {
        let mut listed = Vec::new();
        let mut others = self.others;
        for culprit in &self.culprits {
            let (time, beyond) = (culprit.time, culprit.beyond);
            if listed.len() < most && (beyond.share >= LEAST_BEYOND || time.share >= LEAST_SHARE) {
                listed.push(culprit);
            } else {
                others.seconds += time.seconds;
                others.share += time.share;
            }
        }
        (listed, others)
    }
}

impl ReportedOutlier {
    /// Who waited for how long, as it follows the time.
    pub fn sentence(&self, duration: impl Fn(u64) -> String) -> String {
        let wait = &self.wait;
        format!(
            "{} ({}) of {} waited {} for CPU {}, after {}",
            wait.comm,
            wait.pid,
            spoken_briefly(&wait.victim),
            duration(wait.wait_ns),
            wait.cpu,
            wait.made_runnable
        )
    }

    /// What the wait consists of, a line each.
    pub fn parts(&self, duration: impl Fn(u64) -> String) -> Vec<String> {
        let wait = &self.wait;
        let mut lines: Vec<String> = Vec::with_capacity(wait.parts.len() + 1);
        for part in &wait.parts {
            let (culprit, cause) = (spoken_briefly(&part.culprit), part.cause.name());
            let mut line = format!("{:>9}  {culprit} ({cause})", duration(part.ns));
            if part.pid > 0 {
                line.push_str(&format!("  {} ({})", part.comm, part.pid));
            }
            lines.push(line);
        }
        if wait.rest_ns > 0 {
            lines.push(format!("{:>9}  not attributed", duration(wait.rest_ns)));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::made;

    #[test]
    fn what_ended_last_says_how_an_incident_ended() {
        let episode = |end, ending| Episode {
            end: Timestamp::from_second(end).unwrap(),
            ending: Some(ending),
            ..made::episode()
        };
        let standing = |main, also| Report::new(1, false, main, vec![also]).standing();
        let unwatched = "open when noised stopped watching it";
        let over = |end| episode(end, Ending::Over);
        assert_eq!(standing(over(60), episode(10, Ending::Unwatched)), "over");
        assert_eq!(standing(episode(10, Ending::Unwatched), over(60)), "over");
        assert_eq!(standing(over(60), episode(70, Ending::Unwatched)), unwatched);
        assert_eq!(standing(episode(70, Ending::Unwatched), over(60)), unwatched);
    }
}
