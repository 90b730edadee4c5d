//! PURE: of an incident, whose settings are looked at, and the remedies that apply.

use noise_common::charge::Cause;
use noise_common::subject::SubjectKind;

use super::beside::Beside;
use super::culprits::Culprit;
use super::incident::Ending;
use super::name::Name;
use super::report::{Episode, Report};
use super::watched::Watched;
use noise_verdict::Advice;

impl Report {
    /// The remedies as they apply to this host; as they are where that was not looked at.
    pub fn advice(&self) -> Vec<Advice> {
        let plain = || self.main.remedies.iter().map(|remedy| Advice::plain(*remedy)).collect();
        self.beside.advice.clone().unwrap_or_else(plain)
    }

    /// Takes what is known beside it.
    pub(super) fn set_beside(&mut self, beside: Beside) {
        self.beside = beside;
        self.forget_commands();
    }

    /// Of one that is over, commands stay where they change what lasts: the number of a process may be another one's by then. None
    /// stays of what became the baseline: what is usual needs no command.
    pub(super) fn forget_commands(&mut self) {
        let is_usual = self.main.ending == Some(Ending::Adopted);
        let is_over = |advice: &&mut Advice| is_usual || advice.names_process();
        let advice = self.beside.advice.iter_mut().flatten().filter(|_| !self.open);
        for over in advice.filter(is_over) {
            (over.commands, over.undo) = (Vec::new(), Vec::new());
        }
    }
}

/// Who meets in an episode, by their labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parties {
    /// The victim, where it is a cgroup.
    pub victim: Option<Name>,
    /// The first culprit, where it is another cgroup: to slow down one that did less than something else, such as the victim's
    /// quota, is no remedy.
    pub culprit: Option<Name>,
    /// The first culprit that is a device's interrupt.
    pub interrupt: Option<Name>,
    /// The disk that it is about.
    pub disk: Option<String>,
    /// Whether that is about what is written.
    pub is_write: bool,
}

impl Episode {
    /// Whether a culprit is another cgroup than the one that it is about.
    fn is_other(&self, one: &Culprit<Name>) -> bool {
        matches!(one.cause, Cause::Foreign | Cause::Writeback) && one.culprit != self.subject
    }

    /// Who meets in it.
    pub fn parties(&self) -> Parties {
        let kind = match self.signal {
            Watched::Signal(signal) => signal.info().subject,
            Watched::Interruption => SubjectKind::Cgroup,
        };
        let first = |cause: Cause| {
            let mut culprits = self.culprits.iter();
            culprits.find(|one| one.cause == cause).map(|one| Name::clone(&one.culprit))
        };
        let disk =
            matches!(kind, SubjectKind::Request).then(|| self.subject.split_once(' ')).flatten();
        Parties {
            victim: matches!(kind, SubjectKind::Cgroup).then(|| Name::clone(&self.subject)),
            culprit: self
                .culprits
                .first()
                .filter(|one| self.is_other(one))
                .map(|one| Name::clone(&one.culprit)),
            interrupt: first(Cause::Hardirq),
            disk: disk.map(|(name, _)| name.to_owned()),
            is_write: disk.is_some_and(|(_, operation)| operation != "read"),
        }
    }
}

/// Whether a culprit of an incident is itself held up, above all by a third one: to slow it down does not help, for it is as
/// innocent as the victim.
pub fn is_held_up(culprit: &Name, incident: &Report, open: &[&Report]) -> bool {
    let mut episodes = open.iter().flat_map(|report| report.episodes());
    episodes.any(|episode| {
        let by = || episode.parties().culprit;
        episode.is_active()
            && episode.subject == *culprit
            && by().is_some_and(|by| by != incident.main.subject && by != *culprit)
    })
}

#[cfg(test)]
mod tests {
    use noise_common::signals::Signal;

    use super::*;
    use crate::{Time, made};

    fn episode(signal: Watched, subject: &str, culprits: &[(&str, Cause)]) -> Episode {
        let time = Time { seconds: 1.0, share: 0.5 };
        let culprit = |(name, cause): &(&str, Cause)| made::culprit(name, *cause, time);
        let culprits = culprits.iter().map(culprit).collect();
        Episode { signal, culprits, ..made::blank(subject) }
    }

    #[test]
    fn the_first_culprit_meets_the_victim_and_no_other_cgroup() {
        let culprits = [
            ("backup.service", Cause::Foreign),
            ("throttle", Cause::Throttle),
            ("nvme0q1", Cause::Hardirq),
            ("other.service", Cause::Foreign),
        ];
        for first in [Cause::Throttle, Cause::Kthread] {
            let culprits = [("web.service", first), ("backup.service", Cause::Foreign)];
            let cpu = episode(Signal::CgroupRunqueueWait.into(), "web.service", &culprits);
            assert_eq!(cpu.parties().culprit, None, "{first:?}");
        }
        let own = [("web.service", Cause::Own), ("backup.service", Cause::Foreign)];
        let own = episode(Signal::CgroupRunqueueWait.into(), "web.service", &own);
        assert_eq!(own.parties().culprit, None, "its own threads did more");
        let cpu = episode(Signal::CgroupRunqueueWait.into(), "web.service", &culprits).parties();
        assert_eq!(cpu.victim.as_deref(), Some("web.service"));
        assert_eq!(cpu.culprit.as_deref(), Some("backup.service"));
        assert_eq!((cpu.interrupt.as_deref(), cpu.disk), (Some("nvme0q1"), None));
        let taken = episode(Watched::Interruption, "web.service", &[]).parties();
        assert_eq!((taken.victim.as_deref(), taken.culprit), (Some("web.service"), None));
        for (subject, is_write) in [("vda read", false), ("vda write", true)] {
            let disk = episode(Signal::BlockQueueWait.into(), subject, &culprits).parties();
            assert_eq!((disk.victim, disk.disk.as_deref()), (None, Some("vda")));
            assert_eq!(disk.is_write, is_write);
        }
    }
    #[test]
    fn a_culprit_that_a_third_one_holds_up_is_as_innocent_as_the_victim() {
        let cpu = |victim: &str, culprits: &[(&str, Cause)]| {
            let episode = episode(Signal::CgroupRunqueueWait.into(), victim, culprits);
            Report::new(1, true, episode, Vec::new())
        };
        let (shop, hog) = (Name::from("/shop"), Name::from("/hog"));
        let operator = cpu("/operator", &[("/shop", Cause::Foreign)]);
        let by_hog = cpu("/shop", &[("/hog", Cause::Foreign), ("/operator", Cause::Foreign)]);
        assert!(is_held_up(&shop, &operator, &[&operator, &by_hog]));
        assert!(!is_held_up(&hog, &by_hog, &[&operator, &by_hog]));
        assert!(!is_held_up(&shop, &operator, &[&operator]));
        let joined = Report::new(1, true, operator.main.clone(), vec![by_hog.main.clone()]);
        assert!(is_held_up(&shop, &joined, &[&joined]));
        for (name, other) in [
            ("by the victim", cpu("/shop", &[("/operator", Cause::Foreign)])),
            ("by itself", cpu("/shop", &[("/shop", Cause::Own)])),
        ] {
            assert!(!is_held_up(&shop, &operator, &[&operator, &other]), "{name}");
        }
        let mut over = by_hog;
        over.main.ending = Some(Ending::Over);
        assert!(!is_held_up(&shop, &operator, &[&operator, &over]));
    }

    #[test]
    fn commands_about_processes_do_not_outlive_their_incident() {
        let of = |command: &str| Advice {
            commands: vec![command.to_owned()],
            undo: vec![command.to_owned()],
            ..Advice::plain(noise_common::remedy::Remedy::CpuWeight)
        };
        let [lasts, by_number] =
            ["systemctl set-property a.service CPUWeight=20", "chrt -o -p 0 7"];
        let kept = |open: bool, ending: Option<Ending>| -> Vec<String> {
            let mut report = made::report();
            (report.open, report.main.ending) = (open, ending);
            let advice = Some(vec![of(lasts), of(by_number)]);
            report.set_beside(Beside { advice, ..Beside::default() });
            report.advice().into_iter().flat_map(|one| [one.commands, one.undo].concat()).collect()
        };
        assert_eq!(kept(true, None), [lasts, lasts, by_number, by_number]);
        assert_eq!(kept(false, Some(Ending::Over)), [lasts, lasts]);
        assert_eq!(kept(false, Some(Ending::Adopted)), [""; 0]);
        let mut report = made::report();
        report.open = true;
        report.set_beside(Beside { advice: Some(vec![of(by_number)]), ..Beside::default() });
        assert!(report.unwatched().advice().iter().all(|one| one.commands.is_empty()));
    }
}
