//! PURE: the name that was probably meant by one that does not exist.

/// Least likeness of a name to the one that is suggested for it, from 0 to 1.
const LIKENESS: f64 = 0.75;

/// Which name was probably meant, as a message has it; all of them where none is like it.
pub fn meant(name: &str, names: &[&str]) -> String {
    match nearest(name, names.iter().copied()) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("expected one of {}", names.join(", ")),
    }
}

/// The name that is most like this one, if any is. Capitals make no difference.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = &*name.to_lowercase();
    let like = |other: &&str| {
        let other = &*other.to_lowercase();
        strsim::normalized_damerau_levenshtein(name, other).max(
            // Much was left out, or too much was said.
            match other.starts_with(name) && name.len() > 2 {
                true => LIKENESS,
                // A slip in a name of three letters is a third of it.
                false if other.len() == 3 && strsim::damerau_levenshtein(name, other) == 1 => {
                    LIKENESS
                }
                false => 0.0,
            },
        )
    };
    names.max_by(|a, b| like(a).total_cmp(&like(b))).filter(|best| like(best) >= LIKENESS)
}

#[cfg(test)]
mod tests {
    use super::{meant, nearest};

    #[test]
    fn a_message_names_the_nearest_or_all() {
        assert_eq!(nearest("tpo", ["why", "top"].into_iter()), Some("top"));
        assert_eq!(nearest("x", ["why", "top"].into_iter()), None);
        let names = ["deny", "sameorigin"];
        assert_eq!(meant("DENY", &names), "did you mean `deny`?");
        assert_eq!(meant("allow", &names), "expected one of deny, sameorigin");
    }

    #[test]
    fn slips_and_omissions_are_understood_and_other_names_are_not() {
        let names = || ["listen-address", "mode", "path"].into_iter();
        assert_eq!(nearest("listen-adress", names()), Some("listen-address"));
        assert_eq!(nearest("listen", names()), Some("listen-address"));
        assert_eq!(nearest("mdoe", names()), Some("mode"));
        assert_eq!(nearest("colour", names()), None);
        assert_eq!(nearest("", names()), None);
    }
}
