//! What a connection remembers between commands.
//!
//! Y1. `last_stamp` is the newest write of this connection; a reply withheld until it is durable
//!     vouches for all before it, since durability is a prefix of the stamps.
//! Y2. Of several writes whose replies are withheld together the least patient decides.
//!
//! Tests: below, and through sockets in `tests/`.

use crate::clients::Client;
use crate::shared::Shared;
use std::sync::Arc;
use std::time::Duration;
use velella::{Durability, Stamp, WriteOptions};

/// Writes of the server return at once; the reply is withheld where more was asked for.
pub(crate) const BUFFERED: WriteOptions = WriteOptions {
    durability: Some(Durability::Buffered),
};

/// CLIENT REPLY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replies {
    /// Every command is answered.
    On,
    /// None is, until ON.
    Off,
    /// The next command is not; the current one is CLIENT REPLY SKIP itself.
    SkipNext,
    /// The current command is not.
    SkipThis,
}

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Session {
    /// The number of the database selected.
    pub database: usize,
    /// Whether commands other than AUTH, HELLO and QUIT are allowed.
    pub authenticated: bool,
    /// Whether the client ever was authenticated: RESET makes it prove itself again, yet no
    /// stranger, from whom little is taken and for whom little is kept.
    pub known: bool,
    /// Whether replies are wanted.
    pub replies: Replies,
    /// What a write must survive before it is answered.
    pub durability: Durability,
    /// The newest write (Y1).
    pub last_stamp: Stamp,
    /// Withhold the replies until `last_stamp` is durable, waiting at most this long for company.
    pub withhold: Option<Duration>,
    /// Close the connection once its replies are sent.
    pub closing: bool,
    /// What others may know about this client.
    pub client: Arc<Client>,
}

impl Session {
    /// A client that has just connected.
    pub(crate) fn new(client: Arc<Client>, shared: &Shared) -> Self {
        let authenticated = shared.settings.requirepass.lock().is_none();
        Session {
            database: 0,
            authenticated,
            known: authenticated,
            replies: Replies::On,
            durability: shared.db.options().durability,
            last_stamp: Stamp::ZERO,
            withhold: None,
            closing: false,
            client,
        }
    }

    /// Whether commands may run: of who has authenticated, and of everybody once no password is
    /// required any more.
    #[inline]
    pub(crate) fn is_admitted(&mut self, shared: &Shared) -> bool {
        self.admit_if_open(shared);
        self.authenticated
    }

    /// Lets a stranger in once no password is required any more.
    #[inline]
    pub(crate) fn admit_if_open(&mut self, shared: &Shared) {
        if !self.authenticated && shared.settings.requirepass.lock().is_none() {
            self.authenticated = true;
            self.known = true;
        }
    }

    /// Notes a write, and how long its reply must wait (Y2).
    #[inline]
    pub(crate) fn wrote(&mut self, stamp: Stamp) {
        self.last_stamp = self.last_stamp.max(stamp);
        let patience = match self.durability {
            Durability::Buffered => return,
            Durability::Sync => Duration::ZERO,
            Durability::Group(patience) => patience,
        };
        let before = self.withhold.unwrap_or(patience);
        self.withhold = Some(before.min(patience));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::Clients;

    fn session() -> Session {
        let address = ([127, 0, 0, 1], 1).into();
        Session {
            database: 0,
            authenticated: true,
            known: true,
            replies: Replies::On,
            durability: Durability::Buffered,
            last_stamp: Stamp::ZERO,
            withhold: None,
            closing: false,
            client: Clients::default().add(1, address, address, 0).unwrap(),
        }
    }

    #[test]
    fn of_writes_that_wait_together_the_least_patient_decides() {
        let group = |millis| Durability::Group(Duration::from_millis(millis));
        let millis = |millis| Some(Duration::from_millis(millis));
        for (durabilities, expected) in [
            (&[Durability::Buffered][..], None),
            (&[group(900), group(5)], millis(5)),
            (&[group(5), group(900)], millis(5)),
            (&[group(5), Durability::Buffered], millis(5)),
            (&[Durability::Buffered, group(5)], millis(5)),
            (&[Durability::Sync, group(5)], millis(0)),
            (&[group(5), Durability::Sync], millis(0)),
        ] {
            let mut session = session();
            for (number, durability) in (1..).zip(durabilities) {
                session.durability = *durability;
                session.wrote(Stamp(number));
            }
            assert_eq!(session.withhold, expected, "{durabilities:?}");
        }
    }
}
