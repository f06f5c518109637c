//! How long work that was told to stop is waited for.
//!
//! An agent ends by itself well before the grace is over, whatever its tools do, and says what it used (`tenon-agent`). What is
//! dropped when it is over is what comes before and around the agent. Putting away what a step changed comes after all this and has
//! the time that it takes.

use std::time::Duration;

use tenon_core::Cancel;

/// How long a step that was told to stop may take to say what it spent. Then it is dropped.
pub const CANCEL_GRACE: Duration = Duration::from_secs(2);
/// Of this, what its agent has: calls that do not end within it are dropped, and their commands killed.
pub(crate) const FOR_THE_AGENT: Duration = Duration::from_millis(1500);

/// `None` for work that was told to stop and did not.
pub(crate) async fn within_grace<T>(cancel: &Cancel, work: impl Future<Output = T>) -> Option<T> {
    let late = async {
        cancel.cancelled().await;
        tokio::time::sleep(CANCEL_GRACE).await;
    };
    tokio::select! {
        biased;
        done = work => Some(done),
        () = late => None,
    }
}
