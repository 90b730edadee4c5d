//! The commented sample file.

use std::fmt::Write as _;

use noise_text::columns::wrap;

use super::keys::KEYS;
use super::parse::usual;

/// Columns of a comment.
const WIDTH: usize = 96;

const HEAD: &str = "\
# The configuration of noised, usually /etc/noised/noised.toml.
#
# Every key is here with its usual value. Each is also a flag of `noised run`, which comes before the
# file: --limits.cgroups 80. Check a file with `noised run --config.check --config.file FILE`, apply it
# with `systemctl reload noised`; what cannot be applied while noised runs is marked (restart), and a
# reload says so.
";

/// Every key with its usual value, as a comment.
pub fn sample() -> String {
    let mut text = HEAD.to_owned();
    let mut section = "";
    for key in KEYS {
        if key.section != section {
            section = key.section;
            let _ = write!(text, "\n[{section}]\n");
        }
        let restart = if key.is_live() { "" } else { " (restart)" };
        let help = format!("{}.{restart}", key.help);
        if !text.ends_with("]\n") {
            text.push('\n');
        }
        for line in wrap(&help, WIDTH) {
            let _ = writeln!(text, "# {line}");
        }
        if let Some(value) = usual(key) {
            let _ = writeln!(text, "#{} = {value}", key.name);
        }
    }
    text
}
