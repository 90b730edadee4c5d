//! PURE: which codings of an answer a client takes (RFC 9110, 12.5.3).

use axum::http::{HeaderMap, header};

use super::accept::choices;

/// Whether an answer may be gzip, and better is: its weight is above 0, and not below that of
/// `identity` where that is named.
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    let (mut gzip, mut any, mut identity) = (None, None, None);
    for coding in choices(headers, header::ACCEPT_ENCODING) {
        let found = match coding.name {
            name if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") => {
                &mut gzip
            }
            name if name.eq_ignore_ascii_case("identity") => &mut identity,
            "*" => &mut any,
            _ => continue,
        };
        // Said twice, the lesser counts: without gzip it can always be read.
        *found = Some(found.map_or(coding.weight, |before: f32| before.min(coding.weight)));
    }
    let gzip = gzip.or(any).unwrap_or(0.0);
    gzip > 0.0 && identity.is_none_or(|identity| gzip >= identity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn takes(values: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(
                header::ACCEPT_ENCODING,
                HeaderValue::from_bytes(value.as_bytes()).unwrap(),
            );
        }
        takes_gzip(&headers)
    }

    #[test]
    fn gzip_is_for_those_who_take_it() {
        for value in [
            "gzip",
            "deflate, GZIP;q=0.5",
            "*",
            "x-gzip",
            "gzip;q=1.000",
            "gzip ; Q=0.001",
            "\tgzip\t;\tq=1",
            "br;q=0, *",
            "*;q=0, gzip",
            "gzip, *;q=0",
            "identity;q=0, gzip",
            "gzip;q=0.5, identity;q=0.5",
            "identity;q=0.2, *;q=0.3",
            "gzip;level=9;q=0.1",
            "gzip, deflate, br, zstd",
            "gzip;",
            ", ,gzip",
        ] {
            assert!(takes(&[value]), "{value}");
        }
        for value in [
            "gzip;q=0",
            "gzip;Q=0",
            "gzip;q=0.0",
            "gzip;q=0.00",
            "gzip;q=0.000",
            "gzip; q=0",
            "gzip ;q=0",
            "gzip ; q = 0",
            "gzip;\tq=0",
            "GZIP;Q=0.000",
            "gzip;q=0, *",
            "*, gzip;q=0",
            "gzip;q=0.0, *;q=1",
            "*;q=0",
            "*;Q=0.0",
            "* ; q=0",
            "identity",
            "",
            "deflate",
            "gzip;q=0;x=1",
            "gzip;x=1;q=0",
            "gzip, gzip;q=0",
            "gzip;q=0, gzip",
            "x-gzip;q=0",
            "gzip;q=",
            "gzip;q=x",
            "gzip;q=-1",
            "gzip;q=nan",
            "gzip;q=inf",
            "gzip;q=-0",
            "gzip;q=1e0",
            "gzip;q=2",
            "identity, gzip;q=0.5",
            "gzip;q=0.001, identity;q=1",
            "*;q=0.5, identity",
            "gzipx",
            "\u{ff47}zip",
        ] {
            assert!(!takes(&[value]), "{value}");
        }
        assert!(!takes(&[]));
        assert!(
            takes(&["br", "gzip"]) && !takes(&["gzip", "gzip;q=0"]) && !takes(&["gzip;q=0", "*"])
        );
    }
}
