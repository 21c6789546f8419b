package sheet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"
)

const (
	folder   = "devices" // below the state directory
	suffix   = ".json"
	previous = ".previous" + suffix // the measured sheet of the driver before
)

// Path is the file of a device's sheet in a state directory.
func Path(dir, uuid string) string { return filepath.Join(dir, folder, uuid+suffix) }

// Load reads a device's sheet. A device without one gives an error that is
// fs.ErrNotExist.
func Load(dir, uuid string) (*Sheet, error) { return load(dir, uuid, suffix) }

// LoadPrevious reads what was measured under the driver before the sheet's; the
// error is fs.ErrNotExist where there is nothing.
func LoadPrevious(dir, uuid string) (*Sheet, error) { return load(dir, uuid, previous) }

func load(dir, uuid, suffix string) (*Sheet, error) {
	if err := CheckUUID(uuid); err != nil {
		return nil, fmt.Errorf("load spec sheet: %w", err)
	}
	path := filepath.Join(dir, folder, uuid+suffix)
	s, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("load spec sheet %s: %w", path, bare(err))
	}
	if s.Device.UUID != uuid {
		return nil, fmt.Errorf("load spec sheet %s: it is of %s", path, s.Device.UUID)
	}
	return s, nil
}

// bare is an error of the file system without the path, which stands before it.
func bare(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

func read(path string) (*Sheet, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe is not waited for
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, errors.New("no regular file")
	}
	b, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, err
	}
	return Decode(b)
}

// Decode reads a sheet and checks it. Its errors have one line.
func Decode(b []byte) (*Sheet, error) {
	if len(b) > maxBytes {
		return nil, fmt.Errorf("more than %d bytes", maxBytes)
	}
	var s Sheet
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&s); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errors.New("cut short")
		}
		return nil, fmt.Errorf("no spec sheet: %w", oneLine(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something stands behind the sheet")
	}
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("no sound spec sheet: %w", err)
	}
	return &s, nil
}

// oneLine keeps what a file says out of the terminal's control.
func oneLine(err error) error {
	text := strings.ToValidUTF8(err.Error(), "?")
	return errors.New(strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, text))
}

// Encode is the file's content.
func (s *Sheet) Encode() ([]byte, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("encode spec sheet: %w", err)
	}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode spec sheet: %w", err)
	}
	return append(b, '\n'), nil
}

// Save replaces a device's sheet at once: a reader finds the old one or the new
// one. What is there is not lost: figures of the same driver stay when s has
// none, and so does its probe; figures of another driver become the previous
// sheet.
func Save(dir string, s *Sheet) error {
	old, err := Load(dir, s.Device.UUID)
	if err == nil {
		s.carry(old)
	}
	b, err := s.Encode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
		return fmt.Errorf("save spec sheet: %w", err)
	}
	if old != nil && !old.On(s.Driver.Version) && old.Measured != nil {
		if err := write(dir, old, previous); err != nil {
			return err
		}
	}
	if err := renameio.WriteFile(Path(dir, s.Device.UUID), b, 0o644); err != nil {
		return fmt.Errorf("save spec sheet: %w", err)
	}
	return nil
}

func write(dir string, s *Sheet, suffix string) error {
	b, err := s.Encode()
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(filepath.Join(dir, folder, s.Device.UUID+suffix), b, 0o644); err != nil {
		return fmt.Errorf("save spec sheet: %w", err)
	}
	return nil
}

// carry takes over what old has and s lacks, under the same driver.
func (s *Sheet) carry(old *Sheet) {
	if !old.On(s.Driver.Version) {
		return
	}
	if s.Measured == nil {
		s.Measured = old.Measured
	}
	if s.Probe == nil {
		s.Probe = old.Probe
	}
}

// List reads all sheets of a state directory, in the order of their UUIDs, and
// says what is wrong with those that it cannot read. No directory is no sheet.
func List(dir string) ([]*Sheet, error) {
	entries, err := os.ReadDir(filepath.Join(dir, folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list spec sheets: %w", err)
	}
	var sheets []*Sheet
	var bad []error
	for _, e := range entries {
		uuid, isSheet := strings.CutSuffix(e.Name(), suffix)
		if !isSheet || CheckUUID(uuid) != nil {
			continue
		}
		s, err := Load(dir, uuid)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		sheets = append(sheets, s)
	}
	slices.SortFunc(sheets, func(a, b *Sheet) int { return strings.Compare(a.Device.UUID, b.Device.UUID) })
	return sheets, errors.Join(bad...)
}
