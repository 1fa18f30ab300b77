//! Tests a sender in a control group such as container runtimes create: the agent finds the
//! container id.

use super::{Events, ONE_PERIOD, PATIENCE, counted, send_all, start};
use crate::support::{folder, wait_until};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const ID: &str = "3726184226f5d3147c25fdeab5b60097e378e8a720503a5e19ecfdf29f869860";

/// Program that joins the group in its first argument and sends datagrams and a stream. It lives
/// until its input ends, because the group of a process that has exited is unknown.
const SENDER: &str = "
import os, socket, struct, sys
open(sys.argv[1] + '/cgroup.procs', 'w').write(str(os.getpid()))
point = sys.argv[2].encode() + b':1|c'
datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
datagrams.connect(sys.argv[3] + '/gram')
stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
stream.connect(sys.argv[3] + '/stream')
for _ in range(50):
    datagrams.send(b'gram.' + point)
    stream.sendall(struct.pack('<I', len(point) + 7) + b'stream.' + point)
sys.stdin.read()
";

/// Control groups, removed when dropped.
struct Groups {
    root: PathBuf,
    made: Vec<PathBuf>,
}

impl Groups {
    /// Creates a group in the first hierarchy in which this user may create one.
    fn new() -> Result<Groups, String> {
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let is_id =
            |part: &str| part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        if own.split(['/', '-', '.', '\n']).any(is_id) {
            return Err("the test runs in a container itself, whose id comes first".into());
        }
        let trees = ["/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
        for tree in
            trees.map(Path::new).into_iter().filter(|tree| tree.join("cgroup.procs").exists())
        {
            let root = tree.join(format!("millstream-test-{}.slice", std::process::id()));
            if fs::create_dir(&root).is_ok() {
                return Ok(Groups { made: vec![root.clone()], root });
            }
        }
        Err("no tree of /sys/fs/cgroup can be written to; it takes root".into())
    }

    /// Creates a group with this path below the root group.
    fn make(&mut self, path: &str) -> PathBuf {
        let mut group = self.root.clone();
        for part in path.split('/') {
            group.push(part);
            fs::create_dir(&group).unwrap_or_else(|error| panic!("{}: {error}", group.display()));
            self.made.push(group.clone());
        }
        group
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        // A group can be removed only shortly after its last process has been reaped.
        for group in self.made.iter().rev() {
            let removed = (0..100).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(5));
                fs::remove_dir(group).is_ok()
            });
            if !removed {
                eprintln!("{} cannot be removed", group.display());
            }
        }
    }
}

fn sender(group: &Path, name: &str, dir: &Path) -> Child {
    let mut python = Command::new("python3");
    python.args(["-c", SENDER]).args([group.as_os_str(), name.as_ref(), dir.as_os_str()]);
    python.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("python3 starts")
}

#[test]
fn the_container_of_a_sender_comes_from_the_kernel() {
    let mut groups = match Groups::new() {
        Ok(groups) => groups,
        Err(why) => {
            return eprintln!("skipped: no control group as of a container can be made: {why}");
        }
    };
    let kube = format!("kubepods.slice/kubepods-pod3d274242_8ee0.slice/cri-containerd-{ID}.scope");
    let places = [
        ("docker", format!("docker-{ID}.scope")),
        ("kube", kube),
        ("service", "web.service".into()),
    ];
    let dir = folder();
    let options = format!(
        "type: dogstatsd, listen: ['unixgram://DIR/gram', 'unix://DIR/stream'], origin_tags: [container_id], {ONE_PERIOD}"
    );
    let mut agent = start(dir.path(), &options);
    let senders: Vec<Child> =
        places.iter().map(|(name, path)| sender(&groups.make(path), name, dir.path())).collect();
    send_all(&dir.path().join("gram"), &["outside:1|c"]);
    wait_until("all is taken", PATIENCE, || counted(&agent, "received_events", "") == 301.0);
    for mut sender in senders {
        // `wait` closes the input of the sender, which ends it.
        assert!(sender.wait().unwrap().success());
    }
    assert_eq!(agent.stop().code(), Some(0), "{}", agent.log());
    let events = Events::read(dir.path());
    for (name, _) in &places {
        let tags = if *name == "service" { String::new() } else { format!("container_id:{ID}") };
        for kind in ["gram", "stream"] {
            assert_eq!(events.sum(&format!("{kind}.{name}"), &tags), 50.0, "{kind} {name}");
        }
    }
    assert_eq!(events.sum("outside", ""), 1.0);
}
