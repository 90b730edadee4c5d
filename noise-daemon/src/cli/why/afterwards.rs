//! After a page that leaves open what the victim slept for: a look at its requests, or the hint that root may look.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::unistd::geteuid;
use noise_command::terminal::Terminal;
use noise_command::{CommandError, interrupt, output};
use noise_pages::victim::prose;
use noise_pages::width::columns;
use noise_record::DumpedHost;
use noise_why::findings::Findings;
use noise_why::peers::listening;
use noise_why::target::Target;

use super::request::look::LookTarget;

/// Who reads the page.
#[derive(Clone, Copy, Debug)]
struct PageReader {
    is_root: bool,
    /// Standard output is a terminal.
    is_person: bool,
}

/// What comes behind a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Nothing,
    Look,
    Hint,
}

/// The verdict says whether anything is open. Of one thread there is no look: requests come to its process.
fn then(found: &Findings, reader: PageReader) -> Then {
    let is_open = found.verdict.as_ref().is_some_and(|verdict| verdict.is_unclear);
    match (is_open && found.target.kind != "thread", reader) {
        (true, PageReader { is_root: false, .. }) => Then::Hint,
        (true, PageReader { is_person: true, .. }) => Then::Look,
        _ => Then::Nothing,
    }
}

/// Looks where that is of use, and prints what comes of it. `stop` has been given to the user before, where it is there.
/// Errors: where it cannot be printed.
pub fn look(
    target: &Target,
    found: &Findings,
    stop: Option<Arc<AtomicBool>>,
) -> Result<(), CommandError> {
    let is_person = Terminal::of_output().is_there;
    let reader = PageReader { is_root: geteuid().is_root(), is_person };
    let said = match then(found, reader) {
        Then::Nothing => return Ok(()),
        Then::Hint => {
            "To learn whether there was work for it meanwhile, run as root to see requests."
                .to_owned()
        }
        Then::Look => {
            // A user who ended the watching with Ctrl-C does not want a look as well.
            if stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Ok(());
            }
            let stop = stop.map_or_else(interrupt::flag, Ok)?;
            asked(&target.title(), found).look(&stop)
        }
    };
    let mut text = String::new();
    prose(&mut text, &said, columns());
    Ok(output::print(&text)?)
}

fn asked<'a>(name: &'a str, found: &Findings) -> LookTarget<'a> {
    let (pids, host) = (found.processes(), DumpedHost::default());
    let own = host.sockets_of(&pids).into_values().flatten().collect();
    let ports = listening(&own, &host.sockets());
    LookTarget { name, pids, ports }
}

#[cfg(test)]
mod tests {
    use noise_why::made::asleep;

    use super::*;

    #[test]
    fn it_is_looked_where_sleeps_are_open_for_root_at_a_terminal() {
        let reader = |is_root, is_person| PageReader { is_root, is_person };
        let mut open = asleep(1_700, 0);
        let all = [(true, true), (true, false), (false, true), (false, false)];
        let each = |found: &Findings| all.map(|(root, person)| then(found, reader(root, person)));
        assert_eq!(each(&open), [Then::Nothing; 4], "it is not judged");
        open.enders = vec![noise_why::made::ender(9, "odd", "odd.service", false, 1_700)];
        open.judge("shop", &noise_model::setup::Setup::default());
        assert_eq!(each(&open), [Then::Look, Then::Nothing, Then::Hint, Then::Hint]);
        open.target.kind = "thread";
        assert_eq!(each(&open), [Then::Nothing; 4]);
        // What waits for a CPU longer than it sleeps is known well enough.
        let mut known = noise_why::made::found();
        known.judge("shop", &noise_model::setup::Setup::default());
        assert_eq!(each(&known), [Then::Nothing; 4]);
    }
}
