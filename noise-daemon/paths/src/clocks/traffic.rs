//! Packets that recordings of several machines have in common.
//!
//! Of very many packets a sample is kept, the same of every recording: those whose numbers end in enough zeroes.

use std::collections::{HashMap, VecDeque};

use super::{ClockLine, ClocksError, Exchange};

/// Packets of each direction that are kept.
const MAX_PACKETS: usize = 1 << 18;
/// A packet that is seen again later than this was sent again, and says nothing, nanoseconds. Sooner, it passes another
/// interface of the same machine.
const AGAIN_NS: u64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
struct PacketSighting {
    first_ns: u64,
    last_ns: u64,
}

impl PacketSighting {
    const fn is_once(&self) -> bool {
        self.last_ns.saturating_sub(self.first_ns) <= AGAIN_NS
    }
}

/// What one recording saw of packets, by their keys: see [`Segment::key`](crate::packets::Segment::key).
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    sent: HashMap<u64, PacketSighting>,
    received: HashMap<u64, PacketSighting>,
    /// Bits of a key that are zero in all that are kept.
    zeroes: u64,
}

impl Traffic {
    pub fn sent(&mut self, key: u64, time_ns: u64) {
        if key & self.zeroes == 0 {
            note(&mut self.sent, key, time_ns);
            self.thin();
        }
    }

    pub fn received(&mut self, key: u64, time_ns: u64) {
        if key & self.zeroes == 0 {
            note(&mut self.received, key, time_ns);
            self.thin();
        }
    }

    /// Whether no packet is known: the recording has none of TCP, or not their headers.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.received.is_empty()
    }

    fn thin(&mut self) {
        while self.sent.len().max(self.received.len()) > MAX_PACKETS {
            self.zeroes = self.zeroes << 1 | 1;
            let zeroes = self.zeroes;
            self.sent.retain(|key, _| key & zeroes == 0);
            self.received.retain(|key, _| key & zeroes == 0);
        }
    }

    /// What another machine exchanged with this one, whose clock is the reference.
    fn exchange(&self, other: &Self) -> Exchange {
        let mut exchange = Exchange::default();
        both(&self.sent, &other.received, |sent_ns, received_ns| {
            exchange.received(sent_ns, received_ns);
        });
        both(&other.sent, &self.received, |sent_ns, received_ns| {
            exchange.sent(sent_ns, received_ns);
        });
        exchange
    }
}

fn note(seen: &mut HashMap<u64, PacketSighting>, key: u64, time_ns: u64) {
    let of = seen.entry(key).or_insert(PacketSighting { first_ns: time_ns, last_ns: time_ns });
    of.first_ns = of.first_ns.min(time_ns);
    of.last_ns = of.last_ns.max(time_ns);
}

/// Packets that were sent here and arrived there, in the order of time: when the last interface sent them, and the
/// first one got them.
fn both(
    sent: &HashMap<u64, PacketSighting>,
    received: &HashMap<u64, PacketSighting>,
    mut see: impl FnMut(u64, u64),
) {
    let pair = |(key, of): (&u64, &PacketSighting)| {
        let there = received.get(key).filter(|there| there.is_once() && of.is_once())?;
        Some((of.last_ns, there.first_ns))
    };
    let mut pairs: Vec<(u64, u64)> = sent.iter().filter_map(pair).collect();
    // A table has its own order in each run, and clocks are rounded by the first packet.
    pairs.sort_unstable();
    for (sent_ns, received_ns) in pairs {
        see(sent_ns, received_ns);
    }
}

/// How the clocks of recordings become the first one's: directly, or by way of one that exchanged packets with it.
/// Errors: the number of a recording for which there is no way, and why.
pub fn lines(all: &[Traffic]) -> Result<Vec<ClockLine>, (usize, ClocksError)> {
    let mut lines: Vec<Option<ClockLine>> = vec![None; all.len()];
    let mut reasons: Vec<Option<ClocksError>> = vec![None; all.len()];
    // In the order in which they became known: each of them is held against the others once.
    let mut known = VecDeque::new();
    if let Some(first) = lines.first_mut() {
        *first = Some(ClockLine::SAME);
        known.push_back((0, ClockLine::SAME));
    }
    while let Some((reference, line)) = known.pop_front() {
        for (number, traffic) in all.iter().enumerate() {
            if lines[number].is_some() {
                continue;
            }
            match all[reference].exchange(traffic).line() {
                Ok(own) => {
                    let own = own.then(&line);
                    lines[number] = Some(own);
                    known.push_back((number, own));
                }
                // Of several reasons, the one that says more than that there is nothing.
                Err(error) if reasons[number].is_none_or(|why| why == ClocksError::NoPackets) => {
                    reasons[number] = Some(error);
                }
                Err(_) => {}
            }
        }
    }
    let unknown = (0..).zip(&lines).filter(|(_, line)| line.is_none());
    let reason = unknown.filter_map(|(number, _)| Some((number, reasons[number]?)));
    match reason.min_by_key(|(number, why)| (*why == ClocksError::NoPackets, *number)) {
        Some(reason) => Err(reason),
        None => Ok(lines.into_iter().flatten().collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two machines, the second with its clock so far behind.
    fn pair(behind_ns: u64, packets: u64, first_key: u64) -> (Traffic, Traffic) {
        let (mut one, mut other) = (Traffic::default(), Traffic::default());
        for number in 0..packets {
            let (key, at_ns) = (first_key + number, 10_000_000_000 + number * 1_000_000);
            let (sent, received) = (at_ns, at_ns + 20_000);
            match number % 2 {
                0 => {
                    one.sent(key, sent);
                    other.received(key, received - behind_ns);
                }
                _ => {
                    other.sent(key, sent - behind_ns);
                    one.received(key, received);
                }
            }
        }
        (one, other)
    }

    #[test]
    fn clocks_are_brought_together_over_others() {
        let (one, mut two) = pair(5_000_000, 100, 0);
        let (reference, three) = pair(7_000_000, 100, 1000);
        // What the second and the third exchanged is seen by the second's clock.
        for (key, seen) in reference.sent {
            two.sent(key, seen.first_ns - 5_000_000);
        }
        for (key, seen) in reference.received {
            two.received(key, seen.first_ns - 5_000_000);
        }
        let lines = lines(&[one, three, two]).unwrap();
        assert_eq!(lines[0], ClockLine::SAME);
        for (line, behind_ns) in [(&lines[1], 7_000_000u64), (&lines[2], 5_000_000)] {
            let found = line.to_reference(10_050_000_000 - behind_ns);
            assert!(found.abs_diff(10_050_000_000) < 25_000, "{found}");
        }
    }

    #[test]
    fn clocks_come_by_way_of_others_only_where_they_must() {
        let (mut one, mut two) = pair(5_000_000, 100, 0);
        let (other, three) = pair(7_000_000, 100, 1000);
        one.sent.extend(other.sent);
        one.received.extend(other.received);
        let direct = lines(&[one.clone(), two.clone()]).unwrap();
        // By way of the third one the clock of the second would be another.
        let mut three = three;
        for (key, at_ns) in (2000..2100).zip((10_000_000_000..).step_by(1_000_000)) {
            let (from, to) =
                if key % 2 == 0 { (&mut three, &mut two) } else { (&mut two, &mut three) };
            from.sent(key, at_ns);
            to.received(key, at_ns + 20_000);
        }
        assert_eq!(lines(&[one, two, three]).unwrap()[1], direct[1]);
    }

    #[test]
    fn clocks_are_brought_together_alike_each_time() {
        let once = || {
            let (mut one, mut other) = (Traffic::default(), Traffic::default());
            for number in 0..500u64 {
                let at_ns = 1_700_000_000_000_000_000 + number * 1_000_003;
                let there_ns = at_ns - number * 37 - 5_000_000;
                let way_ns = 20_000 + number * 7919 % 9973;
                match number % 2 {
                    0 => {
                        one.sent(number, at_ns);
                        other.received(number, there_ns + way_ns);
                    }
                    _ => {
                        other.sent(number, there_ns);
                        one.received(number, at_ns + way_ns);
                    }
                }
            }
            lines(&[one, other]).unwrap()
        };
        let first = once();
        assert!((0..20).all(|_| once() == first));
    }

    #[test]
    fn what_was_sent_again_says_nothing() {
        let (one, mut two) = pair(0, 2, 0);
        two.received(0, 99_000_000_000);
        assert_eq!(lines(&[one, two]), Err((1, ClocksError::OneWay)));
        let none = [Traffic::default(), Traffic::default()];
        assert_eq!(lines(&none), Err((1, ClocksError::NoPackets)));
        assert_eq!(lines(&[Traffic::default()]), Ok(vec![ClockLine::SAME]));
    }

    #[test]
    fn of_very_many_packets_the_same_ones_are_kept() {
        let keys = || (0..MAX_PACKETS as u64 * 3).map(|number| number.wrapping_mul(0x9e37_79b9));
        let (mut one, mut other) = (Traffic::default(), Traffic::default());
        keys().for_each(|key| one.sent(key, key));
        keys().rev().for_each(|key| other.received(key, key));
        assert!(one.sent.len() <= MAX_PACKETS && other.received.len() <= MAX_PACKETS);
        let mut count = 0;
        both(&one.sent, &other.received, |_, _| count += 1);
        assert!(count > MAX_PACKETS / 2, "{count}");
    }
}
