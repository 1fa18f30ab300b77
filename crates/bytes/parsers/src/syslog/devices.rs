//! Lines as common devices and programs send them, with the fields that the parser finds.

use super::tests::syslog;
use crate::harness::parse;

/// The sender, a line, and its fields without the facility, severity and version. `TIME` is the
/// timestamp 2026-02-05T17:32:18Z.
const LINES: &[(&str, &str, &str)] = &[
    (
        "Cisco ASA",
        "<166>Feb 05 2026 17:32:18 asa-1 : %ASA-6-302013: Built outbound TCP connection 7 for outside:198.51.100.7/443",
        "TIME hostname=asa-1 app_name=%ASA-6-302013 message=Built outbound TCP connection 7 for outside:198.51.100.7/443",
    ),
    (
        "Cisco ASA without time",
        "<166>%ASA-6-302013: Built inbound UDP connection",
        "app_name=%ASA-6-302013 message=Built inbound UDP connection",
    ),
    (
        "Cisco ASA with EMBLEM format",
        "<164>:Feb 05 17:32:18 UTC: %ASA-session-4-106023: Deny tcp src inside:192.0.2.7/5",
        "TIME app_name=%ASA-session-4-106023 message=Deny tcp src inside:192.0.2.7/5",
    ),
    (
        "Cisco FTD",
        "<113>2026-02-05T17:32:18Z ftd-1  %FTD-1-430003: EventPriority: Low, DeviceUUID: 1",
        "TIME hostname=ftd-1 app_name=%FTD-1-430003 message=EventPriority: Low, DeviceUUID: 1",
    ),
    (
        "Cisco IOS",
        "<189>43: *Feb  5 17:32:18: %SYS-5-CONFIG_I: Configured from console by ada on vty0 (192.0.2.7)",
        r#"TIME app_name=%SYS-5-CONFIG_I structured_data={"meta":{"sequenceId":"43"}} message=Configured from console by ada on vty0 (192.0.2.7)"#,
    ),
    (
        "Cisco IOS XE with host and zone",
        "<187>101: rtr-1: Feb  5 17:32:18.000 UTC: %LINK-3-UPDOWN: Interface GigabitEthernet0/1, changed state to up",
        r#"TIME hostname=rtr-1 app_name=%LINK-3-UPDOWN structured_data={"meta":{"sequenceId":"101"}} message=Interface GigabitEthernet0/1, changed state to up"#,
    ),
    (
        "Cisco IOS XR",
        "<190>7: RP/0/RSP0/CPU0:Feb  5 17:32:18.000 : config[65742]: %MGBL-SYS-5-CONFIG_I : Configured from console",
        r#"TIME hostname=RP/0/RSP0/CPU0 app_name=config proc_id=65742 structured_data={"meta":{"sequenceId":"7"}} message=%MGBL-SYS-5-CONFIG_I : Configured from console"#,
    ),
    (
        "Cisco NX-OS",
        "<189>: 2026 Feb  5 17:32:18 UTC: %ETHPORT-5-IF_UP: Interface Ethernet1/1 is up in mode access",
        "TIME app_name=%ETHPORT-5-IF_UP message=Interface Ethernet1/1 is up in mode access",
    ),
    (
        "Cisco Meraki",
        "<134>1 1770312738.000000000 MX84 urls src=192.0.2.7:52000 dst=198.51.100.7:443 mac=00:00:5E:00:53:01 request: GET https://example.com/",
        "TIME hostname=MX84 message=urls src=192.0.2.7:52000 dst=198.51.100.7:443 mac=00:00:5E:00:53:01 request: GET https://example.com/",
    ),
    (
        "Cisco WLC",
        "<132>wlc-1: *apfMsConnTask_1: Feb 05 17:32:18.000: %APF-4-REGISTER_IPADD_ON_MSCB_FAILED: apf_foreignap.c:1289 Could not register",
        "TIME hostname=wlc-1 app_name=%APF-4-REGISTER_IPADD_ON_MSCB_FAILED proc_id=apfMsConnTask_1 message=apf_foreignap.c:1289 Could not register",
    ),
    (
        "Juniper JunOS",
        "<29>Feb  5 17:32:18 mx-1 rpd[1422]: RPD_BGP_NEIGHBOR_STATE_CHANGED: BGP peer 192.0.2.1 changed state",
        "TIME hostname=mx-1 app_name=rpd proc_id=1422 message=RPD_BGP_NEIGHBOR_STATE_CHANGED: BGP peer 192.0.2.1 changed state",
    ),
    (
        "Juniper SRX with structured data",
        r#"<14>1 2026-02-05T17:32:18.000Z srx-1 RT_FLOW - RT_FLOW_SESSION_CREATE [junos@2636.1.1.1.2.39 source-address="192.0.2.7" source-port="54321"] session created"#,
        r#"TIME hostname=srx-1 app_name=RT_FLOW msg_id=RT_FLOW_SESSION_CREATE structured_data={"junos@2636.1.1.1.2.39":{"source-address":"192.0.2.7","source-port":"54321"}} message=session created"#,
    ),
    (
        "Palo Alto PAN-OS",
        "<14>Feb  5 17:32:18 pa-1 1,2026/02/05 17:32:18,001801000001,TRAFFIC,end,2305,2026/02/05 17:32:18,192.0.2.7",
        "TIME hostname=pa-1 message=1,2026/02/05 17:32:18,001801000001,TRAFFIC,end,2305,2026/02/05 17:32:18,192.0.2.7",
    ),
    (
        "Fortinet FortiGate",
        r#"<189>date=2026-02-05 time=17:32:18 devname="FGT-1" devid="FG100" logid="0000000013" type="traffic" level="notice""#,
        r#"message=date=2026-02-05 time=17:32:18 devname="FGT-1" devid="FG100" logid="0000000013" type="traffic" level="notice""#,
    ),
    (
        "MikroTik RouterOS",
        "<30>Feb  5 17:32:18 MikroTik firewall,info input: in:ether1 out:(unknown 0), proto TCP (SYN), 192.0.2.7:1->198.51.100.1:22, len 60",
        "TIME hostname=MikroTik message=firewall,info input: in:ether1 out:(unknown 0), proto TCP (SYN), 192.0.2.7:1->198.51.100.1:22, len 60",
    ),
    (
        "MikroTik RouterOS without header",
        "system,info,account user admin logged in from 192.0.2.7 via ssh",
        "!not_syslog@0",
    ),
    (
        "Ubiquiti UniFi access point",
        "<30>Feb  5 17:32:18 U7PG2,788a20000001,v4.3.20.11298: hostapd: ath0: STA 00:00:5e:00:53:01 IEEE 802.11: associated",
        "TIME message=U7PG2,788a20000001,v4.3.20.11298: hostapd: ath0: STA 00:00:5e:00:53:01 IEEE 802.11: associated",
    ),
    (
        "pfSense filterlog",
        "<134>Feb  5 17:32:18 filterlog[31077]: 5,,,1000000103,igb0,match,block,in,4,0x0,,64,0,0,DF,6,tcp,60,192.0.2.7,198.51.100.7,1,22",
        "TIME app_name=filterlog proc_id=31077 message=5,,,1000000103,igb0,match,block,in,4,0x0,,64,0,0,DF,6,tcp,60,192.0.2.7,198.51.100.7,1,22",
    ),
    (
        "OPNsense filterlog",
        r#"<134>1 2026-02-05T17:32:18+00:00 fw.example.com filterlog 8123 - [meta sequenceId="1"] 82,,,0,igb1,match,pass,in,6"#,
        r#"TIME hostname=fw.example.com app_name=filterlog proc_id=8123 structured_data={"meta":{"sequenceId":"1"}} message=82,,,0,igb1,match,pass,in,6"#,
    ),
    (
        "F5 BIG-IP",
        "<141>Feb  5 17:32:18 bigip-1 notice mcpd[6967]: 01070638:5: Pool /Common/web member /Common/192.0.2.7:80 monitor status down.",
        "TIME hostname=bigip-1 app_name=mcpd proc_id=6967 message=01070638:5: Pool /Common/web member /Common/192.0.2.7:80 monitor status down.",
    ),
    (
        "VMware ESXi",
        "<166>2026-02-05T17:32:18.000Z esx-1.example.com Hostd: info hostd[2099457] [Originator@6876 sub=Vimsvc opID=5a] Task created",
        "TIME hostname=esx-1.example.com app_name=Hostd message=info hostd[2099457] [Originator@6876 sub=Vimsvc opID=5a] Task created",
    ),
    (
        "VMware vCenter",
        "<14>1 2026-02-05T17:32:18.000000+00:00 vc-1 vpxd 4661 - -  Event [1] [1-1] [vim.event.UserLoginSessionEvent]",
        "TIME hostname=vc-1 app_name=vpxd proc_id=4661 message= Event [1] [1-1] [vim.event.UserLoginSessionEvent]",
    ),
    (
        "HAProxy",
        r#"<134>Feb  5 17:32:18 haproxy[14389]: 192.0.2.7:33317 [05/Feb/2026:17:32:18.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1""#,
        r#"TIME app_name=haproxy proc_id=14389 message=192.0.2.7:33317 [05/Feb/2026:17:32:18.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1""#,
    ),
    (
        "nginx",
        r#"<190>Feb  5 17:32:18 web-1 nginx: 192.0.2.7 - - [05/Feb/2026:17:32:18 +0000] "GET / HTTP/1.1" 200 612"#,
        r#"TIME hostname=web-1 app_name=nginx message=192.0.2.7 - - [05/Feb/2026:17:32:18 +0000] "GET / HTTP/1.1" 200 612"#,
    ),
    (
        "Postfix",
        "<22>Feb  5 17:32:18 mail-1 postfix/smtpd[2112]: NOQUEUE: reject: RCPT from unknown[192.0.2.7]: 554 5.7.1",
        "TIME hostname=mail-1 app_name=postfix/smtpd proc_id=2112 message=NOQUEUE: reject: RCPT from unknown[192.0.2.7]: 554 5.7.1",
    ),
    (
        "sshd",
        "<38>Feb  5 17:32:18 web-1 sshd[24200]: Accepted publickey for ada from 192.0.2.7 port 52146 ssh2",
        "TIME hostname=web-1 app_name=sshd proc_id=24200 message=Accepted publickey for ada from 192.0.2.7 port 52146 ssh2",
    ),
    (
        "sudo",
        "<85>Feb  5 17:32:18 web-1 sudo:      ada : TTY=pts/0 ; PWD=/home/ada ; USER=root ; COMMAND=/bin/ls",
        "TIME hostname=web-1 app_name=sudo message=     ada : TTY=pts/0 ; PWD=/home/ada ; USER=root ; COMMAND=/bin/ls",
    ),
    (
        "kernel",
        "<4>Feb  5 17:32:18 web-1 kernel: [   12.345678] Out of memory: Killed process 99 (java)",
        "TIME hostname=web-1 app_name=kernel message=[   12.345678] Out of memory: Killed process 99 (java)",
    ),
    (
        "cron",
        "<78>Feb  5 17:32:18 web-1 CRON[2012]: (root) CMD (test -x /usr/sbin/anacron)",
        "TIME hostname=web-1 app_name=CRON proc_id=2012 message=(root) CMD (test -x /usr/sbin/anacron)",
    ),
    (
        "/dev/log",
        "<13>Feb  5 17:32:18 ada: a message without host",
        "TIME app_name=ada message=a message without host",
    ),
    (
        "dhcpd",
        "<30>Feb  5 17:32:18 gw-1 dhcpd: DHCPACK on 192.0.2.7 to 00:00:5e:00:53:01 (laptop) via eth0",
        "TIME hostname=gw-1 app_name=dhcpd message=DHCPACK on 192.0.2.7 to 00:00:5e:00:53:01 (laptop) via eth0",
    ),
    (
        "named",
        "<30>Feb  5 17:32:18 ns-1 named[512]: client @0x7f1 192.0.2.7#53124 (example.com): query: example.com IN A +E(0)K",
        "TIME hostname=ns-1 app_name=named proc_id=512 message=client @0x7f1 192.0.2.7#53124 (example.com): query: example.com IN A +E(0)K",
    ),
    (
        "rsyslog, RSYSLOG_ForwardFormat",
        "<30>2026-02-05T17:32:18.000000+00:00 web-1 systemd[1]: Started Session 1 of user ada.",
        "TIME hostname=web-1 app_name=systemd proc_id=1 message=Started Session 1 of user ada.",
    ),
    (
        "rsyslog, RSYSLOG_SyslogProtocol23Format",
        "<30>1 2026-02-05T18:32:18.000000+01:00 web-1 systemd 1 - -  Started Session 1 of user ada.",
        "TIME hostname=web-1 app_name=systemd proc_id=1 message= Started Session 1 of user ada.",
    ),
    (
        "syslog-ng",
        r#"<38>1 2026-02-05T17:32:18+00:00 web-1 sshd 24200 - [meta sequenceId="3"][timeQuality isSynced="1"] Connection closed"#,
        r#"TIME hostname=web-1 app_name=sshd proc_id=24200 structured_data={"meta":{"sequenceId":"3"},"timeQuality":{"isSynced":"1"}} message=Connection closed"#,
    ),
    (
        "Docker, syslog driver",
        "<30>Feb  5 17:32:18 1a2b3c4d5e6f[891]: GET / 200",
        "TIME app_name=1a2b3c4d5e6f proc_id=891 message=GET / 200",
    ),
    (
        "Docker, rfc5424micro",
        "<30>1 2026-02-05T17:32:18.000000Z docker-1 web/1a2b3c 891 web/1a2b3c - GET / 200",
        "TIME hostname=docker-1 app_name=web/1a2b3c proc_id=891 msg_id=web/1a2b3c message=GET / 200",
    ),
    (
        "Synology DSM",
        "<14>Feb  5 17:32:18 nas-1 Connection: User [ada] from [192.0.2.7] logged in successfully via [DSM].",
        "TIME hostname=nas-1 app_name=Connection message=User [ada] from [192.0.2.7] logged in successfully via [DSM].",
    ),
    (
        "QNAP QTS",
        "<30>Feb  5 17:32:18 qnap-1 qlogd[10026]: conn log: Users: ada, Source IP: 192.0.2.7, Action: Login OK",
        "TIME hostname=qnap-1 app_name=qlogd proc_id=10026 message=conn log: Users: ada, Source IP: 192.0.2.7, Action: Login OK",
    ),
    (
        "Sophos firewall",
        r#"<30>device="SFW" date=2026-02-05 time=17:32:18 timezone="UTC" device_name="XG" log_type="Firewall""#,
        r#"message=device="SFW" date=2026-02-05 time=17:32:18 timezone="UTC" device_name="XG" log_type="Firewall""#,
    ),
    (
        "WatchGuard Firebox",
        r#"<140>Feb  5 17:32:18 fb-1 firewall: msg_id="3000-0148" Deny 1-Trusted 0-External 52 tcp 20 127"#,
        r#"TIME hostname=fb-1 app_name=firewall message=msg_id="3000-0148" Deny 1-Trusted 0-External 52 tcp 20 127"#,
    ),
    (
        "WatchGuard Firebox with serial number",
        r#"<140>Feb  5 17:32:18 fb-1 80AB00000001F (2026-02-05T17:32:18) firewall: msg_id="3000-0148" Deny"#,
        r#"TIME hostname=fb-1 message=80AB00000001F (2026-02-05T17:32:18) firewall: msg_id="3000-0148" Deny"#,
    ),
    (
        "SonicWall",
        r#"<134>id=firewall sn=18B169000001 time="2026-02-05 17:32:18" fw=192.0.2.1 pri=6 c=1024 m=537 msg="Connection Closed""#,
        r#"message=id=firewall sn=18B169000001 time="2026-02-05 17:32:18" fw=192.0.2.1 pri=6 c=1024 m=537 msg="Connection Closed""#,
    ),
    (
        "Check Point Log Exporter",
        r#"<134>1 2026-02-05T17:32:18Z cp-1 CheckPoint 2182 - [action:"Accept"; flags:"280832"; ifdir:"inbound"]"#,
        r#"TIME hostname=cp-1 app_name=CheckPoint proc_id=2182 message=[action:"Accept"; flags:"280832"; ifdir:"inbound"] !bad_structured_data@51"#,
    ),
    (
        "Aruba controller",
        "<141>Feb  5 17:32:18 2026 aruba-1 authmgr[3744]: <522008> <NOTI> <aruba-1 192.0.2.1>  User Authentication Successful",
        "TIME hostname=aruba-1 app_name=authmgr proc_id=3744 message=<522008> <NOTI> <aruba-1 192.0.2.1>  User Authentication Successful",
    ),
    (
        "HP ProCurve",
        "<14>Feb  5 17:32:18 192.0.2.2 00076 ports:  port 7 is now on-line",
        "TIME hostname=192.0.2.2 message=00076 ports:  port 7 is now on-line",
    ),
    (
        "Brocade FOS",
        "<190>Feb  5 17:32:18 san-1 raslogd: 2026/02/05-17:32:18, [SEC-1203], 42, WWN 10:00 | FID 128, INFO, SW1, Login",
        "TIME hostname=san-1 app_name=raslogd message=2026/02/05-17:32:18, [SEC-1203], 42, WWN 10:00 | FID 128, INFO, SW1, Login",
    ),
    (
        "Citrix NetScaler",
        "<134> 02/05/2026:17:32:18 GMT ns-1 0-PPE-0 : default SSLLOG SSL_HANDSHAKE_SUCCESS 158 0 :  SPCBId 1",
        "TIME hostname=ns-1 message=0-PPE-0 : default SSLLOG SSL_HANDSHAKE_SUCCESS 158 0 :  SPCBId 1",
    ),
    (
        "Blue Coat ProxySG",
        "<29>Feb  5 17:32:18 sg-1 ProxySG: 250017 Authentication failed from 192.0.2.7: no such user(0) NORMAL_EVENT authutility.cpp 113",
        "TIME hostname=sg-1 app_name=ProxySG message=250017 Authentication failed from 192.0.2.7: no such user(0) NORMAL_EVENT authutility.cpp 113",
    ),
    (
        "Windows, NXLog",
        r#"<14>1 2026-02-05T17:32:18.000000+00:00 WIN-1 Microsoft-Windows-Security-Auditing 616 - [NXLOG@14506 Keywords="-9214" EventID="4624"] An account was logged on."#,
        r#"TIME hostname=WIN-1 app_name=Microsoft-Windows-Security-Auditing proc_id=616 structured_data={"NXLOG@14506":{"Keywords":"-9214","EventID":"4624"}} message=An account was logged on."#,
    ),
    (
        "Windows, Snare",
        "<13>Feb  5 17:32:18 WIN-1 MSWinEventLog\t1\tSecurity\t42\tThu Feb 05 17:32:18 2026\t4624",
        "TIME hostname=WIN-1 app_name=MSWinEventLog message=1\tSecurity\t42\tThu Feb 05 17:32:18 2026\t4624",
    ),
    (
        "Cisco IOS with a zone that is not configured",
        "<189>44: sw-1: Feb  5 17:32:18.775 PDT: %LINEPROTO-5-UPDOWN: Line protocol changed",
        r#"hostname=sw-1 app_name=%LINEPROTO-5-UPDOWN structured_data={"meta":{"sequenceId":"44"}} message=Line protocol changed !bad_time@15"#,
    ),
    (
        "Cisco Catalyst with daylight saving time",
        "<189>Feb  5 17:32:18 PSTDST: %SYS-5-RESTART: System restarted",
        "app_name=%SYS-5-RESTART message=System restarted !bad_time@5",
    ),
    (
        "Ubiquiti UniFi gateway, which relays to itself",
        "<14>Feb  5 17:32:18 UDM-1 UDM-1 ubios-udapi-server[3117]: service: restart",
        "TIME hostname=UDM-1 app_name=ubios-udapi-server proc_id=3117 message=service: restart",
    ),
    (
        "Kiwi relay",
        "<190>2026-02-05 17:32:18 Local7.Info sw-1 Acl: %ACL-6-IPACCESS: list denied",
        "TIME hostname=sw-1 app_name=Acl message=%ACL-6-IPACCESS: list denied",
    ),
    (
        ".NET StreamWriter",
        "\u{feff}<14>Feb  5 17:32:18 WIN-1 shop: text",
        "TIME hostname=WIN-1 app_name=shop message=text",
    ),
    ("Python SysLogHandler", "<14>disk is full", "message=disk is full"),
    (
        "log4j2 SyslogAppender, RFC 5424",
        "<129>1 2026-02-05T17:32:18.000Z app-1 shop 77 - [mdc@18060 user=\"ada\"] order 7 failed",
        r#"TIME hostname=app-1 app_name=shop proc_id=77 structured_data={"mdc@18060":{"user":"ada"}} message=order 7 failed"#,
    ),
    (
        "logger",
        r#"<13>1 2026-02-05T17:32:18.000000+00:00 web-1 ada - - [timeQuality tzKnown="1" isSynced="0"] text"#,
        r#"TIME hostname=web-1 app_name=ada structured_data={"timeQuality":{"tzKnown":"1","isSynced":"0"}} message=text"#,
    ),
    (
        "Apache through a relay that numbers its messages",
        "<30>Feb  5 17:32:18 web-1 [Thu Feb 05 17:32:18 2026] [error] client denied",
        "TIME hostname=web-1 message=[Thu Feb 05 17:32:18 2026] [error] client denied",
    ),
];

#[test]
fn lines_of_devices_have_the_right_fields() {
    let mut wrong = String::new();
    for (sender, line, expected) in LINES {
        let parsed = parse(&mut syslog(), &[line.as_bytes()]);
        let flaws = parsed.flaws.iter().map(|flaw| format!(" !{}@{}", flaw.reason, flaw.at));
        let fields = parsed.shown_short().concat() + &flaws.collect::<String>();
        let is_header = |word: &&str| {
            !["facility=", "severity=", "version="].iter().any(|name| word.starts_with(name))
        };
        let words: Vec<&str> = fields.splitn(4, ' ').collect();
        let kept: Vec<&str> = words.into_iter().filter(is_header).collect();
        let found = kept.join(" ").replace("timestamp=@2026-02-05T17:32:18.000Z", "TIME");
        if found != *expected {
            wrong += &format!("{sender}: {line}\n  found    {found}\n  expected {expected}\n");
        }
    }
    assert!(LINES.len() >= 40 && wrong.is_empty(), "{wrong}");
}
