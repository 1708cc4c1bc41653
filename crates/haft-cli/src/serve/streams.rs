//! What the event streams of a server may hold, from arguments and environment.

use std::time::Duration;

use haft_core::Millis;
use haft_server::StreamSettings;

use crate::waiting::duration;

#[derive(Debug, clap::Args)]
pub(super) struct StreamArgs {
    /// How much memory the event streams of this server may hold together, in MiB. When they hold
    /// more, readers that take nothing are ended, the slowest first.
    #[arg(long, value_name = "MIB", env = "HAFT_STREAM_MEMORY", default_value_t = 128)]
    stream_memory: u32,
    /// How much is read ahead for one reader of an event stream, in KiB. One event may be larger.
    #[arg(long, value_name = "KIB", env = "HAFT_STREAM_READ_AHEAD", default_value_t = 256)]
    stream_read_ahead: u32,
    /// How long the reader of an event stream may take nothing before the stream is ended. The
    /// reader is told so, and can resume with `Last-Event-ID`.
    #[arg(long, value_name = "TIME", env = "HAFT_STREAM_STALL", default_value = "60s", value_parser = duration)]
    stream_stall: Millis,
}

impl StreamArgs {
    pub(super) fn settings(&self) -> StreamSettings {
        StreamSettings {
            memory_max: (self.stream_memory as usize).saturating_mul(1024 * 1024),
            reader_memory_max: (self.stream_read_ahead as usize).saturating_mul(1024).max(1024),
            stalled_max: Duration::from_millis(self.stream_stall.0),
        }
    }
}
