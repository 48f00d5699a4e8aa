//! A server that is reached through TLS, with client certificates.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::{Process, Rig, eventually};

/// Ends TLS in front of the server, which for development has none, and demands a certificate of the same authority.
const PROXY: &str = r#"
import asyncio, os, ssl, sys
folder, port, announce = sys.argv[1], int(sys.argv[2]), sys.argv[3]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(f"{folder}/server.pem", f"{folder}/server.key")
context.load_verify_locations(f"{folder}/ca.pem")
context.verify_mode = ssl.CERT_REQUIRED
context.set_alpn_protocols(["h2"])
async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()
async def serve(reader, writer):
    there = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.gather(copy(reader, there[1]), copy(there[0], writer), return_exceptions=True)
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    with open(announce + ".new", "w") as file:
        file.write(str(server.sockets[0].getsockname()[1]))
    os.rename(announce + ".new", announce)
    await server.serve_forever()
asyncio.run(main())
"#;

/// An authority, and a certificate of it for the server and for clients.
fn certificates(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let openssl = |arguments: &str| {
        let mut openssl = Command::new("openssl");
        openssl.current_dir(folder).args(arguments.split(' ')).stderr(Stdio::null());
        assert!(openssl.status().unwrap().success(), "openssl {arguments}");
    };
    openssl("req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority");
    for name in ["server", "client"] {
        openssl(&format!(
            "req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN=localhost"
        ));
        fs::write(folder.join("extra"), "subjectAltName=DNS:localhost\n").unwrap();
        openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out {name}.pem -days 2 -extfile extra"
        ));
    }
}

#[test]
fn workers_and_runs_use_tls_with_client_certificates() {
    let Some(mut rig) = Rig::new() else { return };
    let folder = rig.path("tls");
    certificates(&folder);
    let announce = rig.path("tls/port");
    let port = rig.server().rsplit_once(':').unwrap().1.to_owned();
    let proxy = Command::new("python3").args(["-c", PROXY]).arg(&folder).arg(&port).arg(&announce).spawn();
    let _proxy = Process(proxy.expect("python3"));
    let port = eventually("the proxy", || fs::read_to_string(&announce).ok());
    rig.reach_server_at("localhost", port.parse().unwrap());
    rig.state("START.sh", "echo '<result>done</result>'\n");
    let refused = rig.raymond(&["run", "wf", "--on", &rig.address()]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("does it want a certificate"), "{said}");
    let path = |name: &str| folder.join(name).display().to_string();
    rig.variables = vec![
        ("TEMPORAL_TLS_SERVER_CA_CERT_PATH", path("ca.pem")),
        ("TEMPORAL_TLS_CLIENT_CERT_PATH", path("client.pem")),
        ("TEMPORAL_TLS_CLIENT_KEY_PATH", path("client.key")),
    ];
    let _worker = rig.worker("a");
    rig.start();
    rig.until("run_finished");
}
