//! What is still said when a second signal ends the process at once: how to go on with what is kept.
//!
//! Who listens for signals is `signals.rs`; what a run says that ends in order is its own.

use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::stderr::line;

/// Nobody may read stderr any more, and whoever signals twice does not want to wait.
const BRIEFLY: Duration = Duration::from_secs(1);

static WORDS: Mutex<Option<Words>> = Mutex::new(None);

#[derive(Clone)]
enum Words {
    /// Most runs end without them, so they are put together when they may be needed.
    Unmade(Arc<dyn Fn() -> String + Send + Sync>),
    Ready(String),
}

/// From now on this would be said, instead of anything before it.
pub fn are(words: impl Fn() -> String + Send + Sync + 'static) {
    *current() = Some(Words::Unmade(Arc::new(words)));
}

/// Whatever there is to say is said elsewhere.
pub fn none() {
    *current() = None;
}

/// The first signal has come. Does not wait.
pub fn prepare() {
    std::thread::spawn(|| {
        let words = current().clone();
        let Some(Words::Unmade(make)) = words else { return };
        let text = make();
        let mut words = current();
        // There may be something else to say by now.
        if matches!(&*words, Some(Words::Unmade(now)) if Arc::ptr_eq(now, &make)) {
            *words = Some(Words::Ready(text));
        }
    });
}

/// Says it, unless that takes long, or a run that ends in order has come first.
pub fn say() {
    let Some(words) = current().clone() else { return };
    let (said, heard) = mpsc::channel();
    std::thread::spawn(move || {
        let text = match words {
            Words::Unmade(make) => make(),
            Words::Ready(text) => text,
        };
        let still = current();
        if still.is_some() {
            line(&text);
        }
        // Whoever waited may have gone.
        let _ = said.send(());
    });
    let _ = heard.recv_timeout(BRIEFLY);
}

fn current() -> MutexGuard<'static, Option<Words>> {
    WORDS.lock().unwrap_or_else(PoisonError::into_inner)
}
