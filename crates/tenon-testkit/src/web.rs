//! A plain web server for what is not a model: hooks, pages to fetch. It answers each request with what a
//! function of the test says, and keeps what was asked.

use std::io::BufReader;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use crate::http::{self, Ending, Request};
use crate::render::Action;

pub struct Web {
    shared: Arc<Shared>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    answer: Box<dyn Fn(&WebRequest) -> Page + Send + Sync>,
    requests: Mutex<Vec<WebRequest>>,
    connections: Mutex<Vec<TcpStream>>,
    stopping: AtomicBool,
}

/// What was asked.
#[derive(Clone, Debug)]
pub struct WebRequest {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl WebRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        http::header(&self.headers, name)
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }
}

/// What is answered.
#[derive(Clone, Debug)]
pub struct Page {
    status: u16,
    headers: Vec<(String, String)>,
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    Whole(Vec<u8>),
    Endless(Vec<u8>),
    ThenSilence(Vec<u8>),
}

impl Page {
    pub fn new(content_type: &str, body: impl Into<Vec<u8>>) -> Page {
        let headers = vec![("content-type".to_owned(), content_type.to_owned())];
        Page { status: 200, headers, body: Body::Whole(body.into()) }
    }

    pub fn json(value: &Value) -> Page {
        Page::new("application/json", value.to_string())
    }

    pub fn redirect(to: &str) -> Page {
        Page::new("text/plain", "").status(302).header("location", to)
    }

    #[must_use]
    pub fn status(mut self, status: u16) -> Page {
        self.status = status;
        self
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Page {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The body again and again, for as long as the client listens.
    #[must_use]
    pub fn endless(mut self) -> Page {
        if let Body::Whole(body) = self.body {
            self.body = Body::Endless(body);
        }
        self
    }

    /// The body, then nothing, and the connection stays open.
    #[must_use]
    pub fn then_silence(mut self) -> Page {
        if let Body::Whole(body) = self.body {
            self.body = Body::ThenSilence(body);
        }
        self
    }

    fn actions(&self) -> Vec<Action> {
        let mut head = format!("HTTP/1.1 {} Status\r\n", self.status);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut actions = match &self.body {
            Body::Whole(body) => {
                head.push_str(&format!("content-length: {}\r\n", body.len()));
                vec![Action::Write(body.clone())]
            }
            Body::Endless(body) => vec![Action::Endless(body.clone(), Duration::ZERO)],
            Body::ThenSilence(body) => vec![Action::Write(body.clone()), Action::Hang],
        };
        head.push_str("connection: close\r\n\r\n");
        actions.insert(0, Action::Write(head.into_bytes()));
        actions
    }
}

impl Web {
    pub fn start(answer: impl Fn(&WebRequest) -> Page + Send + Sync + 'static) -> Web {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free loopback port");
        let address = listener.local_addr().expect("the address of a bound socket");
        let shared = Arc::new(Shared {
            answer: Box::new(answer),
            requests: Mutex::default(),
            connections: Mutex::default(),
            stopping: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        let acceptor = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if accepting.stopping.load(Ordering::SeqCst) {
                    return;
                }
                let shared = Arc::clone(&accepting);
                if let Ok(copy) = stream.try_clone() {
                    shared.connections.lock().unwrap_or_else(PoisonError::into_inner).push(copy);
                }
                std::thread::spawn(move || shared.serve(&stream));
            }
        });
        Web { shared, address, acceptor: Some(acceptor) }
    }

    /// `http://127.0.0.1:PORT`
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn requests(&self) -> Vec<WebRequest> {
        self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Shared {
    fn serve(&self, stream: &TcpStream) {
        let Ok(copy) = stream.try_clone() else { return };
        let mut reader = BufReader::new(copy);
        while let Ok(Some(Request { method, path, headers, body })) = http::read_request(&mut reader) {
            let request = WebRequest { method, path, headers, body };
            let page = (self.answer)(&request);
            self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
            if http::perform(stream, &page.actions(), || 0) != Ending::Complete {
                return;
            }
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        for connection in self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        // Wakes the acceptor up, so that it sees the word.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}
