//! What a daemon answers of a victim beside events: see [`noise_serve::victim`].

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use noise_analysis::{Level, Stopped, Usual};
use noise_client::{Link as _, MAX_SMALL_BYTES, SocketLink};
use noise_serve::victim::{MOST_CGROUPS, VictimDocument, route};

/// Longer than an answer takes on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Requests for the cgroups of one victim; of one with more, this is not known.
const MOST_REQUESTS: usize = 4;

/// What it answers of all of these cgroups. An older daemon knows none of it, and neither is it worth a failure.
pub fn ask(
    socket: &Path,
    labels: &BTreeSet<String>,
    since_ns: Option<u64>,
) -> Option<VictimDocument> {
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    if labels.is_empty() || labels.len() > MOST_REQUESTS * MOST_CGROUPS {
        return None;
    }
    let link = SocketLink::with_timeout(socket.to_owned(), TIMEOUT);
    let mut link = link.at_most(MAX_SMALL_BYTES);
    let mut usual: Vec<Usual> = Vec::new();
    let mut stopped: Option<Stopped> = None;
    let mut pressure = None;
    for some in labels.chunks(MOST_CGROUPS) {
        let answer = link.ask(&route(some.iter().copied(), since_ns)).ok()?;
        let answer = Some(answer).filter(|answer| answer.status == 200)?;
        let found: VictimDocument = serde_json::from_slice(&answer.body).ok()?;
        usual.extend(found.usual);
        pressure = found.pressure;
        stopped = match (stopped, found.stopped) {
            (Some(mut sum), Some(more)) => {
                sum.add(more);
                Some(sum)
            }
            (sum, more) => sum.or(more),
        };
    }
    // That of a part of them says nothing of all.
    let pressure = pressure.filter(|_| labels.len() <= MOST_CGROUPS);
    Some(VictimDocument::new(usual, stopped, pressure))
}

/// One level of several cgroups: rates and lost time add up, means count by rate, and of all delays 99 of 100 are
/// not longer than the longest of those bounds. `None` of none.
pub fn together(levels: &[Level]) -> Option<Level> {
    let rate: f64 = levels.iter().map(|level| level.rate).sum();
    let with_mean = levels.iter().filter_map(|level| Some((level.mean_ns?, level.rate)));
    let (sum, weight) =
        with_mean.fold((0.0, 0.0), |(sum, all), (mean, rate)| (sum + mean * rate, all + rate));
    let busy = levels.iter().filter(|level| level.rate > 0.0);
    let bounds: Option<Vec<u64>> = busy.map(|level| level.p99_ns).collect();
    match levels {
        [] => None,
        [only] => Some(*only),
        _ => Some(Level {
            p50_ns: None,
            p99_ns: bounds.and_then(|bounds| bounds.into_iter().max()),
            mean_ns: (weight > 0.0).then(|| sum / weight),
            rate,
            lost: levels.iter().map(|level| level.lost).sum(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(mean_ns: Option<f64>, p99_ns: Option<u64>, rate: f64) -> Level {
        Level { p50_ns: Some(1), p99_ns, mean_ns, rate, lost: rate / 100.0 }
    }

    #[test]
    fn levels_of_several_cgroups_make_one() {
        assert_eq!(together(&[]), None);
        let one = level(Some(10.0), Some(64), 3.0);
        assert_eq!(together(&[one]), Some(one));
        let both = together(&[one, level(Some(50.0), Some(128), 1.0)]).unwrap();
        assert_eq!((both.mean_ns, both.p99_ns, both.rate), (Some(20.0), Some(128), 4.0));
        assert!((both.lost - 0.04).abs() < 1e-12);
        // One that had no delays has no say in means and bounds.
        let quiet = together(&[one, level(None, None, 0.0)]).unwrap();
        assert_eq!((quiet.mean_ns, quiet.p99_ns), (Some(10.0), Some(64)));
        assert_eq!(together(&[level(None, None, 0.0); 2]).unwrap().mean_ns, None);
    }

    #[test]
    fn without_a_daemon_nothing_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let labels = BTreeSet::from(["/a".to_owned()]);
        assert_eq!(ask(&folder.path().join("none.sock"), &labels, None), None);
    }
}
