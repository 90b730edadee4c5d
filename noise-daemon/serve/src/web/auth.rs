//! Basic authentication. A bcrypt hash takes long on purpose, so what was verified is remembered,
//! under a hash with a key of this process, never as a password; and a client that has no password that
//! fits can make the daemon compute for a tenth of one CPU at most, without keeping others from
//! being let in: it is verified one at a time, outside the thread that measures. Few can wait at once,
//! of one address or in all; a newcomer takes the place of one of those who have most, and turns go to
//! addresses, not to requests, both by chance: who has the right password but was never verified has
//! as good a chance as any other address, however many passwords the others try.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use noise_system::worker::Worker;
use ring::hmac;
use ring::rand::SystemRandom;
use tokio::sync::{oneshot, watch};

use super::secret::Secret;

/// Refusals that are remembered.
const REFUSALS: usize = 256;
/// Verifications that may wait.
const MOST_WAITING: usize = 32;
/// Verifications that may wait for one address.
const MOST_WAITING_OF_ONE: usize = 2;
/// After a refusal nothing is verified for this many times as long as it took.
const REST: u32 = 9;

/// A client, as far as limits are concerned: an address, or the network that one host may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    Address(IpAddr),
    /// On the local socket: the user, where that is known.
    User(Option<u32>),
}

impl Peer {
    /// One at this address.
    pub fn at(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
            }
            address => address,
        })
    }

    /// Whether it is on the local socket.
    pub fn is_local(self) -> bool {
        matches!(self, Self::User(_))
    }
}

/// What a client says who it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub user: String,
    pub password: Secret,
}

/// Whether a client is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is who it says.
    Accepted,
    /// It is not, or says nothing.
    Refused,
    /// Too many wait to be verified, and another took its place.
    Busy,
}

/// Stands for a name, a hash and a password.
type Tag = [u8; 32];

/// Whether a password fits, as soon as that is known.
type VerificationReceiver = watch::Receiver<Option<bool>>;

/// A password that waits to be verified.
struct VerificationRequest {
    tag: Tag,
    peer: Peer,
    user: String,
    hash: String,
    password: Secret,
    /// The hash is this user's.
    is_user: bool,
    done: watch::Sender<Option<bool>>,
}

/// A password and the hash that it may be of.
struct PasswordHashJob {
    hash: String,
    password: Secret,
    /// Dropped unused where it could not be computed.
    fits: oneshot::Sender<bool>,
}

impl PasswordHashJob {
    fn compute(self) {
        // An error is a hash that cannot be, or a password with a NUL in it.
        let fits = bcrypt::verify(self.password.0.as_bytes(), &self.hash).unwrap_or(false);
        // The receiver is gone only when the daemon ends.
        let _ = self.fits.send(fits);
    }
}

#[derive(Default)]
struct CredentialCache {
    /// What was verified last for each name.
    accepted: HashMap<String, Tag>,
    /// What was refused, the oldest first.
    refused: VecDeque<Tag>,
    waiting: Vec<VerificationRequest>,
    /// What is being verified.
    running: Option<(Tag, VerificationReceiver)>,
    /// A task verifies what waits.
    is_working: bool,
}

impl CredentialCache {
    /// The outcome of a verification that waits or runs already.
    fn outcome(&self, tag: &Tag) -> Option<VerificationReceiver> {
        let running = self.running.iter().find(|(running, _)| running == tag);
        let waiting = || self.waiting.iter().find(|question| question.tag == *tag);
        running
            .map(|(_, outcome)| outcome.clone())
            .or_else(|| waiting().map(|question| question.done.subscribe()))
    }

    fn waiting_of(&self, peer: Peer) -> usize {
        self.waiting.iter().filter(|question| question.peer == peer).count()
    }

    /// Sends one away where there is no room for another of this peer: one of its own, or of those
    /// who have most.
    fn make_room(&mut self, peer: Peer, random: u64) {
        let is_chosen: Vec<bool> = if self.waiting_of(peer) >= MOST_WAITING_OF_ONE {
            self.waiting.iter().map(|question| question.peer == peer).collect()
        } else if self.waiting.len() >= MOST_WAITING {
            let counts: Vec<_> =
                self.waiting.iter().map(|question| self.waiting_of(question.peer)).collect();
            let most = counts.iter().max().copied().unwrap_or_default();
            counts.into_iter().map(|count| count == most).collect()
        } else {
            return;
        };
        let chosen = is_chosen.iter().enumerate().filter(|(_, is_chosen)| **is_chosen);
        let chosen: Vec<_> = chosen.map(|(index, _)| index).collect();
        if let Some(index) = one_of(&chosen, random) {
            self.waiting.remove(index);
        }
    }

    /// The next question: the first of any peer.
    fn next(&mut self, random: u64) -> Option<VerificationRequest> {
        let mut firsts: Vec<usize> = Vec::new();
        for (index, question) in self.waiting.iter().enumerate() {
            if !firsts.iter().any(|first| self.waiting[*first].peer == question.peer) {
                firsts.push(index);
            }
        }
        one_of(&firsts, random).map(|index| self.waiting.remove(index))
    }
}

fn one_of(indices: &[usize], random: u64) -> Option<usize> {
    let index = random.checked_rem(indices.len() as u64)?;
    indices.get(index as usize).copied()
}

/// The one task that verifies what waits. However it ends, the next question starts another.
struct Working(Arc<Auth>);

impl Working {
    /// Verifies what waits, one after the other.
    async fn work(self) {
        while let Some(question) = self.0.next() {
            let began = Instant::now();
            if !self.0.verify(question).await {
                tokio::time::sleep(began.elapsed() * REST).await;
            }
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut known = self.0.known();
        // Another may have begun since the last question was answered: only where this task was cut
        // off is there one that is still being verified.
        if std::thread::panicking() {
            (known.is_working, known.running) = (false, None);
            // Those that wait are sent away, and may try again.
            known.waiting.clear();
        }
    }
}

/// Verifies the users of requests.
pub struct Auth {
    key: hmac::Key,
    known: Mutex<CredentialCache>,
    /// Computes; not there before [`Auth::begin`].
    computer: OnceLock<Worker<PasswordHashJob>>,
    /// How many random numbers were made.
    randoms: AtomicU64,
}

impl Auth {
    /// One that knows nothing yet.
    /// Errors: where the system gives no random numbers.
    pub fn new() -> anyhow::Result<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| anyhow::anyhow!("the system gives no random numbers"))?;
        let (known, computer, randoms) = Default::default();
        Ok(Self { key, known, computer, randoms })
    }

    /// Starts the thread that computes: it has the privileges of the caller.
    /// Errors: where there can be no further thread.
    pub fn begin(&self) -> anyhow::Result<()> {
        let computer = Worker::start("passwords", PasswordHashJob::compute)?;
        // Where one was started before, this one ends here.
        let _ = self.computer.set(computer);
        Ok(())
    }

    /// Whether one of these users has these credentials. A name that is none of them costs the same time.
    pub async fn check(
        self: &Arc<Self>,
        users: &BTreeMap<String, Secret>,
        credentials: Option<Credentials>,
        peer: Peer,
    ) -> Admission {
        let Some(Credentials { user, password }) = credentials else { return Admission::Refused };
        let Some((hash, is_user)) = self.hash_for(users, &user) else { return Admission::Refused };
        let tag = self.tag(&user, hash, &password);
        let mut outcome = {
            let mut known = self.known();
            if known.accepted.get(&user) == Some(&tag) {
                return Admission::Accepted;
            }
            if known.refused.contains(&tag) {
                return Admission::Refused;
            }
            // The same credentials may have come at the same time.
            if let Some(outcome) = known.outcome(&tag) {
                outcome
            } else {
                known.make_room(peer, self.random());
                let (done, outcome) = watch::channel(None);
                let hash = hash.0.clone();
                known.waiting.push(VerificationRequest {
                    tag,
                    peer,
                    user,
                    hash,
                    password,
                    is_user,
                    done,
                });
                if !known.is_working {
                    known.is_working = true;
                    // Goes on although the client may go away: else that would be a way to compute
                    // without limit.
                    tokio::spawn(Working(Arc::clone(self)).work());
                }
                outcome
            }
        };
        match outcome.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(true)) => Admission::Accepted,
            Ok(_) => Admission::Refused,
            Err(_) => Admission::Busy,
        }
    }

    /// The next question, which is being verified from now on; without one, the work is over.
    fn next(&self) -> Option<VerificationRequest> {
        let mut known = self.known();
        let next = known.next(self.random());
        known.running = next.as_ref().map(|next| (next.tag, next.done.subscribe()));
        known.is_working = next.is_some();
        next
    }

    /// Whether a password fits; `None` where that could not be computed.
    async fn fits(&self, hash: String, password: Secret) -> Option<bool> {
        let (fits, outcome) = oneshot::channel();
        self.computer.get()?.give(PasswordHashJob { hash, password, fits }).ok()?;
        outcome.await.ok()
    }

    async fn verify(&self, question: VerificationRequest) -> bool {
        let VerificationRequest { tag, user, hash, password, is_user, done, .. } = question;
        let fits = self.fits(hash, password).await;
        {
            let mut known = self.known();
            known.running = None;
            // Neither accepted nor refused: the next request is verified again.
            let Some(fits) = fits else { return false };
            if fits && is_user {
                known.accepted.insert(user, tag);
            } else {
                if known.refused.len() >= REFUSALS {
                    known.refused.pop_front();
                }
                known.refused.push_back(tag);
            }
        }
        // The client may be gone.
        let accepted = fits == Some(true) && is_user;
        let _ = done.send(Some(accepted));
        accepted
    }

    /// A number that cannot be foreseen from outside.
    fn random(&self) -> u64 {
        let number = self.randoms.fetch_add(1, Ordering::Relaxed);
        let digest = hmac::sign(&self.key, &number.to_le_bytes());
        digest.as_ref().iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }

    /// Forgets what is known of names that are no users any more.
    pub fn retain(&self, users: &BTreeMap<String, Secret>) {
        self.known().accepted.retain(|user, _| users.contains_key(user));
    }

    fn known(&self) -> MutexGuard<'_, CredentialCache> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hash to compare with, and whether it is this user's. For a name that is none, that of
    /// one and always the same user, so that the time says nothing about which names there are.
    fn hash_for<'a>(
        &self,
        users: &'a BTreeMap<String, Secret>,
        user: &str,
    ) -> Option<(&'a Secret, bool)> {
        if let Some(hash) = users.get(user) {
            return Some((hash, true));
        }
        let digest = hmac::sign(&self.key, user.as_bytes());
        let number = digest.as_ref().iter().fold(0, |sum, byte| (sum << 1) ^ usize::from(*byte));
        let decoy = users.values().nth(number.checked_rem(users.len())?)?;
        Some((decoy, false))
    }

    fn tag(&self, user: &str, hash: &Secret, password: &Secret) -> Tag {
        let mut context = hmac::Context::with_key(&self.key);
        for part in [user, &hash.0, &password.0] {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part.as_bytes());
        }
        let mut tag = [0; 32];
        tag.copy_from_slice(context.sign().as_ref());
        tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    fn users() -> BTreeMap<String, Secret> {
        let hash = bcrypt::hash("right", 4).unwrap();
        BTreeMap::from([("alice".to_owned(), Secret(hash))])
    }

    fn auth() -> Arc<Auth> {
        let auth = Auth::new().unwrap();
        auth.begin().unwrap();
        Arc::new(auth)
    }

    fn credentials(password: &str) -> Option<Credentials> {
        Some(Credentials { user: "alice".to_owned(), password: Secret(password.to_owned()) })
    }

    fn peer(number: u8) -> Peer {
        Peer::at(Ipv4Addr::new(10, 0, 0, number).into())
    }

    /// Tries one password after the other, for ever.
    async fn attack(auth: Arc<Auth>, users: BTreeMap<String, Secret>, peer: Peer, name: u8) {
        for number in 0.. {
            let verdict = auth.check(&users, credentials(&format!("{name} {number}")), peer).await;
            assert_ne!(verdict, Admission::Accepted);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn who_has_the_password_is_let_in_whoever_else_tries() {
        let (auth, users) = (auth(), users());
        let mut attackers = tokio::task::JoinSet::new();
        for name in 0..80 {
            let peer = peer(name % 20);
            attackers.spawn(attack(Arc::clone(&auth), users.clone(), peer, name));
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        let waiting = auth.known().waiting.len();
        assert!(waiting + 2 >= MOST_WAITING, "{waiting}");
        // Was never verified, and is not sent away once.
        let verdict = auth.check(&users, credentials("right"), peer(200)).await;
        assert_eq!(verdict, Admission::Accepted);
        assert!(attackers.try_join_next().is_none());
    }

    #[tokio::test]
    async fn what_cannot_be_computed_is_neither_let_in_nor_remembered() {
        // Nothing computes yet.
        let (auth, users) = (Arc::new(Auth::new().unwrap()), users());
        for _ in 0..3 {
            let verdict = auth.check(&users, credentials("right"), peer(1)).await;
            assert_eq!(verdict, Admission::Busy);
        }
        auth.begin().unwrap();
        let verdict = auth.check(&users, credentials("right"), peer(1)).await;
        assert_eq!(verdict, Admission::Accepted);
    }

    #[tokio::test]
    async fn work_that_was_cut_off_begins_again() {
        let (auth, users) = (auth(), users());
        let (waits, outcome) = question(9, 1);
        {
            let mut known = auth.known();
            known.is_working = true;
            known.waiting.push(waits);
        }
        let working = Working(Arc::clone(&auth));
        let task = tokio::spawn(async move {
            let _question = working.0.next();
            let _working = working;
            panic!("planted");
        });
        assert!(task.await.is_err());
        // Who waited is sent away, and the next one is verified.
        assert!(outcome.has_changed().is_err());
        let verdict = auth.check(&users, credentials("right"), peer(1)).await;
        assert_eq!(verdict, Admission::Accepted);
    }

    fn question(number: u8, of: u8) -> (VerificationRequest, VerificationReceiver) {
        let (user, hash, password) = ("alice".to_owned(), String::new(), Secret(String::new()));
        let (done, outcome) = watch::channel(None);
        let (tag, peer) = ([number; 32], peer(of));
        (VerificationRequest { tag, peer, user, hash, password, is_user: true, done }, outcome)
    }

    #[test]
    fn a_newcomer_takes_the_place_of_one_of_those_who_have_most() {
        let auth = Auth::new().unwrap();
        let mut known = CredentialCache::default();
        let ask = |known: &mut CredentialCache, number: u8, of: u8| {
            known.make_room(peer(of), auth.random());
            let (question, outcome) = question(number, of);
            known.waiting.push(question);
            outcome
        };
        // Of one there are no more than may be, and the newest is among them.
        let first: Vec<_> = (0..10).map(|number| ask(&mut known, number, 1)).collect();
        assert_eq!(known.waiting.len(), MOST_WAITING_OF_ONE);
        let stays = |outcome: &VerificationReceiver| outcome.has_changed().is_ok();
        assert_eq!(first.iter().filter(|outcome| stays(outcome)).count(), MOST_WAITING_OF_ONE);
        assert!(stays(&first[9]));
        for other in 2..=MOST_WAITING as u8 {
            ask(&mut known, 0, other);
        }
        assert_eq!(known.waiting.len(), MOST_WAITING);
        // The only one with two had to give one.
        assert_eq!(known.waiting_of(peer(1)), 1);
        ask(&mut known, 0, 100);
        assert_eq!((known.waiting.len(), known.waiting_of(peer(100))), (MOST_WAITING, 1));
    }

    #[test]
    fn turns_go_to_addresses() {
        let auth = Auth::new().unwrap();
        let mut turns = [0; 5];
        for _ in 0..600 {
            let of = [1, 1, 2, 3, 3].into_iter().enumerate();
            let waiting = of.map(|(number, of)| question(number as u8, of).0).collect();
            let mut known = CredentialCache { waiting, ..CredentialCache::default() };
            turns[usize::from(known.next(auth.random()).unwrap().tag[0])] += 1;
        }
        // The first of each, a third of the times; the others never.
        assert!([0, 2, 3].iter().all(|first: &usize| turns[*first] > 100), "{turns:?}");
        assert_eq!(turns[1] + turns[4], 0, "{turns:?}");
    }
}
