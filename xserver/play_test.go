package xserver_test

// play is what a child process of a test does.
func play(role string) int { return 2 }
