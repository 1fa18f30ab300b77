//! The border to librdkafka.
