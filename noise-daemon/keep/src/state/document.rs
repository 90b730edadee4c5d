//! The format of the state file: JSON with the number of its format.

use std::sync::Arc;

use noise_analysis::{Memory, Report, ReportedOutlier};
use noise_text::clean::reading::from_json;

use crate::demand::Demand;

/// The format that is written, and the newest that is read.
const FORMAT: u64 = 1;

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Document {
    format: u64,
    /// Incidents, the oldest first. One that is open was open when the file was written.
    pub incidents: Vec<Arc<Report>>,
    /// Long waits, the oldest first.
    pub outliers: Vec<Arc<ReportedOutlier>>,
    #[serde(default)]
    pub baselines: Baselines,
    /// How fast the flight recorder was filled.
    #[serde(default)]
    pub recorder: Demand,
}

/// What was usual. After a boot it is learnt anew: starting services would be unusual each time.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Baselines {
    /// Id of the boot on whose clock it was learnt.
    pub boot: String,
    pub learnt: Vec<Memory>,
}

impl Default for Document {
    fn default() -> Self {
        Self::new(Vec::new(), Vec::new(), Baselines::default(), Demand::default())
    }
}

/// Why a state file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// From a newer version.
    #[error(
        "it was written by a newer noised: its format is {0}, the newest known one is {FORMAT}"
    )]
    Newer(u64),
    /// Anything else, truncated files included.
    #[error("it is damaged: {0}")]
    Damaged(serde_json::Error),
    /// Not what a state file can be.
    #[error("it is {0}")]
    NoFile(&'static str),
    /// It is there but cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(std::io::Error),
}

impl Document {
    /// One of the format that is written.
    pub fn new(
        incidents: Vec<Arc<Report>>,
        outliers: Vec<Arc<ReportedOutlier>>,
        baselines: Baselines,
        recorder: Demand,
    ) -> Self {
        Self { format: FORMAT, incidents, outliers, baselines, recorder }
    }

    /// Reads the text of a state file.
    /// Errors: where it is from a newer version, or is none.
    pub fn parse(text: &[u8]) -> Result<Self, Unusable> {
        #[derive(serde::Deserialize)]
        struct Versioned {
            format: u64,
        }
        let Versioned { format } = from_json(text).map_err(Unusable::Damaged)?;
        if format > FORMAT {
            return Err(Unusable::Newer(format));
        }
        from_json(text).map_err(Unusable::Damaged)
    }

    /// How fast the flight recorder was filled, of all that the text of a state file says; nothing where it is none.
    pub fn demand(text: &[u8]) -> Demand {
        #[derive(serde::Deserialize)]
        struct Remembered {
            #[serde(default)]
            recorder: Demand,
        }
        from_json(text).map_or_else(|_| Demand::default(), |Remembered { recorder }| recorder)
    }

    /// The text of a state file.
    /// Errors: where something has no form in JSON, which would be a defect.
    pub fn text(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }
}

#[cfg(test)]
mod tests {
    use noise_analysis::{Board, Clock, Ending, Settings};

    use super::*;

    /// As noised 0.1 wrote it: open though what opened it is over, with one that joined it twice.
    const OLDER: &str = r#"{"format":1,"incidents":[{"id":7,"open":true,
        "signal":"cgroup_runqueue_wait","subject":"/a","start":"2026-11-21T09:00:00Z",
        "end":"2026-11-21T09:00:20Z","ending":"over","rule":"mean",
        "before":{"p50_ns":1024,"p99_ns":4096,"mean_ns":1500.5,"rate":20.0,"lost":0.00003},
        "after":{"p50_ns":8388608,"p99_ns":null,"mean_ns":8000000.0,"rate":20.0,"lost":0.16},
        "lost_seconds":3.2,"culprits":[{"culprit":"/hog","cause":"foreign",
        "time":{"seconds":3.2,"share":1.0},"beyond":{"seconds":3.2,"share":1.0}}],
        "others":{"seconds":0.0,"share":0.0},"untracked":{"seconds":0.0,"share":0.0},
        "remedies":["cpu_weight"],"also":[{"signal":"cgroup_runqueue_wait","subject":"/b",
        "start":"2026-11-21T09:00:10Z","end":"2026-11-21T09:00:30Z","ending":null,"rule":"share",
        "before":{"p50_ns":null,"p99_ns":null,"mean_ns":null,"rate":0.0,"lost":0.0},
        "after":{"p50_ns":null,"p99_ns":null,"mean_ns":null,"rate":0.0,"lost":0.0},
        "lost_seconds":1.0,"culprits":[],"others":{"seconds":0.0,"share":0.0},
        "untracked":{"seconds":0.0,"share":0.0},"remedies":[]}],"untold":0}],"outliers":[]}"#;

    #[test]
    fn what_an_older_noised_left_is_read() {
        let left = Document::parse(OLDER.as_bytes()).unwrap();
        let mut board = Board::new(Settings::default()).unwrap();
        let incidents = left.incidents.into_iter().map(Arc::unwrap_or_clone).collect();
        board.restore(incidents, Vec::new());
        let now = "2026-11-22T00:00:00Z".parse().unwrap();
        let kept = board.overview(Clock { at_ns: 0, suspended_ns: 0, now });
        let [report] = &kept.incidents[..] else { panic!("{kept:#?}") };
        assert_eq!((report.id, report.open), (7, false));
        assert_eq!(report.also[0].ending, Some(Ending::Unwatched));
        assert_eq!(report.standing(), "open when noised stopped watching it");
        assert_eq!((report.main.disturbed_seconds(), report.lasted()), (20.0, 30.0));
        assert_eq!(kept.active, []);
        assert_eq!(Document::demand(OLDER.as_bytes()).busiest(3_600), None);
        let mut demand = Demand::default();
        demand.note(3_600, 77);
        let baselines = Baselines::default();
        let text = Document::new(kept.incidents.clone(), Vec::new(), baselines, demand).text();
        let text = text.unwrap();
        let peak = Document::demand(&text).busiest(3_600).unwrap();
        assert_eq!(peak.bytes_per_second, 77);
        assert_eq!(Document::demand(b"{"), Demand::default());
        let again = Document::parse(&text).unwrap();
        assert_eq!(again.incidents, kept.incidents);
        let newer = OLDER.replacen("\"format\":1", "\"format\":2", 1);
        assert!(matches!(Document::parse(newer.as_bytes()), Err(Unusable::Newer(2))));
    }
}
