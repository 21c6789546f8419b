package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// checkSource reads a package's files for what may not stand in them.
func checkSource(p Package) ([]Violation, error) {
	fset := token.NewFileSet()
	s := source{pkg: p, room: roomOf(p.ImportPath), fset: fset}
	documented := false
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("check %s: %w", p.ImportPath, err)
		}
		documented = documented || hasDoc(file)
		if !ast.IsGenerated(file) {
			s.check(file)
		}
	}
	// A package of tests alone says in them what it is for.
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		if documented || len(p.GoFiles)+len(p.CgoFiles) > 0 {
			break
		}
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			return nil, fmt.Errorf("check %s: %w", p.ImportPath, err)
		}
		documented = hasDoc(file)
	}
	if !documented {
		s.found = append(s.found, Violation{p.Dir, "has no package comment"})
	}
	return s.found, nil
}

func hasDoc(file *ast.File) bool {
	return file.Doc != nil && strings.TrimSpace(file.Doc.Text()) != ""
}

// source collects what is wrong in one package.
type source struct {
	pkg   Package
	room  string
	fset  *token.FileSet
	found []Violation
}

func (s *source) report(at ast.Node, format string, args ...any) {
	s.found = append(s.found, Violation{s.fset.Position(at.Pos()).String(), fmt.Sprintf(format, args...)})
}

func (s *source) check(file *ast.File) {
	imports := importNames(file)
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			s.report(f, "func init: what a package needs is made when it is asked for")
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			if s.isCore() {
				s.report(n, "starts a goroutine in a core")
			}
		case *ast.ChanType:
			if s.isCore() {
				s.report(n, "uses a channel in a core")
			}
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "panic" && id.Obj == nil && s.isGuest() {
				s.report(n, "panics in somebody else's process")
			}
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); ok && pkg.Obj == nil {
				s.selector(n, imports[pkg.Name], n.Sel.Name)
			}
		}
		return true
	})
}

// clock are the parts of package time that know what time it is.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

func (s *source) selector(at ast.Node, pkg, name string) {
	switch {
	case pkg == "time" && s.isCore() && slices.Contains(clock, name):
		s.report(at, "reads the clock in a core: time.%s", name)
	case s.mayExit():
	case pkg == "os" && name == "Exit",
		pkg == "syscall" && name == "Exit",
		pkg == "log" && (strings.HasPrefix(name, "Fatal") || strings.HasPrefix(name, "Panic")):
		s.report(at, "%s.%s ends the process, which is for a command to decide", pkg, name)
	}
}

func (s *source) isCore() bool { return slices.Contains(cores, s.room) }

// isGuest: what of the shim is loaded into somebody else's process. The agent
// is a main package by the needs of the linker; other main packages there are
// tools of the build.
func (s *source) isGuest() bool {
	return s.room == "shim" && (s.pkg.Name != "main" || path.Base(s.pkg.ImportPath) == "agent")
}

// mayExit: a command may end its own process, and so may what commands share.
func (s *source) mayExit() bool {
	return !s.isGuest() && (s.room == "cmd" || s.pkg.Name == "main")
}

// importNames maps the names under which a file knows its imports.
func importNames(file *ast.File) map[string]string {
	names := make(map[string]string)
	for _, spec := range file.Imports {
		imported := strings.Trim(spec.Path.Value, `"`)
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = imported
	}
	return names
}
