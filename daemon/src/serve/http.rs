//! Metrics and health over HTTP: one request per connection, one page.

use std::io::PipeWriter;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::connection::wait_for;
use super::error::ServeError;
use super::limiter::ConnectionLimiter;
use super::metrics::PageError;
use super::shared::Shared;
use super::{metrics, spawn, stop_pipe};
use crate::protocol::lines::{read_until, write_by};

/// Maximum scrapes at a time.
const MAX_SCRAPES: usize = 16;
/// Maximum bytes of request line and headers.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// Maximum headers.
const MAX_HEADERS: usize = 64;
/// Time-out for reading a request and for writing the page.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time for one sweep after which `/health` says that the daemon does not work.
const LONGEST_SWEEP: Duration = Duration::from_secs(60);

/// HTTP server of the metrics.
#[derive(Debug)]
pub(crate) struct MetricsServer {
    address: SocketAddr,
    listener: Option<TcpListener>,
    // Dropping this end stops the thread.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, ServeError> {
        let bound = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, listener))
        });
        let (address, listener) =
            bound.map_err(|source| ServeError::Metrics { address, source })?;
        Ok(Self { address, listener: Some(listener), stop: None, thread: None })
    }

    pub(crate) fn start(mut self, shared: &Arc<Shared>) -> Result<Self, ServeError> {
        let Some(listener) = self.listener.take() else { return Ok(self) };
        let (stopped, stop) = stop_pipe()?;
        let shared = Arc::clone(shared);
        let thread = spawn("metrics", move || {
            let limiter = ConnectionLimiter::new(MAX_SCRAPES);
            while wait_for(&listener, &stopped) {
                match listener.accept() {
                    Ok((stream, _)) => enter(stream, &shared, &limiter),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a scrape");
                        std::thread::sleep(Duration::from_millis(50));
                    }
                }
            }
            limiter.close();
        })?;
        self.stop = Some(stop);
        self.thread = Some(thread);
        Ok(self)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn stop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn enter(stream: TcpStream, shared: &Arc<Shared>, limiter: &Arc<ConnectionLimiter>) {
    let Ok(copy) = stream.try_clone() else { return };
    let Some(admission) = limiter.enter(move || drop(copy.shutdown(std::net::Shutdown::Both)))
    else {
        return;
    };
    let shared = Arc::clone(shared);
    let answered = spawn("scrape", move || {
        serve(&shared, stream);
        drop(admission);
    });
    if let Err(error) = answered {
        tracing::warn!(%error, "refused a scrape");
    }
}

fn serve(shared: &Shared, mut stream: TcpStream) {
    let deadline = Instant::now() + PATIENCE;
    if stream.set_nonblocking(false).is_err() {
        return;
    }
    let timeout = |stream: &TcpStream, left| stream.set_read_timeout(Some(left));
    let ends = |bytes: &[u8]| bytes.windows(4).any(|end| end == b"\r\n\r\n");
    let Some(head) = read_until(&mut stream, MAX_HEAD_BYTES, deadline, timeout, ends) else {
        return;
    };
    let page = respond(&head, shared.sweeping_for(), || metrics::page(shared));
    let timeout = |stream: &TcpStream, left| stream.set_write_timeout(Some(left));
    let _ = write_by(&mut stream, page.as_bytes(), Instant::now() + PATIENCE, timeout);
}

/// Returns the response to a request. `sweeping` is how long the running sweep has taken.
fn respond(
    head: &[u8],
    sweeping: Option<Duration>,
    page: impl FnOnce() -> Result<String, PageError>,
) -> String {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let plain = "text/plain; charset=utf-8";
    if !matches!(request.parse(head), Ok(httparse::Status::Complete(_))) {
        return reply("400 Bad Request", plain, "not an HTTP request\n", true);
    }
    let path = request.path.unwrap_or_default();
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let with_body = request.method != Some("HEAD");
    match (request.method, path) {
        (Some("GET" | "HEAD"), "/metrics") => match page() {
            Ok(text) => reply("200 OK", metrics::CONTENT_TYPE, &text, with_body),
            Err(error) => {
                tracing::warn!(%error, "no page of metrics");
                reply("500 Internal Server Error", plain, &format!("{error}\n"), with_body)
            }
        },
        (Some("GET" | "HEAD"), "/health" | "/healthz") => match sweeping {
            Some(taken) if taken > LONGEST_SWEEP => {
                let body = format!(
                    "maintenance has not ended for {} s, of at most {} s: restart the daemon\n",
                    taken.as_secs(),
                    LONGEST_SWEEP.as_secs()
                );
                reply("503 Service Unavailable", plain, &body, with_body)
            }
            _ => reply("200 OK", plain, "ok\n", with_body),
        },
        (Some("GET" | "HEAD"), _) => {
            let places = "metrics are at /metrics, and /health says ok\n";
            reply("404 Not Found", plain, places, with_body)
        }
        _ => reply("405 Method Not Allowed", plain, "only GET is answered\n", with_body),
    }
}

fn reply(status: &str, kind: &str, body: &str, with_body: bool) -> String {
    let body_bytes = body.len();
    let body = if with_body { body } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {body_bytes}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_and_health_are_served_and_only_to_get() {
        for (head, status) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
            ("GET /metrics?a=b HTTP/1.0\r\n\r\n", "200"),
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("GET /../metrics HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("rubbish\r\n\r\n", "400"),
            ("\u{0}\u{1}\r\n\r\n", "400"),
        ] {
            let answer = respond(head.as_bytes(), None, || Ok("up 1\n".to_owned()));
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head:?}: {answer}");
            assert_eq!(answer.ends_with("\r\n\r\nup 1\n"), status == "200", "{answer}");
        }
        for path in ["/health", "/healthz", "/health?full=1"] {
            let head = format!("GET {path} HTTP/1.1\r\n\r\n");
            for sweeping in [None, Some(LONGEST_SWEEP)] {
                let answer = respond(head.as_bytes(), sweeping, || panic!("nobody asked for it"));
                assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
                assert!(answer.ends_with("\r\n\r\nok\n"), "{answer}");
            }
            let hangs = Some(LONGEST_SWEEP + Duration::from_secs(1));
            let answer = respond(head.as_bytes(), hangs, || panic!("nobody asked for it"));
            assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("61 s"), "{answer}");
        }
        let short = || Err(PageError::Text(std::fmt::Error));
        let answer = respond(b"GET /metrics HTTP/1.1\r\n\r\n", None, short);
        assert!(answer.starts_with("HTTP/1.1 500 ") && answer.contains("cannot write"), "{answer}");
        let head = respond(b"HEAD /metrics HTTP/1.1\r\n\r\n", None, || Ok("up 1\n".to_owned()));
        assert!(head.contains("Content-Length: 5") && head.ends_with("\r\n\r\n"), "{head}");
        let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100));
        assert!(respond(many.as_bytes(), None, || Ok(String::new())).starts_with("HTTP/1.1 400"));
    }
}
