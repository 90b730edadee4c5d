//! Places and states in words.

use noise_text::clean::clean;
use noise_text::units::duration;
use noise_trace::delays::document::Culprit;

use crate::localised::Place;

/// The cause of a wait that the execution's own quota made.
const QUOTA: &str = "throttle";

/// What someone in a state does.
pub fn doing(state: &str) -> &str {
    match state {
        "waiting_cpu" => "waiting for a CPU",
        "disk" => "blocked on disk",
        "network" => "waiting for the network",
        "timer" => "asleep until a timer",
        "futex" => "blocked on a lock",
        "task" => "blocked on another thread",
        "interrupt" => "waiting for an interrupt",
        "ipi" => "waiting for an interrupt from another CPU",
        "unknown" => "doing what the recording does not say",
        other => other,
    }
}

fn thread(comm: &str, tid: i32) -> String {
    match tid {
        ..=0 => clean(comm).into_owned(),
        tid => format!("{} {tid}", clean(comm)),
    }
}

/// Who took a part of a wait; none where that is not known.
fn whom(culprit: &Culprit) -> Option<String> {
    match (culprit.cause, culprit.comm.is_empty()) {
        ("untracked", _) => None,
        ("idle", _) => Some("an idle CPU".to_owned()),
        ("thread", _) => Some(thread(&culprit.comm, culprit.tid)),
        ("self", _) => Some("its own requests".to_owned()),
        (QUOTA, _) => Some("a CPU quota".to_owned()),
        (cause, true) => Some(cause.to_owned()),
        (cause, false) => Some(format!("{} ({cause})", clean(&culprit.comm))),
    }
}

/// A place of an execution that begins then, which stood beside so many normal ones: `at 1.20 s: blocked on disk 3 times where
/// 29 of 30 normal runs are not, +41.0 ms, behind backup 77`.
pub fn sentence(place: &Place, begin_ns: u64, normal: usize) -> String {
    let at = duration(place.from_ns.saturating_sub(begin_ns) as f64);
    let doing = match place.is_own {
        true => doing(place.state).to_owned(),
        false => format!("behind {}, {}", thread(&place.comm, place.tid), doing(place.state)),
    };
    let times = match place.times {
        1 => String::new(),
        2 => " twice".to_owned(),
        times => format!(" {times} times"),
    };
    let without = normal.saturating_sub(place.normal_with);
    let usual = match 2 * without > normal {
        true => format!("where {without} of {normal} normal runs are not"),
        false => format!(
            "for {} where normal runs are for {}",
            duration(place.duration_ns as f64),
            duration(place.mean_ns)
        ),
    };
    let named = |culprit: &Culprit| {
        // A quota is no one else's doing.
        let how = if culprit.cause == QUOTA { "held back by" } else { "behind" };
        // Without more words it has most of the time.
        let part = match culprit.ns.saturating_mul(2) < place.duration_ns {
            true => format!(" for {}", duration(culprit.ns as f64)),
            false => String::new(),
        };
        whom(culprit).map(|whom| format!(", {how} {whom}{part}"))
    };
    let behind = place.culprits.iter().find_map(named).filter(|_| place.is_own);
    let behind = behind.unwrap_or_default();
    format!("at {at}: {doing}{times} {usual}, +{}{behind}", duration(place.lost_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place {
            from_ns: 1_204_000_500,
            to_ns: 1_250_000_000,
            normal_from_ns: 0,
            normal_to_ns: 0,
            normal_execution: 0,
            tid: 7,
            comm: "job".to_owned(),
            is_own: true,
            state: "disk",
            times: 3,
            probability: 1.0 / 30.0,
            normal_with: 1,
            duration_ns: 42_000_000,
            mean_ns: 1e6,
            deviation_ns: 1e5,
            lost_ns: 41e6,
            culprits: vec![
                Culprit { tid: -1, comm: String::new(), cause: "untracked", ns: 21_000_000 },
                Culprit { tid: 77, comm: "backup".to_owned(), cause: "thread", ns: 21_000_000 },
            ],
        }
    }

    #[test]
    fn places_read_as_sentences() {
        assert_eq!(
            sentence(&place(), 500, 30),
            "at 1.20 s: blocked on disk 3 times where 29 of 30 normal runs are not, +41.0 ms, behind backup 77"
        );
        let usual = Place { times: 1, normal_with: 30, culprits: Vec::new(), ..place() };
        assert_eq!(
            sentence(&usual, 500, 30),
            "at 1.20 s: blocked on disk for 42.0 ms where normal runs are for 1.00 ms, +41.0 ms"
        );
        // Who has less than half of the time has it for so long.
        let mut few = place();
        few.culprits[1].ns = 1_100_000;
        assert_eq!(
            sentence(&few, 500, 30),
            "at 1.20 s: blocked on disk 3 times where 29 of 30 normal runs are not, +41.0 ms, behind backup 77 for 1.10 ms"
        );
        let ns = 42_000_000;
        let quota = vec![Culprit { tid: -1, comm: String::new(), cause: "throttle", ns }];
        let stopped = Place { state: "waiting_cpu", times: 1, culprits: quota, ..place() };
        assert_eq!(
            sentence(&stopped, 500, 30),
            "at 1.20 s: waiting for a CPU where 29 of 30 normal runs are not, +41.0 ms, held back by a CPU quota"
        );
        let others = Place { is_own: false, state: "running", times: 2, ..place() };
        assert_eq!(
            sentence(&others, 500, 30),
            "at 1.20 s: behind job 7, running twice where 29 of 30 normal runs are not, +41.0 ms"
        );
    }
}
