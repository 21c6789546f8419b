package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Style is how a cell looks on a terminal. It never changes the text.
type Style string

// Styles, as SGR parameters.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// Colour reports whether w shows colours: it is a terminal, NO_COLOR is unset
// and TERM is not "dumb".
func Colour(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	return term.IsTerminal(int(f.Fd()))
}

// Paint returns text in a style when w shows colours, and as it is otherwise.
func Paint(w io.Writer, s Style, text string) string {
	return paint(Colour(w), s, text)
}

func paint(colour bool, s Style, text string) string {
	if !colour || s == Plain {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// Cell is a table cell with a style. A plain value in Table.Row is a Cell
// without one.
type Cell struct {
	Text  string
	Style Style
}

// Table lays out rows in columns, two blanks apart. Columns in which every cell
// begins with a digit, a sign or is "-" are set flush right.
type Table struct {
	head []Cell
	rows [][]Cell
}

// NewTable returns an empty table with the column heads given.
func NewTable(heads ...string) *Table {
	t := &Table{}
	for _, h := range heads {
		t.head = append(t.head, Cell{h, Bold})
	}
	return t
}

// Row adds a row; a value is a Cell or anything that fmt.Sprint shows. Cells
// beyond the heads are dropped, missing ones are empty. Control characters are
// shown as '?': what a program calls itself must not move the cursor.
func (t *Table) Row(values ...any) {
	row := make([]Cell, len(t.head))
	for i := range row {
		if i >= len(values) {
			break
		}
		c, ok := values[i].(Cell)
		if !ok {
			c = Cell{Text: fmt.Sprint(values[i])}
		}
		c.Text = Printable(c.Text)
		row[i] = c
	}
	t.rows = append(t.rows, row)
}

// Len is the number of rows, heads not counted.
func (t *Table) Len() int { return len(t.rows) }

// Write prints the table, with colours if w shows them.
func (t *Table) Write(w io.Writer) error {
	lines := append([][]Cell{t.head}, t.rows...)
	width := make([]int, len(t.head))
	right := make([]bool, len(t.head))
	for i := range t.head {
		right[i] = t.numeric(i)
		for _, l := range lines {
			width[i] = max(width[i], utf8.RuneCountInString(l[i].Text))
		}
	}
	colour := Colour(w)
	var b strings.Builder
	for _, l := range lines {
		writeLine(&b, l, width, right, colour)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeLine(b *strings.Builder, line []Cell, width []int, right []bool, colour bool) {
	last := len(line) - 1
	for last > 0 && line[last].Text == "" {
		last--
	}
	for i, c := range line[:last+1] {
		if i > 0 {
			b.WriteString("  ")
		}
		fill := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c.Text))
		if right[i] {
			b.WriteString(fill)
		}
		b.WriteString(paint(colour, c.Style, c.Text))
		if !right[i] && i < last {
			b.WriteString(fill)
		}
	}
	b.WriteByte('\n')
}

func (t *Table) numeric(column int) bool {
	for _, r := range t.rows {
		text := r[column].Text
		if text == "" || text == "-" {
			continue
		}
		if text[0] != '-' && text[0] != '+' && (text[0] < '0' || text[0] > '9') {
			return false
		}
	}
	return len(t.rows) > 0
}

// Printable shows control characters as '?': a text of somebody else's must not move
// the cursor.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
}

// JSON writes v as one line of JSON.
func JSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
