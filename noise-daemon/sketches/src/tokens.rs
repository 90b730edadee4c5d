//! What is posted and taken without bytes: eventfds, semaphores, futexes, signals.

use std::collections::{HashMap, VecDeque};

use crate::input::Local;
use crate::slices::SliceId;

/// Objects that are followed; the oldest are given up first.
const MAX_OBJECTS: usize = 1 << 17;
/// Posts of one object that wait to be taken.
const MAX_POSTS: usize = 64;

/// A post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post {
    /// The slice that it is of.
    pub slice: SliceId,
    /// When, nanoseconds since the epoch.
    pub sent_ns: u64,
    /// How much.
    pub value: u64,
}

#[derive(Clone, Debug, Default)]
struct Posts {
    /// Losses by then.
    losses: u32,
    /// Some are missing.
    is_cut: bool,
    all: VecDeque<Post>,
}

/// From where something that was taken came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// From these.
    From(Vec<Post>),
    /// From one of several.
    Ambiguous,
    /// Nothing says so.
    Unknown,
}

/// Posts of all objects.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    all: HashMap<(u16, Local), Posts>,
    order: VecDeque<(u16, Local)>,
}

impl Tokens {
    /// A post.
    pub fn posted(&mut self, machine: u16, object: Local, post: Post, losses: u32) {
        let key = (machine, object);
        if !self.all.contains_key(&key) {
            self.order.push_back(key);
            if self.order.len() > MAX_OBJECTS
                && let Some(oldest) = self.order.pop_front()
            {
                self.all.remove(&oldest);
            }
        }
        let posts = self.all.entry(key).or_default();
        if posts.losses != losses {
            *posts = Posts { losses, is_cut: true, ..Posts::default() };
        }
        posts.all.push_back(post);
        if posts.all.len() > MAX_POSTS {
            posts.all.pop_front();
            posts.is_cut = true;
        }
    }

    /// So much is taken, by a thread that began to wait at `since_ns`.
    pub fn taken(
        &mut self,
        machine: u16,
        object: Local,
        value: u64,
        since_ns: u64,
        losses: u32,
    ) -> Came {
        let posts = self.all.get_mut(&(machine, object)).filter(|posts| posts.losses == losses);
        let Some(posts) = posts else { return Came::Unknown };
        match object {
            // Nothing of a futex is kept: only those who wait already are woken.
            Local::Futex { .. } => {
                posts.all.retain(|post| post.sent_ns >= since_ns);
                let found = posts.all.iter().copied().collect();
                one_of(found)
            }
            // A read takes all of it.
            Local::Eventfd(_) => {
                let sum = posts.all.iter().fold(0u64, |sum, post| sum.saturating_add(post.value));
                let is_all = sum == value && !posts.is_cut;
                if is_all || posts.all.len() == 1 {
                    posts.is_cut = false;
                    return from(posts.all.drain(..).collect());
                }
                // One at a time, as a semaphore does it.
                if value == 1 { posts.take_one() } else { posts.take_unknown(value) }
            }
            Local::Signal { .. } => {
                let found = posts.all.drain(..).collect();
                one_of(found)
            }
            _ => posts.take_one(),
        }
    }
}

impl Posts {
    /// One unit is taken; which one, nobody can tell where they are of several slices.
    fn take_one(&mut self) -> Came {
        let came = one_of(self.all.iter().copied().collect());
        if let Some(first) = self.all.front_mut() {
            first.value = first.value.saturating_sub(1);
            if first.value == 0 {
                self.all.pop_front();
            }
        }
        came
    }

    /// All of it is gone, and what was posted does not sum up to it.
    fn take_unknown(&mut self, value: u64) -> Came {
        let sum = self.all.iter().fold(0u64, |sum, post| sum.saturating_add(post.value));
        self.all.clear();
        self.is_cut = false;
        if sum == 0 || value == 0 { Came::Unknown } else { Came::Ambiguous }
    }
}

fn from(posts: Vec<Post>) -> Came {
    if posts.is_empty() { Came::Unknown } else { Came::From(posts) }
}

/// Posts that are all of one slice.
fn one_of(posts: Vec<Post>) -> Came {
    match posts.first() {
        None => Came::Unknown,
        Some(first) if posts.iter().all(|post| post.slice == first.slice) => {
            Came::From(vec![*first])
        }
        Some(_) => Came::Ambiguous,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(slice: SliceId, sent_ns: u64, value: u64) -> Post {
        Post { slice, sent_ns, value }
    }

    #[test]
    fn an_eventfd_gives_all_that_was_posted() {
        let mut tokens = Tokens::default();
        let object = Local::Eventfd(1);
        tokens.posted(0, object, post(1, 1, 1), 0);
        tokens.posted(0, object, post(2, 2, 3), 0);
        assert_eq!(
            tokens.taken(0, object, 4, 0, 0),
            Came::From(vec![post(1, 1, 1), post(2, 2, 3)])
        );
        assert_eq!(tokens.taken(0, object, 4, 0, 0), Came::Unknown);
        // More than was posted: some came before.
        tokens.posted(0, object, post(1, 1, 1), 0);
        tokens.posted(0, object, post(2, 1, 1), 0);
        assert_eq!(tokens.taken(0, object, 4, 0, 0), Came::Ambiguous);
        // After a loss nothing is known.
        tokens.posted(0, object, post(1, 1, 1), 0);
        assert_eq!(tokens.taken(0, object, 1, 0, 1), Came::Unknown);
    }

    #[test]
    fn a_semaphore_has_no_favourite() {
        let mut tokens = Tokens::default();
        let object = Local::Semaphore(1);
        tokens.posted(0, object, post(1, 1, 1), 0);
        assert_eq!(tokens.taken(0, object, 1, 0, 0), Came::From(vec![post(1, 1, 1)]));
        tokens.posted(0, object, post(1, 1, 1), 0);
        tokens.posted(0, object, post(2, 2, 1), 0);
        assert_eq!(tokens.taken(0, object, 1, 0, 0), Came::Ambiguous);
        assert_eq!(tokens.taken(0, object, 1, 0, 0), Came::From(vec![post(2, 2, 1)]));
    }

    #[test]
    fn a_futex_is_woken_by_those_who_do_so_meanwhile() {
        let mut tokens = Tokens::default();
        let object = Local::Futex { space: 1, address: 8 };
        tokens.posted(0, object, post(1, 10, 1), 0);
        assert_eq!(tokens.taken(0, object, 1, 11, 0), Came::Unknown);
        tokens.posted(0, object, post(1, 20, 1), 0);
        assert_eq!(tokens.taken(0, object, 1, 15, 0), Came::From(vec![post(1, 20, 1)]));
        tokens.posted(0, object, post(2, 21, 1), 0);
        assert_eq!(tokens.taken(0, object, 1, 15, 0), Came::Ambiguous);
    }

    #[test]
    fn posts_that_nobody_takes_are_given_up() {
        let mut tokens = Tokens::default();
        for number in 0..2 * MAX_OBJECTS as u64 {
            tokens.posted(0, Local::Eventfd(number), post(1, 1, 1), 0);
            tokens.posted(0, Local::Eventfd(0), post(1, 1, 1), 0);
        }
        assert!(tokens.all.len() <= MAX_OBJECTS && tokens.order.len() <= MAX_OBJECTS);
        assert!(tokens.all.values().all(|posts| posts.all.len() <= MAX_POSTS));
    }
}
