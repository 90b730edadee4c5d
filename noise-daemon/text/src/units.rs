//! Numbers as people read them: three significant digits and a unit, never wider than ten columns.

/// What is shown where there is no number.
const NONE: &str = "–";

const TIMES: [(f64, &str); 7] = [
    (1.0, "ns"),
    (1e3, "µs"),
    (1e6, "ms"),
    (1e9, "s"),
    (60e9, "min"),
    (3_600e9, "h"),
    (86_400e9, "d"),
];

const LOSSES: [(f64, &str); 4] = [(1.0, "ns/s"), (1e3, "µs/s"), (1e6, "ms/s"), (1e9, "s/s")];

const RATES: [(f64, &str); 5] =
    [(1.0, "/s"), (1e3, "k/s"), (1e6, "M/s"), (1e9, "G/s"), (1e12, "T/s")];

const COUNTS: [(f64, &str); 6] =
    [(1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"), (1e15, "P"), (1e18, "E")];

/// How many decimals make three digits of it, but two at most.
fn three(amount: f64) -> usize {
    // Where rounding gives one digit more, one decimal less is shown.
    match amount {
        _ if amount < 9.995 => 2,
        _ if amount < 99.95 => 1,
        _ => 0,
    }
}

/// How many decimals make two digits of it, but one at most.
fn two(amount: f64) -> usize {
    if amount < 9.95 { 1 } else { 0 }
}

fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    rounded(value, units, three)
}

/// A value in the unit that suits it; units ascend, each with its size.
fn rounded(value: f64, units: &[(f64, &str)], decimals: fn(f64) -> usize) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let amount = value.abs();
    let mut chosen = units.first().copied().unwrap_or((1.0, ""));
    for unit in units {
        // What would be rounded to one of a larger unit is one.
        let own = amount / chosen.0;
        let digits = 10f64.powi(decimals(own) as i32);
        if (own * digits).round() / digits >= unit.0 / chosen.0 {
            chosen = *unit;
        }
    }
    let (size, unit) = chosen;
    let own = amount / size;
    let sign = if value < 0.0 { "-" } else { "" };
    match own {
        _ if own == 0.0 => "0".to_owned(),
        _ if own < 0.005 && value < 0.0 => "0".to_owned(),
        _ if own < 0.005 => format!("<0.01 {unit}"),
        _ if own >= 99_999.5 => format!("{sign}{own:.0e} {unit}"),
        _ => format!("{sign}{own:.*} {unit}", decimals(own)),
    }
}

/// A duration, ns: `12.3 µs`, `4.56 ms`.
pub fn duration(ns: f64) -> String {
    scaled(ns, &TIMES)
}

/// As [`duration`], of one that may not be known.
pub fn known_duration(ns: Option<u64>) -> String {
    ns.map_or_else(|| NONE.to_owned(), |ns| duration(ns as f64))
}

/// A bound of buckets, ns, which are no finer than two digits: `2.6 ms`.
pub fn bound(ns: u64) -> String {
    rounded(ns as f64, &TIMES, two)
}

/// Events per second: `1.20 k/s`.
pub fn per_second(rate: f64) -> String {
    scaled(rate, &RATES)
}

/// A share of a whole, where 1 is all of it: `3.4 %`.
pub fn share(share: f64) -> String {
    let percent = share * 100.0;
    if (0.995..99.95).contains(&percent.abs()) {
        return format!("{percent:.1} %");
    }
    scaled(percent, &[(1.0, "%")])
}

/// How much longer something takes, where 0 is as long as ever: `3.4 %`, from ten times longer on `12.3x`.
pub fn slowdown(slowdown: f64) -> String {
    if slowdown.abs() < 9.995 {
        return share(slowdown);
    }
    scaled(slowdown, &[(1.0, "x"), (1e3, "kx")]).replace(' ', "")
}

/// Seconds lost per second: `12.3 ms/s`.
pub fn lost(seconds_per_second: f64) -> String {
    scaled(seconds_per_second * 1e9, &LOSSES)
}

/// How many: `12.3 k`.
pub fn count(count: u64) -> String {
    if count < 1_000 { count.to_string() } else { scaled(count as f64, &COUNTS) }
}

/// A frequency: `250.0 Hz`, `1.234 kHz`.
pub fn frequency(hz: f64) -> String {
    if hz < 999.95 { format!("{hz:.1} Hz") } else { format!("{:.3} kHz", hz / 1e3) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert, proptest};

    #[test]
    fn durations_have_three_digits() {
        let known = [
            (0.0, "0"),
            (0.001, "<0.01 ns"),
            (0.25, "0.25 ns"),
            (7.0, "7.00 ns"),
            (256.0, "256 ns"),
            (999.4, "999 ns"),
            (999.6, "1.00 µs"),
            (1_000.0, "1.00 µs"),
            (9_994.0, "9.99 µs"),
            (9_996.0, "10.0 µs"),
            (12_345.0, "12.3 µs"),
            (99_960.0, "100 µs"),
            (999_499.0, "999 µs"),
            (999_500.0, "1.00 ms"),
            (4_560_000.0, "4.56 ms"),
            (1.5e9, "1.50 s"),
            (59.94e9, "59.9 s"),
            (59.96e9, "1.00 min"),
            (90e9, "1.50 min"),
            (3_599.9e9, "1.00 h"),
            (2.5 * 3_600e9, "2.50 h"),
            (86_400e9, "1.00 d"),
            (u64::MAX as f64, "2e5 d"),
            (-12_300_000.0, "-12.3 ms"),
            (-0.001, "0"),
            (f64::NAN, "–"),
            (f64::INFINITY, "–"),
        ];
        for (ns, text) in known {
            assert_eq!(duration(ns), text, "{ns} ns");
        }
    }

    #[test]
    fn bounds_have_two_digits() {
        let known = [(256, "256 ns"), (1_280, "1.3 µs"), (2_560_000, "2.6 ms"), (1 << 25, "34 ms")];
        for (ns, text) in known {
            assert_eq!(bound(ns), text);
        }
        assert_eq!(bound(1 << 36), "1.1 min");
    }

    #[test]
    fn rates_losses_shares_and_counts() {
        let rates = [0.0, 0.004, 0.2, 15.0, 999.7, 1_200.0, 3.4e7].map(per_second);
        assert_eq!(
            rates,
            ["0", "<0.01 /s", "0.20 /s", "15.0 /s", "1.00 k/s", "1.20 k/s", "34.0 M/s"]
        );
        let losses = [0.0, 2e-9, 1.5e-5, 0.0123, 0.99996, 1.0, 64.25, 1_234.0].map(lost);
        assert_eq!(
            losses,
            [
                "0",
                "2.00 ns/s",
                "15.0 µs/s",
                "12.3 ms/s",
                "1.00 s/s",
                "1.00 s/s",
                "64.2 s/s",
                "1234 s/s"
            ]
        );
        let shares = [0.0, 0.000_01, 0.000_4, 0.034, 0.0996, 0.123, 0.9996, 1.0, 1.28].map(share);
        assert_eq!(
            shares,
            ["0", "<0.01 %", "0.04 %", "3.4 %", "10.0 %", "12.3 %", "100 %", "100 %", "128 %"]
        );
        let counts = [0, 7, 999, 1_000, 12_345, 999_999, u64::MAX].map(count);
        assert_eq!(counts, ["0", "7", "999", "1.00 k", "12.3 k", "1.00 M", "18.4 E"]);
    }

    proptest! {
        #[test]
        fn nothing_is_wider_than_ten_columns(bits in any::<u64>(), small in -1e12f64..1e12) {
            for value in [f64::from_bits(bits), small, bits as f64] {
                for text in [duration(value), per_second(value), lost(value), share(value)] {
                    prop_assert!(text.chars().count() <= 10, "{text}");
                }
            }
            prop_assert!(count(bits).chars().count() <= 10);
        }
    }
}
