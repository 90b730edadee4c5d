//! Points: what was shown, held against what was planted.

use serde::Serialize;

use super::felt::Felt;
use super::look::Look;

/// In which the first screen and the incident have to be right, s.
const SOON_SECONDS: f64 = 10.0;

/// When each surface was right first, s after something was planted; `None` where it never was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Seconds {
    /// The page of the victim.
    pub why: Option<f64>,
    /// The first screen.
    pub screen: Option<f64>,
    /// The incident.
    pub incident: Option<f64>,
}

/// How a drill ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Ending {
    /// It was judged.
    Judged {
        /// Of 3; none where a command would do harm.
        points: u32,
    },
    /// It says nothing.
    Inconclusive {
        /// Why.
        reason: String,
    },
    /// This host cannot do it.
    Skipped {
        /// Why.
        reason: String,
    },
}

/// What a drill showed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Its name.
    pub drill: &'static str,
    /// How it ended.
    #[serde(flatten)]
    pub ending: Ending,
    /// What the client felt, where there is one.
    pub felt: Option<Felt>,
    /// When each surface was right first.
    pub seconds: Seconds,
    /// The last look.
    pub last: Option<Look>,
    /// Commands that would hurt somebody innocent, of all looks, each once, with where and when it was seen.
    pub harm: Vec<String>,
    /// Commands that are right, of the last look.
    pub remedies: Vec<String>,
}

impl Outcome {
    /// One that showed nothing.
    pub fn without(drill: &'static str, ending: Ending) -> Self {
        Self {
            drill,
            ending,
            felt: None,
            seconds: Seconds::default(),
            last: None,
            harm: Vec::new(),
            remedies: Vec::new(),
        }
    }

    /// Its points, where it was judged.
    pub fn points(&self) -> Option<u32> {
        match self.ending {
            Ending::Judged { points } => Some(points),
            _ => None,
        }
    }
}

/// When each surface was right first.
pub fn seconds(looks: &[Look]) -> Seconds {
    let first = |shown: fn(&Look) -> &super::look::Shown| {
        looks.iter().map(shown).find(|shown| shown.is_right).map(|shown| shown.seconds)
    };
    Seconds {
        why: first(|look| &look.why),
        screen: first(|look| &look.screen),
        incident: first(|look| &look.incident),
    }
}

/// Judges the looks of a drill: the sentences by the last one, harm by all.
pub fn judge(
    is_planted: bool,
    felt: Option<&Felt>,
    looks: &[Look],
    has_harm: bool,
    has_command: bool,
) -> Ending {
    if let Some(felt) = felt {
        if !felt.is_telling() {
            let reason = format!("the client had {} answers", felt.planted.answers);
            return Ending::Inconclusive { reason };
        }
        if felt.is_disturbed() != is_planted {
            let reason = format!("answers took {:.2} times as long as before", felt.times());
            return Ending::Inconclusive { reason };
        }
    }
    let Some(last) = looks.last() else {
        return Ending::Inconclusive { reason: "nothing was looked at".to_owned() };
    };
    if has_harm {
        return Ending::Judged { points: 0 };
    }
    if !is_planted && last.incidents > 0 && last.incidents == last.by_others {
        let reason = format!("others on this host disturbed its service: {}", last.incident.words);
        return Ending::Inconclusive { reason };
    }
    if !is_planted {
        let is_silent = !has_command && looks.iter().all(|look| look.incidents == 0);
        return Ending::Judged { points: if is_silent { 3 } else { 0 } };
    }
    let seconds = seconds(looks);
    let is_soon = |time: Option<f64>| time.is_some_and(|time| time <= SOON_SECONDS);
    let both = is_soon(seconds.screen)
        && is_soon(seconds.incident)
        && last.screen.is_right
        && last.incident.is_right;
    Ending::Judged { points: 1 + u32::from(last.why.is_right) + u32::from(both) }
}

#[cfg(test)]
mod tests {
    use super::super::look::Shown;
    use super::*;

    fn felt(planted_ns: u64) -> Felt {
        let line = |begin: u64, length: u64| format!("{begin} {length}\n");
        let quiet = (0..9).map(|number| line(number * 1_000, 100));
        let planted = (0..9).map(|number| line(10_000 + number, planted_ns));
        Felt::read(&quiet.chain(planted).collect::<String>(), 10_000).unwrap()
    }

    fn look(seconds: f64, why: bool, screen: bool, incident: bool) -> Look {
        let shown = |is_right| Shown { seconds, is_right, ..Shown::default() };
        Look {
            why: shown(why),
            screen: shown(screen),
            incident: shown(incident),
            ..Look::default()
        }
    }

    fn points(looks: &[Look]) -> Option<u32> {
        match judge(true, Some(&felt(900)), looks, false, true) {
            Ending::Judged { points } => Some(points),
            _ => None,
        }
    }

    #[test]
    fn points_are_those_of_the_last_look_and_of_ten_seconds() {
        let wrong = look(2.0, false, false, false);
        assert_eq!(points(&[wrong.clone(), look(8.0, true, true, true)]), Some(3));
        assert_eq!(points(&[wrong.clone(), look(11.0, true, true, true)]), Some(2));
        assert_eq!(points(&[look(2.0, true, true, true), wrong.clone()]), Some(1));
        assert_eq!(points(&[look(2.0, false, true, true)]), Some(2));
        assert_eq!(points(&[look(2.0, true, true, false)]), Some(2));
        let found = seconds(&[wrong, look(8.0, true, false, true)]);
        assert_eq!(found, Seconds { why: Some(8.0), screen: None, incident: Some(8.0) });
    }

    #[test]
    fn harm_takes_all_points() {
        let looks = [look(2.0, true, true, true)];
        let ending = judge(true, Some(&felt(900)), &looks, true, true);
        assert_eq!(ending, Ending::Judged { points: 0 });
    }

    #[test]
    fn a_victim_that_felt_nothing_proves_nothing() {
        let looks = [look(2.0, true, true, true)];
        let of = |is_planted, felt: Felt| judge(is_planted, Some(&felt), &looks, false, false);
        assert!(matches!(of(true, felt(120)), Ending::Inconclusive { .. }));
        assert!(matches!(of(false, felt(900)), Ending::Inconclusive { .. }));
        let few = Felt::read("0 1\n", 10).unwrap();
        assert!(matches!(of(true, few), Ending::Inconclusive { .. }));
        assert!(matches!(judge(true, None, &[], false, false), Ending::Inconclusive { .. }));
    }

    #[test]
    fn nothing_is_planted_and_nothing_is_said() {
        let quiet = look(2.0, false, false, false);
        let said = Look { incidents: 1, ..quiet.clone() };
        let disturbed = Look { by_others: 1, ..said.clone() };
        let of =
            |looks: &[Look], has_command| judge(false, Some(&felt(110)), looks, false, has_command);
        assert_eq!(of(std::slice::from_ref(&quiet), false), Ending::Judged { points: 3 });
        assert_eq!(of(std::slice::from_ref(&quiet), true), Ending::Judged { points: 0 });
        assert_eq!(of(&[said, quiet], false), Ending::Judged { points: 0 });
        assert!(matches!(of(&[disturbed], false), Ending::Inconclusive { .. }));
    }
}
