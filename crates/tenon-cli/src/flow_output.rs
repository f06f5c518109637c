//! What a workflow writes to stdout: its answer, one object, or every event as a line. In the last two the end is always
//! told, whatever went wrong.

use std::sync::Arc;

use serde::Serialize;
use tenon_core::BoxFut;
use tenon_flow::{FlowEmitter, FlowEvent, FlowEventData, FlowSink, Report, WorkflowStatus};
use tenon_session::Lines;

use crate::args::OutputFormat;
use crate::flow_progress::Progress;
use crate::stdout::Stdout;

pub struct FlowOutput {
    stdout: Arc<Stdout>,
    format: OutputFormat,
    progress: Arc<Progress>,
}

impl FlowOutput {
    pub fn new(stdout: Arc<Stdout>, format: OutputFormat, progress: Arc<Progress>) -> FlowOutput {
        FlowOutput { stdout, format, progress }
    }

    /// There was nothing to run.
    pub fn failed_early(&self, events: &FlowEmitter, report: Report) {
        events.emit(FlowEventData::WorkflowEnd(Arc::new(report)));
    }

    fn end(&self, report: &Report) {
        match self.format {
            OutputFormat::Json => self.stdout.last_line(line_of(report)),
            OutputFormat::StreamJson | OutputFormat::StreamChunkJson => {}
            OutputFormat::Text => {
                // A run that failed or is partial has no answer, and nothing is no line.
                if let (WorkflowStatus::Completed, Some(output)) = (report.status, &report.outputs)
                    && !output.0.text().is_empty()
                {
                    let mut text = output.0.text().as_bytes().to_vec();
                    if !text.ends_with(b"\n") {
                        text.push(b'\n');
                    }
                    self.stdout.last_line(text);
                }
            }
        }
    }
}

impl FlowSink for FlowOutput {
    fn emit(&self, event: FlowEvent) {
        self.progress.see(&event);
        if self.format == OutputFormat::StreamJson {
            let line = line_of(&event);
            match &event.data {
                FlowEventData::WorkflowEnd(_) => self.stdout.last_line(line),
                _ => self.stdout.line(line),
            }
        } else if let FlowEventData::WorkflowEnd(report) = &event.data {
            self.end(report);
        }
    }

    fn blocked(&self) -> Option<BoxFut<'_, ()>> {
        tenon_core::EventSink::blocked(&*self.stdout)
    }
}

fn line_of(value: &impl Serialize) -> Vec<u8> {
    // These are maps with string keys, which always can be written.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}
