//! How much may be asked of a server, from arguments. A limit of 0 is none.

use haft_server::{LimitSettings, Quota};

/// One mebibyte.
const MIB: u64 = 1024 * 1024;

#[derive(Debug, clap::Args)]
pub(super) struct LimitArgs {
    /// How many connections may be open at once; 0 for no limit.
    #[arg(long, value_name = "N", default_value_t = 16_384)]
    max_connections: u32,
    /// How many connections may come from one address; 0 for no limit. Clients behind one proxy
    /// share its address.
    #[arg(long, value_name = "N", default_value_t = 12_288)]
    max_connections_per_address: u32,
    /// How many requests of one key may be under way at once, streams included; 0 for no limit.
    /// Whoever asks for more is answered with 429 and `Retry-After`, as with the limits below.
    #[arg(long, value_name = "N", default_value_t = 8_192)]
    key_requests_at_once: u32,
    /// How many requests one key may make in a minute; 0 for no limit.
    #[arg(long, value_name = "N", default_value_t = 600_000)]
    key_requests_per_minute: u32,
    /// How many MiB of bodies one key may send and receive in a minute; 0 for no limit.
    #[arg(long, value_name = "MIB", default_value_t = 16_384)]
    key_mib_per_minute: u32,
    /// How many requests of one tenant may be under way at once; 0 for no limit.
    #[arg(long, value_name = "N", default_value_t = 12_288)]
    tenant_requests_at_once: u32,
    /// How many requests one tenant may make in a minute; 0 for no limit.
    #[arg(long, value_name = "N", default_value_t = 1_200_000)]
    tenant_requests_per_minute: u32,
    /// How many MiB of bodies one tenant may send and receive in a minute; 0 for no limit.
    #[arg(long, value_name = "MIB", default_value_t = 32_768)]
    tenant_mib_per_minute: u32,
}

impl LimitArgs {
    pub(super) fn settings(&self) -> LimitSettings {
        LimitSettings {
            connections: self.max_connections as usize,
            connections_per_address: self.max_connections_per_address as usize,
            key: Quota {
                requests_at_once: self.key_requests_at_once,
                requests_per_minute: self.key_requests_per_minute,
                bytes_per_minute: u64::from(self.key_mib_per_minute) * MIB,
            },
            tenant: Quota {
                requests_at_once: self.tenant_requests_at_once,
                requests_per_minute: self.tenant_requests_per_minute,
                bytes_per_minute: u64::from(self.tenant_mib_per_minute) * MIB,
            },
        }
    }
}
