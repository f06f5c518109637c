//! Messages under every order of events: senders, readers that begin, read, end, fail, are tried again and are cut off, and a
//! process that dies anywhere. Each message is read once or dropped with its reason, everybody who should know is told, and an
//! attempt is told once, in order, what the attempts before it were told.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use tenon_agent::{Mail, Mailbox, Stop};
use tenon_core::BoxFut;
use tokio::sync::Semaphore;

use super::*;
use crate::event::{FlowEvent, FlowSink};
use crate::{LoadOptions, load};

/// Steps of every kind: plain ones, items of a loop, steps inside the rounds of another, one that is included.
const STEPS: [&str; 8] = ["a", "b", "c", "each[0]", "each[1]", "lp.0.x", "lp.1.x", "inc.y"];
/// What is around some of them.
const WRAPPERS: [&str; 4] = ["each", "lp", "lp.0", "inc"];
/// Nobody will ever read there.
const NOWHERE: [&str; 9] = ["nowhere", "each", "lp", "lp.0", "inc", "lp.7.x", "each[2]", "lp.0.z", "inc.y.q"];

const DOCUMENT: &str = "
name: n
steps:
  - {id: a, instructions: A.}
  - {id: b, instructions: B.}
  - {id: c, instructions: C.}
  - {id: each, instructions: E., loop: {forEach: [1, 2]}}
  - {id: lp, loop: {maxIterations: 2, steps: [{id: x, instructions: X.}]}}
  - {id: inc, include: inc.yaml}
";

fn flow() -> Arc<LoadedWorkflow> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("main.yaml");
    std::fs::write(&file, DOCUMENT).unwrap();
    let included = "name: i\nsteps:\n  - {id: y, instructions: Y.}\n";
    std::fs::write(folder.path().join("inc.yaml"), included).unwrap();
    Arc::new(load(&file, &LoadOptions::default()).unwrap())
}

/// What is on the disk. Survives every process.
#[derive(Default)]
struct Disk {
    rows: Mutex<Vec<Signal>>,
    /// Closed while a write is to hang.
    gate: Option<Arc<Semaphore>>,
    /// Writes are kept, and nobody is told.
    hangs: AtomicBool,
    broken: bool,
}

impl SignalJournal for Disk {
    fn write(&self, signals: Vec<Signal>) -> BoxFut<'static, Result<(), String>> {
        if self.broken {
            return Box::pin(async { Err("the disk is full".to_owned()) });
        }
        // On the disk at once; whoever waits may never hear of it.
        self.rows.lock().unwrap().extend(signals);
        let (gate, hangs) = (self.gate.clone(), self.hangs.load(Ordering::Relaxed));
        Box::pin(async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            if let Some(gate) = gate {
                let _ = gate.acquire().await;
            }
            Ok(())
        })
    }
}

#[derive(Default)]
struct Heard(Mutex<Vec<FlowEventData>>);

impl FlowSink for Heard {
    fn emit(&self, event: FlowEvent) {
        self.0.lock().unwrap().push(event.data);
    }
}

impl Heard {
    fn sent(&self) -> Vec<String> {
        self.pick(|data| match data {
            FlowEventData::MessageSent(sent) => Some(sent.id.clone()),
            _ => None,
        })
    }

    fn read(&self) -> Vec<String> {
        self.pick(|data| match data {
            FlowEventData::AgentInboxDrain(read) => Some(read.id.clone()),
            FlowEventData::CoordinatorInboxMessage(read) => read.id.clone(),
            _ => None,
        })
    }

    fn dropped(&self) -> Vec<(String, DropReason)> {
        self.pick(|data| match data {
            FlowEventData::MessageDropped(dropped) => Some((dropped.id.clone(), dropped.reason)),
            _ => None,
        })
    }

    fn pick<T>(&self, pick: impl Fn(&FlowEventData) -> Option<T>) -> Vec<T> {
        self.0.lock().unwrap().iter().filter_map(pick).collect()
    }
}

/// One process, and what outlives it.
struct World {
    flow: Arc<LoadedWorkflow>,
    disk: Arc<Disk>,
    heard: Arc<Heard>,
    post: Arc<Post>,
    readers: HashMap<&'static str, (Reader, u32)>,
    /// Rows of conversations: which messages each attempt of a step was told.
    told: Conversations,
    completed: HashSet<&'static str>,
    /// Steps that failed for good in this process; the next one tries them again.
    failed: HashSet<&'static str>,
    /// What waited when this process began.
    pending: HashSet<String>,
}

impl World {
    fn new(flow: &Arc<LoadedWorkflow>) -> World {
        World::on(flow, Arc::default(), Conversations::default(), HashSet::new())
    }

    fn on(
        flow: &Arc<LoadedWorkflow>,
        disk: Arc<Disk>,
        told: Conversations,
        completed: HashSet<&'static str>,
    ) -> World {
        let records = disk.rows.lock().unwrap().clone();
        let signals = Signals {
            mail_told: told.all().cloned().collect(),
            ended: completed.iter().map(|step| (*step).to_owned()).collect(),
            journal: Arc::clone(&disk) as Arc<dyn SignalJournal>,
            records: records.clone(),
        };
        let settled: HashSet<String> = records
            .iter()
            .filter_map(|signal| match signal {
                Signal::MessageDropped { id, .. } | Signal::MessageDelivered { id } => Some(id.clone()),
                _ => None,
            })
            .chain(signals.mail_told.iter().cloned())
            .collect();
        let sent = records.iter().filter_map(|signal| match signal {
            Signal::MessageSent { letter } => Some(letter.id.clone()),
            _ => None,
        });
        let pending = sent.filter(|id| !settled.contains(id)).collect();
        let heard = Arc::new(Heard::default());
        let events = Arc::new(FlowEmitter::new("r", Arc::clone(&heard) as Arc<dyn FlowSink>));
        let post = Arc::new(Post::new(Arc::clone(flow), events, &signals, Coordination::Off));
        World {
            flow: Arc::clone(flow),
            disk,
            heard,
            post,
            readers: HashMap::new(),
            told,
            completed,
            failed: HashSet::new(),
            pending,
        }
    }

    async fn send(&self, from: &str, to: &str) -> Sent {
        let (from, to) = (Address::Step(from.to_owned()), Address::Step(to.to_owned()));
        self.post.send("msg-send", from, to, MessageType::Info, "text").await
    }

    fn is_over(&self, step: &str) -> bool {
        self.completed.contains(step) || self.failed.contains(step)
    }

    fn open(&mut self, step: &'static str) {
        if !self.is_over(step) && !self.readers.contains_key(step) {
            self.post.begins(step);
            let told = self.told.of_attempt(step).iter().cloned().collect();
            let reader = Reader::new(&self.post, Address::Step(step.to_owned()), Stop::default(), &told);
            self.readers.insert(step, (reader, 0));
        }
    }

    /// As the loop of an agent reads: kept first, then marked.
    fn turn(&mut self, step: &'static str) {
        let Some((reader, _)) = self.readers.get(step) else { return };
        let Some(mail) = reader.take() else { return };
        self.told.of_attempt(step).extend(letters(&mail));
        reader.told(&mail);
    }

    async fn finish(&mut self, step: &'static str) {
        loop {
            let Some((reader, woken)) = self.readers.get_mut(step) else { return };
            if reader.wakes(*woken).await {
                *woken += 1;
                self.turn(step);
            } else if reader.close() {
                break;
            }
        }
        self.readers.remove(step);
        self.completed.insert(step);
        self.told.check(step);
        self.post.read_to_the_end(&Address::Step(step.to_owned()), AfterReading::Nobody).await;
    }

    /// The process dies; another goes on. Steps that had failed begin anew, and nobody knows what they were told.
    fn crash(mut self) -> World {
        self.failed.iter().for_each(|step| drop(self.told.0.remove(step)));
        World::on(&self.flow.clone(), self.disk.clone(), self.told.clone(), self.completed.clone())
    }

    /// A loop or an include is tried again, with everything inside it, whatever had become of that.
    fn wrapper_again(&mut self, wrapper: &'static str) {
        for step in STEPS.into_iter().filter(|step| around(step).any(|around| around == wrapper)) {
            self.readers.remove(step);
            self.told.another_attempt(step);
            self.completed.remove(step);
            self.failed.remove(step);
        }
        self.post.tried_again(wrapper);
    }

    /// A loop or an include is over, with everything inside it, whether or not that ever ran.
    fn wrapper_over(&mut self, wrapper: &'static str, dropped: Dropped) {
        let inside: Vec<&'static str> =
            STEPS.into_iter().filter(|step| around(step).any(|around| around == wrapper)).collect();
        for step in inside {
            self.readers.remove(step);
            match dropped {
                Dropped::ForGood => self.completed.insert(step),
                Dropped::UntilResumed => self.failed.insert(step),
            };
        }
        self.post.over(wrapper, dropped);
    }

    /// The run is stopped in order, and goes on later.
    async fn stop(self) -> World {
        self.post.end(DropReason::WorkflowCancelled, Dropped::UntilResumed).await;
        self.check_told();
        self.crash()
    }

    /// What must hold of a process that came to its end.
    fn check(&self) {
        self.check_told();
        self.check_kept();
    }

    /// Whoever listens hears of every message what became of it, once.
    fn check_told(&self) {
        let mut fates: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for id in self.heard.read() {
            fates.entry(id).or_default().push("read".to_owned());
        }
        for (id, reason) in self.heard.dropped() {
            fates.entry(id).or_default().push(reason.name().to_owned());
        }
        for id in self.heard.sent().iter().chain(&self.pending) {
            assert_eq!(fates.get(id).map(Vec::len), Some(1), "{id}: {fates:?}");
        }
        for (id, fate) in &fates {
            assert_eq!(fate.len(), 1, "{id}: {fate:?}");
        }
    }

    /// Over all processes.
    fn check_kept(&self) {
        let seen: HashSet<String> = self.told.all().cloned().collect();
        // What was told is not dropped for good, and everything that was sent came to one of the two.
        let rows = self.disk.rows.lock().unwrap();
        let gone: Vec<&String> = rows
            .iter()
            .filter_map(|row| match row {
                Signal::MessageDropped { id, .. } => Some(id),
                _ => None,
            })
            .collect();
        assert!(gone.iter().all(|id| !seen.contains(*id)), "told and dropped");
        let once: HashSet<&&String> = gone.iter().collect();
        assert_eq!(once.len(), gone.len(), "dropped twice: {gone:?}");
        for row in rows.iter() {
            let Signal::MessageSent { letter } = row else { continue };
            let ended_its_reader =
                |row: &Signal| matches!(row, Signal::MessageDelivered { id } if *id == letter.id);
            let known =
                seen.contains(&letter.id) || gone.contains(&&letter.id) || rows.iter().any(ended_its_reader);
            assert!(known, "nobody knows what became of {}", letter.id);
        }
    }
}

/// What the attempts of each step were told, the last one's at the end.
#[derive(Clone, Default)]
struct Conversations(HashMap<&'static str, Vec<Vec<String>>>);

impl Conversations {
    fn all(&self) -> impl Iterator<Item = &String> {
        self.0.values().flatten().flatten()
    }

    fn of_attempt(&mut self, step: &'static str) -> &mut Vec<String> {
        let attempts = self.0.entry(step).or_default();
        if attempts.is_empty() {
            attempts.push(Vec::new());
        }
        attempts.last_mut().unwrap()
    }

    fn another_attempt(&mut self, step: &'static str) {
        self.0.entry(step).or_default().push(Vec::new());
    }

    /// An attempt that has come to its end was told everything once, first what those before it were told.
    fn check(&mut self, step: &'static str) {
        let last = self.of_attempt(step).clone();
        let once: HashSet<&String> = last.iter().collect();
        assert_eq!(once.len(), last.len(), "{step} was told something twice: {last:?}");
        let before = self.0[step].iter().flatten().fold(Vec::new(), |mut all: Vec<String>, id| {
            if !all.contains(id) {
                all.push(id.clone());
            }
            all
        });
        assert_eq!(before, last, "{step} was not told what its earlier attempts were told");
    }
}

fn letters(mail: &Mail) -> impl Iterator<Item = String> {
    mail.ids.clone().into_iter().filter(|id| id.starts_with("msg"))
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Send(usize, usize),
    /// Ends its reader.
    Cancel(usize, usize),
    /// The sender is dropped while its message is being kept.
    SendCut(usize, usize),
    Unknown(usize, usize),
    ToNobody(usize),
    Open(usize),
    Turn(usize),
    /// Kept, and the reader dropped before it marks what it read.
    TurnCut(usize),
    /// The attempt is dropped with messages in its hand that were not kept, and perhaps tried again.
    TurnLost(usize),
    Finish(usize),
    /// The attempt ends; the step may be tried again.
    Fail(usize),
    /// Its time is over; nobody waits for it, and it is not tried again.
    TimedOut(usize),
    Skip(usize),
    WrapperOver(usize),
    WrapperFailed(usize),
    WrapperAgain(usize),
    Stop,
    Crash,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let step = 0..STEPS.len();
    let op = prop_oneof![
        6 => (step.clone(), step.clone()).prop_map(|(from, to)| Op::Send(from, to)),
        1 => (step.clone(), step.clone()).prop_map(|(from, to)| Op::SendCut(from, to)),
        1 => (step.clone(), step.clone()).prop_map(|(from, to)| Op::Cancel(from, to)),
        1 => (step.clone(), 0..NOWHERE.len()).prop_map(|(from, to)| Op::Unknown(from, to)),
        1 => step.clone().prop_map(Op::ToNobody),
        4 => step.clone().prop_map(Op::Open),
        4 => step.clone().prop_map(Op::Turn),
        1 => step.clone().prop_map(Op::TurnCut),
        1 => step.clone().prop_map(Op::TurnLost),
        2 => step.clone().prop_map(Op::Finish),
        2 => step.clone().prop_map(Op::Fail),
        1 => step.clone().prop_map(Op::TimedOut),
        1 => step.prop_map(Op::Skip),
        1 => (0..WRAPPERS.len()).prop_map(Op::WrapperOver),
        1 => (0..WRAPPERS.len()).prop_map(Op::WrapperFailed),
        1 => (0..WRAPPERS.len()).prop_map(Op::WrapperAgain),
        1 => Just(Op::Stop),
        1 => Just(Op::Crash),
    ];
    proptest::collection::vec(op, 0..80)
}

async fn play(ops: &[Op], flow: &Arc<LoadedWorkflow>) {
    let mut world = World::new(flow);
    for op in ops {
        match *op {
            Op::Send(from, to) => drop(world.send(STEPS[from], STEPS[to]).await),
            Op::SendCut(from, to) => {
                world.disk.hangs.store(true, Ordering::Relaxed);
                {
                    let sending = world.send(STEPS[from], STEPS[to]);
                    tokio::pin!(sending);
                    assert!(futures_util::poll!(sending.as_mut()).is_pending());
                }
                world.disk.hangs.store(false, Ordering::Relaxed);
            }
            Op::Cancel(from, to) => {
                let (from, to) = (Address::Step(STEPS[from].to_owned()), STEPS[to]);
                let address = Address::Step(to.to_owned());
                let sent = world.post.send("msg-fwd", from, address.clone(), MessageType::Cancel, "x").await;
                if matches!(sent, Sent::Queued(_)) && world.post.was_cancelled(&address) {
                    // As a step ends that was told to stop.
                    world.readers.remove(to);
                    world.completed.insert(to);
                    world.post.read_to_the_end(&address, AfterReading::Nobody).await;
                }
            }
            Op::Unknown(from, to) => {
                let sent = world.send(STEPS[from], NOWHERE[to]).await;
                assert!(matches!(sent, Sent::Dropped(DropReason::UnknownStep)), "{} {sent:?}", NOWHERE[to]);
            }
            Op::ToNobody(from) => {
                let from = Address::Step(STEPS[from].to_owned());
                let sent =
                    world.post.send("msg-send", from, Address::Coordinator, MessageType::Info, "x").await;
                assert_eq!(sent, Sent::Dropped(DropReason::NoCoordinator));
            }
            Op::Open(step) => world.open(STEPS[step]),
            Op::Turn(step) => world.turn(STEPS[step]),
            Op::TurnCut(step) => {
                let Some((reader, _)) = world.readers.get(STEPS[step]) else { continue };
                if let Some(mail) = reader.take() {
                    world.told.of_attempt(STEPS[step]).extend(letters(&mail));
                }
                // Only a process that dies leaves it so.
                world = world.crash();
            }
            Op::Finish(step) => world.finish(STEPS[step]).await,
            Op::Fail(step) => {
                if world.readers.remove(STEPS[step]).is_some() {
                    let address = Address::Step(STEPS[step].to_owned());
                    world.post.read_to_the_end(&address, AfterReading::MaybeAnother).await;
                    world.post.tried_again(STEPS[step]);
                    world.told.another_attempt(STEPS[step]);
                }
            }
            Op::TurnLost(step) => {
                if let Some((reader, _)) = world.readers.remove(STEPS[step]) {
                    let _ = reader.take();
                    world.told.another_attempt(STEPS[step]);
                }
            }
            Op::TimedOut(step) => {
                if world.readers.remove(STEPS[step]).is_some() {
                    world.failed.insert(STEPS[step]);
                    world.post.over(STEPS[step], Dropped::UntilResumed);
                }
            }
            Op::Skip(step) => {
                if !world.readers.contains_key(STEPS[step]) && !world.is_over(STEPS[step]) {
                    world.failed.insert(STEPS[step]);
                    world.post.over(STEPS[step], Dropped::UntilResumed);
                }
            }
            Op::WrapperOver(wrapper) => world.wrapper_over(WRAPPERS[wrapper], Dropped::ForGood),
            Op::WrapperFailed(wrapper) => world.wrapper_over(WRAPPERS[wrapper], Dropped::UntilResumed),
            Op::WrapperAgain(wrapper) => world.wrapper_again(WRAPPERS[wrapper]),
            Op::Stop => world = world.stop().await,
            Op::Crash => world = world.crash(),
        }
    }
    if !world.failed.is_empty() {
        // A run that failed goes on once more, and succeeds.
        world = world.stop().await;
    }
    for step in STEPS {
        world.open(step);
        world.finish(step).await;
    }
    world.post.end(DropReason::TargetTerminal, Dropped::ForGood).await;
    world.check();
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(work)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(tenon_testkit::cases(400)))]

    #[test]
    fn every_message_is_read_once_or_dropped_with_its_reason(ops in ops()) {
        let flow = flow();
        block_on(play(&ops, &flow));
    }
}

#[test]
fn every_reason_for_which_a_message_is_dropped() {
    let flow = flow();
    for reason in DropReason::ALL {
        let (dropped, told) = block_on(dropped_for(reason, &flow));
        assert_eq!(dropped, vec![reason], "{}", reason.name());
        assert_eq!(serde_json::to_value(reason).unwrap(), reason.name());
        if let Some(told) = told {
            assert_eq!(told, Sent::Dropped(reason));
        }
    }
}

/// Makes it happen: the reasons that events tell, and what the sender was told at once.
async fn dropped_for(reason: DropReason, flow: &Arc<LoadedWorkflow>) -> (Vec<DropReason>, Option<Sent>) {
    let mut world = World::new(flow);
    let a = || Address::Step("a".to_owned());
    let told = match reason {
        DropReason::WorkflowCancelled => {
            world.send("a", "b").await;
            world.post.end(reason, Dropped::UntilResumed).await;
            let rows = world.disk.rows.lock().unwrap().len();
            assert_eq!(rows, 1, "a run that goes on delivers it");
            None
        }
        DropReason::TargetTerminal => {
            world.open("b");
            world.finish("b").await;
            Some(world.send("a", "b").await)
        }
        DropReason::UnknownStep => Some(world.send("a", "each").await),
        DropReason::MailboxClosedByFinalize => {
            let signals = Signals::none();
            let events = Arc::new(FlowEmitter::new("r", Arc::clone(&world.heard) as Arc<dyn FlowSink>));
            let post = Post::new(Arc::clone(flow), events, &signals, Coordination::On);
            post.close_for(&Address::Coordinator, reason).await;
            Some(post.send("msg-send", a(), Address::Coordinator, MessageType::Info, "x").await)
        }
        DropReason::MaxWakeCycles => {
            world.open("b");
            for _ in 0..10 {
                world.send("a", "b").await;
                let (reader, woken) = world.readers.get_mut("b").unwrap();
                assert!(reader.wakes(*woken).await);
                *woken += 1;
                world.turn("b");
            }
            world.send("a", "b").await;
            let (reader, woken) = world.readers.get("b").unwrap();
            assert!(!reader.wakes(*woken).await && reader.close());
            None
        }
        DropReason::HoldTimeout => {
            let gate = Arc::new(Semaphore::new(0));
            let disk = Disk { gate: Some(Arc::clone(&gate)), ..Disk::default() };
            world = World::on(flow, Arc::new(disk), Conversations::default(), HashSet::new());
            world.open("b");
            let told = {
                let sending = world.send("a", "b");
                tokio::pin!(sending);
                assert!(futures_util::poll!(sending.as_mut()).is_pending());
                let (reader, _) = world.readers.get("b").unwrap();
                assert!(!reader.close(), "a message is on its way");
                assert!(!reader.wakes(0).await && reader.close());
                gate.add_permits(10);
                sending.await
            };
            Some(told)
        }
        DropReason::MailboxFull => {
            for _ in 0..MAX_UNREAD {
                assert!(matches!(world.send("a", "b").await, Sent::Queued(_)));
            }
            Some(world.send("a", "b").await)
        }
        DropReason::NoCoordinator => {
            Some(world.post.send("msg-send", a(), Address::Coordinator, MessageType::Info, "x").await)
        }
    };
    (world.heard.dropped().into_iter().map(|(_, reason)| reason).collect(), told)
}

#[test]
fn a_message_that_cannot_be_kept_is_not_sent() {
    let flow = flow();
    block_on(async {
        let disk = Disk { broken: true, ..Disk::default() };
        let mut world = World::on(&flow, Arc::new(disk), Conversations::default(), HashSet::new());
        assert_eq!(world.send("a", "b").await, Sent::NotKept("the disk is full".to_owned()));
        world.open("b");
        world.finish("b").await;
        assert!(world.heard.sent().is_empty() && world.told.all().next().is_none());
    });
}

#[test]
fn a_sender_hears_later_that_nobody_read_its_message() {
    let flow = flow();
    block_on(async {
        let mut world = World::new(&flow);
        world.open("a");
        assert_eq!(world.send("a", "b").await, Sent::Queued("msg-send-1".to_owned()));
        world.post.over("b", Dropped::ForGood);
        let (reader, _) = world.readers.get("a").unwrap();
        assert!(!reader.wakes(0).await, "it is no reason to go on");
        let mail = reader.take().unwrap();
        assert_eq!(mail.text, "Your message msg-send-1 to `b` was not read: target-terminal.");
    });
}
