package main

import (
	"io"
	"os"
	"syscall"
)

// logOf is the file that an environment variable names, to add lines to; nil: there is
// none. It stays open: the process ends without telling us. A pipe that nobody reads is
// not waited for.
func logOf(variable string) io.Writer {
	path := os.Getenv(variable)
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil
	}
	return f
}
