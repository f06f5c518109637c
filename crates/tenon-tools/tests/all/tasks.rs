//! The registry of background work, without any command.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use tenon_core::{Id, IdSource, TaskKind, TaskStatus, ToolErrorKind, Usage};
use tenon_tools::{NewTask, NotStarted, Settled, StopError, StoppedBy, TaskEvent, TaskHandle, Tasks};

use crate::support::{Bench, runtime};

fn tasks() -> Tasks {
    Tasks::new(Arc::new(IdSource::new(Id::from_random([3; 16]))))
}

fn task(kind: TaskKind) -> NewTask {
    NewTask {
        agent_type: None,
        kind,
        call_id: Some("call_1".to_owned()),
        description: "work".to_owned(),
        output_file: Some("/out/x.output".into()),
    }
}

fn done(status: TaskStatus) -> Settled {
    Settled {
        status,
        summary: "It is over.".to_owned(),
        detail: "More.".to_owned(),
        usage: None,
        tool_calls: 0,
    }
}

fn start(tasks: &Tasks, kind: TaskKind) -> TaskHandle {
    tasks.start(task(kind)).unwrap()
}

fn events(tasks: &Tasks) -> Vec<TaskEvent> {
    std::iter::from_fn(|| tasks.try_next()).collect()
}

/// `started`, or the status it ended with and whether the model is told.
fn told(events: &[TaskEvent]) -> Vec<(&'static str, bool)> {
    events
        .iter()
        .map(|event| match event {
            TaskEvent::Started(_) => ("started", false),
            TaskEvent::Ended(end, notice) => (end.status.name(), notice.is_some()),
            TaskEvent::Notice(_) => ("notice", true),
        })
        .collect()
}

#[test]
fn a_task_is_told_from_its_start_to_its_end() {
    let tasks = tasks();
    let handle = start(&tasks, TaskKind::Shell);
    let id = handle.id().to_owned();
    assert!(
        id.len() == 11 && id.starts_with("bg_") && id[3..].chars().all(|c| c.is_ascii_hexdigit()),
        "{id}"
    );
    let running: Vec<String> = tasks.running().into_iter().map(|info| info.task.task_id).collect();
    assert_eq!(running, [id.as_str()]);
    handle.notify("a line".to_owned(), "a line".to_owned());
    handle.settle(done(TaskStatus::Completed));
    let events = events(&tasks);
    assert_eq!(told(&events), [("started", false), ("notice", true), ("completed", true)]);
    let TaskEvent::Ended(end, Some(notice)) = &events[2] else { panic!("{events:?}") };
    assert_eq!((end.task_id.as_str(), end.call_id.as_deref()), (id.as_str(), Some("call_1")));
    assert_eq!(end.output_file.as_deref(), Some("/out/x.output".as_ref()));
    assert_eq!((end.summary.as_str(), notice.shown.as_str()), ("It is over.", "It is over."));
    assert_eq!(notice.told, "It is over.\nIts output is in /out/x.output\nMore.");
    assert!(tasks.running().is_empty() && tasks.list()[0].status == TaskStatus::Completed);
}

#[test]
fn work_that_breaks_off_has_failed() {
    let tasks = tasks();
    drop(start(&tasks, TaskKind::Agent));
    assert_eq!(told(&events(&tasks)), [("started", false), ("failed", true)]);
}

#[test]
fn whoever_stops_a_task_decides_who_is_told() {
    let table = [(StoppedBy::Model, false), (StoppedBy::Client, true), (StoppedBy::EndOfRun, false)];
    for (by, is_told) in table {
        let tasks = tasks();
        let handle = start(&tasks, TaskKind::Shell);
        let id = handle.id().to_owned();
        tasks.stop(&id, by).unwrap();
        assert!(handle.cancel().is_cancelled());
        // Settled at once, and by nobody else afterwards.
        assert_eq!(told(&events(&tasks)), [("started", false), ("cancelled", is_told)], "{by:?}");
        handle.notify("late".to_owned(), "late".to_owned());
        handle.settle(done(TaskStatus::Completed));
        assert!(events(&tasks).is_empty());
        let again = StopError::Ended { id: id.clone(), kind: TaskKind::Shell, status: TaskStatus::Cancelled };
        assert_eq!(tasks.stop(&id, by), Err(again));
    }
}

#[test]
fn a_stopped_agent_may_still_say_what_it_used() {
    runtime().block_on(async {
        for (says, status) in [
            (TaskStatus::Failed, TaskStatus::Cancelled),
            (TaskStatus::Cancelled, TaskStatus::Cancelled),
            // It was done before it heard of the stop.
            (TaskStatus::Completed, TaskStatus::Completed),
        ] {
            let tasks = tasks();
            let handle = start(&tasks, TaskKind::Agent);
            tasks.stop(handle.id(), StoppedBy::Client).unwrap();
            assert!(matches!(tasks.stop(handle.id(), StoppedBy::Client), Err(StopError::Ended { .. })));
            let usage = Usage { input: 7, ..Usage::default() };
            handle.settle(Settled { usage: Some(usage), ..done(says) });
            let events = events(&tasks);
            let TaskEvent::Ended(end, _) = &events[1] else { panic!("{events:?}") };
            assert_eq!((end.status, end.usage), (status, Some(usage)));
        }
    });
}

#[test]
fn the_end_of_a_run_waits_for_what_it_stops_and_no_longer_than_it_may() {
    runtime().block_on(async {
        let tasks = tasks();
        let quick = start(&tasks, TaskKind::Agent);
        let stuck = start(&tasks, TaskKind::Agent);
        let asked = quick.cancel().clone();
        let ends = async {
            asked.cancelled().await;
            quick.settle(done(TaskStatus::Failed));
        };
        let (all_gone, ()) = tokio::join!(tasks.shut_down(Duration::from_millis(50)), ends);
        assert!(!all_gone);
        assert!(matches!(tasks.start(task(TaskKind::Shell)), Err(NotStarted::Ending)));
        let ends = told(&events(&tasks)).into_iter().skip(2).collect::<Vec<_>>();
        assert_eq!(ends, [("cancelled", false), ("cancelled", false)]);
        drop(stuck);
        assert!(events(&tasks).is_empty());
        assert!(tasks.shut_down(Duration::from_millis(50)).await);
    });
}

#[test]
fn there_is_an_end_to_how_many_run_and_how_many_are_remembered() {
    let tasks = tasks();
    let mut handles: Vec<TaskHandle> = (0..64).map(|_| start(&tasks, TaskKind::Shell)).collect();
    assert!(matches!(tasks.start(task(TaskKind::Shell)), Err(NotStarted::TooMany)));
    let first = handles.remove(0);
    let first_id = first.id().to_owned();
    first.settle(done(TaskStatus::Completed));
    handles.push(start(&tasks, TaskKind::Shell));
    drop(handles);
    assert_eq!(tasks.list().len(), 32);
    assert_eq!(tasks.stop(&first_id, StoppedBy::Client), Err(StopError::Unknown(first_id)));
}

#[test]
fn the_tool_stops_what_runs_and_says_what_does_not() {
    let bench = Bench::new();
    let handle = start(&bench.tasks, TaskKind::Monitor);
    let id = handle.id().to_owned();
    let stop = |id: &str| json!({ "task_id": id });
    assert_eq!(
        bench.ok("task_stop", stop(&id)),
        format!("The background task {id} was stopped. Its output until then is in /out/x.output")
    );
    let failed = |message: &str| (ToolErrorKind::Failed, message.to_owned());
    assert_eq!(
        bench.error("task_stop", stop(&id)),
        failed(&format!("The background monitor `{id}` does not run any more: it is cancelled."))
    );
    assert_eq!(bench.error("task_stop", stop("bg_0")), failed("There is no background task `bg_0`."));
    let (kind, message) = bench.error("task_stop", json!({}));
    assert_eq!((kind, message.as_str()), (ToolErrorKind::InvalidArguments, "`task_stop` needs `task_id`."));
}

/// What can happen to a task, in any order.
#[derive(Clone, Copy, Debug)]
enum Act {
    Settle(TaskStatus),
    Drop,
    Stop(StoppedBy),
    StopAll,
    Notify,
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        prop_oneof![Just(TaskStatus::Completed), Just(TaskStatus::Failed)].prop_map(Act::Settle),
        Just(Act::Drop),
        prop_oneof![Just(StoppedBy::Model), Just(StoppedBy::Client)].prop_map(Act::Stop),
        Just(Act::StopAll),
        Just(Act::Notify),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(tenon_testkit::cases(128)))]

    #[test]
    fn every_start_has_exactly_one_end(
        acts in prop::collection::vec((0_usize..6, acts()), 0..40),
        kinds in prop::collection::vec(prop_oneof![Just(TaskKind::Shell), Just(TaskKind::Agent)], 6),
    ) {
        runtime().block_on(async {
            let tasks = tasks();
            let mut handles: Vec<Option<TaskHandle>> =
                kinds.iter().map(|kind| Some(start(&tasks, *kind))).collect();
            let ids: Vec<String> =
                handles.iter().flatten().map(|handle| handle.id().to_owned()).collect();
            for (at, act) in acts {
                match act {
                    Act::Settle(status) => {
                        if let Some(handle) = handles[at].take() {
                            handle.settle(done(status));
                        }
                    }
                    Act::Drop => handles[at] = None,
                    Act::Stop(by) => drop(tasks.stop(&ids[at], by)),
                    Act::StopAll => tasks.stop_all(StoppedBy::Client),
                    Act::Notify => {
                        if let Some(handle) = &handles[at] {
                            handle.notify(String::new(), String::new());
                        }
                    }
                }
            }
            drop(handles);
            assert!(tasks.shut_down(Duration::from_secs(5)).await);
            let events = events(&tasks);
            for id in ids {
                let starts = events.iter().filter(|event| matches!(event, TaskEvent::Started(task) if task.task_id == id));
                let ends = events.iter().filter(|event| matches!(event, TaskEvent::Ended(end, _) if end.task_id == id));
                assert_eq!((starts.count(), ends.count()), (1, 1));
            }
            assert!(tasks.running().is_empty());
        });
    }
}
