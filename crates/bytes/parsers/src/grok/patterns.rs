//! The standard grok patterns. They avoid look-around and backreferences, and list longer
//! alternatives first.

/// Returns the definition of a pattern.
pub fn find(name: &str) -> Option<&'static str> {
    PATTERNS.iter().find(|(known, _)| *known == name).map(|(_, pattern)| *pattern)
}

/// Names and definitions of the standard patterns.
#[rustfmt::skip]
pub const PATTERNS: &[(&str, &str)] = &[
    // Words and numbers
    ("WORD", r"\b\w+\b"),
    ("NOTSPACE", r"\S+"),
    ("SPACE", r"\s*"),
    ("DATA", r".*?"),
    ("GREEDYDATA", r".*"),
    ("GREEDYMULTILINE", r"(?s:.*)"),
    ("QUOTEDSTRING", r#""[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*'|`[^`\\]*(?:\\.[^`\\]*)*`"#),
    ("QS", "%{QUOTEDSTRING}"),
    ("INT", r"[+-]?[0-9]+"),
    ("BASE10NUM", r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"),
    ("NUMBER", "%{BASE10NUM}"),
    ("BASE16NUM", r"[+-]?(?:0x)?[0-9A-Fa-f]+"),
    ("BASE16FLOAT", r"\b[+-]?(?:0x)?(?:[0-9A-Fa-f]+(?:\.[0-9A-Fa-f]*)?|\.[0-9A-Fa-f]+)\b"),
    ("POSINT", r"\b[1-9][0-9]*\b"),
    ("NONNEGINT", r"\b[0-9]+\b"),
    ("BOOL", r"(?i:true|false)"),
    ("UUID", r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"),
    ("URN", r"urn:[0-9A-Za-z][0-9A-Za-z-]{0,31}:(?:%[0-9A-Fa-f]{2}|[0-9A-Za-z()+,.:=@;$_!*'/?#-])+"),
    // Users
    ("USERNAME", r"[a-zA-Z0-9._-]+"),
    ("USER", "%{USERNAME}"),
    ("EMAILLOCALPART", r"[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+)*"),
    ("EMAILADDRESS", "%{EMAILLOCALPART}@%{HOSTNAME}"),
    ("HTTPDUSER", "%{EMAILADDRESS}|%{USER}"),
    // Addresses
    ("MAC", "%{CISCOMAC}|%{WINDOWSMAC}|%{COMMONMAC}"),
    ("CISCOMAC", r"(?:[A-Fa-f0-9]{4}\.){2}[A-Fa-f0-9]{4}"),
    ("WINDOWSMAC", r"(?:[A-Fa-f0-9]{2}-){5}[A-Fa-f0-9]{2}"),
    ("COMMONMAC", r"(?:[A-Fa-f0-9]{2}:){5}[A-Fa-f0-9]{2}"),
    ("IPV4", "%{OCTET}(?:[.]%{OCTET}){3}"),
    ("OCTET", "25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9][0-9]|[0-9]"),
    ("H16", "[0-9A-Fa-f]{1,4}"),
    ("IPV6", concat!(
        "(?:",
        "(?:%{H16}:){6}%{IPV4}|(?:%{H16}:){1,5}(?::%{H16}){0,4}:%{IPV4}|:(?::%{H16}){0,5}:%{IPV4}|",
        "(?:%{H16}:){7}%{H16}|%{H16}:(?::%{H16}){1,6}|(?:%{H16}:){2}(?::%{H16}){1,5}|",
        "(?:%{H16}:){3}(?::%{H16}){1,4}|(?:%{H16}:){4}(?::%{H16}){1,3}|(?:%{H16}:){5}(?::%{H16}){1,2}|",
        "(?:%{H16}:){6}:%{H16}|:(?::%{H16}){1,7}|(?:%{H16}:){1,7}:|::",
        ")(?:%[0-9A-Za-z._-]+)?",
    )),
    ("IP", "%{IPV6}|%{IPV4}"),
    ("HOSTNAME", r"\b[0-9A-Za-z][0-9A-Za-z_-]*(?:\.[0-9A-Za-z][0-9A-Za-z_-]*)*\.?"),
    ("IPORHOST", "%{IP}|%{HOSTNAME}"),
    ("HOST", "%{HOSTNAME}"),
    ("HOSTPORT", "%{IPORHOST}:%{POSINT}"),
    // Paths and URIs
    ("PATH", "%{UNIXPATH}|%{WINPATH}"),
    ("UNIXPATH", r"(?:/[\w%!$@:.,+~-]*)+"),
    ("WINPATH", r"(?:[A-Za-z]+:|\\)(?:\\[^\\?*]*)+"),
    ("TTY", "/dev/(?:pts|tty(?:[pq])?)(?:[a-z0-9]|/)*"),
    ("URIPROTO", r"[A-Za-z](?:[A-Za-z0-9+.-])*"),
    ("URIHOST", r"%{IPORHOST}(?::%{POSINT})?"),
    ("URIPATH", r"(?:/[A-Za-z0-9$.+!*'(){},~:;=@#%&_-]*)+"),
    ("URIQUERY", r"[A-Za-z0-9$.+!*'|(){},~@#%&/=:;_?\[\]<>-]*"),
    ("URIPARAM", r"\?%{URIQUERY}"),
    ("URIPATHPARAM", "%{URIPATH}(?:%{URIPARAM})?"),
    ("URI", "%{URIPROTO}://(?:%{USER}(?::[^@]*)?@)?(?:%{URIHOST})?(?:%{URIPATHPARAM})?"),
    // Dates and times
    ("MONTH", concat!(
        r"\b(?:[Jj]an(?:uary|uar)?|[Ff]eb(?:ruary|ruar)?|[Mm]a?r(?:ch|z)?|[Aa]pr(?:il)?|[Mm]a(?:y|i)|",
        r"[Jj]un(?:e|i)?|[Jj]ul(?:y|i)?|[Aa]ug(?:ust)?|[Ss]ep(?:tember)?|[Oo](?:c|k)?t(?:ober)?|",
        r"[Nn]ov(?:ember)?|[Dd]e(?:c|z)(?:ember)?)\b",
    )),
    ("MONTHNUM", "1[0-2]|0?[1-9]"),
    ("MONTHNUM2", "0[1-9]|1[0-2]"),
    ("MONTHDAY", "3[01]|[12][0-9]|0?[1-9]"),
    ("DAY", "Mon(?:day)?|Tue(?:sday)?|Wed(?:nesday)?|Thu(?:rsday)?|Fri(?:day)?|Sat(?:urday)?|Sun(?:day)?"),
    ("YEAR", "[0-9]{4}|[0-9]{2}"),
    ("HOUR", "2[0-3]|[01]?[0-9]"),
    ("MINUTE", "[0-5][0-9]"),
    ("SECOND", "(?:60|[0-5]?[0-9])(?:[:.,][0-9]+)?"),
    ("TIME", "(?:%{HOUR}):(?:%{MINUTE})(?::%{SECOND})?"),
    ("DATE_US", "%{MONTHNUM}[/-]%{MONTHDAY}[/-]%{YEAR}"),
    ("DATE_EU", "%{MONTHDAY}[./-]%{MONTHNUM}[./-]%{YEAR}"),
    ("DATE", "%{DATE_US}|%{DATE_EU}"),
    ("DATESTAMP", "%{DATE}[- ]%{TIME}"),
    ("TZ", "[A-Z]{3,4}"),
    ("ISO8601_TIMEZONE", "Z|[+-]%{HOUR}(?::?%{MINUTE})?"),
    ("ISO8601_SECOND", "%{SECOND}"),
    ("ISO8601_HOUR", "2[0-4]|[01][0-9]"),
    ("TIMESTAMP_ISO8601", "[0-9]{4}-%{MONTHNUM}-%{MONTHDAY}[T ]%{HOUR}:?%{MINUTE}(?::?%{SECOND})?(?:%{ISO8601_TIMEZONE})?"),
    ("DATESTAMP_RFC822", "%{DAY} %{MONTH} %{MONTHDAY} %{YEAR} %{TIME} %{TZ}"),
    ("DATESTAMP_RFC2822", "%{DAY}, %{MONTHDAY} %{MONTH} %{YEAR} %{TIME} %{ISO8601_TIMEZONE}"),
    ("DATESTAMP_OTHER", "%{DAY} %{MONTH} %{MONTHDAY} %{TIME} %{TZ} %{YEAR}"),
    ("DATESTAMP_EVENTLOG", "%{YEAR}%{MONTHNUM2}%{MONTHDAY}%{HOUR}%{MINUTE}%{SECOND}"),
    ("HTTPDATE", "%{MONTHDAY}/%{MONTH}/%{YEAR}:%{TIME} %{INT}"),
    ("HTTPDERROR_DATE", "%{DAY} %{MONTH} %{MONTHDAY} %{TIME} %{YEAR}"),
    // Levels
    ("LOGLEVEL", concat!(
        "(?i:alert|trace|debug|notice|information|info|warning|warn|error|err|critical|crit|fatal|severe|",
        "emergency|emerg|panic)",
    )),
    // Syslog
    ("SYSLOGTIMESTAMP", "%{MONTH} +%{MONTHDAY} %{TIME}"),
    ("SYSLOGHOST", "%{IPORHOST}"),
    ("SYSLOGFACILITY", "<%{NONNEGINT:facility}.%{NONNEGINT:priority}>"),
    ("PROG", r"[\x21-\x5a\x5c\x5e-\x7e]+"),
    ("SYSLOGPROG", r"%{PROG:program}(?:\[%{POSINT:pid}\])?"),
    ("SYSLOGBASE", "%{SYSLOGTIMESTAMP:timestamp} (?:%{SYSLOGFACILITY} )?%{SYSLOGHOST:logsource} %{SYSLOGPROG}:"),
    ("SYSLOGLINE", "%{SYSLOGBASE} +%{GREEDYDATA:message}"),
    ("SYSLOGPAMSESSION", concat!(
        r"%{SYSLOGBASE} (?:%{GREEDYDATA:message})?%{WORD:pam_module}\(%{DATA:pam_caller}\): session ",
        r"%{WORD:pam_session_state} for user %{USERNAME:username}(?: by %{GREEDYDATA:pam_by})?",
    )),
    ("CRON_ACTION", "[A-Z ]+"),
    ("CRONLOG", r"%{SYSLOGBASE} \(%{USER:user}\) %{CRON_ACTION:action} \(%{DATA:message}\)"),
    // Web servers
    ("HTTPD_COMMONLOG", concat!(
        r#"%{IPORHOST:clientip} %{HTTPDUSER:ident} %{HTTPDUSER:auth} \[%{HTTPDATE:timestamp}\] "#,
        r#""(?:%{WORD:verb} %{NOTSPACE:request}(?: HTTP/%{NUMBER:httpversion})?|%{DATA:rawrequest})" "#,
        r#"(?:-|%{INT:response:int}) (?:-|%{INT:bytes:int})"#,
    )),
    ("HTTPD_COMBINEDLOG", "%{HTTPD_COMMONLOG} %{QS:referrer} %{QS:agent}"),
    ("COMMONAPACHELOG", "%{HTTPD_COMMONLOG}"),
    ("COMBINEDAPACHELOG", "%{HTTPD_COMBINEDLOG}"),
    ("HTTPD20_ERRORLOG", concat!(
        r"\[%{HTTPDERROR_DATE:timestamp}\] \[%{LOGLEVEL:loglevel}\] (?:\[client %{IPORHOST:clientip}\] )?",
        "%{GREEDYDATA:message}",
    )),
    ("HTTPD24_ERRORLOG", concat!(
        r"\[%{HTTPDERROR_DATE:timestamp}\] \[(?:%{WORD:module})?:%{LOGLEVEL:loglevel}\] ",
        r"\[pid %{POSINT:pid:int}(?::tid %{NUMBER:tid:int})?\](?: \(%{POSINT:proxy_errorcode}\)%{DATA:proxy_message}:)?",
        r"(?: \[client %{IPORHOST:clientip}(?::%{POSINT:clientport:int})?\])?(?: %{WORD:errorcode}:)? %{GREEDYDATA:message}",
    )),
    ("HTTPD_ERRORLOG", "%{HTTPD24_ERRORLOG}|%{HTTPD20_ERRORLOG}"),
    // Java
    ("JAVACLASS", r"(?:[a-zA-Z$_][a-zA-Z$_0-9]*\.)*[a-zA-Z$_][a-zA-Z$_0-9]*"),
    ("JAVAFILE", "[A-Za-z0-9_. -]+"),
    ("JAVAMETHOD", "<(?:cl)?init>|[a-zA-Z$_][a-zA-Z$_0-9]*"),
    ("JAVASTACKTRACEPART", concat!(
        r"%{SPACE}at %{JAVACLASS:class}\.%{JAVAMETHOD:method}",
        r"\(%{JAVAFILE:file}(?::%{NUMBER:line:int})?\)",
    )),
    ("JAVATHREAD", "[A-Za-z0-9_#. -]+"),
    ("JAVALOGMESSAGE", ".*"),
];
