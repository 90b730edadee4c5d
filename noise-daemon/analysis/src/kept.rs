//! The kernel events that were kept of the moment when an incident opened.

use jiff::Timestamp;

use super::name::Name;

/// What is kept of one incident.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct KeptTrace {
    /// The number of the incident.
    pub incident: u64,
    /// Time of the oldest event.
    pub from: Timestamp,
    /// When the incident opened: no event is newer.
    pub to: Timestamp,
    pub events: u64,
    /// Events that were overwritten before they were read.
    pub missing: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// The longest waits of the victim with what they were spent on, a sentence each, the longest first.
    pub waits: Vec<Name>,
    /// Why there are no events; they are kept where there is none.
    pub trouble: Option<Name>,
}

impl KeptTrace {
    pub fn without(incident: u64, opened: Timestamp, why: &str) -> Self {
        Self {
            incident,
            from: opened,
            to: opened,
            events: 0,
            missing: 0,
            bytes: 0,
            waits: Vec::new(),
            trouble: Some(why.into()),
        }
    }

    /// Whether there are events.
    pub fn is_kept(&self) -> bool {
        self.trouble.is_none()
    }

    /// How long the events go on, seconds.
    pub fn seconds(&self) -> f64 {
        self.to.duration_since(self.from).as_secs_f64()
    }

    /// What there is, and how to see it.
    pub fn sentence(&self) -> String {
        match &self.trouble {
            Some(why) => format!("its kernel events are not kept: {why}"),
            None => format!(
                "the kernel events of the {:.1} s before it opened are kept: noised incidents show {} --path",
                self.seconds(),
                self.incident
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_said() {
        let opened: Timestamp = "2026-11-21T09:00:00Z".parse().unwrap();
        let without = KeptTrace::without(7, opened, "the disk is full");
        assert!(!without.is_kept());
        assert_eq!(without.sentence(), "its kernel events are not kept: the disk is full");
        let from = "2026-11-21T08:59:57.75Z".parse().unwrap();
        let kept = KeptTrace { from, trouble: None, ..without };
        assert_eq!(
            kept.sentence(),
            "the kernel events of the 2.2 s before it opened are kept: noised incidents show 7 --path"
        );
    }
}
