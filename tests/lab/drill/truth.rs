//! What a drill knows of what it planted, and whether something that noised said is that.

use std::collections::BTreeSet;
use std::rc::Rc;

use serde_json::Value;

use crate::group::Group;

/// Something that disturbs.
#[derive(Clone, Debug, Default)]
pub struct Cause {
    /// The resources that it takes, in words of verdicts; each of them is right.
    pub resources: &'static [&'static str],
    /// What it is called; each name is right.
    pub names: Vec<String>,
}

/// What was planted: nothing, one cause, or two.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// What disturbs.
    pub causes: Vec<Cause>,
    /// Groups of which a right command may change something.
    pub groups: Vec<Rc<Group>>,
    /// What else a right command may name, such as the file of the victim's own limit.
    pub settings: Vec<String>,
}

/// Whether a text names something, be it shortened in the middle as on screens (`backup…ervice`).
pub fn names(text: &str, name: &str) -> bool {
    let name = name.trim_start_matches('/');
    let is_short = |word: &str| {
        let Some((front, back)) = word.split_once('…') else { return false };
        let front = front.trim_start_matches('/');
        front.chars().count() + back.chars().count() >= 6
            && name.starts_with(front)
            && name.ends_with(back)
    };
    text.contains(name) || text.split_whitespace().any(is_short)
}

impl Cause {
    /// Whether it is what a text names.
    pub fn is_named(&self, text: &str) -> bool {
        self.names.iter().any(|name| names(text, name))
    }

    /// Whether it is a finding of a verdict.
    pub fn is_found(&self, finding: &Value) -> bool {
        let culprit = &finding["culprit"];
        let fields = ["name", "cgroup", "kind"].map(|key| culprit[key].as_str().unwrap_or(""));
        self.takes(finding["resource"].as_str().unwrap_or_default())
            && fields.iter().any(|field| self.is_named(field))
    }

    /// Whether it takes this resource.
    pub fn takes(&self, resource: &str) -> bool {
        self.resources.contains(&resource)
    }
}

impl Truth {
    /// Whether something was planted.
    pub fn is_planted(&self) -> bool {
        !self.causes.is_empty()
    }

    /// Whether the first finding is what was planted, and everything that was is among the first three.
    pub fn is_found(&self, findings: &[Value]) -> bool {
        self.is_found_in(&[findings])
    }

    /// The same of several lists, such as those of two incidents: one that begins with something else is not looked at.
    pub fn is_found_in(&self, lists: &[&[Value]]) -> bool {
        let is_cause = |one: &Value| self.causes.iter().any(|cause| cause.is_found(one));
        let right: Vec<_> =
            lists.iter().filter(|list| list.first().is_some_and(is_cause)).collect();
        let among_first = |cause: &Cause| {
            right.iter().any(|list| list.iter().take(3).any(|one| cause.is_found(one)))
        };
        !right.is_empty() && self.causes.iter().all(among_first)
    }

    /// Whether a text names what was planted.
    pub fn is_named(&self, text: &str) -> bool {
        self.causes.iter().any(|cause| cause.is_named(text))
    }

    /// Whether it takes this resource and has one of these names.
    pub fn is(&self, resource: &str, culprit: &str) -> bool {
        self.causes.iter().any(|cause| cause.takes(resource) && cause.is_named(culprit))
    }

    /// Whether the commands of one remedy change nothing but what was planted; handing a controller down changes no cgroup's share.
    pub fn allows(&self, commands: &[String], members: &BTreeSet<i32>) -> bool {
        let hands_down = |command: &str| command.contains("/cgroup.subtree_control");
        let is_right = |command: &str| {
            let mut words = command.split([' ', '\'', '"', '>']);
            let of_member =
                |word: &str| word.parse::<i32>().is_ok_and(|number| members.contains(&number));
            let settings = &self.settings;
            // The last word is what is changed: numbers before it are values.
            self.groups.iter().any(|group| names(command, &group.label()))
                || settings.iter().any(|setting| command.contains(setting.as_str()))
                || words.next_back().is_some_and(of_member)
        };
        let mut changes = commands.iter().filter(|command| !hands_down(command)).peekable();
        changes.peek().is_some() && changes.all(|command| is_right(command))
    }
}

/// The commands that a page shows to try, without those that take them back.
pub fn commands(page: &str) -> Vec<String> {
    let (mut found, mut is_undo) = (Vec::new(), false);
    for line in page.lines() {
        match line.trim_start().strip_prefix("# ") {
            Some(command) if !is_undo => found.push(command.to_owned()),
            Some(_) => {}
            None => is_undo = line.to_lowercase().contains("take it back"),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hog() -> Truth {
        let cause = Cause { resources: &["cpu"], names: vec!["/noised-test-7-hog".to_owned()] };
        Truth { causes: vec![cause], settings: vec!["hog/cpu".to_owned()], ..Truth::default() }
    }

    #[test]
    fn names_are_found_whole_and_shortened() {
        assert!(names("172 ms of it for sh of /noised-test-7-hog", "/noised-test-7-hog"));
        assert!(names("by noised-…t-7-hog (another cgroup, 87 %)", "/noised-test-7-hog"));
        assert!(names("| /noised…7-hog |", "/noised-test-7-hog"));
        for other in ["for / alone", "by noised-…8-hog", "by …og", "by n…g", ""] {
            assert!(!names(other, "/noised-test-7-hog"), "{other}");
        }
    }

    #[test]
    fn a_finding_is_right_by_resource_and_culprit() {
        let finding = |resource, name| json!({"resource": resource, "culprit": {"kind": "cgroup", "name": name}});
        let (right, other) = (finding("cpu", "/noised-test-7-hog"), finding("cpu", "/"));
        assert!(hog().is_found(&[right.clone(), other.clone()]));
        assert!(!hog().is_found(&[other.clone(), right.clone()]));
        assert!(!hog().is_found(&[finding("disk", "/noised-test-7-hog")]) && !hog().is_found(&[]));
        let mut both = hog();
        both.causes.push(Cause { resources: &["disk"], names: vec!["grep".to_owned()] });
        assert!(!both.is_found(&[right.clone(), other.clone()]));
        let disk = finding("disk", "grep");
        assert!(both.is_found(&[right.clone(), other.clone(), disk.clone()]));
        let in_lists = |lists: [&[Value]; 2]| both.is_found_in(&lists);
        let (first, then) = ([right], [disk]);
        assert!(in_lists([&first, &then]));
        assert!(!in_lists([&first, &[other, then[0].clone()]]));
        assert!(!in_lists([&first, &[]]));
    }

    #[test]
    fn commands_of_a_page_are_those_to_try() {
        let page = "It waited.\nTo try first (it is 1024):\n  # echo 204 > /cg/hog/cpu.shares\n\
            To take it back:\n  # echo 1024 > /cg/hog/cpu.shares\n\n  # taskset --pid 1 9\n";
        assert_eq!(commands(page), ["echo 204 > /cg/hog/cpu.shares", "taskset --pid 1 9"]);
        assert!(commands("nothing # to do\n").is_empty());
    }

    #[test]
    fn a_command_against_somebody_else_is_harm() {
        let truth = hog();
        let members = BTreeSet::from([42]);
        let allows = |commands: &[&str]| {
            truth.allows(&commands.iter().map(|&one| one.to_owned()).collect::<Vec<_>>(), &members)
        };
        assert!(allows(&["echo 204 > /cg/noised-test-7-hog/cpu.shares"]));
        assert!(allows(&["taskset --all-tasks --cpu-list --pid 1 42"]));
        assert!(allows(&["echo +cpu > /cg/cgroup.subtree_control", "echo 2 > /cg/hog/cpu.weight"]));
        for harm in [
            &["echo 204 > /cg/noised-test-7-shop/cpu.shares"][..],
            &["taskset --all-tasks --cpu-list --pid 42 1"],
            &["echo 42 > /sys/fs/cgroup/cpu.shares"],
            &["echo 204 > /cg/hog/cpu.shares", "chrt --other --pid 0 1"],
            &["echo +cpu > /cg/cgroup.subtree_control"],
        ] {
            assert!(!allows(harm), "{harm:?}");
        }
    }
}
