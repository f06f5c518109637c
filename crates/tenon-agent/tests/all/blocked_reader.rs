//! A reader that cannot keep up: the agent asks for no more of the answer until it has, loses nothing, and can still be
//! stopped.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use tenon_agent::{Audience, Limits, Stop};
use tenon_core::{
    BoxFut, Cancel, Delta, DeltaStream, Ending, ErrorClass, Event, EventKind, EventSink, Failure,
    FinishReason, ModelClient, Request, Signal,
};

use crate::script::plain_agent;

const PIECES: usize = 100;
const ROOM: usize = 10;

/// An answer in many pieces, and how many of them somebody asked for.
#[derive(Default)]
struct LongAnswer {
    taken: Arc<AtomicUsize>,
}

impl ModelClient for LongAnswer {
    fn stream(&self, _: Request, _: Cancel) -> DeltaStream {
        let taken = Arc::clone(&self.taken);
        let pieces = (0..PIECES).map(|at| Ok(Delta::Text(format!("{at} "))));
        let answer = pieces.chain([Ok(Delta::Finished(FinishReason::Stop))]);
        Box::pin(futures_util::stream::iter(answer.collect::<Vec<_>>()).inspect(move |_| {
            taken.fetch_add(1, Ordering::SeqCst);
        }))
    }
}

/// Room for so many pieces, until it is read.
#[derive(Default)]
struct Pipe {
    pieces: Mutex<Vec<String>>,
    read: Cancel,
}

impl EventSink for Pipe {
    fn emit(&self, event: Event) {
        if let EventKind::PartDelta { text, .. } = event.kind {
            self.pieces.lock().unwrap().push(text);
        }
    }

    fn blocked(&self) -> Option<BoxFut<'_, ()>> {
        let is_full = self.pieces.lock().unwrap().len() >= ROOM;
        (is_full && !self.read.is_cancelled()).then(|| Box::pin(self.read.cancelled()) as BoxFut<'_, ()>)
    }
}

struct Scene {
    model: Arc<LongAnswer>,
    pipe: Arc<Pipe>,
    stop: Stop,
}

impl Scene {
    fn new() -> Scene {
        Scene { model: Arc::default(), pipe: Arc::default(), stop: Stop::default() }
    }

    fn run(&self, limits: Limits) -> BoxFut<'static, tenon_agent::Ended> {
        let mut agent = plain_agent(Arc::clone(&self.model) as Arc<dyn ModelClient>);
        agent.audience = Audience::Live;
        agent.stop = self.stop.clone();
        agent.limits = limits;
        Box::pin(tenon_agent::run(agent, Arc::clone(&self.pipe) as Arc<dyn EventSink>))
    }
}

#[tokio::test]
async fn the_agent_waits_for_its_reader_and_loses_nothing() {
    let scene = Scene::new();
    let mut run = pin!(scene.run(Limits::default()));
    // However often it is asked, nothing more comes of it.
    for _ in 0..1000 {
        assert!(futures_util::poll!(&mut run).is_pending());
        tokio::task::yield_now().await;
    }
    assert_eq!(scene.model.taken.load(Ordering::SeqCst), ROOM);
    scene.pipe.read.cancel();
    let ended = run.await;
    assert!(matches!(ended.outcome.ending, Ending::Success(_)));
    let told: String = scene.pipe.pieces.lock().unwrap().concat();
    assert_eq!(told, (0..PIECES).map(|at| format!("{at} ")).collect::<String>());
}

#[tokio::test]
async fn a_run_whose_reader_never_reads_can_be_stopped() {
    let scene = Scene::new();
    let mut run = pin!(scene.run(Limits::default()));
    while scene.model.taken.load(Ordering::SeqCst) < ROOM {
        assert!(futures_util::poll!(&mut run).is_pending());
        tokio::task::yield_now().await;
    }
    scene.stop.now(Failure::new(ErrorClass::Interrupted(Signal::Int), "enough"));
    let Ending::Failure(failure) = &run.await.outcome.ending else { panic!("it succeeded") };
    assert_eq!((failure.class, failure.message.as_str()), (ErrorClass::Interrupted(Signal::Int), "enough"));
}

/// Wall time runs while nobody reads.
#[tokio::test]
async fn a_run_whose_reader_never_reads_uses_up_its_time() {
    let scene = Scene::new();
    let limits = Limits { wall_time: Some(Duration::from_millis(20)), ..Limits::default() };
    let Ending::Failure(failure) = &scene.run(limits).await.outcome.ending else { panic!("it succeeded") };
    assert_eq!(failure.class, ErrorClass::Budget);
}
