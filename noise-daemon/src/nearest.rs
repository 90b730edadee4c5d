//! PURE: the name that was probably meant by one that does not exist.

/// Least likeness of a name to the one that is taken for meant, from 0 to 1.
const LIKENESS: f64 = 0.75;

/// The name that is most like this one, if any is.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let like = |other: &&str| {
        strsim::normalized_damerau_levenshtein(name, other).max(
            // Much was left out, or too much was said.
            if other.starts_with(name) && name.len() > 2 { LIKENESS } else { 0.0 },
        )
    };
    names.max_by(|a, b| like(a).total_cmp(&like(b))).filter(|best| like(best) >= LIKENESS)
}

#[cfg(test)]
mod tests {
    use super::nearest;

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
