package sheet

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// versionFile is where the loaded kernel module says what it is.
const versionFile = "/proc/driver/nvidia/version"

// InstalledDriver is the version and the kind of the loaded kernel module:
// "580.159.04" and "open" or "proprietary". A machine without one gives an error.
// It opens no device.
func InstalledDriver() (version, module string, err error) {
	b, err := os.ReadFile(versionFile)
	if errors.Is(err, os.ErrNotExist) {
		return "", "", errors.New("no NVIDIA kernel module is loaded")
	}
	if err != nil {
		return "", "", fmt.Errorf("read the driver's version: %w", err)
	}
	return parseDriver(string(b))
}

var versionForm = regexp.MustCompile(`\b\d{3}\.\d{1,3}(\.\d{1,3})?\b`)

// parseDriver reads the file's first line.
func parseDriver(text string) (version, module string, err error) {
	line, _, _ := strings.Cut(text, "\n")
	version = versionForm.FindString(line)
	if version == "" {
		return "", "", fmt.Errorf("read the driver's version: %s says %q", versionFile, clip(line))
	}
	if strings.Contains(line, "Open Kernel Module") {
		return version, "open", nil
	}
	return version, "proprietary", nil
}
