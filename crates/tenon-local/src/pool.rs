//! Threads that share the multiplications of one model.
//!
//! A hundred times for every token the work is cut into parts, and whoever is free takes the next one. Nobody
//! waits for a thread that has not begun: on a machine with other things to do, the caller does the work of
//! threads that do not get their turn.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::sys::{Lent, Work};

/// How often an idle thread looks for work before it sleeps: about as long as waking it would take.
const LOOKS: u32 = 2_000;

pub(crate) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared {
    work: Lent,
    /// Which loan this is, and how many of its parts are taken: one number, so that a thread that is late cannot take
    /// a part of the next loan for one of the last.
    taken: AtomicU64,
    parts: AtomicU32,
    done: AtomicU32,
    panicked: AtomicBool,
    stop: AtomicBool,
    sleepers: AtomicUsize,
    sleep: Mutex<()>,
    wake: Condvar,
}

impl Pool {
    /// `threads` counts the caller. One that cannot be started is done without.
    pub(crate) fn new(threads: usize) -> Pool {
        let shared = Arc::new(Shared {
            work: Lent::nothing(),
            taken: AtomicU64::new(0),
            parts: AtomicU32::new(0),
            done: AtomicU32::new(0),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
        });
        let workers = (1..threads)
            .filter_map(|_| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new().name("tenon-local".into()).spawn(move || shared.serve()).ok()
            })
            .collect();
        Pool { shared, workers }
    }

    pub(crate) fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Does `work` for every part in `0..parts`; returns when all of them are done.
    pub(crate) fn run(&mut self, parts: usize, work: &(dyn Fn(usize) + Sync)) {
        if self.workers.is_empty() || parts < 2 {
            (0..parts).for_each(work);
            return;
        }
        let shared = &*self.shared;
        let work = Work(work);
        shared.work.lend(&work);
        shared.done.store(0, Ordering::Relaxed);
        shared.parts.store(parts as u32, Ordering::Relaxed);
        let loan = (shared.taken.load(Ordering::Relaxed) >> 32) + 1;
        shared.taken.store(loan << 32, Ordering::SeqCst);
        if shared.sleepers.load(Ordering::SeqCst) > 0 {
            drop(shared.sleep.lock().unwrap_or_else(PoisonError::into_inner));
            shared.wake.notify_all();
        }
        shared.take_parts(loan);
        let mut looks = 0_u32;
        while shared.done.load(Ordering::Acquire) < parts as u32 {
            looks += 1;
            // What is missing was taken by a thread that has lost its turn: let it have this one's.
            if looks.is_multiple_of(LOOKS) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        if shared.panicked.swap(false, Ordering::Relaxed) {
            resume_unwind(Box::new("a part of the work panicked"));
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        drop(self.shared.sleep.lock().unwrap_or_else(PoisonError::into_inner));
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn serve(&self) {
        let mut last = 0;
        while let Some(loan) = self.next_loan(last) {
            self.take_parts(loan);
            last = loan;
        }
    }

    /// `None` when there will be no more.
    fn next_loan(&self, last: u64) -> Option<u64> {
        for _ in 0..LOOKS {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            let loan = self.taken.load(Ordering::Acquire) >> 32;
            if loan != last {
                return Some(loan);
            }
            std::hint::spin_loop();
        }
        let mut sleep = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let found = loop {
            if self.stop.load(Ordering::SeqCst) {
                break None;
            }
            let loan = self.taken.load(Ordering::SeqCst) >> 32;
            if loan != last {
                break Some(loan);
            }
            sleep = self.wake.wait(sleep).unwrap_or_else(PoisonError::into_inner);
        };
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        found
    }

    fn take_parts(&self, loan: u64) {
        loop {
            let taken = self.taken.load(Ordering::Acquire);
            let part = taken & u64::from(u32::MAX);
            if taken >> 32 != loan || part >= u64::from(self.parts.load(Ordering::Relaxed)) {
                return;
            }
            if self
                .taken
                .compare_exchange_weak(taken, taken + 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
            {
                continue;
            }
            if catch_unwind(AssertUnwindSafe(|| self.work.perform(part as usize))).is_err() {
                self.panicked.store(true, Ordering::Relaxed);
            }
            self.done.fetch_add(1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_done_once() {
        for threads in [1, 2, 4] {
            let mut pool = Pool::new(threads);
            for parts in [0, 1, 2, 7, 64] {
                for _ in 0..200 {
                    let counts: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
                    pool.run(parts, &|part| {
                        counts[part].fetch_add(1, Ordering::Relaxed);
                    });
                    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
                }
            }
        }
    }

    #[test]
    fn a_part_that_panics_fails_the_work_and_not_the_pool() {
        let mut pool = Pool::new(3);
        let failed = catch_unwind(AssertUnwindSafe(|| pool.run(8, &|part| assert!(part != 5))));
        assert!(failed.is_err());
        pool.run(8, &|_| {});
    }
}
