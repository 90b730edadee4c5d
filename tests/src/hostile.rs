//! Names that mean harm: the corpus of every test of what is shown of others' texts.

/// Names of which each would act on a terminal, forge a line, hide a part of itself or change the order
/// in which it is read. All fit into the name of a task where they are cut to 15 bytes.
pub const NAMES: &[&str] = &[
    "\x1b[31mred",
    "\x1b]0;title\x07x",
    "\x1b]52;c;QQ==\x07x",
    "\x1b[2Jclear",
    "\x1bP1$q\x1b\\x",
    "\u{9b}31mred",
    "\u{9d}0;t\u{9c}x",
    "\u{90}x\u{9c}y",
    "bell\x07",
    "back\x08\x08\x08x",
    "over\rx",
    "line\n# HELP x",
    "tab\tx",
    "nul\0x",
    "del\x7fx",
    "nel\u{85}x",
    "\u{202e}exe.txt",
    "\u{202d}\u{202c}x",
    "\u{2066}a\u{2069}b",
    "\u{200e}\u{200f}x",
    "\u{61c}arabic",
    "ze\u{200b}ro",
    "jo\u{200d}in\u{200c}",
    "bom\u{feff}x",
    "soft\u{ad}x",
    "line\u{2028}x",
    "para\u{2029}x",
    "word\u{2060}x",
    "tag\u{e0041}x",
    "fill\u{3164}x",
    "non\u{fffe}x",
    "non\u{fdd0}x",
    "non\u{1ffff}x",
];

/// Whether a character acts on a terminal or on the order of others; written apart from what the daemon
/// takes for harmful.
pub fn is_raw(c: char) -> bool {
    let hidden = [
        '\u{ad}',
        '\u{61c}',
        '\u{200b}',
        '\u{200c}',
        '\u{200d}',
        '\u{200e}',
        '\u{200f}',
        '\u{2028}',
        '\u{2029}',
        '\u{2060}',
        '\u{3164}',
        '\u{feff}',
        '\u{fdd0}',
        '\u{fffe}',
        '\u{1ffff}',
        '\u{e0041}',
    ];
    c.is_control()
        || ('\u{202a}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c)
        || hidden.contains(&c)
}
