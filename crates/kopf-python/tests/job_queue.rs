//! The bounds of the queue between the engine and the event loop. The module has no Python in it, so it is included
//! here by its path: the crate itself is a module of the interpreter, and cannot be linked to a test.

#![allow(clippy::unwrap_used)]

#[path = "../src/job_queue.rs"]
mod job_queue;

use std::future::Future as _;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::task::{Context, Poll, Waker};

use job_queue::{JobQueue, QueueLimits};

fn queue(awaited: usize, log_records: usize) -> JobQueue<&'static str> {
    JobQueue::new(QueueLimits { awaited, log_records }).unwrap()
}

#[test]
fn jobs_come_out_in_the_order_in_which_they_were_put() {
    let queue = queue(2, 2);
    queue.try_put_awaited("call").unwrap();
    queue.put_log_record("log", false);
    queue.put("notice");
    assert_eq!(queue.take().jobs, ["call", "log", "notice"]);
    assert_eq!(queue.take().jobs, [""; 0]);
}

#[test]
fn an_awaited_job_waits_until_the_event_loop_has_taken_others() {
    let queue = queue(2, 0);
    queue.try_put_awaited("first").unwrap();
    queue.try_put_awaited("second").unwrap();
    assert_eq!(queue.try_put_awaited("third"), Err("third"));

    let mut putting = std::pin::pin!(queue.put_awaited("third"));
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(putting.as_mut().poll(&mut context), Poll::Pending);
    assert_eq!(queue.take().jobs, ["first", "second"]);
    assert_eq!(putting.as_mut().poll(&mut context), Poll::Ready(()));
    assert_eq!(queue.take().jobs, ["third"]);
}

#[test]
fn places_do_not_get_lost() {
    let queue = queue(3, 0);
    for _ in 0..10 {
        for job in ["a", "b", "c"] {
            queue.try_put_awaited(job).unwrap();
        }
        queue.put("notice");
        assert_eq!(queue.try_put_awaited("d"), Err("d"));
        assert_eq!(queue.take().jobs.len(), 4);
    }
}

#[test]
fn notices_need_no_place() {
    let queue = queue(0, 0);
    queue.put("stop");
    assert_eq!(queue.take().jobs, ["stop"]);
}

#[test]
fn log_records_beyond_the_limit_are_counted() {
    let queue = queue(0, 2);
    for _ in 0..5 {
        queue.put_log_record("info", false);
    }
    let batch = queue.take();
    assert_eq!((batch.jobs.as_slice(), batch.dropped_log_records), (["info", "info"].as_slice(), 3));

    queue.put_log_record("info", false);
    let batch = queue.take();
    assert_eq!((batch.jobs.as_slice(), batch.dropped_log_records), (["info"].as_slice(), 0));
}

#[test]
fn warnings_fit_where_other_records_do_not() {
    let queue = queue(0, 2);
    for _ in 0..3 {
        queue.put_log_record("info", false);
    }
    for _ in 0..3 {
        queue.put_log_record("error", true);
    }
    let batch = queue.take();
    assert_eq!(batch.jobs, ["info", "info", "error", "error"]);
    assert_eq!(batch.dropped_log_records, 2);
}

#[test]
fn a_thread_that_flushes_wakes_up_the_event_loop_once_for_several_jobs() {
    let queue = queue(0, 0);
    let wake_ups = |queue: &JobQueue<&str>| {
        // SAFETY is not needed: the queue owns the descriptor and outlives the duplicate.
        let descriptor = queue.fileno().as_raw_fd();
        readable_bytes(descriptor)
    };
    queue.flush();
    queue.put("one");
    assert_eq!(wake_ups(&queue), 0);
    queue.put("two");
    queue.flush();
    queue.flush();
    assert_eq!(wake_ups(&queue), 1);
    assert_eq!(queue.take().jobs.len(), 2);
    assert_eq!(wake_ups(&queue), 0);
    for _ in 0..8 {
        queue.put("many");
    }
    assert_eq!(wake_ups(&queue), 1);
}

#[allow(unsafe_code)]
fn readable_bytes(descriptor: i32) -> i32 {
    // SAFETY: the descriptor is open as long as the queue lives, and FIONREAD writes one integer.
    unsafe {
        let mut bytes = 0;
        let descriptor = BorrowedFd::borrow_raw(descriptor);
        assert_eq!(libc::ioctl(descriptor.as_raw_fd(), libc::FIONREAD, &mut bytes), 0);
        bytes
    }
}
