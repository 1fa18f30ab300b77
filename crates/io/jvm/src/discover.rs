//! Finds an installed Java, and the jar with the runtime for operators.

use crate::error::StartError;
use crate::unsuitable::{JAVA_VERSION_MIN, Unsuitable};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Paths of the JVM library relative to a Java home. The second and third paths are those in Java
/// 8. That version is too old, but it is found so that the error can say so.
const LIBRARIES: [&str; 3] =
    ["lib/server/libjvm.so", "jre/lib/amd64/server/libjvm.so", "jre/lib/aarch64/server/libjvm.so"];

/// Folders that contain Java homes, each with a part of the folder names of these homes.
const FOLDERS: [(&str, &str); 5] =
    [("/usr/lib/jvm", ""), ("/usr/java", ""), ("/opt/java", ""), ("/opt", "jdk"), ("/opt", "jre")];

/// A jar that is installed with the program.
struct Jar {
    name: &'static str,
    /// Folders that may contain the jar, relative to the program's folder. The last
    /// [`BUILD_FOLDERS`] are build folders.
    folders: [&'static str; 5],
}

/// Number of build folders, which are not shown to users.
const BUILD_FOLDERS: usize = 2;

const OPERATORS: Jar = Jar {
    name: "millstream-operators.jar",
    folders: [
        "",
        "../lib/millstream",
        "/usr/lib/millstream",
        "../../java/operators/target",
        "../../../java/operators/target",
    ],
};

const AGENT: Jar = Jar {
    name: "millstream-javaagent.jar",
    folders: [
        "",
        "../lib/millstream",
        "/usr/lib/millstream",
        "../../java/javaagent/target",
        "../../../java/javaagent/target",
    ],
};

impl Jar {
    /// Finds the jar in a folder relative to this program.
    fn find(&self, program: &Path) -> Result<PathBuf, Vec<PathBuf>> {
        let folder = program.parent().unwrap_or(Path::new("/"));
        let place = |part: &&str| folder.join(part).join(self.name);
        let places: Vec<PathBuf> = self.folders.iter().map(place).collect();
        match places.iter().find(|place| place.is_file()) {
            Some(jar) => Ok(fs::canonicalize(jar).unwrap_or_else(|_| jar.clone())),
            None => Err(places.into_iter().take(self.folders.len() - BUILD_FOLDERS).collect()),
        }
    }
}

/// Finds the agent jar, which runs in other JVMs, relative to this program.
pub fn find_agent_jar(program: &Path) -> Result<PathBuf, Vec<PathBuf>> {
    AGENT.find(program)
}

/// A suitable Java installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Java {
    /// Java home.
    pub home: PathBuf,
    /// Path of the JVM library.
    pub library: PathBuf,
    /// Major version.
    pub version: u32,
}

/// The places to search. The root of the file system differs only in tests.
pub struct Places {
    pub root: PathBuf,
    pub java_home: Option<OsString>,
    pub path: Option<OsString>,
}

impl Places {
    /// Returns the places for this process.
    pub fn of_process() -> Places {
        Places {
            root: PathBuf::from("/"),
            java_home: std::env::var_os("JAVA_HOME").filter(|home| !home.is_empty()),
            path: std::env::var_os("PATH"),
        }
    }

    /// Finds a suitable Java. If `home` is given, only this installation is considered. Otherwise,
    /// the first suitable one of these is used: `JAVA_HOME`, the installation of the `java` command
    /// on the `PATH`, and the newest installation in the usual folders.
    ///
    /// # Errors
    /// Returns an error if `home` is not suitable, or no suitable Java exists.
    pub fn find(&self, home: Option<&Path>) -> Result<Java, StartError> {
        if let Some(home) = home {
            let unsuitable = |reason| Unsuitable { from: "", home: home.to_owned(), reason };
            return inspect(home).map_err(|reason| StartError::Home(unsuitable(reason)));
        }
        let mut rejected = Vec::new();
        let java_home = self.java_home.as_deref().map(|home| ("JAVA_HOME", PathBuf::from(home)));
        let on_path = self.home_of_command().map(|home| ("PATH", home));
        for (from, home) in java_home.into_iter().chain(on_path) {
            match inspect(&home) {
                Ok(java) => return Ok(java),
                Err(reason) => rejected.push(Unsuitable { from, home, reason }),
            }
        }
        self.newest(&mut rejected).ok_or(StartError::NotFound(rejected))
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Returns the Java home of the `java` command on the `PATH`.
    fn home_of_command(&self) -> Option<PathBuf> {
        let path = self.path.as_ref()?;
        let command = std::env::split_paths(path)
            .map(|folder| folder.join("java"))
            .find_map(|command| fs::canonicalize(command).ok())?;
        let home = command.parent()?.parent()?;
        // In Java 8, the command may belong to a runtime inside the home.
        let is_inner =
            home.file_name().is_some_and(|name| name == "jre") && has_library(home.parent()?);
        Some(if is_inner { home.parent()?.to_owned() } else { home.to_owned() })
    }

    fn newest(&self, rejected: &mut Vec<Unsuitable>) -> Option<Java> {
        let mut suitable: Vec<Java> = Vec::new();
        for home in self.usual_homes() {
            match inspect(&home) {
                Ok(java) => suitable.push(java),
                Err(reason) => rejected.push(Unsuitable { from: "", home, reason }),
            }
        }
        // If several installations have the same version, the first one by name is used.
        suitable.into_iter().rev().max_by_key(|java| java.version)
    }

    /// Lists the Java homes in the usual folders by name, without duplicates: distributions often
    /// contain links to homes.
    fn usual_homes(&self) -> Vec<PathBuf> {
        let mut seen = HashSet::new();
        let mut homes = Vec::new();
        for (folder, part) in FOLDERS {
            let entries = fs::read_dir(self.at(folder)).into_iter().flatten().flatten();
            let mut found: Vec<PathBuf> = entries
                .filter(|entry| entry.file_name().to_string_lossy().contains(part))
                .filter_map(|entry| fs::canonicalize(entry.path()).ok())
                .filter(|home| home.is_dir())
                .collect();
            found.sort();
            homes.extend(found.into_iter().filter(|home| seen.insert(home.clone())));
        }
        homes
    }
}

fn has_library(home: &Path) -> bool {
    LIBRARIES.iter().any(|library| home.join(library).is_file())
}

/// Returns the Java in a home, or the reason why it is not suitable.
fn inspect(home: &Path) -> Result<Java, String> {
    if !home.is_dir() {
        return Err("no such folder".to_owned());
    }
    let libraries = LIBRARIES.iter().map(|library| home.join(library));
    let Some(library) = libraries.into_iter().find(|library| library.is_file()) else {
        return Err(format!("has no {}", LIBRARIES[0]));
    };
    let version = release(home)?;
    if version < JAVA_VERSION_MIN {
        return Err(format!("Java {version} is too old"));
    }
    let machine = machine(&library).map_err(|error| format!("cannot read libjvm.so: {error}"))?;
    match machine == own_machine() {
        true => Ok(Java { home: home.to_owned(), library, version }),
        false => Err("libjvm.so is for another processor architecture".to_owned()),
    }
}

/// Reads the version from the `release` file.
fn release(home: &Path) -> Result<u32, String> {
    let text = fs::read_to_string(home.join("release"))
        .map_err(|error| format!("cannot read the file release: {error}"))?;
    let version = text.lines().find_map(|line| line.strip_prefix("JAVA_VERSION="));
    let version = version.map(|version| version.trim().trim_matches('"'));
    version
        .and_then(feature)
        .ok_or_else(|| "the file release does not contain JAVA_VERSION".to_owned())
}

/// Returns the feature number of a version: 17 for `17.0.15`, 8 for `1.8.0_292`.
fn feature(version: &str) -> Option<u32> {
    let version = version.strip_prefix("1.").unwrap_or(version);
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The machine that an ELF file was built for.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Machine {
    class: u8,
    byte_order: u8,
    machine: [u8; 2],
}

/// Returns the machine that an ELF file was built for.
fn machine(library: &Path) -> std::io::Result<Machine> {
    let mut header = [0; 20];
    fs::File::open(library)?.read_exact(&mut header)?;
    Ok(Machine { class: header[4], byte_order: header[5], machine: [header[18], header[19]] })
}

/// Returns the machine that this program was built for.
fn own_machine() -> Machine {
    let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    Machine { class: 2, byte_order: 1, machine: machine.to_le_bytes() }
}

/// Finds the jar with the runtime: the given path, or otherwise the jar that is installed with the
/// program.
pub fn find_jar(given: Option<&Path>, program: &Path) -> Result<PathBuf, StartError> {
    if let Some(jar) = given {
        return match jar.is_file() {
            true => Ok(jar.to_owned()),
            false => Err(StartError::Jar(vec![jar.to_owned()])),
        };
    }
    OPERATORS.find(program).map_err(StartError::Jar)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A root with fake homes.
    struct Root(TempDir);

    impl Root {
        fn new() -> Root {
            Root(tempfile::tempdir().unwrap())
        }

        fn path(&self, path: &str) -> PathBuf {
            fs::canonicalize(self.0.path()).unwrap().join(path.trim_start_matches('/'))
        }

        fn write(&self, path: &str, contents: &[u8]) {
            let path = self.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        }

        fn home(&self, home: &str, version: &str) -> PathBuf {
            self.write(
                &format!("{home}/release"),
                format!("X=1\nJAVA_VERSION=\"{version}\"\n").as_bytes(),
            );
            self.write(&format!("{home}/bin/java"), b"");
            self.library(&format!("{home}/lib/server/libjvm.so"), own_machine());
            self.path(home)
        }

        fn library(&self, path: &str, machine: Machine) {
            let mut header = [0; 64];
            header[..4].copy_from_slice(b"\x7fELF");
            header[4] = machine.class;
            header[5] = machine.byte_order;
            header[18..20].copy_from_slice(&machine.machine);
            self.write(path, &header);
        }

        fn places(&self) -> Places {
            Places { root: self.0.path().to_owned(), java_home: None, path: None }
        }
    }

    fn message(result: Result<Java, StartError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn the_newest_of_the_usual_folders_is_found() {
        let root = Root::new();
        root.home("/usr/lib/jvm/java-17-openjdk", "17.0.15");
        let newest = root.home("/usr/lib/jvm/java-21-openjdk", "21.0.1");
        root.home("/opt/jdk-11", "11.0.2");
        root.home("/opt/other-25", "25");
        let java = root.places().find(None).unwrap();
        assert_eq!((java.home, java.version), (newest.clone(), 21));
        assert_eq!(java.library, newest.join("lib/server/libjvm.so"));
        let newer = root.home("/opt/my-jdk-25", "25.0.1+8");
        assert_eq!(root.places().find(None).unwrap().home, newer);
    }

    #[test]
    fn java_home_comes_before_the_path_and_the_path_before_the_usual_folders() {
        let root = Root::new();
        root.home("/usr/lib/jvm/java-25", "25");
        let home = root.home("/srv/java", "17.0.1");
        let tools = root.home("/tools/java", "21");
        fs::create_dir_all(root.path("/usr/bin")).unwrap();
        symlink("../../tools/java/bin/java", root.path("/usr/bin/java")).unwrap();
        let mut places = root.places();
        places.path = Some(root.path("/usr/bin").into());
        assert_eq!(places.find(None).unwrap().home, tools);
        places.java_home = Some(home.clone().into());
        assert_eq!(places.find(None).unwrap().home, home);
        let given = root.path("/usr/lib/jvm/java-25");
        assert_eq!(places.find(Some(&given)).unwrap().version, 25);
    }

    #[test]
    fn an_unsuitable_java_home_is_passed_over() {
        let root = Root::new();
        let good = root.home("/usr/lib/jvm/java-17", "17.0.1");
        let mut places = root.places();
        places.java_home = Some(root.home("/old", "11.0.2").into());
        assert_eq!(places.find(None).unwrap().home, good);
    }

    #[test]
    fn a_given_home_that_is_not_suitable_is_an_error() {
        let root = Root::new();
        root.home("/usr/lib/jvm/java-17", "17.0.1");
        let old = root.home("/opt/jdk8", "1.8.0_292");
        let text = message(root.places().find(Some(&old)));
        assert!(text.contains("Java 8 is too old") && text.contains("17 or later"), "{text}");
        let text = message(root.places().find(Some(&root.path("/none"))));
        assert!(text.contains("no such folder"), "{text}");
    }

    #[test]
    fn the_error_lists_every_place_and_its_reason() {
        let root = Root::new();
        root.home("/usr/lib/jvm/java-11", "11.0.2");
        root.write("/usr/java/empty/readme", b"");
        root.home("/opt/java/arm", "17");
        root.library(
            "/opt/java/arm/lib/server/libjvm.so",
            Machine { machine: [0, 1], ..own_machine() },
        );
        root.library("/opt/jdk-x/lib/server/libjvm.so", own_machine());
        root.write("/opt/jdk-8/jre/lib/amd64/server/libjvm.so", b"");
        root.write("/opt/jdk-8/release", b"JAVA_VERSION=\"1.8.0_1\"");
        let mut places = root.places();
        places.java_home = Some("/does/not/exist".into());
        let text = message(places.find(None));
        for part in [
            "JAVA_HOME /does/not/exist: no such folder",
            "java-11: Java 11 is too old",
            "empty: has no lib/server/libjvm.so",
            "arm: libjvm.so is for another processor architecture",
            "jdk-x: cannot read the file release",
            "jdk-8: Java 8 is too old",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(message(Root::new().places().find(None)).contains("found no Java"));
    }

    #[test]
    fn a_link_to_a_home_is_listed_once() {
        let root = Root::new();
        root.home("/usr/lib/jvm/java-11-openjdk", "11");
        symlink("java-11-openjdk", root.path("/usr/lib/jvm/java-11")).unwrap();
        assert_eq!(message(root.places().find(None)).matches("too old").count(), 1);
    }

    #[test]
    fn versions_are_read_of_every_form() {
        let versions = ["17", "17.0.15", "25-ea", "21.0.1+12", "1.8.0_292", "x", ""];
        let read = versions.map(feature);
        assert_eq!(read, [Some(17), Some(17), Some(25), Some(21), Some(8), None, None]);
    }

    #[test]
    fn the_jar_is_found_beside_the_program() {
        let root = Root::new();
        let program = root.path("/app/bin/millstream");
        root.write("/app/bin/millstream", b"");
        let error = find_jar(None, &program).unwrap_err().to_string();
        assert!(error.contains("/app/bin/millstream-operators.jar"), "{error}");
        assert!(error.contains("/usr/lib/millstream/") && error.contains("make build"), "{error}");
        assert!(!error.contains("java/operators"), "{error}");
        root.write("/app/lib/millstream/millstream-operators.jar", b"");
        let jar = find_jar(None, &program).unwrap();
        assert_eq!(jar, root.path("/app/lib/millstream/millstream-operators.jar"));
        let given = root.path("/missing.jar");
        assert!(find_jar(Some(&given), &program).unwrap_err().to_string().contains("/missing.jar"));
        assert_eq!(find_jar(Some(&jar), &program).unwrap(), jar);
    }

    #[test]
    fn the_jar_of_a_build_is_found_from_target() {
        let root = Root::new();
        root.write("/repo/java/operators/target/millstream-operators.jar", b"");
        for program in ["/repo/target/debug/millstream", "/repo/target/debug/deps/all-1"] {
            root.write(program, b"");
            let jar = find_jar(None, &root.path(program)).unwrap();
            assert_eq!(jar, root.path("/repo/java/operators/target/millstream-operators.jar"));
        }
    }
}
