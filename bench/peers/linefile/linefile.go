// Package linefile is an exporter for the OpenTelemetry Collector that writes the body of each log record as one
// line. It stands in for the file exporter where that is not to be had, and does less: no JSON, no rotation.
package linefile

import (
	"bufio"
	"context"
	"errors"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/pdata/plog"
)

const bufferBytes = 256 << 10

// Config holds the options.
type Config struct {
	// Path of the file to write; what it held is gone.
	Path string `mapstructure:"path"`
}

// Validate says what is wrong with the options.
func (c *Config) Validate() error {
	if c.Path == "" {
		return errors.New("path is missing")
	}
	return nil
}

// NewFactory is what the Collector's builder calls.
func NewFactory() exporter.Factory {
	return exporter.NewFactory(
		component.MustNewType("linefile"),
		func() component.Config { return &Config{} },
		exporter.WithLogs(newLogs, component.StabilityLevelDevelopment),
	)
}

func newLogs(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Logs, error) {
	w := &writer{path: cfg.(*Config).Path}
	return exporterhelper.NewLogs(ctx, set, cfg, w.write,
		exporterhelper.WithStart(w.start), exporterhelper.WithShutdown(w.shutdown))
}

type writer struct {
	path string
	mu   sync.Mutex
	file *os.File
	out  *bufio.Writer
}

func (w *writer) start(context.Context, component.Host) (err error) {
	if w.file, err = os.Create(w.path); err == nil {
		w.out = bufio.NewWriterSize(w.file, bufferBytes)
	}
	return err
}

func (w *writer) write(_ context.Context, logs plog.Logs) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, resource := range logs.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				w.out.WriteString(record.Body().Str())
				w.out.WriteByte('\n')
			}
		}
	}
	// The first error of a bufio.Writer stays, so that it is seen here. Nothing waits in the buffer for the next
	// batch, which may come late.
	return w.out.Flush()
}

func (w *writer) shutdown(context.Context) error {
	if w.file == nil {
		return nil
	}
	return errors.Join(w.out.Flush(), w.file.Close())
}
