package rows

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// maxLine bounds one row; the longest real one is under 2 KiB.
const maxLine = 1 << 20

// FileName is where a row of a run is kept: <row>-<date>-<commit8>.jsonl. Of a
// commit with a mark behind it ("…-dirty") the mark stays in the row alone.
func FileName(row string, at time.Time, commit string) string {
	commit, _, _ = strings.Cut(commit, "-")
	if len(commit) > 8 {
		commit = commit[:8]
	}
	return fmt.Sprintf("%s-%s-%s.jsonl", row, at.UTC().Format("2006-01-02"), commit)
}

// Read gives all rows of a stream, in order. Empty lines are skipped. The first
// bad line ends the reading; its number is in the error.
func Read(r io.Reader) ([]Row, error) {
	var out []Row
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 64*1024), maxLine)
	for n := 1; sc.Scan(); n++ {
		line := bytes.TrimSpace(sc.Bytes())
		if len(line) == 0 {
			continue
		}
		row, err := Decode(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		out = append(out, row)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("read rows: %w", err)
	}
	return out, nil
}

// ReadFile gives all rows of a file.
func ReadFile(path string) ([]Row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read rows: %w", err)
	}
	defer f.Close()
	rows, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}

// Append adds rows to a file (made when absent, its folder too). Either all
// rows are valid and written by one write, or the file is left alone.
func Append(path string, rows ...Row) error {
	var buf bytes.Buffer
	for _, r := range rows {
		line, err := Encode(r)
		if err != nil {
			return err
		}
		buf.Write(line)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("append rows: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("append rows: %w", err)
	}
	if _, err := f.Write(buf.Bytes()); err != nil {
		_ = f.Close()
		return fmt.Errorf("append rows: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("append rows: %w", err)
	}
	return nil
}
