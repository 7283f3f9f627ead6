//! PostgreSQL: a dump of one database, read into another one of the same server.

use crate::{
    passage::Passage,
    program::{Program, Sample, Service, Size, Use},
    room::Room,
};
use anyhow::{Context, Result, bail, ensure};
use nix::unistd::{User, chown};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

pub(super) struct Dump;

impl Program for Dump {
    fn name(&self) -> &'static str {
        "pg-dump"
    }

    fn executables(&self) -> &'static [&'static str] {
        &["initdb", "postgres", "psql", "pg_dump", "setpriv"]
    }

    fn lacks(&self) -> Option<String> {
        server_user().is_none().then(|| "there is no user that may run a server".to_owned())
    }

    fn serve(&self, room: &Room, passage: &Passage, size: Size) -> Result<Service> {
        let address = room.service_address();
        let folder = room.folder(&format!("postgres-{}", address.port()))?;
        let user = server_user().context("there is no user that may run a server")?;
        chown(&folder, Some(user.uid), Some(user.gid))?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
        let data = folder.join("data");
        let mut initdb = as_user(Command::new("setpriv"), &user);
        initdb.arg("initdb").arg("-D").arg(&data).args(["-A", "trust", "-U", DATABASE_USER, "--no-sync"]);
        run(initdb.env("LC_ALL", "C"), &folder)?;
        let mut command = as_user(room.service(passage, "setpriv"), &user);
        command.arg("postgres").arg("-D").arg(&data).arg("-k").arg(&folder);
        command.args(["-h", "0.0.0.0", "-p", &address.port().to_string()]);
        for setting in ["fsync=off", "full_page_writes=off", "autovacuum=off", "max_wal_size=8GB"] {
            command.args(["-c", setting]);
        }
        // Clients come from the other host.
        fs::write(data.join("pg_hba.conf"), "local all all trust\nhost all all all trust\n")?;
        let mut running = room.start(command)?;
        room.wait_until_listening(&mut running, address)?;
        let service = Service { address, folder, running: vec![running] };
        service.wait_for_answer()?;
        sql(&service, "postgres", "CREATE DATABASE source")?;
        // A line of text for each 64 bytes or so of the dump.
        let rows = size.bytes / ROW_BYTES;
        sql(
            &service,
            "source",
            &format!(
                "CREATE TABLE t AS SELECT i, md5(i::text) || md5((-i)::text) AS text FROM generate_series(1, {rows}) i"
            ),
        )?;
        // What a dump is long.
        let mut dump = Command::new("pg_dump");
        dump.arg("-h").arg(&service.folder).args(["-p", &address.port().to_string(), "-U", DATABASE_USER, "source"]);
        run(dump.arg("-f").arg(service.folder.join(DUMP)), &service.folder)?;
        Ok(service)
    }

    fn run(&self, this: &Use<'_>) -> Result<Sample> {
        sql(this.service, "postgres", "DROP DATABASE IF EXISTS copy")?;
        sql(this.service, "postgres", "CREATE DATABASE copy")?;
        let to = this.destination();
        let mut command = this.room.client(this.passage, "sh");
        command.args(["-c", PIPE, "sh", &to.ip().to_string(), &to.port().to_string(), DATABASE_USER]);
        let elapsed = this.finish(command)?.elapsed;
        let digest = |database: &str| {
            sql(this.service, database, "SELECT count(*), md5(string_agg(text, '' ORDER BY i)) FROM t")
        };
        ensure!(digest("source")? == digest("copy")?, "another table arrived");
        Ok(Sample::of(fs::metadata(this.service.folder.join(DUMP))?.len(), elapsed))
    }
}

impl Service {
    /// Waits until the server answers on its own socket.
    fn wait_for_answer(&self) -> Result<()> {
        for _ in 0..TRIES {
            if sql(self, "postgres", "SELECT 1").is_ok() {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(50));
        }
        bail!("the server does not answer on its own socket");
    }
}

/// Asks the server by its Unix socket, outside the room's links.
fn sql(service: &Service, database: &str, statement: &str) -> Result<String> {
    let mut psql = Command::new("psql");
    psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", DATABASE_USER, "-d", database, "-c", statement]);
    psql.arg("-h").arg(&service.folder).args(["-p", &service.address.port().to_string()]);
    run(&mut psql, &service.folder)
}

fn run(command: &mut Command, folder: &Path) -> Result<String> {
    let output = command.current_dir(folder).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{command:?} cannot be run"))?;
    ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The server refuses to be run by root.
fn server_user() -> Option<User> {
    ["postgres", "nobody"].iter().find_map(|name| User::from_name(name).ok().flatten())
}

fn as_user(mut setpriv: Command, user: &User) -> Command {
    let (uid, gid) = (user.uid.to_string(), user.gid.to_string());
    setpriv.args(["--reuid", &uid, "--regid", &gid, "--clear-groups"]);
    setpriv
}

const DATABASE_USER: &str = "rails";
const DUMP: &str = "dump.sql";
/// A dump that fails leaves another table, which is noticed.
const PIPE: &str =
    "pg_dump -h $1 -p $2 -U $3 source | psql -X -q -v ON_ERROR_STOP=1 -h $1 -p $2 -U $3 -d copy >/dev/null";
/// The bytes of a row in a dump: a number of seven digits, 64 of text, and two separators.
const ROW_BYTES: u64 = 73;
const TRIES: usize = 100;
