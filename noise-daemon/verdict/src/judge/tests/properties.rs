//! What holds of all verdicts.

use noise_common::charge::Cause;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

use super::{MS, case, loss, setup};
use crate::account::{ACCOUNTS, Account};
use crate::judge;
use crate::kind::Kind;

proptest! {
    #[test]
    fn culprits_of_a_resource_have_no_more_than_was_lost_of_it(
        accounts_ms in proptest::array::uniform12(0..3_000_u64),
        lost in proptest::collection::vec((0..12_usize, 0..4_000_u64, proptest::bool::ANY), 0..20),
    ) {
        let setup = setup();
        let accounts: Vec<_> = ACCOUNTS.into_iter().zip(accounts_ms).collect();
        let losses = lost.iter().map(|(account, ms, is_other)| {
            let cause = if *is_other { Cause::Foreign } else { Cause::Own };
            loss(ACCOUNTS[*account], "/a", cause, *ms)
        });
        let case = case(&setup, &accounts, losses.collect());
        let verdict = judge(&case);
        for (account, ms) in accounts {
            let found = verdict.findings.iter().filter(|one| one.resource == account);
            prop_assert!(found.map(|one| one.ns).sum::<u64>() <= ms * MS, "{account:?} {verdict:?}");
        }
    }

    #[test]
    fn the_sentence_begins_with_the_first_finding(
        ms in proptest::array::uniform6(0..3_000_u64),
        usual_ms in proptest::array::uniform3(proptest::option::of(0..3_000_u64)),
        uninterruptible_ms in 0..2_000_u64,
    ) {
        let setup = setup();
        let resources = [
            (Account::Cpu, "waited"),
            (Account::Interrupt, "lost"),
            (Account::Disk, "waited"),
            (Account::Lock, "its threads waited"),
            (Account::Tier, "waited"),
            (Account::Network, "waited"),
        ];
        let accounts: Vec<_> = resources.iter().zip(ms).map(|((one, _), ms)| (*one, ms)).collect();
        let losses = accounts.iter().map(|(resource, ms)| loss(*resource, "/a", Cause::Own, *ms));
        let mut case = case(&setup, &accounts, losses.collect());
        case.uninterruptible_ns = uninterruptible_ms * MS;
        let of_usual = [Account::Cpu, Account::Interrupt, Account::Disk].into_iter().zip(usual_ms);
        case.usual_ns = of_usual.filter_map(|(one, ms)| Some((one, ms? * MS))).collect();
        let verdict = judge(&case);
        let Some(first) = verdict.findings.first() else { return Ok(()) };
        let (_, verb) = resources.iter().find(|(one, _)| *one == first.resource).unwrap();
        let time = noise_text::units::duration(first.ns as f64);
        let whole = verdict.sentence.split("; ").next().unwrap_or_default();
        let longest_ns = ms.iter().max().copied().unwrap_or(0) * MS;
        let is_uninterruptible = case.uninterruptible_ns > longest_ns && verdict.kind != Kind::Unknown;
        if !is_uninterruptible {
            prop_assert!(whole.contains(&format!("{verb} ")) && whole.contains(&time), "{verdict:?}");
        }
        let is_slept = first.resource.is_slept();
        prop_assert_eq!(verdict.kind == Kind::Unknown, is_slept && first.unusual.is_none());
        prop_assert!(verdict.kind == Kind::HeldUp || verdict.ready().is_none());
    }

    #[test]
    fn commands_come_with_what_is_lost_beyond_the_usual_alone(
        waited_ms in 0..4_000_u64,
        ran_ms in 0..4_000_u64,
        part in 0.0..1.0_f64,
        usual_ms in proptest::option::of(0..4_000_u64),
    ) {
        let setup = setup();
        let ms = (waited_ms as f64 * part) as u64;
        let losses = vec![loss(Account::Cpu, "backup.service", Cause::Foreign, ms)];
        let accounts = [(Account::Running, ran_ms), (Account::Cpu, waited_ms)];
        let mut case = case(&setup, &accounts, losses);
        case.usual_ns = usual_ms.map(|ms| (Account::Cpu, ms * MS)).into_iter().collect();
        let verdict = judge(&case);
        if verdict.ready().is_some() {
            prop_assert!(ms >= 20);
            match usual_ms {
                Some(usual_ms) => prop_assert!(waited_ms > usual_ms),
                None => prop_assert!(ms as f64 >= 0.0499 * (waited_ms + ran_ms) as f64),
            }
        }
        for finding in &verdict.findings {
            prop_assert!((0.0..=1.0).contains(&finding.share));
        }
    }
}
