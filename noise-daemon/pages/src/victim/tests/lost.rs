//! What can be done, beside what it is against.

use noise_model::pressure::Quota;
use noise_model::setup::{CgroupSetup, Setup};
use noise_verdict::Kind;

use super::{screen, text, usual};
use noise_why::findings::Findings;
use noise_why::made::{MS, blamed, found, setup, spread};

/// The lines between two that contain these words, the first of them included.
fn between<'t>(text: &'t str, from: &str, to: &str) -> Vec<&'t str> {
    let begun = text.lines().skip_while(|line| !line.contains(from));
    let lines: Vec<_> = begun.take_while(|line| !line.contains(to)).collect();
    assert!(!lines.is_empty(), "{from}: {text}");
    lines
}

/// One that waits for a disk longer than for CPUs; of the disk, nothing is known here that could be set.
fn on_disk_and_cpu() -> Findings {
    let mut found = found();
    found.around.usual = Vec::new();
    found.totals_ns.insert("disk", 1_200 * MS);
    found.uninterruptible = spread(40, 1_200, 60);
    found.culprits.push(blamed("disk", 77, "fio", "fio.service", "foreign", 1_200));
    found
}

#[test]
fn a_command_stands_beside_its_finding_and_nowhere_else() {
    let mut found = on_disk_and_cpu();
    found.judge("service nginx.service", &setup());
    for page in [screen(&found), text(&found, "service nginx.service")] {
        let (page, _) = page.split_once("\nheld up over").unwrap();
        assert!(page.starts_with("service nginx.service waited 1.20 s for disks"), "{page}");
        let answer = between(page, "service nginx.service waited", "what it lacked");
        assert!(!answer.iter().any(|line| line.contains("To try") || line.contains('#')), "{page}");
        let disk = between(page, "fio.service      1.20 s", "cpu ");
        assert_eq!(disk[1..], ["    Next: see what fio.service does: noised why fio.service."]);
        let cpu = between(page, "cpu             backup.service", "interrupt ");
        let expected = [
            "    To try first (cpu.weight is 100 of backup.service and 100 of nginx.service):",
            "      # systemctl set-property backup.service CPUWeight=20",
            "    To take it back:",
            "      # systemctl set-property backup.service CPUWeight=100",
        ];
        assert_eq!(cpu[1..], expected, "{page}");
        let commands = page.lines().filter(|line| line.trim_start().starts_with("# "));
        assert_eq!(commands.count(), 2, "{page}");
    }
}

#[test]
fn three_findings_with_what_can_be_done_are_one_screen() {
    let mut found = on_disk_and_cpu();
    found.culprits.insert(0, blamed("waiting_cpu", -1, "", "", "throttle", 400));
    *found.totals_ns.get_mut("waiting_cpu").unwrap() += 400 * MS;
    found.waits = spread(300, 1_212, 24);
    let quota = Quota { quota_us: Some(50_000), period_us: 100_000 };
    let limited = CgroupSetup { quota: Some(quota), ..setup().victim.unwrap() };
    let setup = Setup { limited: Some(limited), ..setup() };
    found.judge("service nginx.service", &setup);
    let commands = |page: &str| {
        let commands = page.lines().filter(|line| line.trim_start().starts_with("# "));
        commands.count()
    };
    let page = screen(&found);
    assert!(page.lines().count() <= 24, "{page}");
    for words in ["disk  ", "cpu  ", "quota  ", "CPUWeight=20", "CPUQuota=100%", "CPUQuota=50%"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert_eq!(commands(&page), 4, "{page}");
    // Where there is less room, the first of them stay: whole, or not at all.
    for number in 0..6 {
        found.around.incidents = Vec::new();
        found.target.name = "x".repeat(80 * number);
        found.judge(&found.target.name.clone(), &setup);
        let page = screen(&found);
        assert!(page.lines().count() <= 24, "{page}");
        assert!(page.contains("Next: see what fio.service does"), "{page}");
        assert_eq!(commands(&page) % 2, 0, "{page}");
    }
}

#[test]
fn what_is_as_usual_has_nothing_to_be_done() {
    let mut found = on_disk_and_cpu();
    found.around.usual = vec![
        usual("cgroup_runqueue_wait", None, 0.41),
        usual("uninterruptible_wait", None, 0.61),
        usual("interruption", None, 0.011),
    ];
    found.judge("service nginx.service", &setup());
    assert_eq!(found.verdict.as_ref().unwrap().kind, Kind::AsUsual);
    let page = screen(&found);
    assert!(!page.contains("Next:") && !page.contains("To try"), "{page}");
}
