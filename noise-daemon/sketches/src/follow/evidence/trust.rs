//! How far one witness can be trusted alone: how often what a thread does follows from what it read.

/// So many in a hundred calls may follow from nothing that was read.
const LOOSE_CALLS: u32 = 30;
/// The same of answers to clients, which come late where work waits for a timer; and where events were lost.
const LOOSE_ANSWERS: u32 = 75;
const LOOSE_BEHIND_LOSS: u32 = 25;
/// So many may have a begin and an end that say different things, of a hundred that agree.
const DISAGREED: u32 = 5;
/// One in so many requests in several reads says that clients send ahead.
const AHEAD: u32 = 64;

/// Counts of all that a thread did.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopTrust {
    /// Answers that were sent, and those that follow from nothing that was read.
    answers: u32,
    loose_answers: u32,
    /// Calls that do not wait for a connection, and those that follow from nothing that was read.
    calls: u32,
    loose_calls: u32,
    /// Calls of which the begin and the end say the same, or do not.
    agreed: u32,
    disagreed: u32,
    /// Requests of which more came before they were answered, and those that were worked on by then.
    several: u32,
    ahead: u32,
    /// Answers behind which nothing was read before the next one.
    again: u32,
    /// Events of the thread were lost.
    pub is_behind_loss: bool,
}

const fn is_rare(count: u32, of: u32, percent: u32) -> bool {
    count as u64 * 100 <= of as u64 * percent as u64
}

impl LoopTrust {
    pub const fn answers(&mut self, is_loose: bool) {
        self.answers = self.answers.saturating_add(1);
        self.loose_answers = self.loose_answers.saturating_add(is_loose as u32);
    }

    pub const fn calls(&mut self, is_loose: bool) {
        self.calls = self.calls.saturating_add(1);
        self.loose_calls = self.loose_calls.saturating_add(is_loose as u32);
    }

    /// A request is answered again, though nothing was read on its connection since.
    pub const fn answers_again(&mut self) {
        self.again = self.again.saturating_add(1);
    }

    pub const fn agrees(&mut self, is_same: bool) {
        self.agreed = self.agreed.saturating_add(is_same as u32);
        self.disagreed = self.disagreed.saturating_add(!is_same as u32);
    }

    /// More of a request came; whether it was worked on by then.
    pub const fn more_came(&mut self, is_worked_on: bool) {
        self.several = self.several.saturating_add(1);
        self.ahead = self.ahead.saturating_add(is_worked_on as u32);
    }

    /// Whether what began a call is enough.
    pub const fn begins(&self) -> bool {
        is_rare(self.loose_calls, self.calls, LOOSE_CALLS)
            && is_rare(self.disagreed, self.agreed, DISAGREED)
    }

    /// Whether what ended a call is enough.
    pub const fn ends(&self) -> bool {
        let loose = if self.is_behind_loss { LOOSE_BEHIND_LOSS } else { LOOSE_ANSWERS };
        is_rare(self.loose_answers, self.answers, loose)
            && is_rare(self.disagreed, self.agreed, DISAGREED)
    }

    /// Whether clients send requests before others are answered.
    pub const fn is_ahead(&self) -> bool {
        let ahead = self.ahead.saturating_add(self.again);
        ahead > 0 && ahead >= self.several / AHEAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_witness_is_enough_where_few_sends_follow_from_nothing() {
        let mut trust = LoopTrust::default();
        assert!(trust.begins() && trust.ends() && !trust.is_ahead());
        (0..70).for_each(|_| trust.calls(false));
        (0..31).for_each(|_| trust.calls(true));
        assert!(!trust.begins() && trust.ends());
        (0..20).for_each(|_| trust.answers(false));
        (0..10).for_each(|_| trust.answers(true));
        assert!(trust.ends());
        // Behind lost events more of them have to follow.
        trust.is_behind_loss = true;
        assert!(!trust.ends());
    }

    #[test]
    fn witnesses_that_disagree_are_not_trusted_alone() {
        let mut trust = LoopTrust::default();
        (0..20).for_each(|_| trust.agrees(true));
        trust.agrees(false);
        assert!(trust.begins() && trust.ends());
        trust.agrees(false);
        assert!(!trust.begins() && !trust.ends());
    }

    #[test]
    fn clients_send_ahead_where_more_comes_to_what_is_worked_on() {
        let mut trust = LoopTrust::default();
        (0..200).for_each(|_| trust.more_came(false));
        (0..2).for_each(|_| trust.more_came(true));
        assert!(!trust.is_ahead());
        trust.answers_again();
        assert!(trust.is_ahead());
    }
}
