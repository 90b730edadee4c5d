//! Vectors as a table.

use std::fmt::Write as _;

use noise_text::csv::cell;

use crate::side::{Execution, Run, Side};
use crate::stretches::state_name;
use crate::vectors::{VECTOR_STATES, Vectors};

/// A table for spreadsheets and the like: a row for each execution of both sets, with its two vectors. `count_STATE` and
/// `ns_STATE` are those of all threads, `others_count_STATE` and `others_ns_STATE` what of that is not the own thread's.
pub fn csv(sides: [(&str, &Side); 2]) -> String {
    let mut text = "set,execution,name,key,tid,comm,from_ns,span_ns".to_owned();
    for prefix in ["count", "ns", "others_count", "others_ns"] {
        for state in 0..VECTOR_STATES {
            // Writing to a string cannot fail.
            let _ = write!(text, ",{prefix}_{}", state_name(state));
        }
    }
    text.push_str(",recording,pid\n");
    let divides = sides.iter().all(|(_, side)| side.knows_calls());
    for (set, side) in sides {
        for (number, Execution { run, vectors, .. }) in side.executions().iter().enumerate() {
            let Run { recording, pid, tid, from_ns, span_ns, .. } = run;
            let [name, key, comm] =
                [&run.name, run.key.as_deref().unwrap_or_default(), &run.comm].map(cell);
            let _ = write!(text, "{set},{number},{name},{key},{tid},{comm},{from_ns},{span_ns}");
            let by = |of: fn(&Vectors, usize, bool) -> [u64; 2]| {
                std::array::from_fn(|state| of(vectors, state, divides))
            };
            let [counts, ns]: [[[u64; 2]; VECTOR_STATES]; 2] =
                [by(Vectors::counts_by), by(Vectors::ns_by)];
            let all = |[own, others]: &[u64; 2]| own.saturating_add(*others);
            let others = |[_, others]: &[u64; 2]| *others;
            let columns = counts.iter().map(all).chain(ns.iter().map(all));
            let columns = columns.chain(counts.iter().map(others)).chain(ns.iter().map(others));
            for value in columns {
                let _ = write!(text, ",{value}");
            }
            let _ = writeln!(text, ",{recording},{pid}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{Made, path, side};

    #[test]
    fn a_row_has_counts_and_times() {
        let mut one =
            path(&[Made::own("running", 5), Made::own("disk", 7), Made::of("running", 1, 8)]);
        one.key = Some("a,\"b\"".to_owned());
        let text = csv([("normal", &side(&[one.clone()])), ("sample", &side(&[]))]);
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines[0].starts_with("set,execution,name,key,tid,comm,from_ns,span_ns,count_running,")
        );
        assert!(lines[0].ends_with(",others_ns_unknown,others_ns_system_call,recording,pid"));
        assert_eq!(
            lines[1],
            "normal,0,mark:job,\"a,\"\"b\"\"\",7,job,1000,13,2,0,1,0,0,0,0,0,0,0,0,6,0,7,0,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,0,0,0,0,7"
        );
        assert_eq!(lines.len(), 2);
        // What threads and programs name so is text, also for a spreadsheet.
        (one.comm, one.key) = ("=1+2".to_owned(), Some("@a,b".to_owned()));
        let text = csv([("normal", &side(&[one])), ("sample", &side(&[]))]);
        assert!(text.contains(",\"'@a,b\",7,'=1+2,1000,"), "{text}");
    }
}
