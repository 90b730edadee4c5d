//! PURE: which cgroups a victim works with, by the kept events: their threads woke threads of the victim or sent them
//! packets, or the other way round. One of the two waits for the other, so slowing either down helps neither.

use std::collections::BTreeSet;

use noise_analysis::Name;
use noise_paths::graph::{self, Graph};

use super::who::KeptNumbers;

/// The cgroups that a victim works with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ties {
    pub of: Name,
    pub with: BTreeSet<String>,
}

impl Ties {
    /// Adds those that a graph shows; `None` where one of them is not known.
    pub fn add(&mut self, graph: &Graph, own: &BTreeSet<u32>, who: &KeptNumbers) -> Option<()> {
        let thread = |worker| match graph.get(worker)?.who {
            graph::Who::Thread { tid, .. } => Some(tid.cast_unsigned()),
            _ => None,
        };
        let mut others: BTreeSet<u32> = BTreeSet::new();
        for (id, worker) in graph.workers() {
            let Some(to) = thread(id) else { continue };
            let links = worker.points().filter_map(|point| point.link);
            for from in links.filter_map(|link| thread(link.from.worker)) {
                let of_victim = (own.contains(&from), own.contains(&to));
                others.extend(match of_victim {
                    (true, false) => Some(to),
                    (false, true) => Some(from),
                    _ => None,
                });
            }
        }
        for tid in others {
            self.with.insert(who.cgroup_of(tid)?);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use noise_paths::build::Builder;
    use noise_trace::event::{Event, TraceKind};
    use noise_trace::fixtures::{ASLEEP, switch, waking};

    use super::*;

    fn ties(events: &[(u64, TraceKind<'static>)], cgroups: &str) -> Option<BTreeSet<String>> {
        let mut builder = Builder::default();
        for (time_ns, kind) in events {
            builder.follow(&Event { time_ns: *time_ns, cpu: 0, kind: *kind });
        }
        let who = format!(
            r#"{{"hostname":"","kernel":"","version":"","recorder":"","threads":[],"cgroups":{cgroups},"interrupts":[],
                "disks":[],"interfaces":[],"namespace":0}}"#
        );
        let mut ties = Ties { of: "web.service".into(), with: BTreeSet::new() };
        let who: KeptNumbers = serde_json::from_str(&who).unwrap();
        ties.add(builder.graph(), &[7].into(), &who)?;
        Some(ties.with)
    }

    #[test]
    fn who_wakes_the_victim_or_is_woken_by_it_works_with_it() {
        let cgroups = r#"[["/system.slice/web.service",[7]],["/system.slice/client.service",[8]],
            ["/system.slice/db.service",[9]],["/system.slice/hog.service",[10]]]"#;
        let events = [
            (1, switch(0, ASLEEP, 7)),
            (2, switch(7, ASLEEP, 8)),
            // The client asks, and the victim asks a database.
            (3, waking(7)),
            (4, switch(8, ASLEEP, 9)),
            (5, switch(9, ASLEEP, 7)),
            (6, waking(9)),
            (7, switch(7, ASLEEP, 10)),
            // An interrupt while the hog runs.
            (8, TraceKind::SoftirqEntry { vec: 3 }),
            (9, waking(7)),
            (10, TraceKind::SoftirqExit { vec: 3 }),
            (11, switch(10, ASLEEP, 7)),
        ];
        let with = ["client.service".to_owned(), "db.service".to_owned()];
        assert_eq!(ties(&events, cgroups), Some(with.into()));
        // Of a thread that has ended it is not known where it belonged.
        assert_eq!(ties(&events, r#"[["/system.slice/client.service",[8]]]"#), None);
    }
}
