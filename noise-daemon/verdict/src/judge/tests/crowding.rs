//! Victims that got too few CPUs.

use super::*;

#[test]
fn who_left_too_few_cpus_is_named_before_the_threads_that_queue_on_the_rest() {
    let setup = setup();
    let of = |crowding, usual_ms: u64| {
        let hog = loss(Account::Cpu, "backup.service", Cause::Foreign, 73);
        let own = loss(Account::Cpu, "web.service", Cause::Own, 522);
        let accounts = [(Account::Running, 1_010), (Account::Cpu, 854)];
        let losses = vec![own, CulpritLoss { crowding, ..hog }];
        let mut case = case(&setup, &accounts, losses);
        case.usual_ns = [(Account::Cpu, usual_ms * MS)].into();
        judge(&case)
    };
    let crowded = of(Some(0.61), 220);
    assert_eq!(crowded.findings[0].culprit.name, "backup.service");
    let begin = "web.service waited 854 ms for a CPU, 73.0 ms of it for gzip of backup.service, which had 61.0 % of the CPUs, and \
                 522 ms for its own threads";
    assert!(crowded.sentence.starts_with(begin), "{}", crowded.sentence);
    // It may have had them all the time: that is no reason for a command.
    assert_eq!(crowded.ready(), None);
    for (crowding, usual_ms) in [(None, 220), (Some(0.61), 800)] {
        assert_eq!(of(crowding, usual_ms).findings[0].culprit.cause, Cause::Own, "{usual_ms}");
    }
}
