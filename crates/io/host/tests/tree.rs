//! The exact numbers of every group, read from a small tree of files.

use crate::support::{collect, copy, count, filter, group, host, lines, options, tree};
use millstream_host::{Cgroups, Disks, Group, Reason};
use std::fs;

#[test]
fn cpus() {
    let counts = [
        "host_cpus{} 2",
        "host_context_switches_total{}+ 129231706",
        "host_interrupts_total{}+ 64189050",
        "host_forks_total{}+ 41000",
        "host_boot_time_seconds{} 1795290000",
    ];
    let sums = [
        "host_cpu_seconds_total{mode=user}+ 30",
        "host_cpu_seconds_total{mode=nice}+ 2",
        "host_cpu_seconds_total{mode=system}+ 15",
        "host_cpu_seconds_total{mode=idle}+ 900",
        "host_cpu_seconds_total{mode=iowait}+ 5",
        "host_cpu_seconds_total{mode=irq}+ 0.1",
        "host_cpu_seconds_total{mode=softirq}+ 0.2",
        "host_cpu_seconds_total{mode=steal}+ 0.3",
        "host_cpu_guest_seconds_total{mode=user}+ 4",
        "host_cpu_guest_seconds_total{mode=nice}+ 0.05",
    ];
    let mut options = options(&tree(), &[Group::Cpu]);
    assert_eq!(group(options.clone()), [&sums[..], &counts[..]].concat());
    options.per_cpu = true;
    let lines = group(options);
    assert_eq!(lines.len(), 2 * sums.len() + counts.len());
    assert_eq!(lines[0], "host_cpu_seconds_total{cpu=0,mode=user}+ 10");
    // An offline CPU has no line, and its index is not reused.
    assert_eq!(lines[13], "host_cpu_seconds_total{cpu=2,mode=idle}+ 450");
}

#[test]
fn memory() {
    let page = rustix::param::page_size();
    let mut expected = Vec::new();
    for (name, kib) in [
        ("total", 8_000_000u64),
        ("free", 1_000_000),
        ("available", 5_000_000),
        ("buffers", 200_000),
        ("cached", 3_500_000),
        ("active", 2_600_000),
        ("inactive", 2_500_000),
        ("anonymous", 1_450_000),
        ("shared", 60_000),
        ("slab", 400_000),
        ("slab_reclaimable", 300_000),
        ("page_tables", 20_000),
        ("dirty", 120),
        ("writeback", 0),
        ("committed", 4_000_000),
        ("commit_limit", 6_000_000),
        ("swap_total", 2_000_000),
        ("swap_free", 1_500_000),
        ("used", 3_000_000),
        ("swap_used", 500_000),
    ] {
        expected.push(format!("host_memory_{name}_bytes{{}} {}", kib * 1024));
    }
    expected.push(format!("host_memory_swapped_in_bytes_total{{}}+ {}", 10 * page));
    expected.push(format!("host_memory_swapped_out_bytes_total{{}}+ {}", 20 * page));
    expected.push("host_memory_page_faults_total{}+ 5000000".into());
    expected.push("host_memory_major_page_faults_total{}+ 3000".into());
    expected.push("host_memory_oom_kills_total{}+ 1".into());
    assert_eq!(group(options(&tree(), &[Group::Memory])), expected);
}

#[test]
fn disks() {
    let whole = [
        "host_disk_reads_completed_total{device=sda}+ 1000",
        "host_disk_read_bytes_total{device=sda}+ 40960000",
        "host_disk_read_time_seconds_total{device=sda}+ 1.5",
        "host_disk_writes_completed_total{device=sda}+ 2000",
        "host_disk_written_bytes_total{device=sda}+ 81920000",
        "host_disk_write_time_seconds_total{device=sda}+ 9",
        "host_disk_io_time_seconds_total{device=sda}+ 4",
        "host_disk_io_time_weighted_seconds_total{device=sda}+ 10.5",
        "host_disk_io_now{device=sda} 2",
    ];
    let mut options = options(&tree(), &[Group::Disk]);
    assert_eq!(group(options.clone()), whole);
    options.disks.partitions = true;
    assert_eq!(
        group(options.clone())[whole.len()],
        "host_disk_reads_completed_total{device=sda1}+ 900"
    );
    options.disks = Disks { names: filter(&["loop*"], &[]), partitions: false };
    assert_eq!(group(options)[0], "host_disk_reads_completed_total{device=loop0}+ 774");
}

#[test]
fn file_systems() {
    let mut expected = Vec::new();
    for (device, fstype, mountpoint, readonly) in
        [("/dev/sda1", "ext4", "/", 0), ("/dev/sdb1", "xfs", "/mnt/the data", 1)]
    {
        let labels = format!("device={device},fstype={fstype},mountpoint={mountpoint}");
        for (name, value) in [
            ("total_bytes", 4000),
            ("free_bytes", 1500),
            ("available_bytes", 1000),
            ("used_bytes", 2500),
            ("files", 80),
            ("files_free", 30),
            ("readonly", readonly),
        ] {
            expected.push(format!("host_filesystem_{name}{{{labels}}} {value}"));
        }
    }
    assert_eq!(group(options(&tree(), &[Group::Filesystems])), expected);
}

#[test]
fn an_unreachable_file_system_omits_only_its_metrics() {
    let mut options = options(&tree(), &[Group::Filesystems, Group::Load]);
    options.root = "/elsewhere".into();
    let readings = collect(&mut host(options));
    assert_eq!(count(&readings, Reason::Missing), 2);
    assert_eq!(readings.faults[0].text, "/elsewhere: entity not found");
    assert_eq!(lines(&readings)[0], "host_load1{} 0.25");
}

#[test]
fn networks() {
    let interface = |name: &str, values: [u64; 8]| {
        let names = ["bytes", "packets", "errors", "drops"];
        let names = names
            .map(|unit| format!("receive_{unit}"))
            .into_iter()
            .chain(names.map(|unit| format!("transmit_{unit}")));
        let lines = names.zip(values).map(|(metric, value)| {
            format!("host_network_{metric}_total{{interface={name}}}+ {value}")
        });
        lines.collect::<Vec<String>>()
    };
    let lo = interface("lo", [5000, 50, 0, 0, 5000, 50, 0, 0]);
    let eth0 = interface("eth0", [8_000_000, 45703, 1, 2, 3_721_369, 32257, 3, 4]);
    assert_eq!(group(options(&tree(), &[Group::Network])), [lo, eth0].concat());
    // If the file of process 1 is missing, the agent's own interfaces are read.
    let dir = copy();
    fs::remove_file(dir.path().join("proc/1/net/dev")).unwrap();
    let own = interface("own0", [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(group(options(dir.path(), &[Group::Network])), own);
}

#[test]
fn load() {
    let expected = ["host_load1{} 0.25", "host_load5{} 0.5", "host_load15{} 1.75"];
    assert_eq!(group(options(&tree(), &[Group::Load])), expected);
}

#[test]
fn processes() {
    let mut expected = vec![
        "host_processes{state=running} 1",
        "host_processes{state=sleeping} 1",
        "host_processes{state=blocked} 1",
        "host_processes{state=idle} 0",
        "host_processes{state=zombie} 1",
        "host_processes{state=stopped} 0",
        "host_processes{state=other} 0",
        "host_threads{} 14",
    ];
    let mut options = options(&tree(), &[Group::Processes]);
    assert_eq!(group(options.clone()), expected);
    options.processes = Some(filter(&["web", "my*"], &[]));
    let page = rustix::param::page_size();
    let (odd, web) = (2000 * page, 3000 * page);
    let (odd, web) = (
        format!("host_process_resident_bytes{{process=my (odd) name}} {odd}"),
        format!("host_process_resident_bytes{{process=web}} {web}"),
    );
    expected.extend([
        "host_process_instances{process=my (odd) name} 1",
        "host_process_threads{process=my (odd) name} 4",
        &odd,
        "host_process_cpu_seconds_total{process=my (odd) name}+ 0.75",
        "host_process_instances{process=web} 2",
        "host_process_threads{process=web} 9",
        &web,
        "host_process_cpu_seconds_total{process=web}+ 15.15",
    ]);
    assert_eq!(group(options), expected);
}

#[test]
fn process_cpu_time_does_not_decrease_when_one_exits() {
    let dir = copy();
    let mut options = options(dir.path(), &[Group::Processes]);
    options.processes = Some(filter(&["web"], &[]));
    let mut host = host(options);
    let mut web = |what: &str| {
        let readings = collect(&mut host);
        assert_eq!(readings.faults, []);
        let found =
            readings.numbers.iter().find(|reading| reading.name == format!("host_process_{what}"));
        found.unwrap().value
    };
    assert_eq!(web("cpu_seconds_total"), 15.15);
    let stat = dir.path().join("proc/8/stat");
    let text = fs::read_to_string(&stat).unwrap();
    fs::write(&stat, text.replace(" 1000 500 ", " 1100 500 ")).unwrap();
    assert_eq!(web("cpu_seconds_total"), 16.15);
    fs::remove_file(&stat).unwrap();
    assert_eq!(web("cpu_seconds_total"), 16.15);
    assert_eq!(web("instances"), 1.0);
    // A new process reuses the id, so all of its CPU time is added.
    fs::write(&stat, text.replace(" 950 ", " 9999 ")).unwrap();
    assert_eq!(web("cpu_seconds_total"), 31.15);
}

/// A process's CPU time is not added again after its file was temporarily unreadable.
#[test]
fn process_cpu_time_is_added_once() {
    let dir = copy();
    let mut options = options(dir.path(), &[Group::Processes]);
    options.processes = Some(filter(&["web"], &[]));
    let mut host = host(options);
    let mut used = || {
        let readings = collect(&mut host);
        let name = "host_process_cpu_seconds_total";
        readings.numbers.iter().find(|reading| reading.name == name).unwrap().value
    };
    assert_eq!(used(), 15.15);
    let stat = dir.path().join("proc/8/stat");
    let text = fs::read_to_string(&stat).unwrap();
    for unreadable in ["", "8 (web"] {
        fs::write(&stat, unreadable).unwrap();
        assert_eq!(used(), 15.15);
        fs::write(&stat, &text).unwrap();
        assert_eq!(used(), 15.15);
    }
    fs::remove_file(&stat).unwrap();
    assert_eq!(used(), 15.15);
    fs::write(&stat, text.replace(" 1000 500 ", " 1100 500 ")).unwrap();
    assert_eq!(used(), 16.15);
}

#[test]
fn control_groups() {
    let own = [
        "host_cgroup_cpu_seconds_total{cgroup=/apps/web,mode=user}+ 3",
        "host_cgroup_cpu_seconds_total{cgroup=/apps/web,mode=system}+ 1.5",
        "host_cgroup_cpu_periods_total{cgroup=/apps/web}+ 100",
        "host_cgroup_cpu_throttled_periods_total{cgroup=/apps/web}+ 7",
        "host_cgroup_cpu_throttled_seconds_total{cgroup=/apps/web}+ 0.25",
        "host_cgroup_memory_used_bytes{cgroup=/apps/web} 104857600",
        "host_cgroup_memory_swap_used_bytes{cgroup=/apps/web} 4096",
        "host_cgroup_memory_swap_limit_bytes{cgroup=/apps/web} 8192",
        "host_cgroup_threads{cgroup=/apps/web} 12",
        "host_cgroup_threads_limit{cgroup=/apps/web} 512",
        "host_cgroup_memory_anonymous_bytes{cgroup=/apps/web} 60000000",
        "host_cgroup_memory_cached_bytes{cgroup=/apps/web} 40000000",
        "host_cgroup_memory_oom_kills_total{cgroup=/apps/web}+ 1",
        "host_cgroup_io_read_bytes_total{cgroup=/apps/web}+ 1010",
        "host_cgroup_io_written_bytes_total{cgroup=/apps/web}+ 2020",
        "host_cgroup_io_reads_completed_total{cgroup=/apps/web}+ 4",
        "host_cgroup_io_writes_completed_total{cgroup=/apps/web}+ 5",
    ];
    let mut options = options(&tree(), &[Group::Cgroups]);
    assert_eq!(group(options.clone()), own);
    options.cgroups = Cgroups { root: Some("/".into()), depth: 2 };
    let mut names: Vec<String> = Vec::new();
    for line in group(options.clone()) {
        let (_, rest) = line.split_once("cgroup=").unwrap();
        let end = rest.find([',', '}']).unwrap();
        names.push(rest[..end].to_owned());
    }
    names.dedup();
    assert_eq!(names, ["/", "/apps", "/apps/db", "/apps/web"]);
    options.cgroups = Cgroups { root: Some("gone".into()), depth: 0 };
    let readings = collect(&mut host(options));
    assert_eq!((count(&readings, Reason::Missing), readings.numbers.len()), (1, 0));
}

#[test]
fn pressure() {
    let expected = [
        "host_pressure_seconds_total{kind=some,resource=cpu}+ 0.000007",
        "host_pressure_seconds_total{kind=some,resource=memory}+ 2.5",
        "host_pressure_seconds_total{kind=full,resource=memory}+ 0.5",
        "host_pressure_seconds_total{kind=some,resource=io}+ 2.5",
        "host_pressure_seconds_total{kind=full,resource=io}+ 0.5",
    ];
    assert_eq!(group(options(&tree(), &[Group::Pressure])), expected);
}
