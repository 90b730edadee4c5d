//! Basic authentication. A bcrypt hash takes long on purpose, so what was verified is remembered,
//! under a hash with a key of this process, never as a password; and a client that has no password that
//! fits can make the daemon compute for a tenth of one CPU at most, without keeping others from
//! being let in: one password is verified at a time, outside the thread that measures, and addresses
//! take turns. Few can wait at once, of one address or in all, because each keeps a connection.
//!
//! tower-http's layer for authentication asks a function of ours, and tower's limit of concurrency knows
//! no addresses: what is left for them is a call.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use noise_system::worker::Worker;
use ring::hmac;
use ring::rand::SystemRandom;
use tokio::sync::{oneshot, watch};

use super::peer::Peer;
use super::secret::Secret;
use crate::turns::{QueuePlace, Turns};

/// Refusals that are remembered.
const REFUSALS: usize = 256;
/// Verifications that run or wait.
const MOST: usize = 96;
/// Those of one address.
const MOST_OF_ONE: usize = 3;
/// After a refusal nothing is verified for this many times as long as it took.
const REST: u32 = 9;

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
    /// Too many wait to be verified.
    Busy,
}

/// Stands for a name, a hash and a password.
type Tag = [u8; 32];

/// Whether a client is let in, as soon as that is known.
type VerificationReceiver = watch::Receiver<Option<bool>>;

/// A password that is to be verified.
struct VerificationRequest {
    tag: Tag,
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
    /// What runs or waits for its turn.
    awaited: HashMap<Tag, VerificationReceiver>,
}

impl CredentialCache {
    /// The outcome of a verification that waits or runs already, unless it was cut off.
    fn awaited(&mut self, tag: &Tag) -> Option<VerificationReceiver> {
        self.awaited.retain(|_, outcome| outcome.has_changed().is_ok());
        self.awaited.get(tag).cloned()
    }

    fn remember(&mut self, user: String, tag: Tag, is_accepted: bool) {
        if is_accepted {
            self.accepted.insert(user, tag);
            return;
        }
        if self.refused.len() >= REFUSALS {
            self.refused.pop_front();
        }
        self.refused.push_back(tag);
    }
}

/// Verifies the users of requests.
pub struct Auth {
    key: hmac::Key,
    known: Mutex<CredentialCache>,
    /// Computes; not there before [`Auth::begin`].
    computer: OnceLock<Worker<PasswordHashJob>>,
    turns: Turns,
}

impl Auth {
    /// One that knows nothing yet.
    /// Errors: where the system gives no random numbers.
    pub fn new() -> anyhow::Result<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| anyhow::anyhow!("the system gives no random numbers"))?;
        let (known, computer) = Default::default();
        Ok(Self { key, known, computer, turns: Turns::new(1) })
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
            if let Some(outcome) = known.awaited(&tag) {
                outcome
            } else {
                let Some(place) = self.turns.place(peer, MOST_OF_ONE, MOST) else {
                    return Admission::Busy;
                };
                let (done, outcome) = watch::channel(None);
                known.awaited.insert(tag, outcome.clone());
                let hash = hash.0.clone();
                let request = VerificationRequest { tag, user, hash, password, is_user, done };
                // Goes on although the client may go away: else that would be a way to compute
                // without limit, and a scraper that waits for less than its turn would never be let in.
                tokio::spawn(Arc::clone(self).verify(request, place));
                outcome
            }
        };
        match outcome.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(true)) => Admission::Accepted,
            Ok(_) => Admission::Refused,
            Err(_) => Admission::Busy,
        }
    }

    /// Verifies a password when it is its client's turn.
    async fn verify(self: Arc<Self>, request: VerificationRequest, place: QueuePlace) {
        let VerificationRequest { tag, user, hash, password, is_user, done } = request;
        let turn = place.turn().await;
        let began = Instant::now();
        let fits = self.fits(hash, password).await;
        let is_accepted = fits == Some(true) && is_user;
        {
            let mut known = self.known();
            known.awaited.remove(&tag);
            // Neither accepted nor refused where it could not be computed: the next request is verified again.
            if fits.is_some() {
                known.remember(user, tag, is_accepted);
                // The client may be gone.
                let _ = done.send(Some(is_accepted));
            }
        }
        drop(done);
        if !is_accepted {
            tokio::time::sleep(began.elapsed() * REST).await;
        }
        drop(turn);
    }

    /// Whether a password fits; `None` where that could not be computed.
    async fn fits(&self, hash: String, password: Secret) -> Option<bool> {
        let (fits, outcome) = oneshot::channel();
        self.computer.get()?.give(PasswordHashJob { hash, password, fits }).ok()?;
        outcome.await.ok()
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
        let waiting = auth.turns.waiting();
        assert!(waiting + 4 >= MOST / 2, "{waiting}");
        // Was never verified, and is not sent away once.
        let verdict = auth.check(&users, credentials("right"), peer(200)).await;
        assert_eq!(verdict, Admission::Accepted);
        assert!(attackers.try_join_next().is_none());
    }

    #[tokio::test]
    async fn all_addresses_of_a_user_of_this_host_leave_others_their_turns() {
        let (auth, users) = (auth(), users());
        let mut attackers = tokio::task::JoinSet::new();
        for name in 0..160 {
            let peer = Peer::Host(Some(1000), Ipv4Addr::new(127, 0, 1, name).into());
            attackers.spawn(attack(Arc::clone(&auth), users.clone(), peer, name));
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(auth.turns.waiting(), MOST / 4);
        // From the address of those, too.
        let own = Ipv4Addr::new(127, 0, 1, 1).into();
        for peer in [Peer::Host(Some(1001), own), Peer::Host(None, own), peer(200)] {
            auth.known().accepted.clear();
            let verdict = auth.check(&users, credentials("right"), peer).await;
            assert_eq!(verdict, Admission::Accepted, "{peer:?}");
        }
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
        let turn = auth.turns.place(peer(2), 1, 1).unwrap().turn().await.unwrap();
        let checked = {
            let (auth, users) = (Arc::clone(&auth), users.clone());
            tokio::spawn(async move { auth.check(&users, credentials("right"), peer(1)).await })
        };
        let task = tokio::spawn(async move {
            let _turn = turn;
            panic!("planted");
        });
        assert!(task.await.is_err());
        assert_eq!(checked.await.unwrap(), Admission::Accepted);
    }

    #[tokio::test]
    async fn what_clients_wait_for_goes_on_when_they_go_away() {
        let (auth, users) = (auth(), users());
        let turn = auth.turns.place(peer(9), 1, 1).unwrap().turn().await.unwrap();
        let mut same = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let (auth, users) = (Arc::clone(&auth), users.clone());
            same.spawn(async move { auth.check(&users, credentials("right"), peer(1)).await });
        }
        tokio::task::yield_now().await;
        // The same credentials need one place, however many clients come with them.
        assert_eq!(auth.turns.waiting(), 2);
        same.shutdown().await;
        assert_eq!(auth.turns.waiting(), 2);
        drop(turn);
        while auth.turns.waiting() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(auth.known().accepted.contains_key("alice") && auth.known().awaited.is_empty());
    }
}
