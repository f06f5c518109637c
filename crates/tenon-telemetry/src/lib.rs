//! OTLP out of durable events.
