//! What the streams' bytes mean, in TSDL.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use noise_common::store::calls::{OBJECT_KINDS, ObjectKind};

use super::Uuid;
use crate::events::{Declared as _, declarations};
use crate::task::Comm;

/// The version of LTTng's kernel tracer whose layout this is. Trace Compass and lttng-analyses choose by it,
/// and by the tracer's name, which names they look for.
const TRACER: (&str, u32, u32, u32) = ("lttng-modules", 2, 11, 0);

/// What the environment calls [`Origin::buffer_bytes`].
pub const BUFFER_BYTES: &str = "buffer_bytes";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    pub hostname: String,
    /// The kernel's release and version, as `uname` has them.
    pub kernel_release: String,
    pub kernel_version: String,
    /// What recorded it: name and version.
    pub recorder: String,
    /// By how much real time is ahead of the clock, ns.
    pub offset_ns: u64,
    /// The same at the end, where that is known.
    pub offset_at_end_ns: Option<u64>,
    /// Whether it may have system calls.
    pub has_calls: bool,
    /// How many bytes of events each CPU had room for until they were read, where that is known.
    pub buffer_bytes: Option<u64>,
}

/// A text within quotes. What acts on readers or ends a text early becomes an underscore.
fn quoted(text: &str) -> String {
    let shown = |c: char| if c.is_control() || matches!(c, '"' | '\\') { '_' } else { c };
    format!("\"{}\"", text.chars().map(shown).collect::<String>())
}

fn grouped(uuid: Uuid) -> String {
    let mut text = String::new();
    for (number, byte) in uuid.iter().enumerate() {
        if matches!(number, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

pub fn metadata(uuid: Uuid, origin: &Origin) -> String {
    let mut text = String::from("/* CTF 1.8 */\n\n");
    for (name, size, align, signed, more) in [
        ("uint5_t", 5, 1, false, ""),
        ("uint8_t", 8, 8, false, ""),
        ("uint32_t", 32, 8, false, ""),
        ("uint64_t", 64, 8, false, ""),
        ("int32_t", 32, 8, true, ""),
        ("int64_t", 64, 8, true, ""),
        ("address_t", 64, 8, false, " base = 16;"),
        ("comm_char_t", 8, 8, false, " encoding = UTF8;"),
    ] {
        let _ = writeln!(
            text,
            "typealias integer {{ size = {size}; align = {align}; signed = {signed};{more} }} := {name};"
        );
    }
    let object = |kind: &ObjectKind| format!("{} = {}", kind.name(), *kind as u8);
    let objects: Vec<String> = OBJECT_KINDS.iter().map(object).collect();
    let _ = writeln!(text, "\nenum object_kind : uint8_t {{ {} }};", objects.join(", "));
    let uuid = grouped(uuid);
    let _ = writeln!(
        text,
        "\ntrace {{\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"{uuid}\";\n\tbyte_order = le;\n\
         \tpacket.header := struct {{\n\t\tuint32_t magic;\n\t\tuint8_t uuid[16];\n\t\tuint32_t stream_id;\n\
         \t\tuint64_t stream_instance_id;\n\t}};\n}};\n"
    );
    environment(origin, &mut text);
    let offset_ns = origin.offset_ns;
    let _ = writeln!(
        text,
        "clock {{\n\tname = \"monotonic\";\n\tdescription = \"CLOCK_MONOTONIC\";\n\tfreq = 1000000000;\n\
         \toffset = {offset_ns};\n}};\n"
    );
    for (bits, align) in [(27, 1), (64, 8)] {
        let _ = writeln!(
            text,
            "typealias integer {{ size = {bits}; align = {align}; signed = false; \
             map = clock.monotonic.value; }} := time{bits}_t;"
        );
    }
    text.push_str(
        "\nstruct packet_context {\n\ttime64_t timestamp_begin;\n\ttime64_t timestamp_end;\n\
         \tuint64_t content_size;\n\tuint64_t packet_size;\n\tuint64_t packet_seq_num;\n\
         \tuint64_t events_discarded;\n\tuint32_t cpu_id;\n};\n\n\
         struct event_header {\n\tenum : uint5_t { compact = 0 ... 30, extended = 31 } id;\n\
         \tvariant <id> {\n\t\tstruct {\n\t\t\ttime27_t timestamp;\n\t\t} compact;\n\
         \t\tstruct {\n\t\t\tuint32_t id;\n\t\t\ttime64_t timestamp;\n\t\t} extended;\n\t} v;\n\
         } align(8);\n\n\
         stream {\n\tid = 0;\n\tevent.header := struct event_header;\n\
         \tpacket.context := struct packet_context;\n};\n",
    );
    for (number, (name, fields)) in declarations(origin.has_calls).enumerate() {
        let _ = write!(
            text,
            "\nevent {{\n\tname = \"{name}\";\n\tid = {number};\n\tstream_id = 0;\n\tfields := struct {{\n"
        );
        for (field, declared) in fields {
            let declared = declared.name;
            let length = if declared == Comm::DECLARED { "[16]" } else { "" };
            let _ = writeln!(text, "\t\t{declared} _{field}{length};");
        }
        text.push_str("\t};\n};\n");
    }
    text
}

fn environment(origin: &Origin, text: &mut String) {
    let (tracer, major, minor, patch) = TRACER;
    let mut known: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in [
        ("hostname", origin.hostname.as_str()),
        ("domain", "kernel"),
        ("sysname", "Linux"),
        ("kernel_release", &origin.kernel_release),
        ("kernel_version", &origin.kernel_version),
        ("tracer_name", tracer),
        ("recorded_by", &origin.recorder),
    ] {
        known.insert(name, quoted(value));
    }
    for (name, value) in
        [("tracer_major", major), ("tracer_minor", minor), ("tracer_patchlevel", patch)]
    {
        known.insert(name, value.to_string());
    }
    let numbers = [("offset_at_end", origin.offset_at_end_ns), (BUFFER_BYTES, origin.buffer_bytes)];
    for (name, value) in numbers {
        known.extend(value.map(|value| (name, value.to_string())));
    }
    text.push_str("env {\n");
    for (name, value) in known {
        let _ = writeln!(text, "\t{name} = {value};");
    }
    text.push_str("};\n\n");
}
