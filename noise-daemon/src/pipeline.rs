//! The one pipeline of every program that measures: a sample is taken at each beat, and on request; it
//! is published once, with the step that led to it, to all subscribers. Wiring alone.
//!
//! What is published goes through one `watch` channel, which holds the newest sample alone, as samples
//! cost memory. Subscribers are brought up to date before the next sample is taken, so that each of them
//! sees each sample, in order.

mod beat;

use std::cell::{RefCell, RefMut};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use noise_analysis::Stops;
use noise_host::collect::Collector;
use noise_host::kernel::{HookStatus, Measured};
use noise_model::{Builder, Longest, Sample, Step};
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

pub use self::beat::Beat;

/// Time between two beats, unless [`Pipeline::set_pace`] says otherwise: one window.
pub const SAMPLE_EVERY: Duration = Duration::from_nanos(noise_common::WINDOW_NS);

/// Why a sample was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// The length of a beat had passed.
    Beat,
    /// A client requested one in between.
    Asked,
}

#[derive(Clone, Debug)]
pub struct Published {
    pub sample: Arc<Sample>,
    /// What came since the one before, whatever its occasion.
    pub step: Step,
    pub occasion: Occasion,
}

/// A consumer that sees every sample.
pub trait Subscriber {
    fn advance(&mut self, published: &Published);
}

impl Subscriber for Builder {
    fn advance(&mut self, published: &Published) {
        Self::advance(self, &published.sample, &published.step);
    }
}

impl Subscriber for Stops {
    fn advance(&mut self, published: &Published) {
        Self::advance(self, &published.sample, &published.step);
    }
}

impl Subscriber for Longest {
    fn advance(&mut self, published: &Published) {
        Self::advance(self, &published.sample);
    }
}

/// A subscriber with its end of the channel.
#[derive(Debug)]
pub struct Subscription<S>(RefCell<(watch::Receiver<Arc<Published>>, S)>);

impl<S: Subscriber> Subscription<S> {
    /// The subscriber, up to date with all that was published.
    pub fn current(&self) -> RefMut<'_, S> {
        let mut own = self.0.borrow_mut();
        let (receiver, subscriber) = &mut *own;
        // A pipeline that has ended publishes nothing.
        if receiver.has_changed().unwrap_or(false) {
            let published = Arc::clone(&receiver.borrow_and_update());
            subscriber.advance(&published);
        }
        RefMut::map(own, |own| &mut own.1)
    }
}

/// A subscription of any subscriber, as the publisher needs it.
trait CatchUp {
    fn catch_up(&self);
}

impl<S: Subscriber> CatchUp for Subscription<S> {
    fn catch_up(&self) {
        drop(self.current());
    }
}

struct Publisher {
    channel: watch::Sender<Arc<Published>>,
    subscriptions: Vec<Rc<dyn CatchUp>>,
}

impl Default for Publisher {
    fn default() -> Self {
        let (sample, step) = (Arc::default(), Step::default());
        let nothing = Published { sample, step, occasion: Occasion::Beat };
        Self { channel: watch::Sender::new(Arc::new(nothing)), subscriptions: Vec::new() }
    }
}

impl Publisher {
    fn subscribe<S: Subscriber + 'static>(&mut self, subscriber: S) -> Rc<Subscription<S>> {
        let own = RefCell::new((self.channel.subscribe(), subscriber));
        let subscription = Rc::new(Subscription(own));
        self.subscriptions.push(Rc::clone(&subscription) as Rc<dyn CatchUp>);
        subscription
    }

    fn publish(&self, sample: Sample, occasion: Occasion) -> Arc<Published> {
        let step = Step::between(&self.channel.borrow().sample, &sample);
        let published = Arc::new(Published { sample: Arc::new(sample), step, occasion });
        self.channel.send_replace(Arc::clone(&published));
        self.subscriptions.iter().for_each(|subscription| subscription.catch_up());
        published
    }
}

/// Takes samples, and publishes them.
pub struct Pipeline {
    collector: Collector,
    beat: Beat,
    ring: AsyncFd<OwnedFd>,
    publisher: Publisher,
}

impl Pipeline {
    /// Registers the ring with the runtime that it is called in.
    /// Errors: where the runtime cannot wait for the ring.
    pub fn new(collector: Collector, beat: Beat) -> anyhow::Result<Self> {
        let ring = collector.readiness()?;
        Ok(Self { collector, beat, ring, publisher: Publisher::default() })
    }

    /// Adds a subscriber, which sees every sample from now on.
    pub fn subscribe<S: Subscriber + 'static>(&mut self, subscriber: S) -> Rc<Subscription<S>> {
        self.publisher.subscribe(subscriber)
    }

    /// Waits for the next beat, and publishes its sample; or for a ring that runs full, and drains it
    /// (`None`). Nothing is lost where the future is dropped before it is ready.
    /// Errors: where the ring or the timer fails.
    pub async fn turn(&mut self) -> anyhow::Result<Option<Arc<Published>>> {
        tokio::select! {
            beat = self.beat.next() => {
                beat.context("cannot read the sampling timer")?;
                let sample = self.collector.sample();
                Ok(Some(self.publisher.publish(sample, Occasion::Beat)))
            }
            ready = self.ring.readable() => {
                ready?.clear_ready();
                self.collector.drain();
                Ok(None)
            }
        }
    }

    /// Takes a sample now, and publishes it with what `add` adds to it. Such a sample is complete: it shows
    /// the programs themselves, too. Where the next beat is due, it is that of the beat.
    pub fn sample(&mut self, add: impl FnOnce(&mut Sample)) -> Arc<Published> {
        let occasion = if self.beat.is_now() { Occasion::Beat } else { Occasion::Asked };
        let mut sample = self.collector.sample();
        self.collector.complete(&mut sample);
        add(&mut sample);
        self.publisher.publish(sample, occasion)
    }

    /// From now on, a beat comes after as many windows, or where somebody asks after one.
    pub fn set_pace(&mut self, windows: u32) {
        self.beat.set_length(SAMPLE_EVERY * windows, SAMPLE_EVERY);
    }

    /// Goes on with other signals and thresholds.
    pub fn measure(&mut self, measured: Measured) {
        self.collector.measure(measured);
    }

    /// Whether samples say from now on what others call cgroups; see [`Collector::describe_cgroups`].
    pub fn describe_cgroups(&mut self, describes: bool) {
        self.collector.describe_cgroups(describes);
    }

    /// The path of the cgroup with a label; see [`Collector::cgroup_path`].
    pub fn cgroup_path(&mut self, label: &str) -> Option<PathBuf> {
        self.collector.cgroup_path(label)
    }

    pub fn hooks(&self) -> &[HookStatus] {
        self.collector.hooks()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    /// Begin and end of a step, and why it ended.
    type Sight = (u64, u64, Occasion);

    /// What a subscriber saw.
    #[derive(Debug, Default)]
    struct Seen(Vec<Sight>);

    impl Subscriber for Seen {
        fn advance(&mut self, published: &Published) {
            let Published { sample, step, occasion } = published;
            assert_eq!(step.end_ns, sample.at_ns);
            self.0.push((step.start_ns, step.end_ns, *occasion));
        }
    }

    fn sample(at_ns: u64) -> Sample {
        Sample { at_ns, ..Sample::default() }
    }

    #[test]
    fn nothing_is_kept_but_the_newest() {
        let publisher = Publisher::default();
        let first = publisher.publish(sample(1), Occasion::Beat);
        let second = publisher.publish(sample(2), Occasion::Asked);
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 2));
        assert_eq!(Arc::strong_count(&second.sample), 1);
    }

    #[test]
    fn a_subscriber_that_others_follow_is_up_to_date_for_them() {
        /// Sees what the other has seen by then.
        struct Follower(Rc<Subscription<Seen>>, Vec<usize>);

        impl Subscriber for Follower {
            fn advance(&mut self, _: &Published) {
                self.1.push(self.0.current().0.len());
            }
        }

        let mut publisher = Publisher::default();
        let mut other = Publisher::default();
        // Not known to the publisher as yet: the follower comes first.
        let seen = other.subscribe(Seen::default());
        seen.0.borrow_mut().0 = publisher.channel.subscribe();
        let follower = publisher.subscribe(Follower(Rc::clone(&seen), Vec::new()));
        publisher.subscriptions.push(seen);
        publisher.publish(sample(1), Occasion::Beat);
        publisher.publish(sample(2), Occasion::Beat);
        assert_eq!(follower.current().1, [1, 2]);
    }

    proptest! {
        #[test]
        fn each_sees_each_sample_since_it_subscribed_once_and_in_order(
            turns in proptest::collection::vec((0u8..4, any::<bool>()), 0..60),
        ) {
            let mut publisher = Publisher::default();
            let newest = publisher.channel.subscribe();
            let mut subscriptions: Vec<(Rc<Subscription<Seen>>, Vec<Sight>)> = Vec::new();
            let mut before_ns = 0;
            for (at_ns, (turn, beat)) in (1..).zip(turns) {
                match turn {
                    0 => subscriptions.push((publisher.subscribe(Seen::default()), Vec::new())),
                    // To read a subscriber between two samples advances nothing.
                    1 => subscriptions.iter().for_each(|(one, _)| drop(one.current())),
                    _ => {
                        let occasion = if beat { Occasion::Beat } else { Occasion::Asked };
                        let published = publisher.publish(sample(at_ns), occasion);
                        prop_assert_eq!(published.sample.at_ns, at_ns);
                        prop_assert_eq!(newest.borrow().sample.at_ns, at_ns);
                        let sight = (before_ns, at_ns, occasion);
                        subscriptions.iter_mut().for_each(|(_, due)| due.push(sight));
                        before_ns = at_ns;
                    }
                }
                for (subscription, due) in &subscriptions {
                    prop_assert_eq!(&subscription.current().0, due);
                }
            }
        }
    }
}
