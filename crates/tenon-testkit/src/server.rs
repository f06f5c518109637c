//! The scripted model server: listens on a free loopback port, keeps every request, and gives each one
//! the first reply of the script that has uses left and accepts it.
//!
//! A server without a script ([`Server::answering`]) makes up each reply from the request.
//!
//! What a reply says is in `reply.rs`. It works from sync and async tests; the `wait_for_…` calls block
//! their thread, so an async test needs a multi-thread runtime or `spawn_blocking` for them.

use std::collections::HashMap;
use std::io::BufReader;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::{self, Ending};
use crate::render::{Action, Ask, render};
use crate::reply::{Reply, Uses, reply};
use crate::{Captured, Wire};

pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    script: Vec<Entry>,
    /// Who answers what the script does not.
    otherwise: Option<Answering>,
    requests: Vec<Captured>,
    probes: Vec<Captured>,
    unexpected: Vec<String>,
    clients_left: usize,
    stopping: bool,
    connections: HashMap<u64, TcpStream>,
}

type Answering = Arc<dyn Fn(&Value) -> Reply + Send + Sync>;

struct Entry {
    reply: Reply,
    /// The place in the script, from 1.
    number: usize,
    /// Rendered once for each form in which it was asked for.
    rendered: HashMap<Ask, Arc<Vec<Action>>>,
}

impl Server {
    /// Starts a server that gives these replies, in order of arrival.
    pub fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free loopback port");
        let address = listener.local_addr().expect("the address of a bound socket");
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        for reply in script {
            shared.add(reply);
        }
        let acceptor = std::thread::spawn({
            let shared = shared.clone();
            move || accept(&listener, &shared)
        });
        Self { shared, address, acceptor: Some(acceptor) }
    }

    /// Starts a server whose reply depends on nothing but the body of the request, so that it is the same whenever it
    /// is asked for.
    pub fn answering(answer: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        let server = Self::start([]);
        server.shared.lock().otherwise = Some(Arc::new(answer));
        server
    }

    /// `http://127.0.0.1:PORT/v1`: where the OpenAI wires are asked.
    pub fn base_url(&self) -> String {
        format!("{}/v1", self.origin())
    }

    /// `http://127.0.0.1:PORT`: where the others are asked.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Adds a reply to the end of the script.
    pub fn push(&self, reply: Reply) {
        self.shared.add(reply);
    }

    /// Every POST so far, in order of arrival.
    pub fn requests(&self) -> Vec<Captured> {
        self.shared.lock().requests.clone()
    }

    /// The request with this number, from 0.
    #[track_caller]
    pub fn request(&self, number: usize) -> Captured {
        let requests = self.requests();
        let count = requests.len();
        requests
            .into_iter()
            .nth(number)
            .unwrap_or_else(|| panic!("no request number {number}: the server received {count}"))
    }

    /// Every request that is not a POST, such as a look at `/v1/models`.
    pub fn probes(&self) -> Vec<Captured> {
        self.shared.lock().probes.clone()
    }

    /// One sentence for each request the script had no reply for.
    pub fn unexpected(&self) -> Vec<String> {
        self.shared.lock().unexpected.clone()
    }

    /// How many clients closed their connection before the reply was complete.
    pub fn clients_left(&self) -> usize {
        self.shared.lock().clients_left
    }

    /// Blocks until so many requests arrived and returns all of them; fails the test otherwise.
    #[track_caller]
    pub fn wait_for_requests(&self, count: usize, timeout: Duration) -> Vec<Captured> {
        match self.shared.wait_until(timeout, |state| state.requests.len() >= count) {
            Ok(state) => state.requests.clone(),
            Err(state) => panic!(
                "{} of {count} requests arrived within {timeout:?}; unexpected: {:?}",
                state.requests.len(),
                state.unexpected
            ),
        }
    }

    /// Blocks until so many clients left in mid-reply; fails the test otherwise.
    #[track_caller]
    pub fn wait_for_clients_left(&self, count: usize, timeout: Duration) {
        if let Err(state) = self.shared.wait_until(timeout, |state| state.clients_left >= count) {
            panic!("{} of {count} clients left within {timeout:?}", state.clients_left);
        }
    }

    /// Fails the test if a request had no reply, or a reply no request.
    #[track_caller]
    pub fn assert_script_done(&self) {
        let state = self.shared.lock();
        assert!(state.unexpected.is_empty(), "requests without a reply: {:?}", state.unexpected);
        let unused: Vec<usize> = (0..state.script.len())
            .filter(|&number| matches!(state.script[number].reply.uses, Uses::Times(left) if left > 0))
            .collect();
        let asked = state.requests.len();
        assert!(unused.is_empty(), "{asked} requests arrived; replies never used (from 0): {unused:?}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        {
            let mut state = self.shared.lock();
            state.stopping = true;
            for stream in state.connections.values() {
                let _ = stream.shutdown(Shutdown::Both);
            }
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
        // A failed assertion while the lock was held must not hide behind a second panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, reply: Reply) {
        let mut state = self.lock();
        let number = state.script.len() + 1;
        let mut entry = Entry { reply, number, rendered: HashMap::new() };
        // A generated stream must not cost the first request its time; chat completions is asked most.
        entry.answer(Ask::of(&Wire::Chat.path(), &Value::Null));
        state.script.push(entry);
    }

    fn wait_until(
        &self,
        timeout: Duration,
        done: impl Fn(&State) -> bool,
    ) -> Result<MutexGuard<'_, State>, MutexGuard<'_, State>> {
        let (state, _) = self
            .changed
            .wait_timeout_while(self.lock(), timeout, |state| !done(state))
            .unwrap_or_else(PoisonError::into_inner);
        if done(&state) { Ok(state) } else { Err(state) }
    }

    /// Keeps the request and finds its reply.
    fn receive(&self, request: http::Request) -> Arc<Vec<Action>> {
        let captured = Captured {
            method: request.method,
            path: request.path,
            headers: request.headers,
            body: serde_json::from_slice(&request.body).unwrap_or(Value::Null),
            raw: request.body,
            at: Instant::now(),
        };
        let mut state = self.lock();
        let actions = if captured.method == "POST" {
            let actions = state.answer(&captured);
            state.requests.push(captured);
            actions
        } else {
            let ask = Ask::of(&captured.path, &captured.body);
            let actions = Arc::new(render(&answer_probe(&captured), 0, ask));
            state.probes.push(captured);
            actions
        };
        self.changed.notify_all();
        actions
    }
}

impl State {
    fn answer(&mut self, request: &Captured) -> Arc<Vec<Action>> {
        let ask = Ask::of(&request.path, &request.body);
        let found = self.script.iter_mut().find(|entry| {
            let left = !matches!(entry.reply.uses, Uses::Times(0));
            left && entry.reply.when.as_ref().is_none_or(|accepts| accepts(&request.body))
        });
        if let Some(entry) = found {
            if let Uses::Times(left) = &mut entry.reply.uses {
                *left -= 1;
            }
            return entry.answer(ask);
        }
        let number = self.requests.len() + 1;
        if let Some(answer) = &self.otherwise {
            return Arc::new(render(&answer(&request.body), number, ask));
        }
        let replies = self.script.len();
        let message =
            format!("the script is exhausted: request {number} has no reply (the script has {replies})");
        self.unexpected.push(message.clone());
        Arc::new(render(&reply().status(500).error_message(message), number, ask))
    }
}

impl Entry {
    fn answer(&mut self, ask: Ask) -> Arc<Vec<Action>> {
        let Self { reply, number, rendered } = self;
        rendered.entry(ask).or_insert_with(|| Arc::new(render(reply, *number, ask))).clone()
    }
}

fn answer_probe(request: &Captured) -> Reply {
    if request.method == "GET" && request.path.ends_with("/v1beta/models") {
        let model = json!({"name": "models/test-model", "displayName": "test-model"});
        return reply().json(json!({"models": [model]}));
    }
    if request.method == "GET" && request.path.ends_with("/models") {
        let model = json!({"id": "test-model", "object": "model", "created": 0, "owned_by": "tests"});
        return reply().json(json!({"object": "list", "data": [model]}));
    }
    reply().status(404)
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for (number, stream) in (0..).zip(listener.incoming()) {
        let Ok(stream) = stream else { continue };
        let Ok(handle) = stream.try_clone() else { continue };
        {
            let mut state = shared.lock();
            if state.stopping {
                return;
            }
            state.connections.insert(number, handle);
        }
        let shared = shared.clone();
        std::thread::spawn(move || {
            serve(stream, &shared);
            // Closed by hand: the copy in the table would keep the socket open.
            if let Some(stream) = shared.lock().connections.remove(&number) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        });
    }
}

/// One connection: request after request until someone closes it.
fn serve(stream: TcpStream, shared: &Shared) {
    // Small writes are the point of a scripted stream.
    let _ = stream.set_nodelay(true);
    let mut reader = BufReader::new(stream);
    while let Ok(Some(request)) = http::read_request(&mut reader) {
        let actions = shared.receive(request);
        match http::perform(reader.get_ref(), &actions, || shared.lock().requests.len()) {
            Ending::Complete => {}
            Ending::Closed => return,
            Ending::ClientLeft => {
                let mut state = shared.lock();
                if !state.stopping {
                    state.clients_left += 1;
                    shared.changed.notify_all();
                }
                return;
            }
        }
    }
}
