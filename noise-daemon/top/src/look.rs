//! How the person wants to look at it.

use jiff::tz::TimeZone;

/// What a screen takes into account besides the frames.
#[derive(Clone, Debug, PartialEq)]
pub struct ScreenLook {
    /// Sums and rates cover that many seconds, back from the newest frame.
    pub seconds: f64,
    /// They begin no earlier than this time of the samples' clock, ns: a reset.
    pub since_ns: u64,
    /// Times are those of this zone.
    pub zone: TimeZone,
}

impl ScreenLook {
    /// The time after which steps are taken into account, ns on the clock of the samples; the
    /// newest step is in any case.
    pub fn from_ns(&self, history: &super::History) -> u64 {
        let newest_ns = history.latest().map_or(0, |frame| frame.sample.at_ns);
        newest_ns.saturating_sub((self.seconds * 1e9) as u64).max(self.since_ns)
    }
}

impl Default for ScreenLook {
    fn default() -> Self {
        Self { seconds: 5.0, since_ns: 0, zone: TimeZone::UTC }
    }
}
