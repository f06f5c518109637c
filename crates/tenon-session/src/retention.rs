//! Old sessions go away by themselves: those not written for so many days, looked for at most once a day.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::list::{places, session_files};
use crate::place::{make_folder, projects};
use crate::{Place, SessionError, delete};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Its time of change is when old sessions were looked for last.
const MARK: &str = ".cleaned";

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    pub sessions: usize,
}

/// Deletes what was not written for `days` days; 0 keeps everything. A session in use stays, however old.
pub fn clean_once_a_day(tenon_home: &Path, days: u32, now: SystemTime) -> io::Result<Cleaned> {
    let mut cleaned = Cleaned::default();
    let Some(limit) = now.checked_sub(DAY * days).filter(|_| days > 0) else { return Ok(cleaned) };
    let mark = projects(tenon_home).join(MARK);
    let is_recent = |time: SystemTime| now.duration_since(time).is_ok_and(|age| age < DAY);
    if mark.metadata().and_then(|meta| meta.modified()).is_ok_and(is_recent) {
        return Ok(cleaned);
    }
    make_folder(&projects(tenon_home))?;
    // First, so that others who end at the same time do not look as well.
    File::create(&mark)?.set_modified(now)?;
    for place in places(tenon_home)? {
        for (path, id) in session_files(&place)?.sessions {
            if is_older(&path, limit) {
                match delete(&place, id) {
                    Ok(()) => cleaned.sessions += 1,
                    Err(SessionError::Unwritable { error, .. }) => return Err(error),
                    // In use, or somebody else was faster.
                    Err(_) => {}
                }
            }
        }
        remove_lonely_outputs(&place, limit);
    }
    Ok(cleaned)
}

/// Outputs of sessions that were never recorded, or whose file is gone.
fn remove_lonely_outputs(place: &Place, limit: SystemTime) {
    for entry in std::fs::read_dir(place.all_outputs()).into_iter().flatten().flatten() {
        let session = place.chats().join(entry.file_name()).with_extension("jsonl");
        if !session.exists() && is_older(&entry.path(), limit) {
            // The next look has another chance.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    place.remove_if_empty();
}

fn is_older(path: &Path, limit: SystemTime) -> bool {
    path.metadata().and_then(|meta| meta.modified()).is_ok_and(|modified| modified < limit)
}
