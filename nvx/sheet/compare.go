package sheet

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"
)

// Difference is one field in which two sheets differ by more than measuring does.
type Difference struct {
	Field  string `json:"field"` // path in the JSON, entries of lists by their name
	Before string `json:"before"`
	After  string `json:"after"`
	// ChangePercent of a number; 0 for others.
	ChangePercent float64 `json:"change_percent"`
}

func (d Difference) String() string {
	if d.ChangePercent == 0 {
		return fmt.Sprintf("%s: %s -> %s", d.Field, d.Before, d.After)
	}
	return fmt.Sprintf("%s: %s -> %s (%+.0f %%)", d.Field, d.Before, d.After, d.ChangePercent)
}

// absent is how a field looks that one of the two sheets lacks.
const absent = "absent"

// tolerance is how far two measurements of the same thing may lie apart: relative
// or absolute, whichever is more.
type tolerance struct{ share, least float64 }

// tolerances by the end of a field's name; other numbers are facts and have none.
var tolerances = []struct {
	suffix string
	tolerance
}{
	{"median_us", tolerance{0.25, 20}},
	{"worst_us", tolerance{1, 300}}, // one outlier decides it
	{"_gb_per_s", tolerance{0.1, 0}},
	{"share_percent", tolerance{0.1, 5}},
	{"turn_us", tolerance{0.25, 50}},
	{"create_ms", tolerance{0.5, 20}},
	{"destroy_ms", tolerance{0.5, 20}},
	{"command_us", tolerance{0.25, 20}},
	{"second_context.memory_bytes", tolerance{0.1, 0}},
	{"depth_commands", tolerance{0.05, 0}},
}

// ignored are fields that say how a sheet came to be, not how the device is.
var ignored = map[string]bool{
	"tool": true, "at": true, "took_ms": true, "samples": true, "schema": true,
	"written_bytes": true, "read_bytes": true, "free_bytes": true, "bytes": true,
}

// Compare lists what differs between the sheet of a device before and after, in
// the order of the sheet. Fields that say when and how it was measured do not
// count.
func Compare(before, after *Sheet) []Difference {
	var c comparison
	c.values(reflect.ValueOf(*before), reflect.ValueOf(*after), "")
	return c.found
}

type comparison struct{ found []Difference }

func (c *comparison) values(a, b reflect.Value, at string) {
	switch {
	case a.Kind() == reflect.Pointer:
		c.pointers(a, b, at)
	case a.Type() == timeType:
	case a.Kind() == reflect.Struct:
		for i := range a.NumField() {
			if name := jsonName(a.Type().Field(i)); !ignored[name] {
				c.values(a.Field(i), b.Field(i), join(at, name))
			}
		}
	case a.Kind() == reflect.Slice:
		c.lists(a, b, at)
	case a.Kind() == reflect.String, a.Kind() == reflect.Bool:
		if !a.Equal(b) {
			c.found = append(c.found, Difference{Field: at, Before: show(a), After: show(b)})
		}
	default:
		c.numbers(a, b, at)
	}
}

func (c *comparison) pointers(a, b reflect.Value, at string) {
	switch {
	case a.IsNil() && b.IsNil():
	case a.IsNil():
		c.found = append(c.found, Difference{Field: at, Before: absent, After: "there"})
	case b.IsNil():
		c.found = append(c.found, Difference{Field: at, Before: "there", After: absent})
	default:
		c.values(a.Elem(), b.Elem(), at)
	}
}

// lists go by the names of their entries, so that one that is new does not make
// all after it differ.
func (c *comparison) lists(a, b reflect.Value, at string) {
	if a.Type().Elem().Kind() == reflect.String {
		return // remarks
	}
	later := map[string]reflect.Value{}
	names := entryNames(b)
	for i, name := range names {
		later[name] = b.Index(i)
	}
	for i, name := range entryNames(a) {
		if other, ok := later[name]; ok {
			c.values(a.Index(i), other, join(at, name))
			delete(later, name)
			continue
		}
		c.found = append(c.found, Difference{Field: join(at, name), Before: "there", After: absent})
	}
	for _, name := range names {
		if later[name].IsValid() {
			c.found = append(c.found, Difference{Field: join(at, name), Before: absent, After: "there"})
		}
	}
}

// entryNames are the first fields of the entries, which say what each is about;
// a second one about the same is numbered.
func entryNames(list reflect.Value) []string {
	seen := map[string]int{}
	names := make([]string, list.Len())
	for i := range names {
		name := fmt.Sprint(list.Index(i).Field(0).Interface())
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s (%d)", name, seen[name])
		}
		names[i] = name
	}
	return names
}

func (c *comparison) numbers(a, b reflect.Value, at string) {
	x, y := number(a), number(b)
	if within(x, y, at) {
		return
	}
	d := Difference{Field: at, Before: show(a), After: show(b)}
	if x != 0 {
		d.ChangePercent = (y - x) / x * 100
	}
	c.found = append(c.found, d)
}

func within(x, y float64, at string) bool {
	apart := math.Abs(y - x)
	for _, t := range tolerances {
		if strings.HasSuffix(at, t.suffix) {
			return apart <= max(t.share*math.Min(math.Abs(x), math.Abs(y)), t.least)
		}
	}
	return apart == 0
}

func number(v reflect.Value) float64 {
	switch {
	case v.CanFloat():
		return v.Float()
	case v.CanInt():
		return float64(v.Int())
	}
	return float64(v.Uint())
}

func show(v reflect.Value) string {
	if v.CanFloat() {
		return fmt.Sprintf("%.4g", v.Float())
	}
	return fmt.Sprint(v.Interface())
}

var timeType = reflect.TypeFor[time.Time]()

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}
