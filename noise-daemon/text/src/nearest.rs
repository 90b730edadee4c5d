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
    let length = name.chars().count();
    let judged = names.map(|other| (likeness((name, length), &other.to_lowercase()), other));
    let best = judged.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(likeness, _)| *likeness >= LIKENESS).map(|(_, best)| best)
}

/// How like a name of so many letters is to another, from 0 to 1; less than [`LIKENESS`] is not told apart.
fn likeness((name, length): (&str, usize), other: &str) -> f64 {
    let other_length = other.chars().count();
    // Each letter more is a difference. Comparing takes time by the product of both lengths, which is bounded so.
    let share = length.abs_diff(other_length) as f64 / length.max(other_length).max(1) as f64;
    let like = match share <= 1.0 - LIKENESS {
        true => strsim::normalized_damerau_levenshtein(name, other),
        false => 0.0,
    };
    // Much was left out, or too much was said.
    let is_begin = other.starts_with(name) && name.len() > 2;
    // A slip in a name of three letters is a third of it.
    let is_slip =
        || other.len() == 3 && length <= 4 && strsim::damerau_levenshtein(name, other) == 1;
    if is_begin || is_slip() { like.max(LIKENESS) } else { like }
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
        let short = || ["top", "why"].into_iter();
        assert_eq!([nearest("tp", short()), nearest("whyy", short())], [Some("top"), Some("why")]);
    }

    #[test]
    fn a_name_without_end_is_like_none() {
        // Comparing them letter by letter takes so long that it does not end.
        let (long, other) = ("x".repeat(1 << 24), "x".repeat(1000));
        assert_eq!(nearest(&long, [other.as_str()].into_iter()), None);
        let longer = format!("{long}y");
        assert_eq!(nearest(&other, [longer.as_str()].into_iter()), Some(&*longer));
    }
}
