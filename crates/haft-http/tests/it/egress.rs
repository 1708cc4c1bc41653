//! The proxy of sandboxes, over real sockets: what it reaches, and what it never does.

use std::net::TcpListener as StdListener;
use std::sync::Arc;

use haft_http::egress::{
    Allowance, Credential, Credentials, Egress, EgressSettings, HostRule, ServingEgress,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

/// A proxy, and where it listens.
struct Proxy {
    port: u16,
    _serving: ServingEgress,
}

fn proxy(egress: Egress) -> Proxy {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    Proxy { port, _serving: egress.serve(&Handle::current(), listener).unwrap() }
}

/// Pins a name to this machine at one port, as an operator may.
fn pinned(name: &str, port: u16) -> Arc<EgressSettings> {
    let rule: HostRule = format!("{name}:{port}").parse().unwrap();
    let resolve = [(rule, "127.0.0.1".parse().unwrap())].into();
    let settings = EgressSettings { resolve, ..EgressSettings::default() };
    settings.check().unwrap();
    settings.into()
}

fn only(rules: &[&str]) -> Allowance {
    Allowance::Only(rules.iter().map(|rule| rule.parse().unwrap()).collect())
}

/// A server that tells what it was sent.
async fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut buffer = vec![0; 4096];
                let count = stream.read(&mut buffer).await.unwrap_or(0);
                let said = String::from_utf8_lossy(&buffer[..count]).into_owned();
                let length = said.len();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{said}"
                );
                stream.write_all(answer.as_bytes()).await.ok();
            });
        }
    });
    port
}

async fn say(proxy: &Proxy, text: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A refused connection may be reset after its answer.
    stream.read_to_end(&mut answer).await.ok();
    String::from_utf8_lossy(&answer).into_owned()
}

async fn get(proxy: &Proxy, url: &str) -> String {
    say(proxy, &format!("GET {url} HTTP/1.1\r\nhost: other.example\r\nconnection: close\r\n\r\n"))
        .await
}

async fn connect(proxy: &Proxy, authority: &str) -> String {
    let asked = format!("CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n\r\n");
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
    stream.write_all(asked.as_bytes()).await.unwrap();
    let mut answer = vec![0; 1024];
    let count = stream.read(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer[..count]).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_allowed_is_reached_by_both_ways() {
    let port = echo().await;
    let proxy =
        proxy(Egress::new(only(&[&format!("api.example:{port}")]), pinned("api.example", port)));
    let answer = get(&proxy, &format!("http://api.example:{port}/x?y=1")).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("GET /x?y=1 HTTP/1.1"), "{answer}");
    assert!(answer.contains(&format!("host: api.example:{port}")), "{answer}");
    assert!(!answer.contains("other.example"), "the host is the one that was checked: {answer}");
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
    let asked = format!("CONNECT api.example:{port} HTTP/1.1\r\n\r\n");
    stream.write_all(asked.as_bytes()).await.unwrap();
    let mut head = [0; 1024];
    let count = stream.read(&mut head).await.unwrap();
    assert!(head[..count].starts_with(b"HTTP/1.1 200"));
    stream.write_all(b"anything at all").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("anything at all"), "{answer}");
}

/// X8: whatever the allowance, nothing of this machine, its network or its cloud is reached.
#[tokio::test(flavor = "multi_thread")]
async fn addresses_that_are_not_public_are_never_reached() {
    let port = echo().await;
    let proxy = proxy(Egress::new(Allowance::Public, Arc::default()));
    let hosts = [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "0.0.0.0",
        "169.254.169.254",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "224.0.0.1",
        "[ff02::1]",
        "[64:ff9b::7f00:1]",
    ];
    for host in hosts {
        for answer in [
            connect(&proxy, &format!("{host}:{port}")).await,
            get(&proxy, &format!("http://{host}:{port}/")).await,
        ] {
            assert!(answer.starts_with("HTTP/1.1 403"), "{host}: {answer}");
        }
        let said = get(&proxy, &format!("http://{host}:{port}/")).await;
        assert!(said.contains("not an address of the public internet"), "{host}: {said}");
    }
    for odd in ["127.1", "2130706433", "0x7f000001", "user@127.0.0.1", "127.0.0.1\u{ff0e}x"] {
        let answer = get(&proxy, &format!("http://{odd}:{port}/")).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{odd}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limited_environment_reaches_its_hosts_and_ports_only() {
    let port = echo().await;
    let settings = pinned("api.example", port);
    let proxy = proxy(Egress::new(only(&["api.example", "*.other.example"]), settings));
    for host in [format!("api.example:{port}"), "evil.example:443".to_owned(), "1.1.1.1:443".into()]
    {
        let answer = connect(&proxy, &host).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{host}: {answer}");
        let answer = get(&proxy, &format!("http://{host}/")).await;
        assert!(answer.contains("not among the hosts"), "{host}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_operator_denies_is_reached_by_nobody() {
    let port = echo().await;
    let mut settings = EgressSettings::clone(&pinned("api.example", port));
    settings.deny = vec!["*.example".parse().unwrap()];
    let proxy = proxy(Egress::new(Allowance::Public, settings.into()));
    let answer = get(&proxy, &format!("http://api.example:{port}/")).await;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("operator"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_to_a_proxy_is_refused() {
    let proxy = proxy(Egress::new(Allowance::Public, Arc::default()));
    for text in [
        "GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n",
        "GET https://api.example/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        "GET ftp://api.example/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        "CONNECT api.example HTTP/1.1\r\nconnection: close\r\n\r\n",
    ] {
        let answer = say(&proxy, text).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{text}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_connections_of_a_proxy_end_with_it() {
    let port = echo().await;
    let served = proxy(Egress::new(Allowance::Public, pinned("api.example", port)));
    let mut stream = TcpStream::connect(("127.0.0.1", served.port)).await.unwrap();
    let asked = format!("CONNECT api.example:{port} HTTP/1.1\r\n\r\n");
    stream.write_all(asked.as_bytes()).await.unwrap();
    let count = stream.read(&mut [0; 1024]).await.unwrap();
    assert!(count > 0);
    drop(served);
    assert_eq!(stream.read(&mut [0; 16]).await.unwrap_or(0), 0);
}

struct Keys;

impl Credentials for Keys {
    fn of<'a>(
        &'a self,
        host: &'a str,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Option<Credential>, String>> + Send + 'a>>
    {
        Box::pin(async move {
            match host {
                "api.example" => {
                    Ok(Some(("authorization".parse().unwrap(), "Bearer s3cret".parse().unwrap())))
                }
                "lost.example" => Err("it was deleted".to_owned()),
                _ => Ok(None),
            }
        })
    }
}

/// A request that is to carry a credential never goes on in the clear, nor without it.
#[tokio::test(flavor = "multi_thread")]
async fn a_credential_goes_over_tls_or_not_at_all() {
    let port = echo().await;
    let rule = |name: &str| (name.parse::<HostRule>().unwrap(), "127.0.0.1".parse().unwrap());
    let names = ["api.example:80", "api.example:443", "lost.example:80", "lost.example:443"];
    let resolve = names.map(rule).into();
    let settings = EgressSettings { resolve, ..EgressSettings::default() };
    let egress = Egress::new(Allowance::Public, settings.into()).with_credentials(Arc::new(Keys));
    let proxy = proxy(egress);
    let answer = get(&proxy, "http://api.example/").await;
    assert!(answer.starts_with("HTTP/1.1 502"), "nothing speaks TLS there: {answer}");
    assert!(!answer.contains("s3cret"), "{answer}");
    let answer = get(&proxy, "http://lost.example/").await;
    assert!(answer.contains("it was deleted"), "{answer}");
    assert!(port > 0);
}

#[test]
fn settings_that_would_open_this_machine_are_refused() {
    let read = |toml: &str| serde_json::from_str::<EgressSettings>(toml);
    let open = read(r#"{"resolve":{"a.example":"127.0.0.1"}}"#).unwrap();
    assert!(open.check().unwrap_err().contains("needs a port"));
    let many = read(r#"{"resolve":{"*.a.example:80":"10.0.0.1"}}"#).unwrap();
    assert!(many.check().unwrap_err().contains("no single host"));
    assert!(read(r#"{"denny":[]}"#).unwrap_err().to_string().contains("`denny`"));
    assert!(read(r#"{"deny":["http://x"]}"#).unwrap_err().to_string().contains("http://x"));
    read(r#"{"resolve":{"a.example":"10.0.0.1","b.example:81":"127.0.0.1"}}"#)
        .unwrap()
        .check()
        .unwrap();
}
