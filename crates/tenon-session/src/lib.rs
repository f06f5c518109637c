//! Many turns with one history: session files and resumption.
