use crate::Result;
use md5::{Digest, Md5};

const MB: usize = 1024 * 1024;

/// A value to store; NULL has no data.
pub struct Payload {
    pub name: &'static str,
    pub data: Option<Vec<u8>>,
}

fn payload(name: &'static str, data: impl Into<Vec<u8>>) -> Payload {
    Payload { name, data: Some(data.into()) }
}

/// Bytes that follow from the length: the high bytes of a linear congruential generator.
fn random(length: usize) -> Vec<u8> {
    let mut state = length as u32;
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn long_run() -> bool {
    std::env::var("SECUREFILE_PAYLOADS").is_ok_and(|payloads| payloads == "long")
}

pub fn small() -> Vec<Payload> {
    vec![
        Payload { name: "NULL", data: None },
        payload("0 bytes", []),
        payload("10 bytes", *b"\x00\xff'\"\\\n\x00\x80x\x00"),
        payload(r"the text \x4142", *br"\x4142"),
        payload(r"the text a\134b", *br"a\134b"),
        payload(r"the text a\\b", *br"a\\b"),
        payload("10 KB", random(10 * 1024)),
    ]
}

pub fn all() -> Vec<Payload> {
    let mut all = small();
    all.push(payload("5 MB", random(5 * MB)));
    if long_run() {
        all.push(payload("200 MB", random(200 * MB)));
    }
    all
}

/// What is moved in pieces.
pub fn streamed() -> (&'static str, Vec<u8>) {
    if long_run() {
        ("200 MB", random(200 * MB))
    } else {
        ("5 MB", random(5 * MB + 1))
    }
}

/// Compares what was read with what was written, NULL and the empty value included.
pub fn same(read: Option<&[u8]>, written: Option<&[u8]>) -> Result<()> {
    if read == written {
        return Ok(());
    }
    let show = |data: Option<&[u8]>| match data {
        None => "NULL".to_string(),
        Some(data) => format!("{} bytes ({:?})", data.len(), &data[..data.len().min(20)]),
    };
    Err(format!("read {}, wrote {}", show(read), show(written)).into())
}

/// Compares what the server says of a stored value with what was written.
pub fn same_on_server(server_md5: Option<String>, written: Option<&[u8]>) -> Result<()> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    if server_md5 == written.map(|data| hex(&Md5::digest(data))) {
        Ok(())
    } else {
        Err("the server has other bytes than were written".into())
    }
}

/// The bytes of a value in COPY's text format.
pub fn copy_text(data: Option<&[u8]>) -> String {
    match data {
        None => r"\N".into(),
        Some(data) => data.iter().fold(r"\\x".into(), |text, byte| format!("{text}{byte:02x}")),
    }
}
