//! Frames for tests.

use std::sync::Arc;

use jiff::Timestamp;
use noise_analysis::Overview;
use noise_model::{Host, Sample};

use super::Frame;

/// The host of all.
pub fn host() -> Host {
    Host {
        name: "box".to_owned(),
        kernel: "6.12.0".to_owned(),
        noised: "0.1.0".to_owned(),
        cpus: vec![0, 1],
        isolated: vec![1],
        nohz_full: vec![],
    }
}

/// Few things, `seconds` after the epoch.
pub fn small(seconds: i64) -> Frame {
    let at_ns = seconds as u64 * 1_000_000_000;
    Frame {
        time: Timestamp::constant(seconds, 0),
        host: Arc::new(host()),
        sample: Arc::new(Sample { at_ns, waited: vec![(0, at_ns)], ..Sample::default() }),
        overview: Overview::default(),
        trends: None,
    }
}
