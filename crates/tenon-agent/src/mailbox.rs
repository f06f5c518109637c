//! Where others leave word for an agent while it works: what the loop asks of a mailbox, and when.
//!
//! The agent reads between its turns, and once more before it ends. What is read is kept with its ids as a record of the
//! conversation before it is marked as told, so a run that goes on tells neither twice nor not at all. Who writes, and what
//! becomes of what nobody reads, is up to whoever implements this; a workflow's is `tenon-flow/src/post.rs`.

use tenon_core::{BoxFut, Failure, Message, Origin, TurnRecord};

use crate::run_state::Run;

pub trait Mailbox: Send + Sync {
    /// What has come and was not read, oldest first. It counts as unread until it is told.
    fn take(&self) -> Option<Mail>;

    /// The mail stands in the conversation for good.
    fn told(&self, mail: &Mail);

    /// The model has nothing more to do: is there mail to go on with? `woken` is how often there was, with this agent.
    fn wakes(&self, woken: u32) -> BoxFut<'_, bool>;

    /// The agent ends, unless something has come in the meantime. Whether nobody will read again.
    fn close(&self) -> bool;
}

/// What a model is told at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    pub ids: Vec<String>,
    pub text: String,
}

impl Run<'_> {
    /// Tells the model what has come since its last turn.
    pub(crate) async fn tell_mail(&mut self) -> Result<(), Failure> {
        let Some(mailbox) = self.agent.background.mailbox.clone() else { return Ok(()) };
        let Some(mail) = mailbox.take() else { return Ok(()) };
        let message = Message::user(mail.text.clone());
        let record = TurnRecord::UserMessage {
            message: message.clone(),
            origin: Origin::Notice,
            mail: mail.ids.clone(),
            ended: Vec::new(),
        };
        self.journal(record).await?;
        mailbox.told(&mail);
        self.add_told(message, Origin::Notice);
        Ok(())
    }

    /// The model has nothing more to do. Is there mail for it?
    pub(crate) async fn has_mail(&mut self) -> bool {
        let Some(mailbox) = self.agent.background.mailbox.clone() else { return false };
        let stop = self.agent.stop.cancel().clone();
        let wakes = tokio::select! {
            // Where there is nothing to wait for, the answer stands.
            biased;
            wakes = mailbox.wakes(self.woken) => wakes,
            // The loop says why.
            () = stop.cancelled() => return true,
        };
        self.woken += u32::from(wakes);
        wakes
    }
}
