//! Events of which the name alone does not say all.

use noise_common::store::calls::CallInfo;

use super::{COUNTED, CtfReader, StreamFile, TraceLayout, packet, set_sizes};
use crate::event::TraceKind;
use crate::record::Source as _;
use crate::rwbs::{RAHEAD, READ};

/// Looks at an event of that name whose fields are declared and written like that.
fn look(name: &str, fields: &str, bytes: &[u8], see: impl FnOnce(TraceKind<'_>)) {
    let metadata = COUNTED.replace("name = \"tick\"", &format!("name = \"{name}\""));
    let layout = TraceLayout::parse(&metadata.replace("uint32_t _number;", fields)).unwrap();
    let mut stream = packet(10, 20, 0, 0, &[10]);
    stream.truncate(stream.len() - 4);
    stream.extend(bytes);
    set_sizes(&mut stream);
    let mut reader = CtfReader::new(&layout, &[StreamFile::held("x", &stream)]);
    see(reader.read().unwrap().kind());
    assert!(reader.read().is_none() && reader.damage().is_none());
}

#[test]
fn the_end_of_any_call_is_no_begin_of_exit() {
    let exit = CallInfo::named("exit").unwrap();
    look("sys_exit", "uint32_t _error_code;", &[0; 4], |kind| {
        assert!(matches!(kind, TraceKind::SyscallEntry(call) if call.info == exit), "{kind:?}");
    });
    look("raw_syscalls:sys_exit", "uint64_t id; uint64_t ret;", &[0; 16], |kind| {
        assert_eq!(kind, TraceKind::Other("raw_syscalls:sys_exit"));
    });
}

#[test]
fn what_a_request_does_may_be_written_in_letters() {
    let fields = "uint32_t dev; uint64_t sector; uint32_t nr_sector; string rwbs; string comm;";
    let bytes = [&[0; 16][..], &b"RA\0dd\0"[..]].concat();
    look("block:block_rq_issue", fields, &bytes, |kind| {
        let TraceKind::BlockRqIssue(request) = kind else { panic!("{kind:?}") };
        assert_eq!((request.rwbs, request.comm), (READ | RAHEAD, &b"dd"[..]));
    });
}
