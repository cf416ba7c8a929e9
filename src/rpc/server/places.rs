//! The connections of a server, and which of them gives way to a new client when all places are taken.
//!
//! Connections that have not greeted have places of their own: they take none of a client, and need not be trusted.
//! When these are taken, the oldest connection of the address that has most of them gives way. A connection that has
//! greeted, and proved its key if there is one, gets a client's place. If there is none left, or none for its address,
//! the client that has been silent longest gives way, in this order:
//!
//! 1. without a buffer, and silent for [`Patience::empty`]
//! 2. with buffers, in which it has never computed anything, and silent for [`Patience::unused`]
//!
//! A client that has computed keeps its place until the server's limit of idle time, so that a host that is idle at
//! night does not lose its model to strangers. A client whose request is being processed does not give way either. If
//! no client gives way, the new one is turned away.
#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use crate::rpc::transport::Watch;
use crate::sys::sync::lock;
use crate::{log_debug, log_warn};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long clients may be silent before they can give way.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Without a buffer.
    pub empty: Duration,
    /// With buffers, but without a graph so far.
    pub unused: Duration,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It has not greeted.
    Greeting,
    /// A client without a buffer.
    Empty,
    /// A client with buffers, in which nothing was computed.
    Unused,
    /// A client that has buffers and has computed.
    Working,
}

/// What is known of a connection.
struct ConnectionState {
    stage: Stage,
    is_busy: bool,
    /// When it has come, greeted, or got its last answer.
    since: Instant,
    gave_way: bool,
}

struct Connection {
    peer: SocketAddr,
    watch: Arc<Watch>,
    state: Mutex<ConnectionState>,
}

/// An address, or of IPv6 the 64 bits that a machine or a household gets: the rest can be chosen freely.
fn network(peer: &SocketAddr) -> IpAddr {
    match peer.ip().to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// The connections of a server.
pub struct Places {
    clients: usize,
    per_address: usize,
    patience: Patience,
    all: Mutex<Vec<Arc<Connection>>>,
}

impl Places {
    /// For so many clients in all and from each address.
    pub fn new(clients: usize, per_address: usize, patience: Patience) -> Arc<Self> {
        Arc::new(Self { clients, per_address, patience, all: Mutex::default() })
    }

    /// Connections at present, those that have not greeted included.
    #[cfg(test)]
    pub fn taken(&self) -> usize {
        lock(&self.all).len()
    }

    /// A place for a connection that has not greeted yet.
    ///
    /// # Errors
    /// The system has no more handles.
    pub fn enter(self: &Arc<Self>, stream: &TcpStream, peer: SocketAddr) -> Result<Place> {
        let watch = Arc::new(Watch::of(stream)?);
        let state = ConnectionState { stage: Stage::Greeting, is_busy: false, since: Instant::now(), gave_way: false };
        let entry = Arc::new(Connection { peer, watch, state: Mutex::new(state) });
        let mut all = lock(&self.all);
        let mut greeting = HashMap::<IpAddr, Vec<&Arc<Connection>>>::new();
        for e in all.iter().filter(|e| lock(&e.state).stage == Stage::Greeting) {
            greeting.entry(network(&e.peer)).or_default().push(e);
        }
        // As many as clients: they greet within seconds, or are disconnected.
        if greeting.values().map(Vec::len).sum::<usize>() >= self.clients.max(16) {
            // They are in the order in which they came.
            let crowd =
                greeting.values().max_by_key(|of_one| (of_one.len(), std::cmp::Reverse(lock(&of_one[0].state).since)));
            if let Some(oldest) = crowd.map(|of_one| of_one[0].clone()) {
                log_debug!("RPC server: {} gives way before it has greeted", oldest.peer);
                oldest.give_way();
                all.retain(|e| !Arc::ptr_eq(e, &oldest));
            }
        }
        all.push(entry.clone());
        drop(all);
        Ok(Place { places: self.clone(), entry })
    }

    /// Makes a connection that has greeted a client.
    fn admit(&self, new: &Arc<Connection>) -> Result<()> {
        let mut all = lock(&self.all);
        let (mut clients, mut own, its) = (0, 0, network(&new.peer));
        for e in all.iter().filter(|e| lock(&e.state).stage != Stage::Greeting) {
            clients += 1;
            own += usize::from(network(&e.peer) == its);
        }
        let is_crowd = own >= self.per_address;
        if is_crowd || clients >= self.clients {
            let silent = |e: &Arc<Connection>| lock(&e.state).gives_way(&self.patience).map(|order| (order, e.clone()));
            let may = all.iter().filter(|e| !is_crowd || network(&e.peer) == its).filter_map(silent);
            let mut may: Vec<_> = may.collect();
            may.sort_by_key(|(order, _)| *order);
            // A request of it may have come in the meantime.
            let found = may.into_iter().find(|(_, e)| e.gives_way(&self.patience));
            let Some(((stage, since), victim)) = found else {
                return Err(Error::Backend(format!(
                    "it is turned away: {clients} clients are connected (at most {}), {own} from its address (at most {}), and none of them gives way",
                    self.clients, self.per_address
                )));
            };
            let has = if stage == Stage::Empty { "no memory here" } else { "computed nothing" };
            log_warn!(
                "RPC server: {} gives way to {}: it was silent for {} s and has {has}",
                victim.peer,
                new.peer,
                since.elapsed().as_secs()
            );
            all.retain(|e| !Arc::ptr_eq(e, &victim));
        }
        let mut state = lock(&new.state);
        if state.gave_way {
            return Err(gave_way());
        }
        (state.stage, state.since) = (Stage::Empty, Instant::now());
        Ok(())
    }
}

fn gave_way() -> Error {
    Error::Backend("it has given way to another client".into())
}

impl ConnectionState {
    /// When it may give way: its place in the order of those that do.
    fn gives_way(&self, patience: &Patience) -> Option<(Stage, Instant)> {
        let silent = self.since.elapsed();
        let may = match self.stage {
            Stage::Greeting => false,
            Stage::Empty => silent >= patience.empty,
            Stage::Unused => silent >= patience.unused,
            Stage::Working => false,
        };
        (may && !self.is_busy && !self.gave_way).then_some((self.stage, self.since))
    }
}

impl Connection {
    fn give_way(&self) {
        lock(&self.state).gave_way = true;
        self.watch.close();
    }

    /// Gives way, if it still may.
    fn gives_way(&self, patience: &Patience) -> bool {
        let mut state = lock(&self.state);
        if state.gives_way(patience).is_none() {
            return false;
        }
        state.gave_way = true;
        self.watch.close();
        true
    }
}

/// The place of a connection, until it is dropped.
pub struct Place {
    places: Arc<Places>,
    entry: Arc<Connection>,
}

impl Place {
    /// The connection.
    pub fn watch(&self) -> &Arc<Watch> {
        &self.entry.watch
    }

    /// Whether the connection was closed in favour of another.
    pub fn gave_way(&self) -> bool {
        lock(&self.entry.state).gave_way
    }

    /// It has greeted, and gets the place of a client.
    ///
    /// # Errors
    /// There is none, and no client gives way.
    pub fn greeted(&self) -> Result<()> {
        self.places.admit(&self.entry)
    }

    /// A request has come whole: it does not give way until it is answered.
    ///
    /// # Errors
    /// It has given way.
    pub fn begin(&self) -> Result<()> {
        let mut state = lock(&self.entry.state);
        if state.gave_way {
            return Err(gave_way());
        }
        state.is_busy = true;
        Ok(())
    }

    /// The request is answered.
    pub fn end(&self, stage: Stage) {
        let mut state = lock(&self.entry.state);
        (state.stage, state.is_busy, state.since) = (stage, false, Instant::now());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.places.all).retain(|e| !Arc::ptr_eq(e, &self.entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Connections that come from any address, as far as `places` knows.
    struct Hall {
        places: Arc<Places>,
        listener: TcpListener,
        far: Vec<TcpStream>,
    }

    impl Hall {
        /// `patience` in milliseconds.
        fn new(clients: usize, per_address: usize, patience: [u64; 2]) -> Self {
            let [empty, unused] = patience.map(Duration::from_millis);
            let places = Places::new(clients, per_address, Patience { empty, unused });
            Self { places, listener: TcpListener::bind("127.0.0.1:0").unwrap(), far: Vec::new() }
        }

        fn enter(&mut self, address: &str) -> Place {
            self.far.push(TcpStream::connect(self.listener.local_addr().unwrap()).unwrap());
            let (near, _) = self.listener.accept().unwrap();
            self.places.enter(&near, SocketAddr::new(address.parse().unwrap(), 1)).unwrap()
        }

        fn client(&mut self, address: &str) -> Result<Place> {
            let place = self.enter(address);
            place.greeted().map(|()| place)
        }
    }

    #[test]
    fn silent_connections_take_no_place_and_a_crowd_only_its_own() {
        let mut hall = Hall::new(2, 2, [5000, 5000]);
        let first: Vec<_> = (0..12).map(|_| hall.enter("10.0.0.1")).collect();
        let other = hall.enter("10.0.0.2");
        let more: Vec<_> = (0..40).map(|_| hall.enter("10.0.0.1")).collect();
        assert!(first.iter().all(Place::gave_way) && !other.gave_way());
        assert_eq!(more.iter().filter(|p| !p.gave_way()).count(), 15);
        assert_eq!(hall.places.taken(), 16);
        other.greeted().unwrap();
        let last = hall.client("10.0.0.1").unwrap();
        assert!(more[0].greeted().is_err() && !last.gave_way());
        drop((first, other, more, last));
        assert_eq!(hall.places.taken(), 0);
    }

    #[test]
    fn clients_give_way_by_what_they_have_and_how_long_they_are_silent() {
        let mut hall = Hall::new(4, 4, [500, 1800]);
        let all: Vec<_> = (0..4).map(|_| hall.client("10.0.0.1").unwrap()).collect();
        // None is silent long enough.
        assert!(hall.client("10.0.0.2").is_err_and(|e| e.to_string().contains("turned away")));
        all[0].end(Stage::Working);
        all[1].end(Stage::Unused);
        std::thread::sleep(Duration::from_millis(550));
        all[2].begin().unwrap();
        let fifth = hall.client("10.0.0.2").unwrap();
        assert!(all[3].gave_way() && all[3].begin().is_err());
        assert!(hall.client("10.0.0.2").is_err());
        all[2].end(Stage::Working);
        fifth.end(Stage::Working);
        std::thread::sleep(Duration::from_millis(1400));
        let sixth = hall.client("10.0.0.3").unwrap();
        assert!(all[1].gave_way());
        sixth.end(Stage::Working);
        std::thread::sleep(Duration::from_millis(600));
        // All that are left have computed.
        assert!(hall.client("10.0.0.4").is_err());
        assert!([&all[0], &all[2], &fifth, &sixth].iter().all(|p| !p.gave_way()));
    }

    #[test]
    fn an_address_has_a_share() {
        let mut hall = Hall::new(8, 3, [600, 600]);
        let own: Vec<_> = (0..3).map(|_| hall.client("10.0.0.1").unwrap()).collect();
        let others: Vec<_> = ["10.0.0.2", "2001:db8::1", "2001:db8::2"].map(|a| hall.client(a).unwrap()).into();
        assert!(hall.client("10.0.0.1").is_err() && hall.client("::ffff:10.0.0.1").is_err());
        let third = hall.client("2001:db8:0:0:ffff::").unwrap();
        assert!(hall.client("2001:db8::4").is_err() && hall.client("2001:db8:0:1::4").is_ok());
        std::thread::sleep(Duration::from_millis(650));
        // One of its own gives way, though others are silent longer.
        others[0].end(Stage::Empty);
        own.iter().for_each(|p| p.end(Stage::Empty));
        std::thread::sleep(Duration::from_millis(650));
        let again = hall.client("10.0.0.1").unwrap();
        assert_eq!(own.iter().filter(|p| p.gave_way()).count(), 1);
        assert!(own[0].gave_way() && others.iter().chain([&third, &again]).all(|p| !p.gave_way()));
    }
}
