//! One process, one session at a time, and the change to another: a new one, or a stored one that a turn names.
//!
//! The next session is opened before the one there is ends, so a session that cannot be opened changes nothing. What
//! belongs to a session ends with it: its background work, its record, its lock. Model, permissions, servers and the
//! client's own hooks stay. Outputs too large for the model are kept with the session the process began with.

use std::sync::{Arc, PoisonError};

use tenon_core::{Failure, Id};
use tenon_session::{Conversation, Place};
use tenon_tools::SessionSource;
use tenon_wire::input::{InputPart, SessionRef, Turn};

use crate::session::{self, Beginning, Begun, Origin, Recording};
use crate::stream_session::{StreamHost, turns_in};
use crate::subagents;

impl StreamHost {
    /// The conversation that the turn belongs to, if it is not the one there is.
    pub(crate) fn change_session(&mut self, turn: &Turn) -> Result<Option<Conversation>, Failure> {
        // A failed start is told with the turn.
        let Ok(live) = &mut self.live else { return Ok(None) };
        let (id, origin) = match &turn.session {
            SessionRef::Current => return Ok(None),
            SessionRef::New if live.parts.is_blank => return Ok(None),
            SessionRef::New => (self.ids.next(), Origin::New),
            SessionRef::Id(text) => match Id::parse(text) {
                Some(id) if id == live.agent.info.session_id => return Ok(None),
                Some(id) if self.args.no_session => (self.ids.next(), Origin::Forked(id)),
                Some(id) => (id, Origin::Resumed(id)),
                None => return Err(session::missing(text, &[], &self.here)),
            },
        };
        let cwd = live.agent.info.cwd.clone();
        let beginning = Beginning {
            id,
            cwd: &cwd,
            prompt: title(turn),
            mirror: self.mirror.as_ref().and_then(|mirror| mirror(id)),
            file: Begun::WithTheFirstTurn,
        };
        let (secrets, providers) = match &self.kit {
            Some(kit) => (kit.secrets.clone(), kit.providers.clone()),
            None => Default::default(),
        };
        let recording = Recording { secrets, providers, model: live.agent.info.model.clone() };
        let mut warnings = Vec::new();
        let opened = session::open(&self.args, &self.here, origin, &beginning, &recording, &mut warnings)?;

        let ending = session::Ending::of(&opened, &self.here, &self.settings);
        let (before, outcome) = {
            let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
            (record.ending.replace(ending), record.last.take())
        };
        let (background, reporter) = (live.agent.background.clone(), self.reporter);
        let (sink, ids) = (Arc::clone(&self.sink), Arc::clone(&self.ids));
        // Its work may take a moment to end, and the client is listened to meanwhile.
        let farewell = Box::pin(async move {
            background.end(sink, ids).await;
            if let (Some(before), Some(outcome)) = (before, outcome) {
                before.finish(&outcome, reporter);
            }
        });
        let home = self.here.tenon_home.as_ref().filter(|_| !self.args.no_session);
        let transcript = home.map(|home| Place::of(home, &cwd).session_file(id));
        let background = subagents::background(&self.settings, &self.ids);
        let agent = &mut live.agent;
        let mut own = (live.parts.main_tools)(&background.tasks);
        own.extend(background.schedules.tools());
        own.into_iter().for_each(|tool| {
            agent.registry.replace(tool);
        });
        if let Some(kit) = &self.kit {
            kit.workspace.forget_reads();
        }
        agent.registry.recall(&opened.known);
        agent.background = background;
        agent.journal = opened.journal;
        agent.info.session_id = id;
        agent.hooks = agent.hooks.in_session(id.to_string(), transcript);
        agent.session_start = Some(match origin {
            Origin::New => SessionSource::Startup,
            Origin::Resumed(_) | Origin::Forked(_) => SessionSource::Resume,
        });
        agent.warnings = warnings;
        live.parts.is_blank = origin == Origin::New;
        live.offer_helpers();
        // Those that this process has seen are counted by themselves.
        let seen = self.spent().turns;
        self.turns_before = turns_in(&opened.history).saturating_sub(seen);
        Ok(Some(Conversation { session_id: id, history: opened.history, farewell }))
    }
}

/// What the session is listed by: the first words of its first turn.
fn title(turn: &Turn) -> &str {
    let mut texts = turn.parts.iter().filter_map(|part| match part {
        InputPart::Text(text) => Some(text.as_str()),
        InputPart::File(_) | InputPart::FunctionResponse { .. } => None,
    });
    texts.next_back().unwrap_or_default()
}
