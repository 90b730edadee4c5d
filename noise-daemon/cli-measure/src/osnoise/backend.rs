//! Options that only one backend has, and measuring with the kernel's tracer.

use std::cell::RefCell;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use noise_command::CommandError;
use noise_measure::error::MeasureError;
use noise_measure::osnoise::OsnoiseOptions;
use noise_measure::osnoise::kernel::{CrossCheck, KernelOptions, Tracefs, Tracer};
use noise_system::procfs;

use super::session::Session;
use super::{Backend, OsnoiseArgs};

/// Refuses what the chosen backend does not have.
/// Errors: a sentence for the user.
pub fn refuse(args: &OsnoiseArgs) -> Result<(), CommandError> {
    match args.backend {
        Backend::Noised => {
            let flags = [
                ("--preempt-disable", args.preempt_disable),
                ("--irq-disable", args.irq_disable),
                ("--cross-check", args.cross_check),
            ];
            match flags.into_iter().find(|(_, given)| *given) {
                Some((flag, _)) => Err(CommandError::misused(format!(
                    "{flag} is the kernel's tracer's: add `--backend kernel`, or leave it out"
                ))),
                None => Ok(()),
            }
        }
        Backend::Kernel if args.task.is_some() || args.cgroup.is_some() => {
            Err(CommandError::misused(
                "the kernel's tracer accounts for its own threads alone: leave `--backend kernel` out",
            ))
        }
        Backend::Kernel => {
            let times = [
                ("--period", Some(args.period)),
                ("--runtime", args.runtime),
                ("--threshold", Some(args.threshold)),
                ("--stop", args.stop),
                ("--stop-total", args.stop_total),
            ];
            let whole = |time: Duration| time.subsec_nanos().is_multiple_of(1_000);
            match times.into_iter().find(|(_, time)| !time.is_none_or(whole)) {
                Some((flag, _)) => Err(CommandError::misused(format!(
                    "the kernel's tracer takes whole microseconds: give another {flag}, or leave \
                     `--backend kernel` out"
                ))),
                None => Ok(()),
            }
        }
    }
}

/// Whether softirqs run in threads.
fn is_preempt_rt() -> bool {
    procfs::text("/proc/sys/kernel/version")
        .is_ok_and(|version| version.split_ascii_whitespace().any(|word| word == "PREEMPT_RT"))
}

/// Measures with the kernel's tracer.
/// Errors: those of [`MeasureError`]; everything is as it was before.
pub fn measure(
    args: &OsnoiseArgs,
    options: &OsnoiseOptions,
    stop: &AtomicBool,
    session: &RefCell<Session<'_>>,
) -> Result<(), MeasureError> {
    let tracefs = Tracefs::find()?;
    // Loading the programs takes a moment, of which the tracer is to see nothing.
    let mut check = match args.cross_check {
        true => Some(CrossCheck::start(is_preempt_rt())?),
        false => None,
    };
    let kernel =
        KernelOptions { preempt_disable: args.preempt_disable, irq_disable: args.irq_disable };
    let tracer = Tracer::start(&tracefs, options, kernel)?;
    if let Some(check) = &mut check {
        check.watch(tracer.threads());
    }
    session.borrow_mut().begin(check);
    tracer.run(
        options,
        stop,
        |irq, name| session.borrow_mut().irq(irq, name),
        |period| session.borrow_mut().period(&period),
        || session.borrow_mut().turn(stop),
    )
}

#[cfg(test)]
mod tests {
    use noise_command::Exit;
    use noise_command::fixtures::parsed;

    use super::*;

    fn refused(text: &str) -> Option<String> {
        let args: OsnoiseArgs = parsed(text.split_whitespace()).ok()?;
        match refuse(&args) {
            Ok(()) => None,
            Err(error) => {
                assert_eq!(error.exit, Exit::Usage);
                Some(error.to_string())
            }
        }
    }

    #[test]
    fn what_only_one_backend_has_is_refused_for_the_other() {
        assert_eq!(refused(""), None);
        assert_eq!(refused("--threshold 1500ns"), None);
        assert_eq!(refused("--backend kernel --irq-disable --preempt-disable --cross-check"), None);
        assert_eq!(
            refused("--irq-disable").unwrap(),
            "--irq-disable is the kernel's tracer's: add `--backend kernel`, or leave it out"
        );
        assert_eq!(
            refused("--backend kernel --threshold 1500ns").unwrap(),
            "the kernel's tracer takes whole microseconds: give another --threshold, or leave \
             `--backend kernel` out"
        );
        assert!(refused("--backend kernel --stop 100ns").is_some());
        assert!(refused("--backend kernel --task 1").is_some());
        assert!(refused("--backend kernel --cgroup /a").is_some());
    }
}
