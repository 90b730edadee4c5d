//! Parts of critical paths as tables.

use std::path::Path;

use noise_paths::document::{PathsDocument, Segment, Traced};
use noise_text::csv::cell;

use crate::tables::{TableFile, or_nothing, write as write_tables};

const SEGMENTS: &str = "segment,execution,name,key,recording,tid,comm,cpu,state,from_ns,to_ns,ns,in_calls_ns,why,via,\
                        waits_tid,waits_comm,address,symbol";
const CULPRITS: &str = "segment,tid,comm,cause,ns";

/// Writes them into a folder.
/// Errors: where they cannot be written.
pub fn write(recording: &Path, folder: &Path, document: &PathsDocument) -> anyhow::Result<()> {
    let tables = [("segments", SEGMENTS), ("culprits", CULPRITS)];
    write_tables(recording, folder, tables, |files| {
        let mut number = 0u64;
        for (execution, traced) in document.executions.iter().enumerate() {
            for segment in &traced.path {
                row(files, (number, execution), traced, segment)?;
                number += 1;
            }
        }
        Ok(())
    })
}

fn row(
    [segments, culprits]: &mut [TableFile; 2],
    (number, execution): (u64, usize),
    traced: &Traced,
    segment: &Segment,
) -> anyhow::Result<()> {
    let Segment { recording, tid, state, from_ns, to_ns, via, .. } = segment;
    let [name, key, comm, why] = [
        &traced.name,
        traced.key.as_deref().unwrap_or_default(),
        &segment.comm,
        segment.why.unwrap_or_default(),
    ]
    .map(cell);
    let via = via.as_deref();
    let [waits, address, symbol] = [
        via.map(|via| via.waits.comm.as_str()),
        via.and_then(|via| via.address.as_deref()),
        via.and_then(|via| via.symbol.as_deref()),
    ]
    .map(|text| cell(text.unwrap_or_default()));
    let ns = to_ns.saturating_sub(*from_ns);
    let (cpu, calls) = (or_nothing(segment.cpu), or_nothing(segment.in_calls_ns));
    let kind = via.map_or("", |via| via.kind.name());
    let waits_tid = or_nothing(via.map(|via| via.waits.tid));
    segments.row(format_args!(
        "{number},{execution},{name},{key},{recording},{tid},{comm},{cpu},{state},{from_ns},{to_ns},{ns},{calls},{why},\
         {kind},{waits_tid},{waits},{address},{symbol}"
    ))?;
    segment.culprits.iter().try_for_each(|culprit| {
        let (tid, comm, cause, ns) = (culprit.tid, cell(&culprit.comm), culprit.cause, culprit.ns);
        culprits.row(format_args!("{number},{tid},{comm},{cause},{ns}"))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use noise_paths::document::Traced;
    use noise_trace::delays::document::Culprit;

    use super::*;

    #[test]
    fn segments_sum_to_the_executions_and_culprits_to_the_segments() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("tables");
        let part = |tid: i32, state, from_ns, to_ns| Segment {
            tid,
            comm: "=a,b".to_owned(),
            state,
            from_ns,
            to_ns,
            ..Segment::default()
        };
        let culprit = Culprit { tid: 9, comm: "hog".to_owned(), cause: "thread", ns: 30 };
        let waits =
            Segment { cpu: Some(3), culprits: vec![culprit], ..part(7, "waiting_cpu", 20, 50) };
        let traced = Traced {
            name: "mark:q".to_owned(),
            tid: 7,
            span_ns: 40,
            path: vec![part(7, "running", 10, 20), waits],
            ..Traced::default()
        };
        let document =
            PathsDocument { executions: vec![traced.clone(), traced], ..PathsDocument::default() };
        write(Path::new("none"), &to, &document).unwrap();
        let text = fs::read_to_string(to.join("segments.csv")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], SEGMENTS);
        assert_eq!(lines.len(), 5);
        assert_eq!(lines[4], "3,1,mark:q,,0,7,\"'=a,b\",3,waiting_cpu,20,50,30,,,,,,,");
        let text = fs::read_to_string(to.join("culprits.csv")).unwrap();
        assert_eq!(text, format!("{CULPRITS}\n1,9,hog,thread,30\n3,9,hog,thread,30\n"));
        // A folder of its own goes again where a table cannot be written.
        let inside = folder.path().join("trace");
        fs::create_dir(&inside).unwrap();
        fs::write(inside.join("metadata"), "").unwrap();
        assert!(write(&inside, &inside, &document).is_err());
        assert!(!inside.join("segments.csv").exists());
    }
}
