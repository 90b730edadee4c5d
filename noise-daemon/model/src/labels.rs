//! PURE: label values that are no names of their own. All begin with `~`, as no name does.

/// Of what is folded together.
pub const OTHER: &str = "~other";
/// Of a cgroup or kernel thread that was gone before its name was looked up.
pub const GONE: &str = "~gone";
/// Of what the programs could not identify.
pub const UNKNOWN_LABEL: &str = "~unknown";
/// Of a process that is watched apart from the others of its cgroup.
pub const WATCHED_LABEL: &str = "~task";
/// Of the cgroup that holds whatever is in no other.
pub const ROOT: &str = "/";

/// A cgroup's label as sentences have it: one that stands for several cgroups, or for what is in none, in words.
pub fn spoken(label: &str) -> &str {
    match label {
        ROOT => "processes of the root cgroup",
        OTHER => "many small others together",
        GONE => "cgroups that no longer exist",
        UNKNOWN_LABEL => "a cgroup that the kernel did not name",
        own => own,
    }
}

/// The same where there is little room.
pub fn spoken_briefly(label: &str) -> &str {
    match label {
        ROOT => "root cgroup",
        OTHER => "small others",
        GONE => "ended cgroups",
        UNKNOWN_LABEL => "unnamed cgroup",
        own => own,
    }
}

/// Whether a label is that of one cgroup, which holds nothing but its own.
pub fn is_one(label: &str) -> bool {
    label != ROOT && !label.starts_with('~')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_stand_for_several_are_words() {
        for label in [ROOT, OTHER, GONE, UNKNOWN_LABEL] {
            assert!(!is_one(label));
            for words in [spoken(label), spoken_briefly(label)] {
                assert!(!words.contains(['~', '/']), "{words}");
            }
            assert!(spoken_briefly(label).len() <= 14);
        }
        for own in ["/a", "web.service", "pod:a/b"] {
            assert!(is_one(own) && spoken(own) == own && spoken_briefly(own) == own);
        }
    }
}
