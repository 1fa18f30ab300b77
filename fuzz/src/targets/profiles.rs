//! Files in the format of pprof: what is read is written in every format, and read again.

use millstream_profiles::{
    Profile, read_pprof, write_collapsed, write_diff_html, write_diff_svg, write_html, write_pprof,
    write_svg,
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

/// Most bytes that are read.
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
    // The format has signed values.
    if i64::try_from(profile.samples()).is_ok() {
        assert_eq!(reread(&profile).samples(), profile.samples());
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
    read_pprof(&mut &bytes[..], u64::MAX).expect("what is written is read")
}
