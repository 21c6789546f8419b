package bpf

import "testing"

func TestKernelsThatKill(t *testing.T) {
	for release, want := range map[string]bool{
		"6.10.11-2-MANJARO": false, "6.11.2": true, "6.12.43+deb13-amd64": true, "6.13": true, "6.14.0-rc2": false, "6.18.44-fc-v657": false, "5.15.0": false, "7.12.1": false, "six": false,
	} {
		if got := killsFiltered(release, "amd64"); got != want {
			t.Errorf("%s: %v, want %v", release, got, want)
		}
		if killsFiltered(release, "arm64") {
			t.Errorf("%s on arm64", release)
		}
	}
}

func TestFiltered(t *testing.T) {
	for status, want := range map[string]bool{
		"Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n": true, "Seccomp:\t0\n": false, "Name:\tSeccomp:\t2\n": false, "": false,
	} {
		if got := filtered(status); got != want {
			t.Errorf("%q: %v, want %v", status, got, want)
		}
	}
}
