//! What pictures of a comparison show.

use noise_paths::document::Traced;

use super::*;
use crate::comparison::{Comparison, Settings, compare};
use crate::made::{Made, path, side};

fn compared(normal: &[Traced], sample: &[Traced]) -> Comparison {
    let settings = Settings { force: true, keeps_alignments: true, ..Settings::default() };
    compare(&side(normal), &side(sample), &settings, &mut |_| ()).unwrap()
}

fn executions(steps: u64, count: u64) -> Vec<Traced> {
    let one = |number: u64| {
        let step = |step| [Made::own("running", 50 + (number * step) % 7), Made::own("disk", 20)];
        Traced {
            key: Some(format!("<{number}>&")),
            ..path(&(0..steps).flat_map(step).collect::<Vec<_>>())
        }
    };
    (0..count).map(one).collect()
}

#[test]
fn pictures_are_whole_and_names_do_not_break_them() {
    let mut slow = vec![Made::own("running", 50), Made::own("futex", 900)];
    slow.extend((0..8).flat_map(|_| [Made::own("running", 50), Made::own("disk", 20)]));
    let odd = Traced { key: Some("\u{1b}[2J</svg>".to_owned()), ..path(&slow) };
    let found = compared(&executions(8, 12), &[odd]);
    let clusters = clusters(&found).unwrap().unwrap();
    let reached = reachability(&found).unwrap().unwrap();
    let side = alignment(&found, &found.localised[0]).unwrap().unwrap();
    for (svg, text) in [
        (&clusters, "principal component"),
        (&reached, "normal executions, in order"),
        (&side, "futex"),
    ] {
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
        assert!(svg.contains(text), "{text} is not in {svg}");
        assert!(!svg.contains('\u{1b}') && svg.matches("</svg>").count() == 1);
    }
    // A bar for each normal execution; the sample has too few to be ordered.
    assert!(!reached.contains("sample, in order"));
    // A triangle above what is odd.
    assert!(side.contains("<polygon"));
}

#[test]
fn what_is_not_there_has_no_picture() {
    assert_eq!(clusters(&Comparison::default()).unwrap(), None);
    assert_eq!(reachability(&Comparison::default()).unwrap(), None);
    let few = compared(&executions(2, 2), &executions(2, 1));
    assert!(clusters(&few).unwrap().is_some());
    assert_eq!(reachability(&few).unwrap(), None);
}

#[test]
fn of_very_long_paths_the_worst_place_is_shown() {
    let mut slow: Vec<Made> = Vec::new();
    for step in 0..600 {
        slow.extend([
            Made::own("running", 50),
            Made::own(if step == 590 { "futex" } else { "disk" }, 20),
        ]);
    }
    let found = compared(&executions(600, 6), &[path(&slow)]);
    let side = alignment(&found, &found.localised[0]).unwrap().unwrap();
    assert!(
        side.contains("columns 801 to 1200 of 1200")
            || side.contains("columns 802 to 1201 of 1201"),
        "{}",
        &side[..2000]
    );
    assert!(side.contains("<polygon"));
}
