//! Files in the format of pprof. A parsed profile is written in every format, and read again.

use millstream_profiles::{
    Profile, read_pprof, write_collapsed, write_diff_html, write_diff_svg, write_html, write_jfr,
    write_pprof, write_svg,
};

pub const WORDS: &[&[u8]] = &[
    b"\x0a\x04\x08\x01\x10\x02",
    b"\x12\x06\x0a\x01\x01\x12\x01\x05",
    b"\x22\x08\x08\x01\x22\x04\x08\x01\x10\x07",
    b"\x2a\x04\x08\x01\x10\x03",
    b"\x32\x00",
    b"\x32\x07samples",
    b"\x32\x04main",
    b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x1f\x8b\x08",
    b"</script>",
    b";",
];

/// Maximum bytes that are read.
const LIMIT: u64 = 1 << 20;

pub fn profiles(input: &[u8]) {
    let Ok(profile) = read_pprof(&mut &*input, LIMIT) else { return };
    let collapsed = written(|output| write_collapsed(&profile, output));
    assert!(collapsed.lines().all(|line| line.rsplit_once(' ').is_some()));
    let page = written(|output| write_html(&profile, output));
    assert_eq!(page.matches("</script>").count(), 2, "no name ends the script");
    written(|output| write_svg(&profile, output));
    written(|output| write_diff_html(&profile, &profile, output));
    written(|output| write_diff_svg(&profile, &profile, output));
    jfr(&profile);
    // Values are signed in pprof files.
    if i64::try_from(profile.samples()).is_ok() {
        assert_eq!(reread(&profile).samples(), profile.samples());
    }
}

/// Maximum number of samples that are written as events, so that a case takes little time.
const SAMPLES_MAX: u64 = 1 << 16;

/// Checks that the chunks of a JFR file, according to the sizes in their headers, cover the whole
/// file.
fn jfr(profile: &Profile) {
    if profile.samples() > SAMPLES_MAX {
        return;
    }
    let mut file = Vec::new();
    write_jfr(profile, &mut file).expect("memory takes everything");
    let mut rest = &file[..];
    while !rest.is_empty() {
        assert!(rest.starts_with(b"FLR\0"), "a chunk begins where another one ends");
        let bytes = rest[8..16].try_into().expect("a header has the size");
        rest = &rest[usize::try_from(u64::from_be_bytes(bytes)).expect("memory has it")..];
    }
}

fn written(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut bytes = Vec::new();
    write(&mut bytes).expect("memory takes everything");
    String::from_utf8(bytes).expect("formats are text")
}

fn reread(profile: &Profile) -> Profile {
    let mut bytes = Vec::new();
    write_pprof(profile, &mut bytes).expect("memory takes everything");
    read_pprof(&mut &bytes[..], u64::MAX).expect("the written file can be read")
}
