//! A proxy in front of a server that mangles what the server answers: by chance, but the same chance for the
//! same seed.
//!
//! An answer is taken in pieces of a size that the seed decides, however the bytes arrive, and each piece
//! meets its fate when its first byte comes. So the bytes a client gets depend on the seed, the number of the
//! connection and the answer alone.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::Server;

/// Pieces are shorter than most events, so that mischief falls inside of them.
const MAX_PIECE_BYTES: u64 = 120;
/// Long enough to separate two reads of the client, short enough for thousands of them.
const MAX_DELAY_MILLISECONDS: u64 = 4;
/// After bytes were lost or added, the length that the head promised is wrong and a client may wait for bytes
/// that never come: when the server has been silent for so long, the connection closes.
const SILENCE_AFTER_DAMAGE: Duration = Duration::from_millis(500);

/// How probable each mischief is, for each piece of an answer (some 60 bytes), from 0 to 1. The first that
/// happens, in this order, is the only one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mischief {
    /// The connection closes before the piece.
    pub cut: f64,
    /// The piece comes a few milliseconds late.
    pub delay: f64,
    /// The piece comes twice.
    pub duplicate: f64,
    /// The end of the piece is lost; what follows is not.
    pub truncate: f64,
    /// One byte of the piece is another one.
    pub garble: f64,
}

pub struct Chaos {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    server: SocketAddr,
    seed: u64,
    mischief: Mischief,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    deeds: usize,
    stopping: bool,
    connections: HashMap<u64, [TcpStream; 2]>,
}

impl Chaos {
    /// Starts a proxy on a free loopback port.
    pub fn start(server: &Server, seed: u64, mischief: Mischief) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free loopback port");
        let address = listener.local_addr().expect("the address of a bound socket");
        let server = SocketAddr::from(([127, 0, 0, 1], server.port()));
        let shared = Arc::new(Shared { server, seed, mischief, state: Mutex::default() });
        let acceptor = std::thread::spawn({
            let shared = shared.clone();
            move || accept(&listener, &shared)
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    /// `http://127.0.0.1:PORT`, for `Wire::env_at` and `Tenon::origin_on`.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// `http://127.0.0.1:PORT/v1`
    pub fn base_url(&self) -> String {
        format!("{}/v1", self.origin())
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// How often mischief happened so far.
    pub fn deeds(&self) -> usize {
        self.shared.lock().deeds
    }
}

impl Drop for Chaos {
    fn drop(&mut self) {
        {
            let mut state = self.shared.lock();
            state.stopping = true;
            state.connections.values().for_each(close);
        }
        // Wakes the thread that waits for a connection.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for (number, client) in (0..).zip(listener.incoming()) {
        let Ok(client) = client else { continue };
        if shared.lock().stopping {
            return;
        }
        // Without its server, the client sees its connection close.
        let Ok(server) = TcpStream::connect(shared.server) else { continue };
        let shared = shared.clone();
        std::thread::spawn(move || {
            let _ = relay(&shared, number, client, server);
            if let Some(both) = shared.lock().connections.remove(&number) {
                close(&both);
            }
        });
    }
}

fn relay(shared: &Shared, number: u64, client: TcpStream, server: TcpStream) -> std::io::Result<()> {
    // The sizes of the writes are part of the mischief.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    {
        let mut state = shared.lock();
        let both = [client.try_clone()?, server.try_clone()?];
        if state.stopping {
            close(&both);
            return Ok(());
        }
        state.connections.insert(number, both);
    }
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        close(&[from_client, to_server]);
    });
    answers(shared, number, server, client)
}

fn close(both: &[TcpStream; 2]) {
    for stream in both {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Pass,
    Cut,
    Delay(Duration),
    Duplicate,
    /// So many bytes are kept.
    Truncate(usize),
    /// The byte at this place is changed by this.
    Garble(usize, u8),
}

/// From the server to the client, until one of them leaves or the connection is cut.
fn answers(
    shared: &Shared,
    number: u64,
    mut server: TcpStream,
    mut client: TcpStream,
) -> std::io::Result<()> {
    let mut chance = Chance(shared.seed ^ Chance(number).next());
    let mut buffer = [0; 16 * 1024];
    let (mut piece, mut size, mut fate) = (Vec::new(), 0, Fate::Pass);
    loop {
        let count = server.read(&mut buffer)?;
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            if piece.len() == size {
                piece.clear();
                size = 1 + chance.below(MAX_PIECE_BYTES) as usize;
                fate = shared.mischief.draw(&mut chance, size);
                shared.lock().deeds += usize::from(fate != Fate::Pass);
                match fate {
                    Fate::Pass => {}
                    Fate::Cut => return Ok(()),
                    Fate::Delay(delay) => std::thread::sleep(delay),
                    Fate::Duplicate | Fate::Truncate(_) | Fate::Garble(..) => {
                        server.set_read_timeout(Some(SILENCE_AFTER_DAMAGE))?;
                    }
                }
            }
            let (now, later) = rest.split_at(rest.len().min(size - piece.len()));
            let from = piece.len();
            piece.extend_from_slice(now);
            client.write_all(&changed(&piece, from, fate))?;
            if fate == Fate::Duplicate && piece.len() == size {
                client.write_all(&piece)?;
            }
            rest = later;
        }
        if count == 0 {
            return Ok(());
        }
    }
}

/// The bytes of the piece from this place on, as the client gets them.
fn changed(piece: &[u8], from: usize, fate: Fate) -> Vec<u8> {
    let mut bytes = piece[from..].to_vec();
    match fate {
        Fate::Truncate(kept) => bytes.truncate(kept.saturating_sub(from)),
        Fate::Garble(at, change) => {
            if let Some(byte) = at.checked_sub(from).and_then(|at| bytes.get_mut(at)) {
                *byte ^= change;
            }
        }
        Fate::Pass | Fate::Cut | Fate::Delay(_) | Fate::Duplicate => {}
    }
    bytes
}

impl Mischief {
    fn draw(&self, chance: &mut Chance, size: usize) -> Fate {
        let mut happens = |probability: f64| chance.unit() < probability;
        if happens(self.cut) {
            Fate::Cut
        } else if happens(self.delay) {
            Fate::Delay(Duration::from_millis(1 + chance.below(MAX_DELAY_MILLISECONDS)))
        } else if happens(self.duplicate) {
            Fate::Duplicate
        } else if happens(self.truncate) {
            Fate::Truncate(chance.below(size as u64) as usize)
        } else if happens(self.garble) {
            let change = 1 + chance.below(255) as u8;
            Fate::Garble(chance.below(size as u64) as usize, change)
        } else {
            Fate::Pass
        }
    }
}

/// `SplitMix64`: all the randomness that mischief needs.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
