//! Wires telemetry: whether it is on, where it goes, and the run's place in a distributed trace.
//!
//! What is sent is decided in `tenon-telemetry`. Off means off: no client, no task, no name looked up. A build
//! without the feature `telemetry` still passes a trace on.

use tenon_config::{Settings, Surroundings};
use tenon_core::TraceContext;

pub use exporting::Telemetry;

/// `TRACEPARENT` and `TRACESTATE`: the trace that whoever started us is in.
fn outer_trace(here: &Surroundings) -> Option<TraceContext> {
    TraceContext::parse(here.env.get("TRACEPARENT")?, here.env.get("TRACESTATE").map(String::as_str))
}

#[cfg(feature = "telemetry")]
mod exporting {
    use std::sync::Arc;
    use std::time::Duration;

    use tenon_core::{BoxFut, EventSink, Secrets};
    use tenon_model::{Http, Timeouts};
    use tenon_telemetry::{
        Config, Exporter, Given, Observed, Parcel, Place, Post, Signal, Target, configure,
    };

    use super::*;
    use crate::args::RunArgs;
    use crate::model::{self, Chosen};
    use crate::plan::{Identity, VERSION};
    use crate::stderr::Reporter;

    pub struct Telemetry {
        exporter: Option<Arc<Exporter>>,
        outer: Option<TraceContext>,
        flush: Duration,
    }

    impl Telemetry {
        /// On the current runtime, if anyone asked for it. What is wrong with the asking is a warning: a run is
        /// worth more than its telemetry.
        pub fn start(
            args: &RunArgs,
            settings: Option<&Settings>,
            here: &Surroundings,
            ids: &Identity,
            warnings: &mut Vec<String>,
        ) -> Telemetry {
            let outer = super::outer_trace(here);
            let flush = settings.map(|settings| settings.timeouts.telemetry_flush()).unwrap_or_default();
            let off = Telemetry { exporter: None, outer: outer.clone(), flush };
            // Settings that cannot be read might have said no.
            let Some(settings) = settings else { return off };
            let config = match configure(&given(settings), &here.env) {
                Ok(Some(config)) => config,
                Ok(None) => return off,
                Err(error) => {
                    warnings.push(format!("telemetry is off: {error}"));
                    return off;
                }
            };
            let post = Arc::new(Network::new(&config, args, settings, here));
            let exporter = Exporter::start(&config, post, outer.clone(), ids.source.next(), VERSION);
            Telemetry { exporter: Some(Arc::new(exporter)), outer, flush }
        }

        /// The place in a trace of the run that begins next.
        pub fn trace(&self) -> Option<TraceContext> {
            match &self.exporter {
                Some(exporter) => exporter.trace(),
                None => self.outer.clone(),
            }
        }

        pub fn know(&self, chosen: &Chosen) {
            let Some(exporter) = &self.exporter else { return };
            for (model, provider, base_url) in &chosen.servers {
                let (address, port) = host_and_port(base_url);
                exporter.know(model, Place { provider: provider.clone(), address, port });
            }
            exporter.keep_secret(chosen.secrets.clone());
        }

        /// `next`, watched.
        pub fn watch(&self, next: Arc<dyn EventSink>) -> Arc<dyn EventSink> {
            match &self.exporter {
                Some(exporter) => Arc::new(Observed { exporter: Arc::clone(exporter), next }),
                None => next,
            }
        }

        /// Sends the rest. Call it when the result is out: nothing may wait for a collector.
        pub async fn finish(&self, reporter: Reporter) {
            let Some(exporter) = &self.exporter else { return };
            let Some(lost) = exporter.finish(self.flush).await else { return };
            let what = match (lost.spans, lost.metrics) {
                (0, _) => "the metrics".to_owned(),
                (spans, false) => format!("{spans} spans"),
                (spans, true) => format!("{spans} spans and the metrics"),
            };
            reporter.warn(&format!("telemetry: {what} did not arrive: {}", lost.reason));
        }
    }

    fn given(settings: &Settings) -> Given {
        let telemetry = settings.telemetry.clone();
        Given {
            enabled: telemetry.enabled,
            endpoint: telemetry.endpoint,
            protocol: telemetry.protocol,
            headers: telemetry.headers,
            service_name: telemetry.service_name,
            resource_attributes: telemetry.resource_attributes,
        }
    }

    fn host_and_port(base_url: &str) -> (Option<String>, Option<u16>) {
        let Some((host, port)) = tenon_model::host_and_port(base_url) else { return (None, None) };
        (Some(host), port)
    }

    /// The same network that models are reached by, with the patience that telemetry deserves.
    struct Network {
        http: Http,
        traces: Option<Target>,
        metrics: Option<Target>,
        /// Keys in the headers must not come back in a message.
        secrets: Secrets,
    }

    impl Network {
        fn new(config: &Config, args: &RunArgs, settings: &Settings, here: &Surroundings) -> Network {
            let (connect, wait) = (settings.timeouts.connect().min(config.timeout), config.timeout);
            let timeouts = Timeouts { connect, first_byte: wait, idle: wait };
            let options = tenon_model::HttpOptions { timeouts, ..model::http_options(args, settings, here) };
            let targets = [&config.traces, &config.metrics].into_iter().flatten();
            let secrets =
                targets.flat_map(|target| target.headers.values()).map(tenon_core::Secret::new).collect();
            Network {
                http: Http::new(options),
                traces: config.traces.clone(),
                metrics: config.metrics.clone(),
                secrets,
            }
        }
    }

    impl Post for Network {
        fn post(&self, parcel: Parcel) -> BoxFut<'_, Result<u16, String>> {
            Box::pin(async move {
                let target = match parcel.signal {
                    Signal::Traces => &self.traces,
                    Signal::Metrics => &self.metrics,
                };
                let Some(Target { url, headers, .. }) = target else {
                    return Err("no collector is named for it".to_owned());
                };
                let mut headers: Vec<_> = headers.clone().into_iter().collect();
                headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
                headers.push(("content-type".to_owned(), parcel.content_type.to_owned()));
                let answer = self.http.deliver(url, headers, parcel.body).await;
                answer.map_err(|error| self.secrets.hide(&error.message).into_owned())
            })
        }
    }
}

#[cfg(not(feature = "telemetry"))]
mod exporting {
    use std::sync::Arc;

    use tenon_core::EventSink;

    use super::*;
    use crate::args::RunArgs;
    use crate::model::Chosen;
    use crate::plan::Identity;
    use crate::stderr::Reporter;

    /// A build that cannot export.
    pub struct Telemetry {
        outer: Option<TraceContext>,
    }

    impl Telemetry {
        pub fn start(
            _args: &RunArgs,
            settings: Option<&Settings>,
            here: &Surroundings,
            _ids: &Identity,
            warnings: &mut Vec<String>,
        ) -> Telemetry {
            let asked = settings.is_some_and(|settings| {
                settings.telemetry.enabled != Some(false)
                    && (settings.telemetry.enabled.is_some() || settings.telemetry.endpoint.is_some())
            });
            if asked {
                warnings.push("telemetry is off: this build of tenon cannot export it".to_owned());
            }
            Telemetry { outer: super::outer_trace(here) }
        }

        pub fn trace(&self) -> Option<TraceContext> {
            self.outer.clone()
        }

        pub fn know(&self, _chosen: &Chosen) {}

        pub fn watch(&self, next: Arc<dyn EventSink>) -> Arc<dyn EventSink> {
            next
        }

        pub async fn finish(&self, _reporter: Reporter) {}
    }
}
