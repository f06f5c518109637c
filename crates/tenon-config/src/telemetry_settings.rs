//! The settings under `telemetry`: what they are, how layers merge, how they are read. What becomes of them, and
//! which variables go before them, is decided in `tenon-telemetry`.

use std::collections::BTreeMap;
use std::fmt;

use jsonc_parser::ast::Value as Node;

use crate::read_settings::headers;
use crate::reader::{Reader, Unknown};

#[derive(Clone, Default, PartialEq, Eq)]
pub struct TelemetrySettings {
    pub enabled: Option<bool>,
    /// Where a collector listens; `/v1/traces` and `/v1/metrics` are added.
    pub endpoint: Option<String>,
    /// One of [`TelemetrySettings::PROTOCOLS`].
    pub protocol: Option<String>,
    pub headers: BTreeMap<String, String>,
    pub service_name: Option<String>,
    pub resource_attributes: BTreeMap<String, String>,
}

impl TelemetrySettings {
    pub const PROTOCOLS: [&'static str; 2] = ["http/protobuf", "http/json"];
    const KEYS: [&'static str; 6] =
        ["enabled", "endpoint", "protocol", "headers", "serviceName", "resourceAttributes"];

    pub(crate) fn is_empty(&self) -> bool {
        *self == TelemetrySettings::default()
    }

    pub(crate) fn overlaid(self, higher: TelemetrySettings) -> TelemetrySettings {
        // Headers hold keys for one collector: another address does not inherit them.
        let mut headers = if higher.endpoint.is_some() { BTreeMap::new() } else { self.headers };
        headers.extend(higher.headers);
        let mut resource_attributes = self.resource_attributes;
        resource_attributes.extend(higher.resource_attributes);
        TelemetrySettings {
            enabled: higher.enabled.or(self.enabled),
            endpoint: higher.endpoint.or(self.endpoint),
            protocol: higher.protocol.or(self.protocol),
            headers,
            service_name: higher.service_name.or(self.service_name),
            resource_attributes,
        }
    }
}

/// Header values may be secrets: only their names are shown.
impl fmt::Debug for TelemetrySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TelemetrySettings")
            .field("enabled", &self.enabled)
            .field("endpoint", &self.endpoint)
            .field("protocol", &self.protocol)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("service_name", &self.service_name)
            .field("resource_attributes", &self.resource_attributes)
            .finish()
    }
}

pub(crate) fn read(reader: &mut Reader<'_>, node: &Node<'_>) -> TelemetrySettings {
    let mut telemetry = TelemetrySettings::default();
    for (key, node) in reader.entries("telemetry", node, &TelemetrySettings::KEYS, Unknown::Warn) {
        let path = format!("telemetry.{key}");
        match key {
            "enabled" => telemetry.enabled = reader.boolean(&path, node),
            "endpoint" => {
                telemetry.endpoint = reader.string(&path, node).filter(|url| !url.trim().is_empty())
            }
            "protocol" => telemetry.protocol = reader.one_of(&path, node, &TelemetrySettings::PROTOCOLS),
            "headers" => telemetry.headers = headers(reader, &path, node),
            "serviceName" => telemetry.service_name = reader.string(&path, node),
            _ => telemetry.resource_attributes = texts(reader, &path, node),
        }
    }
    telemetry
}

fn texts(reader: &mut Reader<'_>, path: &str, node: &Node<'_>) -> BTreeMap<String, String> {
    let Some(object) = reader.object(path, node) else { return BTreeMap::new() };
    let mut texts = BTreeMap::new();
    for property in &object.properties {
        let name = property.name.as_str();
        let value = reader.string(&format!("{path}.{}", crate::problem::quotable(name)), &property.value);
        texts.extend(value.map(|value| (name.to_owned(), value)));
    }
    texts
}
