// Package e2e has no code of its own: its tests run the whole system, with real
// processes. Programs in C that know nothing of us run under xrun on the
// simulated device, the daemon decides, xcli asks and steers.
//
// Whatever can be tested in one room is tested there. Here belongs what only
// shows when all rooms stand together: that priorities are obeyed, and that
// nobody's death, standstill or absence holds up anybody else.
package e2e
