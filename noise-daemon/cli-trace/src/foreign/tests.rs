use std::fs;

use super::*;
use crate::recording::Recording;

fn of(bytes: &[u8]) -> Option<String> {
    recognised(Path::new("x"), bytes)
}

/// What a file with these bytes is said to be, where it is no recording.
fn refused(bytes: impl AsRef<[u8]>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    fs::write(&path, bytes).unwrap();
    let error = Recording::open(&path).err().unwrap().to_string();
    assert!(!error.contains("FILE") && error.lines().count() == 1, "{error}");
    error
}

#[test]
fn files_of_others_are_named_with_the_way_out() {
    for (mark, what, _) in FORMATS {
        let Begin(magic) = mark else { continue };
        let sentence = of(magic).unwrap();
        assert!(sentence.contains(what) && !sentence.contains("FILE"), "{sentence}");
        let (_, begin) = magic.split_last().unwrap();
        assert_eq!(of(begin), None);
    }
    let sentence = of(b"PERFILE2").unwrap();
    assert!(sentence.ends_with("`perf data convert --to-ctf FOLDER -i x`"), "{sentence}");
    for first in 0x50..=0x5f {
        let sentence = of(&[first, 0x2a, 0x4d, 0x18, 4, 0, 0, 0]).unwrap();
        assert!(sentence.contains("`unzstd x`"), "{sentence}");
    }
}

#[test]
fn texts_are_none_of_them() {
    for text in [&b""[..], b"# tracer: nop\n", b"cpus=4\n", b"7z", b"a-1 [000] 1.0: b: c\n"] {
        assert_eq!(of(text), None);
        assert_eq!(recognised_text(Path::new("x"), text), None);
    }
}

#[test]
fn archives_of_tar_are_known_with_and_without_a_mark() {
    let mut header = [0; TAR_HEADER];
    header[..6].copy_from_slice(b"kernel");
    header[TAR_SUM].copy_from_slice(b"        ");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[TAR_SUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    assert!(of(&header).unwrap().contains("`tar -xf x`"));
    header[0] = b'K';
    assert_eq!(of(&header), None);
    let mut marked = vec![b'a'; TAR_AT];
    marked.extend_from_slice(b"ustar");
    assert!(of(&marked).unwrap().contains("`tar -xf x`"));
    marked.pop();
    assert_eq!(of(&marked), None);
    assert_eq!(of(&[0; TAR_HEADER]), None);
}

#[test]
fn packets_of_perfetto_are_no_texts() {
    // As noised begins: a packet of 6 bytes, and the next one.
    let packets = b"\n\x06\x40\xc0\x84\x3d\x50\x01\n\x02\x50\x01";
    assert!(of(packets).unwrap().contains("traceconv systrace x x.txt"));
    assert!(of(&packets[..8]).is_some());
    for bytes in
        [&packets[..7], b"\n", b"\n\xff", b"\n# a\n", b"\n\x06\x40\xc0\x84\x3d\x50\x01\x0b"]
    {
        assert_eq!(of(bytes), None, "{bytes:?}");
    }
    assert_eq!(of(&[b"\n", &[0xff; 100][..]].concat()), None);
    // A text whose first line is empty, and whose line there is as long as its first letter says.
    assert_eq!(
        of(format!(
            "
#{:34}
",
            " tracer: nop"
        )
        .as_bytes()),
        None
    );
}

#[test]
fn texts_of_others_are_named_with_the_way_out() {
    let babeltrace =
        "[08:36:01.211260539] (+?.?????????) h kmem_kfree: { cpu_id = 1 }, { ptr = 0xC0 }\n";
    let named =
        "timestamp = 08:36:01.2, name = kmem_kfree, stream.packet.context = { cpu_id = 1 }\n";
    let timehist = "Samples do not have callchains.\n           time    cpu  task name   wait time  \
                    sch delay   run time\n";
    for (text, words) in [
        (babeltrace, ["babeltrace2", ORIGINAL]),
        (named, ["babeltrace2", ORIGINAL]),
        ("[000] 60232.38: sched:sched_waking: comm=a pid=1 prio=0\n", ["`perf script`", CONVERT]),
        ("          rustc 60517.15: cpu-clock: \n", ["`perf script`", CONVERT]),
        ("60517.15: sched:sched_waking: comm=a\n", ["`perf script`", CONVERT]),
        ("a [000] 60517.15: sched:sched_waking: comm=a\n", ["`perf script`", CONVERT]),
        (timehist, ["`perf sched timehist`", CONVERT]),
        ("   60518.39 [0000]  perf[23570]   0.000 0.000 0.000\n", ["timehist", CONVERT]),
        ("\n0x1a8@p [0x90]: event: 69\n.\n. ... raw event: size 144 bytes\n", ["-D", CONVERT]),
        ("{\n\t\"linux-perf-json-version\": 1,\n", ["--to-json", CONVERT]),
        ("{\"time_ns\":1,\"cpu\":0,\"name\":\"a\",\"fields\":{}}\n", ["JSON", ORIGINAL]),
        ("time_ns,cpu,name,tid,comm,fields,context\n", ["export --csv", ORIGINAL]),
    ] {
        let sentence = refused(text);
        assert!(words.iter().all(|word| sentence.contains(word)), "{sentence}");
    }
    let wide: Vec<u8> = "\u{feff}a\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(refused(wide).contains("iconv -f UTF-16 -t UTF-8"));
}

#[test]
fn a_text_of_ftrace_with_too_few_events_is_none_of_others() {
    let text = "a-1 [000] 1.0: b: c\na-1 [000] d..2. 1.0: b: c\n";
    assert_eq!(recognised_text(Path::new("x"), text.as_bytes()), None);
    let sentence = refused(format!("{text}{}", "no event\n".repeat(9)));
    assert!(sentence.contains("lines are events"), "{sentence}");
}
