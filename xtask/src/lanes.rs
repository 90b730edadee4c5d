//! Work on several things at a time, as many as there are CPUs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// What comes of each item, in their order.
pub fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let lanes = thread::available_parallelism().map_or(1, usize::from).min(items.len());
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                while let Some((place, item)) = {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    items.get(place).map(|item| (place, item))
                } {
                    let result = work(item);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((place, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|&(place, _)| place);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::each;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..100).collect();
        assert_eq!(each(&items, |item| item * 2), items.iter().map(|i| i * 2).collect::<Vec<_>>());
        assert!(each(&[0; 0], |item| *item).is_empty());
    }

    #[test]
    fn as_many_at_a_time_as_there_are_cpus() {
        let lanes = thread::available_parallelism().map_or(1, usize::from);
        // Ends when all are at work.
        let together = Barrier::new(lanes);
        assert_eq!(
            each(&vec![(); lanes], |()| {
                together.wait();
            })
            .len(),
            lanes
        );
    }
}
