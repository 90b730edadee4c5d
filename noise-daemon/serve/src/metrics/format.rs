//! PURE: the formats that metrics are written in, and which of them a client gets (RFC 9110, 12.5.1).

use axum::http::{HeaderMap, header};

use crate::accept::{Choice, choices};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Prometheus' text format 0.0.4.
    Text,
    /// OpenMetrics 1.0 as text.
    OpenMetrics,
    /// Prometheus' protocol buffers, with native histograms.
    Protobuf,
}

/// A media type that is offered.
struct Offer {
    kind: &'static str,
    subtype: &'static str,
    parameters: &'static [(&'static str, &'static str)],
}

/// What a range says of the offers that it names: the more exactly it does, the more it counts.
type Said = (usize, f32);

impl Format {
    /// All, best for noised first where a client does not care.
    const ALL: [Self; 3] = [Self::Text, Self::OpenMetrics, Self::Protobuf];

    /// The format for a client with these headers: what it likes best. One that takes none of them gets
    /// text, which every scraper reads.
    pub fn wanted(headers: &HeaderMap) -> Self {
        let mut said: [Option<Said>; Self::ALL.len()] = [None; Self::ALL.len()];
        for range in choices(headers, header::ACCEPT) {
            for (format, said) in Self::ALL.into_iter().zip(&mut said) {
                let Some(exactness) = format.offer().named_by(&range) else { continue };
                let more = said.is_none_or(|(before, weight)| {
                    exactness > before || exactness == before && range.weight > weight
                });
                if more {
                    *said = Some((exactness, range.weight));
                }
            }
        }
        let mut best = (Self::Text, 0.0);
        for (format, said) in Self::ALL.into_iter().zip(said) {
            let weight = said.map_or(0.0, |(_, weight)| weight);
            if weight > best.1 {
                best = (format, weight);
            }
        }
        best.0
    }

    /// What an answer in this format says that it is.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => prometheus::TEXT_FORMAT,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    fn offer(self) -> Offer {
        match self {
            Self::Text => Offer {
                kind: "text",
                subtype: "plain",
                parameters: &[("version", "0.0.4"), ("charset", "utf-8")],
            },
            Self::OpenMetrics => Offer {
                kind: "application",
                subtype: "openmetrics-text",
                parameters: &[("version", "1.0.0"), ("charset", "utf-8")],
            },
            Self::Protobuf => Offer {
                kind: "application",
                subtype: "vnd.google.protobuf",
                parameters: &[
                    ("proto", "io.prometheus.client.MetricFamily"),
                    ("encoding", "delimited"),
                ],
            },
        }
    }
}

impl Offer {
    /// How exactly a range names it, if it does.
    fn named_by(&self, range: &Choice<'_>) -> Option<usize> {
        let (kind, subtype) = range.name.split_once('/')?;
        let exactness = match (kind, subtype) {
            ("*", "*") => 0,
            (kind, "*") if kind.eq_ignore_ascii_case(self.kind) => 1,
            _ if kind.eq_ignore_ascii_case(self.kind)
                && subtype.eq_ignore_ascii_case(self.subtype) =>
            {
                2
            }
            _ => return None,
        };
        range.parameters().try_fold(exactness, |exactness, (name, value)| {
            // How names of metrics are escaped that are no plain words; none here is.
            let is_met = name.eq_ignore_ascii_case("escaping")
                || self.parameters.iter().any(|(own, its)| {
                    name.eq_ignore_ascii_case(own) && value.eq_ignore_ascii_case(its)
                });
            is_met.then_some(exactness + 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use proptest::prelude::{prop_assert_eq, proptest};

    const NATIVE: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";

    fn wanted(value: &str) -> Format {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        Format::wanted(&HeaderMap::from_iter([(header::ACCEPT, value)]))
    }

    #[test]
    fn scrapers_get_what_they_like_best() {
        // Prometheus 2.42 without and with native histograms, 3.x the same.
        let old = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(wanted(old), Format::OpenMetrics);
        assert_eq!(
            wanted(&format!("{NATIVE},{}", old.replace("1.0.0", "1.0.0;q=0.8"))),
            Format::Protobuf
        );
        let new = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        assert_eq!(wanted(new), Format::OpenMetrics);
        assert_eq!(wanted(&format!("{NATIVE};q=0.6,{new}")), Format::Protobuf);
        // One that is set to the text format, and an old one.
        assert_eq!(wanted("text/plain;version=0.0.4;q=0.5,*/*;q=0.1"), Format::Text);
        assert_eq!(wanted(&format!("{NATIVE};q=0.7,text/plain;version=0.0.4;q=0.8")), Format::Text);
    }

    #[test]
    fn who_does_not_care_gets_text() {
        assert_eq!(Format::wanted(&HeaderMap::new()), Format::Text);
        for value in [
            "",
            "*/*",
            "*",
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2",
            "application/json",
            "text/*",
            "text/plain",
            "text/plain;charset=UTF-8",
            "application/*;q=0.5, text/*;q=0.5",
            // What there is not.
            "application/openmetrics-text;version=2.0.0",
            "application/openmetrics-text;version=0.0.1",
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text",
            "application/vnd.google.protobuf;proto=other;encoding=delimited",
            // Not wanted.
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;version=1.0.0;q=0, application/openmetrics-text, */*;q=0.1",
            "application/openmetrics-text;q=x",
            "application/openmetrics-text;q=1.1",
            "*/*;q=0",
            "/",
            "application/",
        ] {
            assert_eq!(wanted(value), Format::Text, "{value}");
        }
    }

    #[test]
    fn the_most_exact_range_counts() {
        for (value, expected) in [
            ("application/openmetrics-text", Format::OpenMetrics),
            (
                "APPLICATION/OpenMetrics-Text ; Version=\"1.0.0\" ; q=0.9, */*;q=0.8",
                Format::OpenMetrics,
            ),
            ("application/*", Format::OpenMetrics),
            ("application/*, application/openmetrics-text;q=0.5", Format::Protobuf),
            ("*/*, text/plain;q=0.5", Format::OpenMetrics),
            ("text/plain;q=0.1, */*;q=0.2, application/*;q=0", Format::Text),
            ("text/plain;q=0", Format::Text),
            ("text/plain;q=0, */*", Format::OpenMetrics),
            (
                "application/openmetrics-text;q=0.2, application/openmetrics-text;q=0.6, text/plain;q=0.5",
                Format::OpenMetrics,
            ),
            ("application/vnd.google.protobuf, text/plain;q=0.9", Format::Protobuf),
        ] {
            assert_eq!(wanted(value), expected, "{value}");
        }
    }

    #[test]
    fn long_lists_are_read_to_their_end() {
        let many = "a/b;q=0.5,".repeat(1600);
        assert_eq!(wanted(&format!("{many}{NATIVE}")), Format::Protobuf);
        assert_eq!(wanted(&format!("{}\"{NATIVE}", ";\"\\,".repeat(4000))), Format::Text);
    }

    proptest! {
        #[test]
        fn what_names_no_format_changes_nothing(noise in "[ -+\\--~\t]{0,40}") {
            let is_range = noise.contains('*') || noise.contains('"');
            if !is_range {
                prop_assert_eq!(wanted(&format!("{noise},{NATIVE}")), Format::Protobuf);
            }
        }
    }
}
