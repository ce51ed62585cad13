//! What can be set when a server starts, each default with its reason.
//!
//! K1. A server that anybody on the network could reach asks for a password, or does not start.
//! K2. Every limit is finite.
//!
//! Tests: below.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use velella::{Error, Result, limits};

/// Longest that a sync may wait for company where a client or the command line asks for the
/// durability `group`. A round each second makes everything durable anyway, so more means nothing.
pub const GROUP_WAIT_MAX: Duration = Duration::from_secs(1);

/// Longest password, in bytes: what a client may send before it has given it is more.
pub const PASSWORD_BYTES_MAX: usize = 4096;

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address to listen on. Default 127.0.0.1: only this machine. Any other than a loopback
    /// address needs [`Config::requirepass`].
    pub bind: IpAddr,
    /// The port; 0 lets the system choose one. Default 6380, beside a Redis on 6379.
    pub port: u16,
    /// The password clients must give by `AUTH`. Default: none.
    pub requirepass: Option<String>,
    /// Most clients at once; one more is told so and closed. Default 10,000. Lowered at start if
    /// the process may not have that many files open.
    pub maxclients: usize,
    /// A client that completes no request for this long, in whole seconds, rounded up, and sends
    /// no 4 KiB of one at once, is closed; one that is refused counts. Zero: never. Default 5
    /// minutes: pools reconnect, and half-open connections go away.
    pub timeout: Duration,
    /// Network threads; 0 (the default): one per core.
    pub threads: usize,
    /// Longest argument, and so longest value, in bytes. Default 512 MiB, the engine's limit.
    pub max_bulk_bytes: usize,
    /// Most bytes of replies a client may leave unread. A reply of many values that would exceed
    /// it is refused; a single value may, since no smaller reply could carry it. Default 64 MiB.
    pub max_output_bytes: usize,
    /// Whether `DEBUG PANIC` exists, for tests of what a panic does. Default false.
    pub debug_commands: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 6380,
            requirepass: None,
            maxclients: 10_000,
            timeout: Duration::from_secs(300),
            threads: 0,
            max_bulk_bytes: limits::VALUE_BYTES_MAX,
            max_output_bytes: 64 << 20,
            debug_commands: false,
        }
    }
}

impl Config {
    /// Checks every setting against its limits (K1, K2).
    ///
    /// # Errors
    /// `InvalidInput`, naming the setting, what it is and what to do.
    pub fn validated(mut self) -> Result<Config> {
        let refuse = |what: String, found: String, remedy: &str| {
            Err(Error::invalid(format!("start a server with {what}"), found).remedy(remedy))
        };
        self.requirepass = self.requirepass.filter(|password| !password.is_empty());
        if !self.bind.is_loopback() && self.requirepass.is_none() {
            return refuse(
                format!("bind {}", self.bind),
                "other machines could reach it, and it asks for no password".into(),
                "set requirepass (`--requirepass-file FILE`), or bind 127.0.0.1",
            );
        }
        if self
            .requirepass
            .as_ref()
            .is_some_and(|text| text.len() > PASSWORD_BYTES_MAX)
        {
            return refuse(
                "that requirepass".into(),
                format!("it has more than {PASSWORD_BYTES_MAX} bytes"),
                "choose a shorter one",
            );
        }
        if !(1..=1_000_000).contains(&self.maxclients) {
            return refuse(
                format!("maxclients {}", self.maxclients),
                "it is outside 1 to 1000000".into(),
                "choose a number in between",
            );
        }
        if !(1 << 10..=limits::VALUE_BYTES_MAX).contains(&self.max_bulk_bytes) {
            return refuse(
                format!("proto-max-bulk-len {}", self.max_bulk_bytes),
                format!("it is outside 1024 to {}", limits::VALUE_BYTES_MAX),
                "choose a number in between",
            );
        }
        if self.max_output_bytes < 1 << 20 {
            return refuse(
                format!("an output limit of {} bytes", self.max_output_bytes),
                "it is below 1048576".into(),
                "choose more",
            );
        }
        if self.threads == 0 {
            self.threads = std::thread::available_parallelism().map_or(1, usize::from);
        }
        self.threads = self.threads.min(256);
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_others_can_reach_needs_a_password() {
        let open = Config {
            bind: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            ..Config::default()
        };
        let error = open.clone().validated().unwrap_err().to_string();
        assert!(
            error.contains("0.0.0.0") && error.contains("--requirepass-file FILE"),
            "{error}"
        );
        let empty = Config {
            requirepass: Some(String::new()),
            ..open.clone()
        };
        assert!(empty.validated().is_err());
        let guarded = Config {
            requirepass: Some("secret".into()),
            ..open
        };
        assert!(guarded.validated().is_ok());
        assert!(Config::default().validated().unwrap().threads > 0);
    }

    #[test]
    fn settings_outside_their_limits_are_refused() {
        let refused = |config: Config| config.validated().is_err();
        let with_password = |bytes: usize| Config {
            requirepass: Some("p".repeat(bytes)),
            ..Config::default()
        };
        assert!(refused(with_password(4097)) && !refused(with_password(4096)));
        assert!(refused(Config {
            maxclients: 0,
            ..Config::default()
        }));
        assert!(refused(Config {
            max_bulk_bytes: 0,
            ..Config::default()
        }));
        assert!(refused(Config {
            max_bulk_bytes: usize::MAX,
            ..Config::default()
        }));
        assert!(refused(Config {
            max_output_bytes: 0,
            ..Config::default()
        }));
    }
}
