// Package admission holds the tests of the C admission of the preload library.
//
// The C sources of admission are linked with a driver and a daemon of our own
// (testdata/fake.c): "unit" on one thread with a clock that the test moves,
// "stress" with threads, signals, forks and a GPU that runs by itself, "bench"
// for the hot path. The fake driver knows what is truly outstanding and checks
// every command, so the tests here say what is done, and it says what holds.
// Nothing but tests may live here.
package admission
