//! In which turn a thread goes on with what it read.

/// Turns after which a thread has gone on with what it read, or waits for something else.
pub const MOST_TURNS: u32 = 4;
const AGES: usize = MOST_TURNS as usize + 1;
/// Answers, or else turns, after which it is known in which turn a thread goes on.
const ENOUGH: u32 = 16;
/// What is as seldom as one in so many answers is not usual.
const UNUSUAL: u32 = 32;
/// One in so many is much.
const MUCH: u32 = 8;
/// Counts that are halved, so that what a thread did long ago counts less.
const MANY: u32 = 1 << 10;

/// Ages are counted in turns, from that of a read to that of what is sent for it.
#[derive(Clone, Debug, Default)]
pub struct LoopPace {
    answers: [u32; AGES],
    /// How much was read in the latest turns, each at the place of its number.
    read: [u32; AGES],
    /// Turns in which as much was sent as was read in that before.
    alike: [u32; AGES],
    /// All turns in which something was sent.
    turns: u32,
    /// Sends behind several reads in one turn, and those that had more sends than reads: some are of nothing that was read.
    several: u32,
    more: u32,
    /// Answers behind several reads that were of the last one of these, and of another one.
    of_last: u32,
    of_others: u32,
}

impl LoopPace {
    fn place(turn: u32) -> usize {
        turn as usize % AGES
    }

    pub fn begins(&mut self, turn: u32) {
        if let Some(read) = self.read.get_mut(Self::place(turn)) {
            *read = 0;
        }
    }

    /// What was read is done with.
    pub fn rests(&mut self) {
        self.read = [0; AGES];
    }

    pub fn reads(&mut self, turn: u32) {
        if let Some(read) = self.read.get_mut(Self::place(turn)) {
            *read += 1;
        }
    }

    /// So much was sent in a turn before anything was read in it, or behind so much that was.
    pub fn sends(&mut self, turn: u32, sent: usize, behind: usize) {
        self.turns += 1;
        if behind > 0 {
            self.alike[0] += u32::from(behind == sent || behind == 1);
        } else {
            for age in 1..=MOST_TURNS.min(turn) {
                let read = self.read.get(Self::place(turn - age)).copied().unwrap_or(0);
                if let Some(alike) = self.alike.get_mut(age as usize) {
                    *alike += u32::from(read as usize == sent);
                }
            }
        }
        if self.turns > MANY {
            self.turns /= 2;
            self.alike.iter_mut().for_each(|count| *count /= 2);
        }
    }

    /// So much was sent that may be of so many reads, and is not of anything else.
    pub fn compares(&mut self, read: usize, sent: usize, is_behind: bool) {
        if is_behind && read < 2 {
            return;
        }
        self.several += 1;
        self.more += u32::from(sent > read);
        if self.several > MANY {
            (self.several, self.more) = (self.several / 2, self.more / 2);
        }
    }

    /// Whether answers come in many different turns: a thread does not go on with what it read in their order.
    fn is_spread(&self) -> bool {
        let all: u32 = self.answers.iter().sum();
        let most = self.answers.iter().max().copied().unwrap_or(0);
        all >= ENOUGH && all - most > all / MUCH
    }

    /// Whether what is sent is of what was read, as a rule.
    pub fn is_regular(&self) -> bool {
        !self.is_spread() && self.more <= self.several / UNUSUAL
    }

    /// Whether much of what is sent is of nothing that was read.
    pub fn is_wild(&self) -> bool {
        self.is_spread() || (self.more > 1 && self.more > self.several / MUCH)
    }

    /// An answer behind several reads is of the last one of them, or is not.
    pub fn is_of_last(&mut self, is_of_last: bool) {
        self.of_last = self.of_last.saturating_add(u32::from(is_of_last));
        self.of_others = self.of_others.saturating_add(u32::from(!is_of_last));
    }

    /// Whether a thread goes on at once with each of what it reads.
    pub const fn is_at_once(&self) -> bool {
        self.of_last >= ENOUGH && self.of_others <= self.of_last / UNUSUAL
    }

    /// An answer is known to be of what was read so many turns ago.
    pub fn answers(&mut self, age: u32) {
        if let Some(count) = self.answers.get_mut(age as usize) {
            *count += 1;
        }
        if self.answers.iter().sum::<u32>() > MANY {
            self.answers.iter_mut().for_each(|count| *count /= 2);
        }
    }

    /// Whether a thread will still go on with what it read so many turns ago.
    pub fn comes(&self, age: u32) -> bool {
        (age..=MOST_TURNS).any(|age| self.is_usual(age))
    }

    /// Whether a thread goes on with what it read so many turns ago.
    pub fn is_usual(&self, age: u32) -> bool {
        let of = |counts: &[u32; AGES]| counts.get(age as usize).copied().unwrap_or(0);
        let answers: u32 = self.answers.iter().sum();
        let is_most = |count: u32| count >= self.turns - self.turns / 10;
        if self.turns >= ENOUGH && self.alike.iter().any(|count| is_most(*count)) {
            is_most(of(&self.alike))
        } else if answers >= ENOUGH {
            of(&self.answers) > answers / UNUSUAL
        } else {
            age <= MOST_TURNS
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(pace: &LoopPace) -> Vec<u32> {
        (0..=MOST_TURNS + 1).filter(|age| pace.is_usual(*age)).collect()
    }

    #[test]
    fn as_much_is_sent_as_was_read_in_the_turn_that_it_is_of() {
        let mut pace = LoopPace::default();
        assert_eq!(usual(&pace), [0, 1, 2, 3, 4]);
        let read = |turn: u32| turn * 7 % 5 + 1;
        for turn in 1..40 {
            pace.begins(turn);
            if turn > 2 {
                pace.sends(turn, read(turn - 2) as usize, 0);
            }
            (0..read(turn)).for_each(|_| pace.reads(turn));
        }
        assert_eq!(usual(&pace), [2]);
        // Where that does not hold any more, what is known of answers counts.
        (0..ENOUGH).for_each(|_| pace.answers(3));
        assert_eq!(usual(&pace), [2]);
        (0..10).for_each(|_| pace.sends(40, 50, 0));
        assert_eq!(usual(&pace), [3]);
        pace.answers(0);
        assert_eq!(usual(&pace), [0, 3]);
        (0..2 * UNUSUAL).for_each(|_| pace.answers(3));
        assert_eq!(usual(&pace), [3]);
    }

    #[test]
    fn more_sends_than_reads_are_not_regular() {
        let mut pace = LoopPace::default();
        pace.compares(1, 3, true);
        assert!(pace.is_regular() && !pace.is_at_once());
        (0..ENOUGH).for_each(|_| pace.compares(2, 3, true));
        assert!(!pace.is_regular() && pace.is_wild());
        (0..UNUSUAL * ENOUGH).for_each(|_| pace.compares(2, 1, false));
        assert!(pace.is_regular() && !pace.is_wild());
        (0..ENOUGH).for_each(|_| pace.is_of_last(true));
        assert!(pace.is_at_once());
        pace.is_of_last(false);
        assert!(!pace.is_at_once());
        (0..ENOUGH).for_each(|_| pace.answers(1));
        assert!(pace.is_regular());
        (0..ENOUGH).for_each(|_| pace.answers(3));
        assert!(!pace.is_regular() && pace.is_wild());
    }

    #[test]
    fn who_goes_on_at_once_sends_behind_each_read() {
        let mut pace = LoopPace::default();
        for turn in 1..20 {
            pace.begins(turn);
            pace.reads(turn);
            pace.sends(turn, 1, 1);
        }
        assert_eq!(usual(&pace), [0]);
    }
}
