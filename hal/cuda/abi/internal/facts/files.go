package facts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Load reads a store. Every file must be there and hold nothing unknown.
func Load(dir fs.FS) (*Set, error) {
	s := &Set{}
	for _, f := range s.files() {
		data, err := fs.ReadFile(dir, f.name)
		if err != nil {
			return nil, fmt.Errorf("read facts: %w", err)
		}
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		if err := dec.Decode(f.into); err != nil {
			return nil, fmt.Errorf("read facts %s: %w", f.name, err)
		}
	}
	return s, nil
}

// Save writes a store into dir, which must exist. The order of the slices is
// kept: sort before.
func (s *Set) Save(dir string) error {
	for _, f := range s.files() {
		data, err := encode(f.into)
		if err != nil {
			return fmt.Errorf("write facts %s: %w", f.name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, f.name), data, 0o644); err != nil {
			return fmt.Errorf("write facts: %w", err)
		}
	}
	return nil
}

type file struct {
	name string
	into any // pointer into the Set
}

func (s *Set) files() []file {
	return []file{
		{"origin.json", &s.Origin},
		{"pointers.json", &s.Pointers},
		{"declarations.json", &s.Declarations},
		{"exports.json", &s.Exports},
		{"answers.json", &s.Answers},
		{"unknown.json", &s.Unknown},
		{"probes.json", &s.Probes},
		{"enumerators.json", &s.Enumerators},
		{"macros.json", &s.Macros},
		{"errors.json", &s.Errors},
		{"attributes.json", &s.Attributes},
		{"typedefs.json", &s.Typedefs},
		{"structs.json", &s.Structs},
	}
}

// encode writes a list with one compact element a line, and anything else
// indented.
func encode(v any) ([]byte, error) {
	whole, err := marshal(v)
	if err != nil {
		return nil, err
	}
	var items []json.RawMessage
	if json.Unmarshal(whole, &items) != nil {
		var out bytes.Buffer
		if err := json.Indent(&out, whole, "", "  "); err != nil {
			return nil, err
		}
		return append(bytes.TrimRight(out.Bytes(), "\n"), '\n'), nil
	}
	var out bytes.Buffer
	out.WriteString("[\n")
	for i, item := range items {
		out.Write(item)
		if i < len(items)-1 {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
	}
	out.WriteString("]\n")
	return out.Bytes(), nil
}

func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(buf.Bytes()), nil
}
