package main

import (
	"bufio"
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:embed cases.txt
var list string

// testCase is one line of the list and the tests that carry its number.
type testCase struct {
	Number    string // two digits
	Milestone int    // which one answers for it
	Title     string
	Tests     []string
}

func parse(list string) ([]testCase, error) {
	var cases []testCase
	for s := bufio.NewScanner(strings.NewReader(list)); s.Scan(); {
		line := s.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.SplitN(line, " ", 3)
		c := testCase{Number: fields[0]}
		if len(fields) == 3 {
			c.Title = fields[2]
		}
		if _, err := fmt.Sscan(fields[min(1, len(fields)-1)], &c.Milestone); err != nil || c.Title == "" {
			return nil, fmt.Errorf("case list, %q: want number, milestone, title", line)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// Names of tests: Go's, and functions and PASS lines of the C tests.
var (
	goTest  = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	cTest   = regexp.MustCompile(`\b(\w*[Cc]ase[0-9]{2}\w*)\b`)
	numbers = regexp.MustCompile(`[Cc]ase([0-9]{2})`)
)

// find adds to the cases the tests below root that carry their numbers, as
// "folder.Test".
func find(root string, cases []testCase) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "bin" || name == "lib") {
				return fs.SkipDir
			}
			return nil
		}
		pattern := cTest
		if strings.HasSuffix(name, "_test.go") {
			pattern = goTest
		} else if !strings.Contains(name, "test") || filepath.Ext(name) != ".c" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, match := range pattern.FindAllSubmatch(text, -1) {
			note(cases, folder+"."+string(match[1]))
		}
		return nil
	})
}

// note gives a test to every case whose number it carries.
func note(cases []testCase, test string) {
	for _, n := range numbers.FindAllStringSubmatch(test, -1) {
		i := slices.IndexFunc(cases, func(c testCase) bool { return c.Number == n[1] })
		if i >= 0 && !slices.Contains(cases[i].Tests, test) {
			cases[i].Tests = append(cases[i].Tests, test)
		}
	}
}
