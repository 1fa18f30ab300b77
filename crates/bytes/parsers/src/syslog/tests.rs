use super::*;
use crate::harness::{check_mutated, parse, parse_short};
use millstream_timestamps::{Period, Zone};

pub fn syslog() -> Syslog {
    Syslog::new(&SyslogConfig::default()).unwrap()
}

#[test]
fn lines_of_rfc_5424_are_parsed() {
    for (line, fields) in [
        (
            "<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \u{feff}'su root' failed",
            "facility=auth severity=crit version=#1 timestamp=@2003-10-11T22:14:15.003Z \
             hostname=mymachine.example.com app_name=su msg_id=ID47 message='su root' failed",
        ),
        (
            r#"<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - [a@1 x="1" y="\"\]\\n"][b] m"#,
            r#"facility=local4 severity=notice version=#1 timestamp=@2003-08-24T12:14:15.000Z hostname=192.0.2.1 app_name=myproc proc_id=8710 structured_data={"a@1":{"x":"1","y":"\"]\\n"},"b":{}} message=m"#,
        ),
        ("<0>1 - - - - - -", "facility=kern severity=emerg version=#1"),
        (
            r#"<14>1 - h a - - [e k="1" k="2"][e k="3"]"#,
            r#"facility=user severity=info version=#1 hostname=h app_name=a structured_data={"e":{"k":"3"}}"#,
        ),
    ] {
        assert_eq!(parse_short(&mut syslog(), line), fields, "{line}");
    }
}

/// Formats the fields of a line like [`parse_short`], followed by `!reason@offset` for a flaw.
fn parse_flawed(line: &str) -> String {
    let parsed = parse(&mut syslog(), &[line.as_bytes()]);
    let flaws = parsed.flaws.iter().map(|flaw| format!(" !{}@{}", flaw.reason, flaw.at));
    parsed.shown_short().concat() + &flaws.collect::<String>()
}

#[test]
fn headers_of_rfc_5424_with_known_deviations_are_parsed() {
    for (line, fields) in [
        (
            "<134>1 1729780712.350113344 SITE_MX flows src=192.0.2.1",
            "facility=local0 severity=info version=#1 timestamp=@2024-10-24T14:38:32.350Z hostname=SITE_MX message=flows src=192.0.2.1",
        ),
        (
            "<134>1 1729780712 h a 7 - - m",
            "facility=local0 severity=info version=#1 timestamp=@2024-10-24T14:38:32.000Z hostname=h app_name=a proc_id=7 message=m",
        ),
        (
            "<165>1 2003-10-11T22:14:15.003Z h1 evnt 12 ID47 hello, no structured data",
            "facility=local4 severity=notice version=#1 timestamp=@2003-10-11T22:14:15.003Z hostname=h1 app_name=evnt proc_id=12 msg_id=ID47 message=hello, no structured data",
        ),
        (
            "<165>1 2003-10-11 22:14:15 h1 evnt 12 ID47 - blank in the time",
            "facility=local4 severity=notice version=#1 timestamp=@2003-10-11T22:14:15.000Z hostname=h1 app_name=evnt proc_id=12 msg_id=ID47 message=blank in the time",
        ),
        (
            "<165>1 2003-10-11T22:14:15Z h1 evnt - - -5 degrees",
            "facility=local4 severity=notice version=#1 timestamp=@2003-10-11T22:14:15.000Z hostname=h1 app_name=evnt message=-5 degrees",
        ),
        (
            "<165>1 2003-10-11T22:14:15Z h1 evnt 12 hello world",
            "facility=local4 severity=notice version=#1 timestamp=@2003-10-11T22:14:15.000Z hostname=h1 app_name=evnt proc_id=12 message=hello world",
        ),
        (
            "<165>1 2003-10-11T22:14:15Z h1 text of any words",
            "facility=local4 severity=notice version=#1 timestamp=@2003-10-11T22:14:15.000Z hostname=h1 message=text of any words",
        ),
        (
            "<165>1 2003-10-11T22:14:15Z user=\"ada\" left",
            "facility=local4 severity=notice version=#1 timestamp=@2003-10-11T22:14:15.000Z message=user=\"ada\" left",
        ),
        (
            "<165>1 2003-10-11T22:14:15Z h1",
            "facility=local4 severity=notice version=#1 timestamp=@2003-10-11T22:14:15.000Z hostname=h1",
        ),
        // These are not RFC 5424 headers.
        ("<13>3 packets dropped", "facility=user severity=notice message=3 packets dropped"),
        ("<13>1 - done", "facility=user severity=notice message=1 - done"),
        ("<13>1 2 3 a b c - d", "facility=user severity=notice message=1 2 3 a b c - d"),
    ] {
        assert_eq!(parse_flawed(line), fields, "{line}");
    }
}

#[test]
fn invalid_headers_of_rfc_5424_keep_what_precedes_the_invalid_part() {
    for (line, fields) in [
        (
            "<14>1 2003-99-99T00:00:00Z h a - - - m",
            "facility=user severity=info version=#1 message=2003-99-99T00:00:00Z h a - - - m !bad_time@6",
        ),
        (
            "<14>1 99999999999999999999 h",
            "facility=user severity=info version=#1 message=99999999999999999999 h !bad_time@6",
        ),
        (
            "<14>1 - h a - - [e k=1] m",
            "facility=user severity=info version=#1 hostname=h app_name=a message=[e k=1] m !bad_structured_data@16",
        ),
        (
            "<14>1 - h a b c [e]: m",
            "facility=user severity=info version=#1 hostname=h app_name=a proc_id=b msg_id=c message=[e]: m !bad_structured_data@16",
        ),
    ] {
        assert_eq!(parse_flawed(line), fields, "{line}");
    }
}

/// A value that is certainly wrong is worse than a missing value.
#[test]
fn words_that_are_no_names_stay_in_the_message() {
    for (line, fields) in [
        ("<189>29: configured", "facility=local7 severity=notice message=29: configured"),
        (
            "<13>Feb  5 17:32:18 h 1234: text",
            "facility=user severity=notice timestamp=@2026-02-05T17:32:18.000Z hostname=h message=1234: text",
        ),
        (
            "<13>Feb  5 17:32:18 date=2026-02-05 user=\"a b\"",
            "facility=user severity=notice timestamp=@2026-02-05T17:32:18.000Z message=date=2026-02-05 user=\"a b\"",
        ),
        (
            "<13>Feb  5 17:32:18 [main] started",
            "facility=user severity=notice timestamp=@2026-02-05T17:32:18.000Z message=[main] started",
        ),
        (
            "<13>{\"level\": \"info\"}",
            "facility=user severity=notice message={\"level\": \"info\"}",
        ),
        (
            "<166>Feb  5 17:32:18 asa-1 : %ASA-6-302013: Built",
            "facility=local4 severity=info timestamp=@2026-02-05T17:32:18.000Z hostname=asa-1 app_name=%ASA-6-302013 message=Built",
        ),
    ] {
        assert_eq!(parse_flawed(line), fields, "{line}");
    }
}

#[test]
fn lines_of_rfc_3164_and_variants_are_parsed() {
    for (line, fields) in [
        (
            "<34>Oct 11 22:14:15 mymachine su: 'su root' failed",
            "facility=auth severity=crit timestamp=@2025-10-11T22:14:15.000Z hostname=mymachine app_name=su message='su root' failed",
        ),
        (
            "Feb  5 17:32:18 host postfix/smtpd[123]: connect from x",
            "timestamp=@2026-02-05T17:32:18.000Z hostname=host app_name=postfix/smtpd proc_id=123 message=connect from x",
        ),
        (
            "2026-02-03T04:05:06.789012+01:00 host kernel: [    1.0] Linux",
            "timestamp=@2026-02-03T03:05:06.789Z hostname=host app_name=kernel message=[    1.0] Linux",
        ),
        (
            "<13>Feb  5 17:32:18 tag[7]: without a host",
            "facility=user severity=notice timestamp=@2026-02-05T17:32:18.000Z app_name=tag proc_id=7 message=without a host",
        ),
        (
            "Feb  5 17:32:18 fe80::1 su(pam_unix)[19]: x",
            "timestamp=@2026-02-05T17:32:18.000Z hostname=fe80::1 app_name=su(pam_unix) proc_id=19 message=x",
        ),
        (
            "Feb  5 17:32:18 host last message repeated 2 times",
            "timestamp=@2026-02-05T17:32:18.000Z hostname=host message=last message repeated 2 times",
        ),
        (
            "<189>*Jan 18 03:02:42.467: %SYS-5-CONFIG_I: configured",
            "facility=local7 severity=notice timestamp=@2026-01-18T03:02:42.467Z app_name=%SYS-5-CONFIG_I message=configured",
        ),
        (
            "<13>Feb 05 2024 17:32:18 h a: m",
            "facility=user severity=notice timestamp=@2024-02-05T17:32:18.000Z hostname=h app_name=a message=m",
        ),
        ("<13>only text", "facility=user severity=notice message=only text"),
        ("<13>app: text", "facility=user severity=notice app_name=app message=text"),
        ("<192>Feb  5 17:32:18 h a: m", "!not_syslog@0"),
        ("only text", "!not_syslog@0"),
        ("", "!not_syslog@0"),
        ("Feb  5 17:32:18", "timestamp=@2026-02-05T17:32:18.000Z"),
    ] {
        assert_eq!(parse_short(&mut syslog(), line), fields, "{line}");
    }
}

#[test]
fn times_of_devices_are_parsed() {
    for (line, fields) in [
        (
            "<134>2026 Jan 18 04:24:32.5 sw1 %ETHPORT-5-IF_UP: up",
            "facility=local0 severity=info timestamp=@2026-01-18T04:24:32.500Z hostname=sw1 app_name=%ETHPORT-5-IF_UP message=up",
        ),
        (
            "<133>: 2024 Mar  3 12:34:56 UTC: %DAEMON-3-SYSTEM_MSG: text",
            "facility=local0 severity=notice timestamp=@2024-03-03T12:34:56.000Z app_name=%DAEMON-3-SYSTEM_MSG message=text",
        ),
        (
            "<134>2026-01-18,04:24:32 olt1 EPON: registered",
            "facility=local0 severity=info timestamp=@2026-01-18T04:24:32.000Z hostname=olt1 app_name=EPON message=registered",
        ),
        (
            "<34>Mar  3 12:34:56 2024 host su: year behind the time",
            "facility=auth severity=crit timestamp=@2024-03-03T12:34:56.000Z hostname=host app_name=su message=year behind the time",
        ),
        (
            "<187>Jan  3 12:34:56.789 UTC: %LINK-3-UPDOWN: up",
            "facility=local7 severity=err timestamp=@2026-01-03T12:34:56.789Z app_name=%LINK-3-UPDOWN message=up",
        ),
        (
            "<189>29: Jan 18 03:02:42.467: %SYS-5-CONFIG_I: configured",
            r#"facility=local7 severity=notice timestamp=@2026-01-18T03:02:42.467Z app_name=%SYS-5-CONFIG_I structured_data={"meta":{"sequenceId":"29"}} message=configured"#,
        ),
        (
            "<189>000030: sw-1: *Jan 18 2026 03:02:42 UTC: %SYS-5-CONFIG_I: configured",
            r#"facility=local7 severity=notice timestamp=@2026-01-18T03:02:42.000Z hostname=sw-1 app_name=%SYS-5-CONFIG_I structured_data={"meta":{"sequenceId":"000030"}} message=configured"#,
        ),
        (
            "<190>7: 30: Jan 18 03:02:42: %SYS-5-CONFIG_I: both numbers",
            r#"facility=local7 severity=info timestamp=@2026-01-18T03:02:42.000Z app_name=%SYS-5-CONFIG_I structured_data={"meta":{"sequenceId":"30"}} message=both numbers"#,
        ),
        // This is neither a year nor a zone.
        (
            "<13>Jan 18 03:02:42 2024: text",
            "facility=user severity=notice timestamp=@2026-01-18T03:02:42.000Z message=2024: text",
        ),
        (
            "<13>Jan 18 03:02:42 2001:db8::1 su: text",
            "facility=user severity=notice timestamp=@2026-01-18T03:02:42.000Z hostname=2001:db8::1 app_name=su message=text",
        ),
        (
            "<13>Jan 18 03:02:42 20 packets",
            "facility=user severity=notice timestamp=@2026-01-18T03:02:42.000Z hostname=20 message=packets",
        ),
        (
            "<13>Jan 18 03:02:42 CRON: text",
            "facility=user severity=notice timestamp=@2026-01-18T03:02:42.000Z app_name=CRON message=text",
        ),
        // No time follows.
        (
            "<189>29: sw-1: configured",
            "facility=local7 severity=notice message=29: sw-1: configured",
        ),
        (
            "<13>app: Jan 18 03:02:42: text",
            "facility=user severity=notice app_name=app message=Jan 18 03:02:42: text",
        ),
    ] {
        assert_eq!(parse_short(&mut syslog(), line), fields, "{line}");
    }
}

#[test]
fn names_of_the_configured_zone_are_known() {
    let summer = Period { begin_seconds: 0, offset_seconds: 7200, name: "CEST" };
    let zone = Zone::from_periods([summer]);
    let mut parser = Syslog::new(&SyslogConfig { zone: Some(zone) }).unwrap();
    for (line, fields) in [
        (
            "Jan  5 17:32:18 CEST: %A-5-B: m",
            "timestamp=@2026-01-05T15:32:18.000Z app_name=%A-5-B message=m",
        ),
        (
            "Jan  5 17:32:18 UTC: %A-5-B: m",
            "timestamp=@2026-01-05T17:32:18.000Z app_name=%A-5-B message=m",
        ),
    ] {
        assert_eq!(parse_short(&mut parser, line), fields, "{line}");
    }
}

#[test]
fn times_without_an_offset_use_the_configured_zone() {
    let mut parser = Syslog::new(&SyslogConfig { zone: Some(Zone::fixed(3600)) }).unwrap();
    assert_eq!(
        parse_short(&mut parser, "Feb  5 17:32:18 h"),
        "timestamp=@2026-02-05T16:32:18.000Z hostname=h"
    );
    assert_eq!(
        parse_short(&mut parser, "2026-02-03T04:05:06Z h"),
        "timestamp=@2026-02-03T04:05:06.000Z hostname=h"
    );
}

#[test]
fn mutated_lines_stay_in_bounds() {
    let lines = [
        "<34>Oct 11 22:14:15 mymachine su[1]: 'su root' failed",
        r#"<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - [a@1 x="1" y="\"\]\\n"][b] m"#,
        "2026-02-03T04:05:06.789012+01:00 host kernel: [    1.0] Linux",
        "<134>1 1729780712.350113344 SITE_MX 1 A [e k=1] text",
        "<189>29: sw-1: *Jan 18 2026 03:02:42.467 UTC: %SYS-5-CONFIG_I: configured",
        "<165>1 2003-10-11 22:14:15 h1 evnt 12 ID47 - text",
        "<1>",
    ];
    check_mutated(
        &mut syslog(),
        &lines,
        &[
            "<",
            ">",
            "[",
            "]",
            "\"",
            "\\",
            ": ",
            " ",
            "-",
            "=\"",
            "<191>1 ",
            "\u{feff}",
            "1729780712 ",
            "- ",
        ],
    );
}
