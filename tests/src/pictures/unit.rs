//! Numbers as Grafana shows them.

/// A value in a unit of Grafana's.
pub fn shown(unit: &str, value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    match unit {
        "s" => scaled(value, "s"),
        "si:s/s" => scaled(value, "s/s"),
        "percentunit" => format!("{} %", digits(value * 100.0)),
        "cps" => format!("{} /s", short(value)),
        _ => short(value),
    }
}

fn digits(value: f64) -> String {
    let magnitude = value.abs();
    if value.fract() == 0.0 || magnitude >= 100.0 {
        format!("{value:.0}")
    } else if magnitude >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

fn scaled(value: f64, unit: &str) -> String {
    let magnitude = value.abs();
    let (factor, prefix) = match magnitude {
        0.0 => (1.0, ""),
        _ if magnitude < 1e-6 => (1e9, "n"),
        _ if magnitude < 1e-3 => (1e6, "µ"),
        _ if magnitude < 1.0 => (1e3, "m"),
        _ => (1.0, ""),
    };
    format!("{} {prefix}{unit}", digits(value * factor))
}

fn short(value: f64) -> String {
    match value.abs() {
        magnitude if magnitude >= 1e6 => format!("{} M", digits(value / 1e6)),
        magnitude if magnitude >= 1e3 => format!("{} K", digits(value / 1e3)),
        _ => digits(value),
    }
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn units_are_those_of_people() {
        let all = [
            shown("s", 0.001_982),
            shown("si:s/s", 0.3),
            shown("percentunit", 0.0415),
            shown("cps", 12_345.0),
            shown("short", 3.0),
            shown("s", f64::NAN),
        ];
        assert_eq!(all, ["1.98 ms", "300 ms/s", "4.15 %", "12.3 K /s", "3", "–"]);
    }
}
