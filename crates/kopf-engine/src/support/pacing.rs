//! Fewer wake-ups under load: the answers of a busy server are taken several at a time.
//!
//! A server that has much to do answers request by request, and to wake up for each of them costs more than
//! what there is to do: the thread is switched to, its caches are cold, it does a little, and sleeps again.
//! So while many requests are open, the thread of the runtime pauses before it waits for the network
//! again, and then finds several answers and events at once. The pause grows until a good part of the open
//! requests is answered meanwhile, and shrinks when the server is faster than that; so it slows nobody down.
//! With few requests open, there is no pause at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use tokio::runtime::Builder;

use crate::support::clock::pause_thread;

/// With fewer open requests than that, each answer is worth a wake-up.
const MANY_REQUESTS: usize = 3;

/// Shorter pauses are not worth their system call.
const SHORTEST_PAUSE_MICROSECONDS: u32 = 200;

/// Nobody notices that much when the server is busy.
const LONGEST_PAUSE_MICROSECONDS: u32 = 16_000;

/// How many requests are open and were answered, for the thread of a runtime to know how long to pause.
#[derive(Clone, Debug, Default)]
pub struct Pacing {
    load: Arc<Load>,
}

#[derive(Debug, Default)]
struct Load {
    open: AtomicUsize,
    /// Since the last pause.
    answered: AtomicUsize,
}

/// Counts as an open request as long as it lives.
pub(crate) struct OpenRequest<'a>(&'a Load);

impl Pacing {
    /// The runtime for one operator: one thread, which pauses by the requests made with this handle.
    ///
    /// One thread is cheaper than two where most of the work is to wait for a server, and it is as much as
    /// small pods have. It goes for the engine and for handlers in Rust.
    pub fn runtime(&self) -> Builder {
        self.runtime_notifying(|| {})
    }

    /// As [`runtime`](Self::runtime), with a callback for whenever the thread is idle or pauses: it notifies others of
    /// all that was done for them meanwhile.
    pub fn runtime_notifying(&self, notify: impl Fn() + Send + Sync + 'static) -> Builder {
        let load = Arc::clone(&self.load);
        let pause = AtomicU32::new(0);
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().on_thread_park(move || {
            notify();
            let answered = load.answered.swap(0, Ordering::Relaxed);
            let open = load.open.load(Ordering::Relaxed);
            let next = next_pause(pause.load(Ordering::Relaxed), open, answered);
            pause.store(next, Ordering::Relaxed);
            if next > 0 {
                pause_thread(next);
            }
        });
        builder
    }

    pub(crate) fn open_request(&self) -> OpenRequest<'_> {
        self.load.open.fetch_add(1, Ordering::Relaxed);
        OpenRequest(&self.load)
    }
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
        self.0.answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// The pause in microseconds, by the last one and its outcome.
fn next_pause(last: u32, open: usize, answered: usize) -> u32 {
    if open < MANY_REQUESTS {
        return 0;
    }
    if answered * 3 > open * 2 {
        let shorter = last / 2;
        return if shorter < SHORTEST_PAUSE_MICROSECONDS { 0 } else { shorter };
    }
    if answered * 3 < open {
        return last.saturating_mul(2).clamp(SHORTEST_PAUSE_MICROSECONDS, LONGEST_PAUSE_MICROSECONDS);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_requests_are_never_delayed() {
        for open in 0..MANY_REQUESTS {
            assert_eq!(next_pause(LONGEST_PAUSE_MICROSECONDS, open, 0), 0);
        }
    }

    #[test]
    fn the_pause_follows_the_server() {
        for (last, open, answered, expected) in [
            (0, 12, 1, 200),
            (200, 12, 3, 400),
            (12_800, 12, 3, 16_000),
            (16_000, 12, 0, 16_000),
            (400, 12, 4, 400),
            (400, 12, 8, 400),
            (400, 12, 9, 200),
            (200, 12, 12, 0),
            (0, 12, 12, 0),
        ] {
            assert_eq!(next_pause(last, open, answered), expected, "{last} {open} {answered}");
        }
    }

    /// Answers come one after the other, this many per millisecond; each is followed by another request.
    fn steady_pause(answers_per_millisecond: f64, open: usize) -> (u32, usize) {
        let (mut pause, mut answered) = (0, 1);
        for _ in 0..100 {
            pause = next_pause(pause, open, answered);
            answered = ((f64::from(pause) / 1000.0 * answers_per_millisecond) as usize).clamp(1, open);
        }
        (pause, answered)
    }

    /// From a server with a hundred seconds per answer to one with thousands of them per second.
    fn servers() -> impl Iterator<Item = (f64, usize)> {
        let rates = (-20..=8).map(|exponent| 1.5_f64.powi(exponent));
        rates.flat_map(|rate| (4..64).map(move |open| (rate, open)))
    }

    #[test]
    fn servers_are_kept_busy() {
        for (rate, open) in servers() {
            let (pause, answered) = steady_pause(rate, open);
            assert!(answered < open, "all requests are answered during {pause} µs: {rate} per ms, {open} open");
        }
    }

    #[test]
    fn slow_servers_are_asked_rarely() {
        for (rate, open) in servers().filter(|(rate, open)| *rate < 0.2 && *open >= 8) {
            assert!(steady_pause(rate, open).0 > 4_000, "{rate} per ms, {open} open");
        }
    }

    #[test]
    fn requests_are_counted_while_they_are_open() {
        let pacing = Pacing::default();
        let one = pacing.open_request();
        let other = pacing.open_request();
        assert_eq!(pacing.load.open.load(Ordering::Relaxed), 2);
        drop((one, other));
        assert_eq!(pacing.load.open.load(Ordering::Relaxed), 0);
        assert_eq!(pacing.load.answered.load(Ordering::Relaxed), 2);
    }
}
