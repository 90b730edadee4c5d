//! PURE: lists of what a client takes (RFC 9110, 12.4.2 and 5.6): elements with weights, of `Accept` and
//! `Accept-Encoding`.
//!
//! Each list is read once from its begin to its end, and nothing of it is kept: the server's bound on heads
//! of requests bounds this as well.
//!
//! tower-http reads `Accept-Encoding` for nothing but its compression, which packs an answer anew for each client,
//! and libraries for `Accept` know no parameters that do not count, such as the `escaping` of Prometheus.

use axum::http::header::HeaderName;
use axum::http::{HeaderMap, HeaderValue};

/// One element of a list.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    pub name: &'a str,
    /// How it is wanted, 0 (not at all) to 1; 0 where that makes no sense.
    pub weight: f32,
    parameters: &'a str,
}

impl<'a> Choice<'a> {
    /// One element as it stands there.
    fn read(element: &'a str) -> Self {
        let mut parts = outside_quotes(element, ';');
        let name = parts.next().unwrap_or_default();
        let parameters = element.get(name.len()..).unwrap_or_default();
        let mut choice = Self { name: name.trim(), weight: 1.0, parameters };
        for (name, value) in parameters_of(parameters) {
            if name.eq_ignore_ascii_case("q") {
                choice.weight = weight(value);
            }
        }
        choice
    }

    /// Names and values of its parameters, the weight left out.
    pub fn parameters(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        parameters_of(self.parameters).filter(|(name, _)| !name.eq_ignore_ascii_case("q"))
    }
}

/// All elements of a header, however many times it is there.
pub fn choices(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = Choice<'_>> {
    // What is no text names nothing that is known.
    let texts = headers.get_all(name).into_iter().map(HeaderValue::to_str);
    texts.flat_map(|text| outside_quotes(text.unwrap_or_default(), ',')).map(Choice::read)
}

/// The parts between separators, of which those in quotes are none.
fn outside_quotes(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |letter| {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => return letter == separator && !quoted,
        }
        false
    })
}

fn parameters_of(text: &str) -> impl Iterator<Item = (&str, &str)> {
    outside_quotes(text, ';').filter(|part| !part.trim().is_empty()).map(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (name.trim(), unquoted(value.trim()))
    })
}

/// A value without its quotes. What has quotes inside is not among the values that anything here has.
fn unquoted(value: &str) -> &str {
    value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value)
}

fn weight(value: &str) -> f32 {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = value.parse().ok().filter(|_| is_number);
    number.filter(|number| (0.0..=1.0).contains(number)).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::header::ACCEPT;
    use proptest::prelude::{prop_assert, proptest};

    type Read<'a> = (&'a str, f32, Vec<(&'a str, &'a str)>);

    fn read(text: &str) -> Vec<Read<'_>> {
        let elements = outside_quotes(text, ',').map(Choice::read);
        elements.map(|one| (one.name, one.weight, one.parameters().collect())).collect()
    }

    #[test]
    fn elements_have_names_weights_and_parameters() {
        assert_eq!(
            read("a/b ; v=1 ;Q=0.5, c/d;x=\"a,b;q=0\" , e/f;q=\"0.25\",, g/h;q=,i"),
            [
                ("a/b", 0.5, vec![("v", "1")]),
                ("c/d", 1.0, vec![("x", "a,b;q=0")]),
                ("e/f", 0.25, vec![]),
                ("", 1.0, vec![]),
                ("g/h", 0.0, vec![]),
                ("i", 1.0, vec![]),
            ]
        );
        assert_eq!(read(r#"a;x="\",b";y, c"#)[0].2, [("x", r#"\",b"#), ("y", "")]);
        assert_eq!(read("a;x=\"never, closed").len(), 1);
    }

    #[test]
    fn headers_that_are_there_twice_are_one_list() {
        let mut headers = HeaderMap::new();
        for value in ["a, b", "c"] {
            headers.append(ACCEPT, HeaderValue::from_static(value));
        }
        headers.append(ACCEPT, HeaderValue::from_bytes(b"\xff").unwrap());
        let names: Vec<&str> = choices(&headers, ACCEPT).map(|choice| choice.name).collect();
        assert_eq!(names, ["a", "b", "c", ""]);
    }

    proptest! {
        #[test]
        fn whatever_is_asked_has_a_weight(text in "[ -~\t]{0,200}") {
            for (name, weight, parameters) in read(&text) {
                prop_assert!((0.0..=1.0).contains(&weight) && !name.contains('\n'));
                prop_assert!(parameters.iter().all(|(name, _)| !name.eq_ignore_ascii_case("q")));
            }
        }
    }
}
