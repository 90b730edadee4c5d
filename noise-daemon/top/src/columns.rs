//! PURE: which column of a table is meant by what a person typed: what stands above it on the screen,
//! or the key that scripts know, in upper or lower case.

use noise_text::nearest::nearest;

use super::table::Column;

/// Columns that scripts may still call as they were called before.
const FORMER: [(&str, &str); 2] = [("delays", "parts"), ("delays per second", "parts per second")];

/// What is compared of a name: words in lower case, whatever is between them.
fn words(name: &str) -> String {
    let lower = name.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// The index of the column that is meant.
/// Errors say which one may have been meant, and which there are.
pub fn find(columns: &[Column], wanted: &str) -> Result<usize, String> {
    let name = words(wanted);
    let position = |is_it: &dyn Fn(&Column) -> bool| columns.iter().position(is_it);
    // What stands on the screen comes first; a long heading may be cut off there.
    let begins = |column: &Column| !name.is_empty() && words(column.title).starts_with(&name);
    let alone = columns.iter().filter(|column| begins(column)).count() == 1;
    let former = FORMER.iter().find(|(former, _)| *former == name);
    let found = position(&|column| words(column.title) == name)
        .or_else(|| position(&|column| words(column.key) == name))
        .or_else(|| {
            former.and_then(|(_, now)| {
                position(&|column| words(column.key) == *now || words(column.title) == *now)
            })
        })
        .or_else(|| position(&|column| alone && begins(column)));
    found.ok_or_else(|| {
        let all: Vec<(String, &Column)> = columns
            .iter()
            .flat_map(|column| [(words(column.title), column), (words(column.key), column)])
            .collect();
        let near = nearest(&name, all.iter().map(|(name, _)| name.as_str()));
        let meant = near.and_then(|near| all.iter().find(|(name, _)| name == near));
        let meant = match meant {
            Some((_, column)) => format!("; did you mean `{}`? There are", column.title),
            None => "; there are".to_owned(),
        };
        let titles: Vec<&str> = columns.iter().map(|column| column.title).collect();
        format!("this screen has no column `{wanted}`{meant}: {}", titles.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::find;
    use crate::{History, SCREENS, ScreenLook};

    #[test]
    fn every_column_of_every_screen_is_found_as_it_is_called() {
        for screen in SCREENS {
            let columns = screen.table(&History::default(), &ScreenLook::default()).columns;
            for (index, column) in columns.iter().enumerate() {
                for name in [column.title, column.key] {
                    for name in [name.to_owned(), name.to_uppercase(), name.replace(' ', "-")] {
                        assert_eq!(find(&columns, &name), Ok(index), "{screen:?}: {name}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_column_is_found_as_it_was_called_before() {
        let columns = SCREENS[3].table(&History::default(), &ScreenLook::default()).columns;
        for former in ["delays", "delays_per_second"] {
            assert_eq!(find(&columns, former), find(&columns, "parts"), "{former}");
        }
        assert!(find(&columns, "parts").is_ok());
    }

    #[test]
    fn a_column_that_does_not_exist_is_answered_with_those_that_do() {
        let columns = SCREENS[3].table(&History::default(), &ScreenLook::default()).columns;
        assert_eq!(find(&columns, "vict"), Ok(0));
        for (wrong, meant) in [("maen", "mean"), ("culprits", "culprit"), ("lost_second", "lost")] {
            let error = find(&columns, wrong).unwrap_err();
            assert!(error.contains(&format!("`{wrong}`; did you mean `{meant}`?")), "{error}");
            assert!(error.contains("There are: victim, culprit, lost"), "{error}");
        }
        for wrong in ["", "c", "colour"] {
            let error = find(&columns, wrong).unwrap_err();
            assert!(error.contains(&format!("`{wrong}`; there are: victim")), "{error}");
        }
    }
}
