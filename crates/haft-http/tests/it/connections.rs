//! When connections are used again, and when not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use haft_http::{Client, Endpoint, HttpError, Reach, Timeouts};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What a server does after an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    /// Waits for the next request.
    Waits,
    /// Hangs up without having said so.
    HangsUp,
}

/// Answers every request with its number, and counts its connections.
struct Counting {
    url: String,
    connections: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
}

impl Counting {
    async fn start(after: After) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/at", listener.local_addr().unwrap());
        let [connections, closed, requests] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
        let (opened, ended) = (Arc::clone(&connections), Arc::clone(&closed));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                opened.fetch_add(1, Ordering::SeqCst);
                let (requests, ended) = (Arc::clone(&requests), Arc::clone(&ended));
                tokio::spawn(async move {
                    serve(stream, requests, after).await;
                    ended.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self { url, connections, closed }
    }

    fn client(&self) -> Client {
        Client::new(Endpoint::exactly(&self.url).unwrap(), Timeouts::default(), &[]).unwrap()
    }

    fn n_connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn serve(stream: TcpStream, requests: Arc<AtomicUsize>, after: After) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        stream.read_exact(&mut vec![0; length]).await.unwrap();
        let body = requests.fetch_add(1, Ordering::SeqCst).to_string();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        if after == After::HangsUp {
            return;
        }
    }
}

async fn asked(client: &Client) -> Result<String, HttpError> {
    let answer = client.post(&[], b"{}".to_vec()).await?;
    Ok(String::from_utf8(answer.start_of_body(100).await).unwrap())
}

#[tokio::test]
async fn a_pooled_client_uses_its_connection_again() {
    let server = Counting::start(After::Waits).await;
    let client = server.client().pooled();
    for n in 0..5 {
        assert_eq!(asked(&client).await.unwrap(), n.to_string());
    }
    assert_eq!(server.n_connections(), 1);
    let below = Endpoint::exactly(&server.url.replace("/at", "/elsewhere")).unwrap();
    assert_eq!(asked(&client.at(below).unwrap()).await.unwrap(), "5");
    assert_eq!(server.n_connections(), 1, "another place of the same origin shares it");
    let elsewhere = Endpoint::exactly("http://127.0.0.1:1/at").unwrap();
    assert!(client.at(elsewhere).is_none(), "another origin does not");
}

#[tokio::test]
async fn a_client_without_a_pool_connects_for_each_request() {
    let server = Counting::start(After::Waits).await;
    let client = server.client();
    for n in 0..3 {
        assert_eq!(asked(&client).await.unwrap(), n.to_string());
    }
    assert_eq!(server.n_connections(), 3);
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_replaced() {
    let server = Counting::start(After::HangsUp).await;
    let client = server.client().pooled();
    for n in 0..20 {
        assert_eq!(asked(&client).await.unwrap(), n.to_string());
        while server.closed.load(Ordering::SeqCst) <= n {
            tokio::task::yield_now().await;
        }
        // The end of the connection is on its way: the runtime looks for it once.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(server.n_connections(), 20);
}

#[tokio::test]
async fn an_answer_that_is_not_read_takes_its_connection_along() {
    let server = Counting::start(After::Waits).await;
    let client = server.client().pooled();
    drop(client.post(&[], b"{}".to_vec()).await.unwrap());
    assert_eq!(asked(&client).await.unwrap(), "1");
    assert_eq!(server.n_connections(), 2);
}

#[tokio::test]
async fn several_requests_at_once_have_a_connection_each_and_share_them_later() {
    let server = Counting::start(After::Waits).await;
    let client = server.client().pooled();
    for _ in 0..3 {
        let (a, b, c) = tokio::join!(asked(&client), asked(&client), asked(&client));
        assert!(a.is_ok() && b.is_ok() && c.is_ok());
    }
    assert!(server.n_connections() <= 3, "{}", server.n_connections());
}

#[tokio::test]
async fn a_public_reach_does_not_lead_to_this_machine() {
    let server = Counting::start(After::Waits).await;
    let endpoint = Endpoint::exactly(&server.url.replace("127.0.0.1", "localhost")).unwrap();
    let trust = haft_http::Trust::of_the_system();
    let client = Client::reaching(Reach::Public, endpoint, Timeouts::default(), &trust).unwrap();
    let refused = asked(&client).await.unwrap_err();
    assert!(matches!(refused, HttpError::NotPublic { .. }), "{refused}");
    assert_eq!(server.n_connections(), 0);
}
