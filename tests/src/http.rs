//! A plain HTTP/1.1 client: one request per connection, nothing hidden.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// Long enough that only a server that hangs reaches it.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Header names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body, transfer coding undone, content coding not.
    pub body: Vec<u8>,
}

impl Response {
    /// The first header of this (lower-case) name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> Result<&str> {
        std::str::from_utf8(&self.body).context("the body is not UTF-8")
    }
}

/// Fetches `path`.
/// Errors: if there is no connection, no answer, or no well-formed one.
pub fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Result<Response> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)
        .with_context(|| format!("connecting to {address}"))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    exchange(&mut stream, address, path, headers)
}

/// Fetches `path` over a connection to `address` that is made already, and ends with the answer.
/// Errors: those of [`get`].
pub fn exchange(
    stream: &mut (impl Read + Write),
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<Response> {
    let mut request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).context("sending the request")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).with_context(|| format!("reading the answer to {path}"))?;
    parse(&answer)
}

fn parse(answer: &[u8]) -> Result<Response> {
    let head_end = answer
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .context("an answer without a head")?;
    let (head, body) = answer.split_at(head_end);
    let body = body.get(4..).unwrap_or_default();
    let mut lines = std::str::from_utf8(head)?.split("\r\n");
    let status = lines.next().context("an empty answer")?;
    let status = status.split(' ').nth(1).context("no status")?.parse()?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut response = Response { status, headers, body: body.to_vec() };
    if response.header("transfer-encoding") == Some("chunked") {
        response.body = unchunk(body)?;
    } else if let Some(length) = response.header("content-length") {
        let length: usize = length.parse()?;
        if response.body.len() != length {
            bail!("{} bytes of {length} arrived", response.body.len());
        }
    }
    Ok(response)
}

fn unchunk(mut body: &[u8]) -> Result<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let line_end = body
            .windows(2)
            .position(|window| window == b"\r\n")
            .context("a chunk without its size")?;
        let (size, rest) = body.split_at(line_end);
        let size = usize::from_str_radix(std::str::from_utf8(size)?.trim(), 16)?;
        if size == 0 {
            return Ok(whole);
        }
        let chunk = rest.get(2..2 + size).context("a chunk that is cut off")?;
        whole.extend_from_slice(chunk);
        body = rest.get(2 + size + 2..).context("a chunk without its end")?;
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn plain_and_chunked_bodies() {
        let plain =
            parse(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nA-B: c\r\n\r\nno").unwrap();
        assert_eq!((plain.status, plain.text().unwrap()), (404, "no"));
        assert_eq!(plain.header("a-b"), Some("c"));
        let chunked = parse(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n",
        );
        assert_eq!(chunked.unwrap().text().unwrap(), "abcd");
    }

    #[test]
    fn cut_off_answers_are_errors() {
        assert!(parse(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc").is_err());
        assert!(parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab").is_err());
        assert!(parse(b"").is_err());
    }
}
