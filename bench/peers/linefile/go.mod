module millstream.dev/bench/linefile

go 1.25.0

require (
	go.opentelemetry.io/collector/component v1.55.0
	go.opentelemetry.io/collector/exporter v1.55.0
	go.opentelemetry.io/collector/pdata v1.55.0
)
