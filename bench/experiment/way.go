package experiment

import "fmt"

// way is how a program runs: by itself (nil, and a nil *Under), under the
// daemon (*Under), as a client of an MPS daemon (mpsClient), or preloaded without
// a daemon (preloaded).
type way interface {
	// dress gives the program and arguments that run path with args in this way,
	// and its environment.
	dress(l *Lab, path string, args []string) (string, []string, []string, error)
}

// Under says how a program runs under the daemon; a nil *Under: not at all.
type Under struct {
	Name      string
	Priority  int
	Level     Level
	Threshold int // 0: the default
	Batch     int // 0: the default
	// Hints are further flags of xrun, such as "--utilization", "75".
	Hints []string
}

func (u *Under) dress(l *Lab, path string, args []string) (string, []string, []string, error) {
	if u == nil {
		return path, args, l.env, nil
	}
	xrun, err := l.Places.Program("xrun")
	if err != nil {
		return "", nil, nil, err
	}
	all := []string{"--require-daemon", "--name", u.Name, "--priority", fmt.Sprint(u.Priority), "--level", u.Level.String()}
	if u.Threshold > 0 {
		all = append(all, "--threshold", fmt.Sprint(u.Threshold))
	}
	if u.Batch > 0 {
		all = append(all, "--batch", fmt.Sprint(u.Batch))
	}
	all = append(append(append(all, u.Hints...), "--", path), args...)
	return xrun, all, l.scheduledEnv(), nil
}

// preloaded runs a program with the preload library and no daemon to talk to:
// for those that use the library's own functions.
type preloaded struct{}

func (preloaded) dress(l *Lab, path string, args []string) (string, []string, []string, error) {
	library, err := l.Places.Library("libxmsched.so")
	if err != nil {
		return "", nil, nil, err
	}
	env := append(append([]string(nil), l.env...), "LD_PRELOAD="+library, "XMSCHED_LIB="+l.Places.Lib, "XMSCHED_DIR="+l.dir+"/nobody")
	return path, args, env, nil
}
