//! One disturbance is one incident, however many signals of however many subjects it shows in.
//!
//! What opens while an incident is open joins it where one explains the other:
//! - the two share a culprit that has at least a quarter of each, of what is beyond the usual;
//! - the two began in the same seconds, and one cgroup is the first of those who did something of each beside the victim
//!   itself, however little that is;
//! - it is at the same place: another operation or another stage of the same device, interface, …;
//! - one's subject is such a culprit of the other: two sides of one contention;
//! - one is a signal of an interrupt that is such a culprit of the other;
//! - one is of requests of a block device, the other of uninterruptible sleeps that end as such
//!   requests do: in the block softirq or a device's interrupt. The incident is then about the
//!   requests, whichever opened it;
//! - it is back: the same signal of the same subject was a part of it, ended a few windows ago, and
//!   is not another's doing now.
//!
//! A changed culprit is a new incident. What is back by others than before does not join, nor does
//! what others do in the same queue, nor what has nothing to do with what opened the incident: what
//! both disturb would be the only link. For that, the culprits of both must be known. What joined
//! while they were not yet leaves when they are ([`GroupChange::Opened`], late), and where two turn out to
//! have one cause only after the second began, the second joins late ([`GroupChange::Merged`]). What left
//! an incident does not join it again, so that numbers do not come and go.
//!
//! Otherwise it is an incident of its own: two at the same time are reported as two.

mod member;

use std::collections::BTreeSet;
use std::sync::Arc;

use self::member::Member;
use super::incident::{Change, Incident};
use super::name::{Name, ROOT};
use super::relation::{
    allies, has_first_of, have_one_suspect, is_apart, is_by_itself, is_of_requests, related,
    rivals, share_culprit, sleeps_for, succeeds,
};
use super::report::{Clock, Episode, Report};
use super::settings::Settings;
use super::track::Key;
use super::watched::Watched;

/// Most signals of subjects that are listed with one incident; further ones are counted.
const LISTED: usize = 32;

/// What became of an incident.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupChange {
    Opened(Arc<Report>),
    /// A signal of a subject joined it, or came back.
    Joined {
        signal: Watched,
        subject: Name,
        /// The incident that it is a part of.
        into: Arc<Report>,
    },
    /// An incident that had opened by itself turned out to be of the same cause.
    Merged {
        /// The one that is no more.
        id: u64,
        /// The one that it joined.
        into: Arc<Report>,
    },
    /// All of it ended, and did not come back for a while.
    Closed(Arc<Report>),
}

/// Incidents that are open, or ended a few windows ago.
#[derive(Debug)]
pub(super) struct Groups {
    open: Vec<GroupedIncident>,
    last_id: u64,
    /// How long an incident may rest before it is over, windows.
    linger: usize,
    /// Age at which what is certain of an incident remains so, windows.
    settled: usize,
}

#[derive(Debug)]
struct GroupedIncident {
    id: u64,
    /// What belongs to it, each signal of a subject once, in the order of joining; never empty. What
    /// it is about is first: what opened it, the requests that this sleeps for, the cgroup beside which
    /// the root cgroup is disturbed, or the requests that lost more to the same culprit.
    members: Vec<Member>,
    /// How many ended without being listed.
    untold: u64,
    /// Windows since it opened.
    age: usize,
    /// Older incidents that are certainly different.
    apart: BTreeSet<u64>,
}

impl GroupedIncident {
    fn new(id: u64, member: Member) -> Self {
        Self { id, members: vec![member], untold: 0, age: 0, apart: BTreeSet::new() }
    }

    fn is_open(&self) -> bool {
        self.members.iter().any(Member::is_open)
    }

    fn of(&mut self, key: &Key) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.is_of(key))
    }

    fn goes_on(&mut self, key: &Key) -> Option<&mut Member> {
        self.of(key).filter(|member| member.is_open())
    }

    fn disturbances(&self) -> impl Iterator<Item = &Incident> {
        self.members.iter().flat_map(Member::disturbances)
    }

    /// Whether it is a reason for the other, or has the same reason.
    fn explains(&self, incident: &Incident, linger: usize) -> bool {
        let key = key(incident);
        self.members.iter().filter(|member| member.is_live(linger)).any(|member| {
            let share =
                |one: &Incident| share_culprit(one, incident) || have_one_suspect(one, incident);
            member.disturbances().any(share)
                || member.is_open() && related(member.newest(), incident)
                || member.is_of(&key) && is_by_itself(incident)
        })
    }

    /// Whether that is certainly another's doing than what is here.
    fn refuses(&self, incident: &Incident) -> bool {
        let key = key(incident);
        let was_by_others = self.members.iter().any(|member| {
            member.is_of(&key) && member.disturbances().any(|one| succeeds(one, incident))
        });
        let is_by_others = || {
            self.disturbances().any(|one| rivals(one, incident))
                && !self.disturbances().any(|one| allies(one, incident))
        };
        was_by_others || is_by_others() || self.is_apart(incident)
    }

    /// Whether it has nothing to do with what opened this.
    fn is_apart(&self, incident: &Incident) -> bool {
        self.members.first().is_some_and(|opener| is_apart(opener.first(), incident))
    }

    fn takes(&self, incident: &Incident, linger: usize) -> bool {
        self.explains(incident, linger) && !self.refuses(incident)
    }

    fn takes_all(&self, newer: &Self, linger: usize) -> bool {
        let mut all = newer.disturbances();
        !newer.apart.contains(&self.id)
            && newer.members.iter().any(|member| {
                member.is_live(linger)
                    && member.disturbances().any(|one| self.explains(one, linger))
            })
            && !all.any(|one| self.refuses(one))
    }

    /// Keeps in mind which of the older ones are certainly different.
    fn part_from(&mut self, older: &[Self]) {
        let Some(opener) = self.members.first() else { return };
        let apart = older.iter().filter(|one| one.refuses(opener.first())).map(|one| one.id);
        self.apart.extend(apart);
    }

    /// A part that goes on, and turned out to be another's doing.
    fn leaver(&mut self) -> Option<Member> {
        let is_other = |(index, member): (usize, &Member)| {
            let is_apart = index > 0 && member.is_open() && self.is_apart(member.newest());
            member.is_another() || is_apart
        };
        let index = self.members.iter().enumerate().position(is_other)?;
        let (before, leaver) = self.members.remove(index).part();
        if let Some(before) = before {
            self.members.insert(index, before);
        }
        Some(leaver)
    }

    /// Puts first what it is about, where that did not open it: the requests that the first one sleeps for, the cgroup that
    /// lost most where the first one is the root cgroup, most of which are kernel threads, or, up to that age, the requests
    /// that lost more to the same culprit: who keeps a disk busy takes some time of the CPUs for it.
    fn lead(&mut self, settled: usize) {
        let Some(first) = self.members.first().map(Member::newest) else { return };
        let disturbances = || self.members.iter().map(Member::newest).enumerate();
        let requests = disturbances().find(|(_, other)| sleeps_for(first, other));
        let cgroup = || {
            let alike = |other: &Incident| other.signal == first.signal && !is_root(other);
            disturbances()
                .filter(|(_, other)| is_root(first) && alike(other))
                .max_by(|(_, one), (_, other)| one.lost_seconds.total_cmp(&other.lost_seconds))
        };
        let busy_disk = || {
            let is_more = |other: &Incident| {
                other.lost_seconds > first.lost_seconds
                    && is_of_requests(other)
                    && has_first_of(first, other)
                    && has_first_of(other, first)
            };
            disturbances()
                .filter(|(_, other)| self.age < settled && !is_of_requests(first) && is_more(other))
                .max_by(|(_, one), (_, other)| one.lost_seconds.total_cmp(&other.lost_seconds))
        };
        let leader = requests.or_else(cgroup).or_else(busy_disk).map(|(index, _)| index);
        if let Some(before) = leader.and_then(|index| self.members.get_mut(..=index)) {
            before.rotate_right(1);
        }
    }

    /// Takes a part of another incident.
    fn absorb(&mut self, member: Member) {
        match self.of(&key(member.newest())) {
            Some(own) => own.absorb(member),
            None => self.members.push(member),
        }
    }

    /// One more window has passed. What was reported stays.
    fn rest(&mut self, linger: usize) {
        self.age = self.age.saturating_add(1);
        self.members.iter_mut().for_each(Member::rest);
        let mut index = 0;
        let before = self.members.len();
        self.members.retain(|member| {
            index += 1;
            index <= LISTED + 1 || !member.is_over(linger)
        });
        self.untold += (before - self.members.len()) as u64;
    }

    fn is_over(&self, linger: usize) -> bool {
        self.members.iter().all(|member| member.is_over(linger))
    }

    fn report(&self, clock: Clock) -> Option<Report> {
        let mut episodes = self.members.iter().map(|member| member.episode(clock));
        let main = episodes.next()?;
        let mut also: Vec<Episode> = episodes.by_ref().take(LISTED).collect();
        also.sort_by(|one, other| other.lost_seconds.total_cmp(&one.lost_seconds));
        let untold = self.untold + episodes.count() as u64;
        let open = self.is_open();
        Some(Report { untold, resting: !open, ..Report::new(self.id, open, main, also) })
    }
}

impl Groups {
    /// None. An incident is over when it did not come back for `recent-windows`.
    pub fn new(settings: &Settings) -> Self {
        let mut groups = Self { open: Vec::new(), last_id: 0, linger: 0, settled: 0 };
        groups.set(settings);
        groups
    }

    /// Goes on with other settings.
    pub fn set(&mut self, settings: &Settings) {
        self.linger = settings.recent_windows;
        self.settled = settings.closing_windows;
    }

    /// Drops what is open, untold.
    pub fn clear(&mut self) {
        self.open.clear();
    }

    /// Numbers go on after that one.
    pub fn continue_after(&mut self, id: u64) {
        self.last_id = self.last_id.max(id);
    }

    /// Whether an incident of that number is not over.
    pub fn has(&self, id: u64) -> bool {
        self.open.iter().any(|group| group.id == id)
    }

    /// Takes what opened and closed in the newest window, with what is open now.
    pub fn take(
        &mut self,
        mut changes: Vec<Change>,
        active: impl Iterator<Item = Incident>,
        clock: Clock,
    ) -> Vec<GroupChange> {
        let mut events = Vec::new();
        // Of those that open together, the root cgroup joins another.
        changes
            .sort_by_key(|change| matches!(change, Change::Opened(incident) if is_root(incident)));
        if changes.is_empty() && self.open.is_empty() {
            return events;
        }
        let is_many = match self.open.as_slice() {
            [one] => one.disturbances().nth(1).is_some(),
            _ => true,
        };
        if !changes.is_empty() || is_many {
            self.refresh(active);
        }
        for change in changes {
            match change {
                Change::Opened(incident) => events.extend(self.add(incident, clock)),
                Change::Closed(incident) => self.end(incident, clock),
            }
        }
        while let Some((from, leaver)) = self.leaver() {
            events.extend(self.place(leaver, Some(from), clock));
        }
        while let Some(event) = self.merge(clock) {
            events.push(event);
        }
        let settled = self.settled;
        self.open.iter_mut().for_each(|group| group.lead(settled));
        for index in 1..self.open.len() {
            let (older, newer) = self.open.split_at_mut(index);
            if let Some(newer) = newer.first_mut().filter(|newer| newer.age >= self.settled) {
                newer.part_from(older);
            }
        }
        let linger = self.linger;
        self.open.retain_mut(|group| {
            let is_over = group.is_over(linger);
            group.rest(linger);
            if is_over {
                let closed = group.report(clock);
                let closed = closed.map(|report| Report { resting: false, ..report });
                events.extend(closed.map(Arc::new).map(GroupChange::Closed));
            }
            !is_over
        });
        events
    }

    /// What is open, as it stands.
    pub fn reports(
        &mut self,
        active: impl Iterator<Item = Incident>,
        clock: Clock,
    ) -> Vec<Arc<Report>> {
        self.refresh(active);
        let reports = self.open.iter().filter_map(|group| group.report(clock));
        reports.map(Arc::new).collect()
    }

    /// What is disturbed now, listed or not.
    pub fn active(&self) -> BTreeSet<Key> {
        let members = self.open.iter().flat_map(|group| &group.members);
        members.filter(|member| member.is_open()).map(|member| key(member.newest())).collect()
    }

    fn refresh(&mut self, active: impl Iterator<Item = Incident>) {
        for incident in active {
            let key = key(&incident);
            if let Some(member) = self.open.iter_mut().find_map(|group| group.goes_on(&key)) {
                member.update(incident);
            }
        }
    }

    /// Where it belongs: above all to what its first culprit did.
    fn group_of(&self, incident: &Incident, but: Option<u64>) -> Option<usize> {
        let (linger, mut fallback) = (self.linger, None);
        for (index, group) in self.open.iter().enumerate() {
            if but == Some(group.id) || !group.takes(incident, linger) {
                continue;
            }
            let mut live = group.members.iter().filter(|member| member.is_live(linger));
            if live.any(|member| member.disturbances().any(|one| has_first_of(incident, one))) {
                return Some(index);
            }
            fallback = fallback.or(Some(index));
        }
        fallback
    }

    fn add(&mut self, incident: Incident, clock: Clock) -> Option<GroupChange> {
        self.place(Member::new(incident, clock), None, clock)
    }

    /// Has a member that begins, or left another incident, join one or be its own.
    fn place(&mut self, member: Member, left: Option<u64>, clock: Clock) -> Option<GroupChange> {
        let incident = member.newest();
        let (signal, subject) = key(incident);
        if let Some(index) = self.group_of(incident, left) {
            let group = self.open.get_mut(index)?;
            group.absorb(member);
            group.lead(self.settled);
            let mut listed = group.members.iter().take(LISTED + 1);
            let is_listed = listed.any(|one| one.is_of(&(signal, Arc::clone(&subject))));
            let into = group.report(clock).filter(|_| is_listed)?;
            return Some(GroupChange::Joined { signal, subject, into: Arc::new(into) });
        }
        self.last_id += 1;
        let mut group = GroupedIncident::new(self.last_id, member);
        group.apart.extend(left);
        let report = group.report(clock);
        self.open.push(group);
        report.map(Arc::new).map(GroupChange::Opened)
    }

    fn end(&mut self, incident: Incident, clock: Clock) {
        let key = key(&incident);
        if let Some(member) = self.open.iter_mut().find_map(|group| group.goes_on(&key)) {
            member.end(incident, clock);
        }
    }

    /// What leaves an incident, and which.
    fn leaver(&mut self) -> Option<(u64, Member)> {
        self.open.iter_mut().find_map(|group| Some((group.id, group.leaver()?)))
    }

    /// Lets an incident join an older one that explains it by now, if there are two such.
    fn merge(&mut self, clock: Clock) -> Option<GroupChange> {
        let linger = self.linger;
        let (older, newer) = self.open.iter().enumerate().find_map(|(index, older)| {
            let newer = self.open.iter().skip(index + 1);
            let newer = newer.into_iter().position(|newer| older.takes_all(newer, linger))?;
            Some((index, index + 1 + newer))
        })?;
        let newer = self.open.remove(newer);
        let group = self.open.get_mut(older)?;
        group.untold += newer.untold;
        group.apart.extend(newer.apart);
        newer.members.into_iter().for_each(|member| group.absorb(member));
        group.lead(self.settled);
        let into = Arc::new(group.report(clock)?);
        // Numbers of what is over are used no more.
        let open: BTreeSet<u64> = self.open.iter().map(|group| group.id).collect();
        self.open.iter_mut().for_each(|group| group.apart.retain(|id| open.contains(id)));
        Some(GroupChange::Merged { id: newer.id, into })
    }
}

fn key(incident: &Incident) -> Key {
    (incident.signal, Arc::clone(&incident.subject))
}

fn is_root(incident: &Incident) -> bool {
    &*incident.subject == ROOT
}

#[cfg(test)]
mod tests;
