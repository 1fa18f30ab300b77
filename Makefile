# Every task of the project. `make help` lists them.

.DEFAULT_GOAL := help
.PHONY: help build run redis test soak fuzz counts dist dist-test boot-test bench bench-peers check toolchain

help: ## list the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

PROGRAM ?= target/release/millstream

build: toolchain ## compile the program to target/release/millstream, and the jars for JVMs beside it
	cargo build --release
	scripts/jars

run: build ## build, then start the agent with millstream.yaml; Ctrl-C drains and ends it
	target/release/millstream run -c millstream.yaml --progress

redis: build ## build, then print the state and the slow commands of the Redis server at REDIS; Ctrl-C ends it
	scripts/java examples >/dev/null
	REDIS=$(REDIS) $(PROGRAM) run -c java/examples/redis.yaml $(OPTIONS)

test: toolchain ## check formatting, lints and API documentation, and run every test
	scripts/test

soak: toolchain ## play the long versions of the random tests, from another seed each time: SOAK=n for n times as long
	scripts/soak

fuzz: toolchain ## play the fuzz targets under libFuzzer for one more minute each, JOBS=n at once
	scripts/fuzz play --seconds 60

counts: toolchain ## count the instructions of the data path, and compare them with the recorded counts
	scripts/counts

dist: toolchain ## build the packages of a release into dist
	scripts/dist

dist-test: ## install the packages of dist into bare folders of Debian, kill, upgrade and remove the agent there
	scripts/dist-test

boot-test: ## boot Debian with the deb of dist in a virtual machine, and check the service under its systemd
	scripts/boot-test

bench: build ## measure the program beside the limits of this host
	cargo run --release -p millstream-bench -- short

bench-peers: build ## measure it beside rsyslog, the OpenTelemetry Collector and kcat, and into Kafka
	scripts/bench-peers
	cargo run --release -p millstream-bench -- --repetitions 3 peers

check: toolchain ## formatting, lints, API documentation, licences and advisories
	scripts/check

toolchain:
	@scripts/toolchain
